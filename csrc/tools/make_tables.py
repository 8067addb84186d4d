"""Writes the constant tables of the core: csrc/src/double_double_tables.hpp.

Run ``python csrc/tools/make_tables.py > csrc/src/double_double_tables.hpp`` (needs mpmath). Every entry
is the value rounded to a pair of doubles: hi is the nearest double, lo the nearest double of the rest.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp

mp.mp.dps = 60
SMALL = 64  # factorials below this come from the table, above from the Stirling series
STIRLING_TERMS = 9


def pair(value: mp.mpf) -> str:
    """`value` as {hi, lo}, in hexadecimal so that nothing is rounded twice."""
    hi = float(value)
    return f"{{{hi.hex()}, {float(value - mp.mpf(hi)).hex()}}}"


def table(name: str, values: list[mp.mpf], comment: str) -> str:
    """One constexpr array."""
    body = ",\n    ".join(pair(v) for v in values)
    return f"// {comment}\nconstexpr DoubleDouble {name}[{len(values)}] = {{\n    {body}}};\n"


def stirling_error(n: int) -> mp.mpf:
    """ln n! minus Stirling's formula; 0 stands for the undefined value at 0."""
    if n == 0:
        return mp.mpf(0)
    return mp.log(mp.factorial(n)) - (n + mp.mpf(1) / 2) * mp.log(n) + n - mp.log(2 * mp.pi) / 2


def main() -> None:
    """Prints the header."""
    coefficients = []
    for j in range(1, STIRLING_TERMS + 1):
        p, q = mp.bernfrac(2 * j)
        exact = Fraction(int(p), int(q)) / (2 * j * (2 * j - 1))
        coefficients.append(mp.mpf(exact.numerator) / exact.denominator)
    print("// Written by csrc/tools/make_tables.py; do not edit.")
    print("// clang-format off")
    print('#pragma once\n\n#include "dpcore/double_double.hpp"\n\nnamespace dpcore::tables {\n')
    print(f"constexpr DoubleDouble kLn2 = {pair(mp.log(2))};")
    print(f"constexpr DoubleDouble kTwoPi = {pair(2 * mp.pi)};")
    print(f"constexpr DoubleDouble kHalfLnTwoPi = {pair(mp.log(2 * mp.pi) / 2)};")
    print(f"constexpr int kSmallFactorials = {SMALL};\n")
    print(table("kLogFactorial", [mp.log(mp.factorial(n)) for n in range(SMALL)], "ln n!, n = 0, 1, ..."))
    print(
        table(
            "kStirlingError",
            [stirling_error(n) for n in range(SMALL)],
            "ln n! - [(n + 1/2) ln n - n + (1/2) ln(2 pi)], n = 1, 2, ...; entry 0 is unused",
        )
    )
    print(table("kStirlingSeries", coefficients, "B(2j) / (2j (2j - 1)), j = 1, 2, ..."))
    print(table("kLogGrid", [mp.log(mp.mpf(i) / 64) for i in range(45, 92)], "ln(i / 64), i = 45 .. 91"))
    print(table("kOdd", [mp.mpf(1) / (2 * j + 1) for j in range(0, 17)], "1 / (2j + 1), j = 0, 1, ..."))
    print(table("kInverseFactorial", [1 / mp.factorial(n) for n in range(0, 16)], "1 / n!, n = 0, 1, ..."))
    print("}  // namespace dpcore::tables")


if __name__ == "__main__":
    main()
