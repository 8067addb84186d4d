"""Writes csrc/src/mills_table.hpp: the Mills ratio, as Taylor series at nodes and as one polynomial.

With R(t) = integral over u > 0 of exp(-t u - u^2/2), R(node - e) = sum over n of c_n e^n where
c_n = integral of u^n exp(-node u - u^2/2) / n! > 0. They satisfy c_0 = R, c_1 = 1 - node R and
(n + 1) c_{n+1} = c_{n-1} - node c_n; the recurrence loses digits, so it is run with 400 of them.

The polynomial is (t + K) R(t) in y = (t - K)/(t + K), interpolated at Chebyshev points over t >= -1/8. K = 5
makes its Chebyshev coefficients fall fastest (scan of 2 to 6).

    python csrc/tools/make_mills_table.py > csrc/src/mills_table.hpp
"""

import mpmath as mp

mp.mp.dps = 400
COEFFICIENTS = 24
SHIFT = 5
DEGREE = 24
LOWEST = mp.mpf(-1) / 8


def nodes() -> list[mp.mpf]:
    """Multiples of 1/8 up to 4, then sixteen to the octave up to 64."""
    out = [mp.mpf(i) / 8 for i in range(33)]
    for octave in range(2, 6):
        out += [mp.mpf(2) ** octave * (1 + mp.mpf(i) / 16) for i in range(1, 17)]
    return out


def coefficients(node: mp.mpf) -> list[mp.mpf]:
    """c_0 ... c_{COEFFICIENTS-1} at `node`."""
    ratio = mp.sqrt(mp.pi / 2) * mp.exp(node**2 / 2) * mp.erfc(node / mp.sqrt(2))
    out = [ratio, 1 - node * ratio]
    for n in range(1, COEFFICIENTS - 1):
        out.append((out[n - 1] - node * out[n]) / (n + 1))
    return out


def polynomial() -> list[mp.mpf]:
    """Monomial coefficients in y, lowest first."""
    k, points = mp.mpf(SHIFT), DEGREE + 1
    low = (LOWEST - k) / (LOWEST + k)

    def scaled(y: mp.mpf) -> mp.mpf:
        t = k * (1 + y) / (1 - y)
        return (t + k) * mp.sqrt(mp.pi / 2) * mp.exp(t**2 / 2) * mp.erfc(t / mp.sqrt(2))

    # Newton's divided differences, expanded; 400 digits leave enough.
    ys = [low + (1 + mp.cos(mp.pi * (2 * j + 1) / (2 * points))) / 2 * (1 - low) for j in range(points)]
    table = [scaled(y) for y in ys]
    for level in range(1, points):
        for j in range(points - 1, level - 1, -1):
            table[j] = (table[j] - table[j - 1]) / (ys[j] - ys[j - level])
    out = [table[-1]]
    for j in range(points - 2, -1, -1):
        out = [a - ys[j] * b for a, b in zip([mp.mpf(0), *out], [*out, mp.mpf(0)], strict=True)]
        out[0] += table[j]
    return out


def main() -> None:
    """Print the header."""
    print("// Made by csrc/tools/make_mills_table.py; do not edit. 25 digits of each coefficient.")
    print("// kMillsTaylor[i][n] = integral of u^n exp(-t_i u - u^2/2) du / n!, t_i the nodes of mills_node().")
    print("#pragma once\n\nnamespace dpcore::detail {\n")
    print(f"inline constexpr int kMillsNodes = {len(nodes())};")
    print(f"inline constexpr int kMillsTerms = {COEFFICIENTS};\n")
    print("inline constexpr long double kMillsTaylor[kMillsNodes][kMillsTerms] = {")
    for node in nodes():
        row = ", ".join(mp.nstr(c, 25, strip_zeros=False) + "L" for c in coefficients(node))
        print(f"    // t = {mp.nstr(node, 8)}\n    {{{row}}},")
    print("};\n")
    y = f"(t - {SHIFT})/(t + {SHIFT})"
    print(f"// (t + {SHIFT}) R(t) as a polynomial in {y}, lowest power first, t >= -1/8.")
    print(f"inline constexpr double kMillsShift = {SHIFT};")
    print(f"inline constexpr int kMillsDegree = {DEGREE};\n")
    row = ", ".join(mp.nstr(c, 20, strip_zeros=False) for c in polynomial())
    print(f"inline constexpr double kMillsPolynomial[kMillsDegree + 1] = {{{row}}};\n")
    print("}  // namespace dpcore::detail")


if __name__ == "__main__":
    main()
