"""Training with noisy gradients: what a run costs, and how much noise a target needs."""

from __future__ import annotations

from dpcore import accounting

RECORDS, BATCH, EPOCHS = 60_000, 256, 20
DELTA = 1e-6


def training(noise: float) -> accounting.PrivacyLoss:
    """All steps of a training run with Poisson sampling; `noise` is a multiple of the clipping norm."""
    rate = BATCH / RECORDS
    steps = EPOCHS * RECORDS // BATCH
    return accounting.from_subsampled_gaussian(sigma=noise, rate=rate) * steps


def main() -> None:
    for noise in (0.8, 1.0, 1.5):
        bounds = training(noise).epsilon(DELTA)
        print(f"noise {noise}: epsilon between {bounds.lower:.6f} and {bounds.upper:.6f} at delta {DELTA:g}")
    found = accounting.calibrate(training, epsilon=2.0, delta=DELTA, parameter_range=(0.3, 10.0))
    print(f"epsilon 2 needs noise {found.parameter:.6f}")
    # The validation accuracy is released once as well, with Laplace noise.
    total = found.loss + accounting.from_laplace(epsilon=0.1)
    print(f"with a released accuracy: epsilon {total.epsilon(DELTA).upper:.6f}")


if __name__ == "__main__":
    main()
