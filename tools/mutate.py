"""Breaks dpcore in one place at a time and checks that the assurance tests notice.

    python tools/mutate.py [words of a mutant's name]

A check that cannot fail proves nothing. Each mutant is a line of the package, or of its C++ core, changed to
something wrong (too little noise, a bound rounded the wrong way, an argument not checked, a lock not taken), with
the tests that are to fail for it. They run in an environment of their own, with a copy of the installed package;
for mutants of the core its extension is built again from a copy of the sources. First, with nothing changed, all
of these tests must pass there. Exit code 1 if they do not, if a mutant survived, or if its line is gone. Needs
gcc, CMake and pybind11 for the core.
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
    """What is changed, where (in the package, or in csrc/), and who is to notice."""

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
        "intervals at the wrong level", "audit.py", 'confidence", confidence))) / 2)',
        'confidence", confidence))))', AUDIT + "clopper_pearson_covers_exactly",
    ),
    Mutant(
        "two directions for the price of one", "audit.py", "(1 - level) / (2 * len(directions))",
        "(1 - level) / 2", AUDIT + "given_event_pays_for_both_directions",
    ),
    Mutant(
        "one noise for all outputs", "audit.py", "elementwise = type(mechanism) in _ELEMENTWISE",
        "elementwise = True", AUDIT + "an_object_that_adds_one_noise_to_an_array_is_asked_one_by_one",
    ),
    Mutant(
        "labels that change numbers", "audit.py", "and outputs.ndim and not isinstance(raw, np.ndarray)",
        "and False", AUDIT + "outputs_of_several_types_do_not_change_each_other",
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
        "vectors rounded for the price of one number", "mechanisms/_real.py", "l1 += size * Fraction(cell)",
        "l1 += Fraction(cell)", REPLAY + "rounding_of_vectors_at_its_worst",
    ),
    Mutant(
        "a maximum norm taken for the others", "mechanisms/_real.py",
        'factor = root_up(dimension) if norm == "linf" else 1.0', "factor = 1.0", REPLAY + "gaussian_of_vectors",
    ),
    Mutant(
        "a hundredth too little discrete Gaussian noise", "mechanisms/_discrete.py",
        "return float(found.parameter)", "return 0.99 * float(found.parameter)", REPLAY + "discrete_gaussian",
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
        REPLAY + "exponential_at_its_worst",
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
        "a ledger without a lock", "ledger/_file.py",
        "fcntl.flock(handle, kind | fcntl.LOCK_NB)\n                return", "return", "test_ledger.py",
    ),
    Mutant(
        "a ledger that does not wait for the disk", "ledger/_file.py",
        "too much at worst.\n        os.fsync(handle)", "too much at worst.", "test_ledger.py",
    ),
    Mutant(
        "a ledger that adds in floating point", "ledger/_file.py", "state.epsilon += Fraction(charge.epsilon)",
        "state.epsilon = Fraction(float(state.epsilon) + charge.epsilon)", "test_ledger.py",
    ),
    Mutant(
        "a ledger that keeps a torn line", "ledger/_file.py", "os.ftruncate(handle, state.offset)  # the torn",
        "pass  # the torn", "test_ledger.py",
    ),
    Mutant(
        "noise in twice the memory", "samplers/_noise.py",
        "_core.sample_gaussian_fill(checked, step, out, source)",
        "_core.sample_gaussian_fill(checked, step, out, source)\n    out = np.copy(out)",
        "test_memory.py::test_peak[gaussian]",
    ),
    # Kernels.
    Mutant(
        "a stream of eighteen rounds", "csrc/src/chacha20.cpp", "kDoubleRounds = 10;", "kDoubleRounds = 9;",
        "test_samplers_stream.py",
    ),
    Mutant(
        "a comparison of probabilities without its slack", "csrc/src/attempt_block.hpp",
        "constexpr double kSlack = 0x1p-30 * kUniformScale;", "constexpr double kSlack = -0.5;",
        "test_samplers_exact.py",
    ),
    Mutant(
        "a discrete Laplace law with a thousandth too few zeros", "csrc/src/sampler_laws.cpp",
        "zero_ = zero / (zero + 2.0 * std::exp(-1.0 / scale));",
        "zero_ = 0.999 * zero / (zero + 2.0 * std::exp(-1.0 / scale));", "test_samplers_exact.py",
    ),
    Mutant(
        "rounding that forgets the half", "csrc/src/attempt_block.hpp", "return (twice + 1) >> 1;",
        "return twice >> 1;", "test_samplers_exact.py",
    ),
    Mutant(
        "one unmarked record too many", "csrc/src/hypergeometric.cpp", "law.population - law.marked - drawn + 1",
        "law.population - law.marked - drawn + 2", "test_distributions.py",
    ),
    Mutant(
        "sigma that is not certified", "csrc/src/gaussian.cpp",
        "const auto holds = [&](double sigma) { return certified(epsilon, sigma, s, delta); };",
        "const auto holds = [&](double) { return true; };", "test_gaussian.py",
    ),
    Mutant(
        "a contour without its aliases", "csrc/src/contour.cpp",
        "out.middle - err * weight * kSlack - alias - 8.0", "out.middle - err * weight * kSlack - 8.0",
        "test_accounting.py",
    ),
    Mutant(
        "a sum of nodes without its end", "csrc/src/contour.cpp",
        "err = kSlack * (err + 4.0 * kRound * size) + 2.0 * tail_;",
        "err = kSlack * (err + 4.0 * kRound * size);", "test_accounting.py",
    ),
    Mutant(
        "buckets that round a loss down", "csrc/src/bucket_collector.cpp",
        "    upper_[i + 1] += upper * share * (turn * below_[1].turn);", "", "test_accounting.py",
    ),
    Mutant(
        "buckets that merge too little from below", "csrc/src/bucket_collector.cpp",
        "group.surplus *= 1.0 - 1e-12 - 4.0 * kRound * group.count;", "group.surplus *= 0.5;",
        "test_accounting_buckets.py",
    ),
    Mutant(
        "buckets that merge too much from below", "csrc/src/bucket_collector.cpp",
        "group.surplus *= 1.0 - 1e-12 - 4.0 * kRound * group.count;", "group.surplus *= 1.5;",
        "test_accounting_buckets.py",
    ),
    Mutant(
        "growing grids that forget odd copies", "csrc/src/bucket_ladder.cpp",
        "rest.push_back(std::move(all));", "", "test_accounting_buckets.py",
    ),
    Mutant(
        "buckets that lose what lies above", "csrc/src/buckets.cpp",
        "double up = upper.infinite + upper.above;", "double up = upper.infinite;", "test_accounting.py",
    ),
    Mutant(
        "few Laplace releases with one uniform too wide", "csrc/src/laplace_sum.cpp",
        "((j - 1 - i) + rest_) * below[negative + i];", "((j - i) + rest_) * below[negative + i];",
        "test_accounting_laplace.py",
    ),
    Mutant(
        "an enumeration that takes sums of losses for exact", "csrc/src/enumeration.cpp",
        "const double slip = loss_err_ + 2.0 * kRound * std::fabs(epsilon);", "const double slip = 0.0;",
        "test_accounting.py",
    ),
    Mutant(
        "smoothing that is no upper bound", "csrc/src/smoothed.cpp",
        "above_(term(0.5, 1.0, std::exp(-0.125 * eta2)))", "above_(term(0.5, 1.0, std::exp(-1.125 * eta2)))",
        "test_accounting_smoothed.py",
    ),
    Mutant(
        "large steps that are small ones as well", "csrc/src/large_steps_law.cpp",
        "add(copies_[0] - m_, small);", "add(copies_[0], small);",
        "test_accounting_subsampled.py::test_few_steps",
    ),
    Mutant(
        "no piece with one large step", "csrc/src/step_pieces.cpp",
        "for (int m = 1; m <= divided_.copies(); ++m) {", "for (int m = 2; m <= divided_.copies(); ++m) {",
        "test_accounting_subsampled.py::test_few_steps",
    ),
    Mutant(
        "a mirror image that is not made less", "csrc/src/mirrored.cpp",
        "const double low = below - gap * (1.0 + slip) - kRound * below;", "const double low = below;",
        "test_accounting_subsampled.py::test_two_steps",
    ),
    Mutant(
        "far sampled steps without their drift", "csrc/src/line_product.cpp",
        "const double drift = near ? 0.0 : drift_ * t;", "const double drift = 0.0 * t;",
        "test_accounting_sampled_atoms.py",
    ),
    Mutant(
        "sums that are less 1 twice", "csrc/src/far_step.cpp",
        "own_re[j] -= gone_re_;", "own_re[j] -= 2.0 * gone_re_;",
        "test_accounting_sampled_atoms.py",
    ),
    Mutant(
        "sums of losses that pay for too much", "csrc/src/few_sums.cpp",
        "paid_[r] = q * (payoff * above_[r + 1] + fall * paid_[r + 1]);",
        "paid_[r] = q * (payoff * above_[r + 1] + paid_[r + 1]);", "test_accounting_few_sums.py",
    ),
    Mutant(
        "a count's upper bound without its error", "csrc/src/count_delta.cpp",
        "log_delta + std::log1p(relative_error) + 0x1p-51 * std::fabs(log_delta)", "log_delta",
        "test_partial_knowledge.py",
    ),
    Mutant(
        "a count against one direction only", "csrc/src/count_delta.cpp",
        "                      count_delta(epsilon, unknown, bias, noise_scale, Direction::remove, stop));",
        "                      count_delta(epsilon, unknown, bias, noise_scale, Direction::add, stop));",
        "test_partial_knowledge.py",
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


class Core:
    """The C++ core's sources in a copy, and the extension that is built of them."""

    def __init__(self, folder: pathlib.Path, python: pathlib.Path, package: pathlib.Path) -> None:
        import pybind11

        self.sources = folder / "sources"
        self.sources.mkdir()
        shutil.copytree(ROOT / "csrc", self.sources / "csrc")
        shutil.copy(ROOT / "CMakeLists.txt", self.sources)
        self.build_folder = folder / "build"
        self.package = package
        options = ["-DDPCORE_BUILD_PYTHON=ON", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1"]
        options += [f"-DPython_EXECUTABLE={python}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
        if shutil.which("ninja"):
            options += ["-G", "Ninja"]
        command = ["cmake", "-S", str(self.sources), "-B", str(self.build_folder), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def build(self) -> None:
        """The extension of the sources as they are, put into the package."""
        command = ["cmake", "--build", str(self.build_folder), "--target", "_core", "--parallel", "2"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{done.stdout[-4000:]}\nFAILED: the core does not build")
        (made,) = self.build_folder.glob("_core*.so")
        for old in self.package.glob("_core*.so"):
            old.unlink()
        shutil.copy(made, self.package)


def tests_of(python: pathlib.Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    """Run them with the package of that environment."""
    return subprocess.run(
        # Without -m's folder of the checkout, which has no extension, on the path.
        [str(python), "-I", "-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:cacheprovider",
         # The same generated examples every time: what is found once is found again.
         "--hypothesis-seed=1", "-W", "ignore", *[str(TESTS / test) for test in tests]],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={key: value for key, value in os.environ.items() if key != "DPCORE_TALLY"},
    )  # fmt: skip


def attempt(mutant: Mutant, python: pathlib.Path, package: pathlib.Path, core: Core | None) -> str:
    """What came of it: "found" is what is wanted."""
    inside = mutant.file.startswith("csrc/")
    file = (core.sources if inside and core else package) / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        return "GONE: its line is not there once"
    file.write_text(text.replace(mutant.old, mutant.new))
    try:
        if inside and core:
            core.build()
        done = tests_of(python, [mutant.tests])
    finally:
        file.write_text(text)
    if inside and core:
        core.build()
    # 1 is "tests failed"; anything else is an accident, which notices nothing.
    return {0: "SURVIVED", 1: "found"}.get(done.returncode, f"ACCIDENT\n{done.stdout[-2000:]}")


def main(words: list[str]) -> int:
    """Try the mutants whose names have one of the words, or all."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    survived = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        python, package = environment(folder / "python")
        core = None
        if any(mutant.file.startswith("csrc/") for mutant in chosen):
            core = Core(folder, python, package)
            core.build()
        control = tests_of(python, sorted({mutant.tests for mutant in chosen}))
        if control.returncode:
            print(f"{control.stdout[-6000:]}\nFAILED: the tests do not pass with nothing changed")
            return 1
        for mutant in chosen:
            started = time.monotonic()
            verdict = attempt(mutant, python, package, core)
            if verdict != "found":
                survived.append(mutant.name)
            print(
                f"{mutant.name:<55} {mutant.tests:<62} {time.monotonic() - started:4.0f} s  {verdict}", flush=True
            )
    found = len(chosen) - len(survived)
    if out := os.environ.get("DPCORE_TALLY"):  # what tools/assure.py counts
        with open(out, "a", encoding="utf-8") as tally:
            tally.write(json.dumps({"what": "mutants found", "count": found}) + "\n")
    print(f"{len(chosen)} mutants, {found} found; not found: {', '.join(survived) or 'none'}")
    return 1 if survived or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
