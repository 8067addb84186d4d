"""Writes the first inputs of the fuzzers into tests/fuzz/corpus: one valid file, or more, of each kind.

Files named by digits are what fuzzing added (`fuzz_files.py --keep`, `fuzz_c_api --keep`): the shortest inputs
that together reach every line, or edge, that was reached. found-* are inputs of defects that were mended.
"""

import pathlib

from dpcore import accounting, samplers
from dpcore.ledger import Ledger
from dpcore.sensitivity import Mean, SensitivitySampler

HERE = pathlib.Path(__file__).parent / "corpus"


def folder(name: str) -> pathlib.Path:
    path = HERE / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def main() -> None:
    for composition in ("sum", "certified"):
        path = folder("ledger") / composition
        path.unlink(missing_ok=True)
        ledger = Ledger.create(path, epsilon=2.0, delta=1e-6, composition=composition, label="people")
        ledger.charge(epsilon=0.5, label="first", details={"rows": 10})
        ledger.charge(loss=accounting.from_laplace(epsilon=0.25), label="second")
    (folder("programme") / "plain").write_text(
        '[[mechanism]]\nname = "gaussian"\nsigma = 50\ncount = 100\n\n'
        '[[mechanism]]\nname = "discrete_laplace"\nscale = 3.0\nsensitivity = 2\n'
    )
    (folder("programme") / "sampled").write_text(
        '[[mechanism]]\nname = "subsampled-gaussian"\nsigma = 1.0\nrate = 0.01\nneighbours = "add"\ncount = 1e3\n'
    )
    losses = {
        "laplace": accounting.from_laplace(epsilon=0.5) * 3,
        "mixed": accounting.from_gaussian(sigma=2.0) + accounting.from_randomized_response(epsilon=1.0),
        "pmf": accounting.from_pmf([0.5, 0.25, 0.25], [0.25, 0.75, 0.0]),
        "sampled": accounting.from_subsampled_gaussian(sigma=1.0, rate=0.1) * 10,
    }
    for name, loss in losses.items():
        for suffix in ("json", "npz"):
            path = folder(f"loss_{suffix}") / name
            accounting.save(loss, path.with_suffix(f".{suffix}"))
            path.with_suffix(f".{suffix}").replace(path)
    sampler = SensitivitySampler(Mean(), lambda count, rng: rng.random(count), records=10)
    sampler.estimate(gamma=0.2, seed=1).save(folder("estimate") / "mean")
    assert sampler.evaluations is not None
    sampler.evaluations.save(folder("evaluations") / "mean")
    # Programmes for the C interface: every function once, with numbers that pass.
    rng = samplers.InsecureTestRng(1)
    for op in range(20):
        setup = bytes([8, 1, 5, 2]) if 11 <= op < 16 else b""
        (folder("c_api") / f"op{op:02d}").write_bytes(setup + bytes([op, 8]) + bytes([2, 5, 3, 2]) + rng.bytes(24))


if __name__ == "__main__":
    main()
