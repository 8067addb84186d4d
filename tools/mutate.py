"""Breaks dpcore in one place at a time and checks that the assurance tests notice.

    python tools/mutate.py [words of a mutant's name]

A check that cannot fail proves nothing. Each mutant is a line of the package changed to something wrong (too
little noise, a bound rounded the wrong way, an argument not checked, a lock not taken), with the tests that are to
fail for it. They run in an environment of their own, with a copy of the installed package. Exit code 1 if a
mutant survived, or if its line is gone.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from typing import NamedTuple

import dpcore

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"


class Mutant(NamedTuple):
    """What is changed, where, and who is to notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


AUDIT = "test_audit.py::test_"
REPLAY = "test_neighbour_replay.py::test_"
HOSTILE = "test_hostile_input.py::test_functions[gaussian]"
PEERS = "test_cross_checks.py::test_ours_holds"
MUTANTS = [
    # Noise.
    Mutant(
        "Laplace noise, a fifth too little", "mechanisms/_real.py",
        "scale = fits_the_grid(up(l1 / Fraction(budget)), cell)",
        "scale = fits_the_grid(0.8 * up(l1 / Fraction(budget)), cell)", REPLAY + "laplace",
    ),
    Mutant(
        "discrete Laplace draws, a tenth too small", "samplers/_noise.py",
        "_core.sample_discrete_laplace_fill(checked, out, source)",
        "_core.sample_discrete_laplace_fill(0.9 * checked, out, source)", AUDIT + "our_samplers_pass",
    ),
    Mutant(
        "Gaussian draws, a tenth too small", "samplers/_noise.py",
        "_core.sample_gaussian_fill(checked, step, out, source)",
        "_core.sample_gaussian_fill(0.9 * checked, step, out, source)", AUDIT + "our_samplers_pass",
    ),
    Mutant(
        "randomised response at a larger epsilon", "mechanisms/_selection.py",
        "epsilon=self.epsilon, categories=self.categories, rng=rng",
        "epsilon=1.1 * self.epsilon, categories=self.categories, rng=rng",
        AUDIT + "every_mechanism_keeps_its_claim",
    ),
    # The audit itself.
    Mutant(
        "intervals at the wrong level", "audit.py", 'confidence", confidence))) / 2\n    lower',
        'confidence", confidence)))\n    lower', AUDIT + "clopper_pearson_covers_exactly",
    ),
    Mutant(
        "two directions for the price of one", "audit.py", "share = 1 - (1 - level) / len(directions)",
        "share = level", AUDIT + "given_event_pays_for_both_directions",
    ),
    Mutant(
        "an audit that refutes nothing", "audit.py", "return self.epsilon is not None and (",
        "return False and (", AUDIT + "broken_mechanisms_are_found",
    ),
    Mutant(
        "an audit that does not look at bits", "audit.py", 'if first.ndim == 1 and first.dtype.kind == "f":',
        "if False:", AUDIT + "broken_mechanisms_are_found",
    ),
    # Sensitivities and what is computed from them.
    Mutant(
        "a sum by its range alone", "mechanisms/_queries.py", "max(abs(low), abs(high)) if", "high - low if",
        REPLAY + "sum",
    ),
    Mutant(
        "a sum rounded to the nearest", "mechanisms/_queries.py", "return up(max(abs(low)",
        "return float(max(abs(low)", REPLAY + "sensitivities_are_rounded_up",
    ),
    Mutant(
        "a mean of one record too many", "mechanisms/_queries.py", "else number + 1)", "else number + 2)",
        REPLAY + "mean",
    ),
    Mutant(
        "a histogram below the root of 2", "mechanisms/_queries.py", "math.nextafter(math.sqrt(2.0), 2.0)", "1.41",
        REPLAY + "histogram",
    ),
    Mutant(
        "discrete Laplace scale, a thousandth too small", "mechanisms/_discrete.py",
        'integer_scale("sensitivity / epsilon", up(', 'integer_scale("sensitivity / epsilon", 0.999 * up(',
        REPLAY + "discrete_laplace",
    ),
    Mutant(
        "a choice that pays half", "mechanisms/_selection.py", "(1 if monotone else 2)", "1",
        REPLAY + "exponential",
    ),
    Mutant(
        "a choice a ten-thousandth too sure", "mechanisms/_selection.py",
        "chosen = down(Fraction(budget) / cost)", "chosen = 1.0001 * down(Fraction(budget) / cost)",
        REPLAY + "exponential_at_its_worst",
    ),
    Mutant(
        "a count's delta, 1e-5 too small", "partial_knowledge/_delta.py",
        "return _core.count_delta_bounded(e, unknown, law, noise, code)[0]",
        "return _core.count_delta_bounded(e, unknown, law, noise, code)[0] - 1e-5",
        REPLAY + "partial_knowledge_count",
    ),
    # Bounds.
    Mutant(
        "sigma 1e-13 too small", "gaussian.py", '"analytic": _core.gaussian_sigma,',
        '"analytic": lambda *a: _core.gaussian_sigma(*a) * (1 - 1e-13),', PEERS,
    ),
    Mutant(
        "epsilon by some last bits too small", "gaussian.py", "return _finite(_core.gaussian_epsilon(g, d, s))",
        "return _finite(_core.gaussian_epsilon(g, d, s) * (1 - 3e-15))", PEERS,
    ),
    # Arguments.
    Mutant(
        "NaN is a number", "_validation.py", "if not (above and below) or (whole and not number",
        "if (number < low or number > high) or (whole and not number",
        "test_hostile_input.py::test_functions[audit]",
    ),
    Mutant(
        "an error that names no argument", "_validation.py",
        'raise ValueError(f"{name} must be {rule}, got {shown(value)}")\n    return number',
        'raise ValueError(f"must be {rule}, got {shown(value)}")\n    return number', HOSTILE,
    ),
    Mutant(
        "numbers under a mask", "_validation.py",
        "if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):", "if False:", HOSTILE,
    ),
    Mutant(
        "a changed argument", "_validation.py", "    if array.ndim == 0:\n        return real(",
        "    if array.ndim and array.flags.writeable and array is raw:\n        array[...] = 0.5\n"
        "    if array.ndim == 0:\n        return real(", HOSTILE,
    ),
    Mutant(
        "bytes in the wrong order", "_validation.py",
        '    else:\n        array = raw.astype(np.float64, order="C", copy=False)',
        '    else:\n        array = raw.view(raw.dtype.newbyteorder("=")).astype(np.float64, order="C")',
        HOSTILE,
    ),
    # Faults.
    Mutant(
        "a ledger without a lock", "ledger.py",
        "fcntl.flock(handle, kind | fcntl.LOCK_NB)\n                return", "return", "test_ledger.py",
    ),
    Mutant(
        "a ledger that does not wait for the disk", "ledger.py", "too much at worst.\n        os.fsync(handle)",
        "too much at worst.", "test_ledger.py",
    ),
    Mutant(
        "a ledger that adds in floating point", "ledger.py", "state.epsilon += Fraction(charge.epsilon)",
        "state.epsilon = Fraction(float(state.epsilon) + charge.epsilon)", "test_ledger.py",
    ),
    Mutant(
        "a ledger that keeps a torn line", "ledger.py", "os.ftruncate(handle, state.offset)  # the torn",
        "pass  # the torn", "test_ledger.py",
    ),
    Mutant(
        "noise in twice the memory", "samplers/_noise.py",
        "_core.sample_gaussian_fill(checked, step, out, source)",
        "_core.sample_gaussian_fill(checked, step, out, source)\n    out = np.copy(out)",
        "test_memory.py::test_peak[gaussian]",
    ),
]  # fmt: skip


def environment(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A Python with this one's packages and a package dpcore of its own: (executable, the package)."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = pathlib.Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    paths = [path for path in sys.path if pathlib.Path(path).name in ("site-packages", "dist-packages", "deps")]
    (site / "parent.pth").write_text("\n".join(paths) + "\n")
    package = site / "dpcore"
    shutil.copytree(pathlib.Path(dpcore.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    command = [str(python), "-I", "-c", "import dpcore, pytest; print(dpcore.__file__)"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if str(package) not in found:
        raise SystemExit(f"FAILED: the copy would not be tested but {found}")
    return python, package


def main(words: list[str]) -> int:
    """Try the mutants whose names have one of the words, or all."""
    survived, tried = [], 0
    with tempfile.TemporaryDirectory() as name:
        python, package = environment(pathlib.Path(name))
        for mutant in MUTANTS:
            if words and not any(word in mutant.name for word in words):
                continue
            tried += 1
            file = package / mutant.file
            text = file.read_text()
            started = time.monotonic()
            if text.count(mutant.old) == 1:
                file.write_text(text.replace(mutant.old, mutant.new))
                done = subprocess.run(
                    # Without -m's folder of the checkout, which has no extension, on the path.
                    [str(python), "-I", "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider",
                     "-W", "ignore", str(TESTS / mutant.tests)],
                    cwd=ROOT, capture_output=True, text=True, check=False,
                    env={key: value for key, value in os.environ.items() if key != "DPCORE_TALLY"},
                )  # fmt: skip
                file.write_text(text)
                # 1 is "tests failed"; anything else is an accident, which notices nothing.
                verdict = {0: "SURVIVED", 1: "found"}.get(done.returncode, f"ACCIDENT\n{done.stdout[-2000:]}")
            else:
                verdict = "GONE: its line is not there once"
            if verdict != "found":
                survived.append(mutant.name)
            print(
                f"{mutant.name:<50} {mutant.tests:<62} {time.monotonic() - started:4.0f} s  {verdict}", flush=True
            )
    if out := os.environ.get("DPCORE_TALLY"):  # what tools/assure.py counts
        with open(out, "a", encoding="utf-8") as tally:
            tally.write(json.dumps({"what": "mutants found", "count": tried - len(survived)}) + "\n")
    print(f"{tried} mutants, {tried - len(survived)} found; not found: {', '.join(survived) or 'none'}")
    return 1 if survived or not tried else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
