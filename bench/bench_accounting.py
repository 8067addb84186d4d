"""Accounting against dp_accounting: build, compose, one delta and one epsilon query, end to end.

``python bench/bench_accounting.py``; needs the extra ``bench``. Every answer is checked against the peer's before
it is timed, widths are printed beside times. The bucket engine is timed at the peer's own grid (1e-4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _common import QUICK, compare, growth, human, require_release, timed, version

from dpcore import accounting as acc

GRID = 1e-4  # dp_accounting's default discretisation


def ask(loss: acc.PrivacyLoss, epsilon: float) -> tuple[acc.Bounds, acc.Bounds]:
    return loss.delta(epsilon), loss.epsilon(1e-6)


def ask_peer(loss: Any, epsilon: float) -> tuple[float, float]:
    return loss.get_delta_for_epsilon(epsilon), loss.get_epsilon_for_delta(1e-6)


def hetero() -> acc.PrivacyLoss:
    start = acc.from_laplace(epsilon=1 / 20) + acc.from_gaussian(sigma=20.0)
    return sum((acc.from_laplace(epsilon=1 / b) + acc.from_gaussian(sigma=float(b)) for b in range(21, 70)), start)


def main() -> None:
    require_release()
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    peer_name = version("dp-accounting")

    def hetero_peer() -> Any:
        total = pld.from_laplace_mechanism(20.0).compose(pld.from_gaussian_mechanism(20.0))
        for b in range(21, 70):
            total = total.compose(
                pld.from_laplace_mechanism(float(b)).compose(pld.from_gaussian_mechanism(float(b)))
            )
        return total

    def response_peer(copies: int) -> Any:
        parameters = common.DifferentialPrivacyParameters(0.1, 0.0)
        return pld.from_privacy_parameters(parameters).self_compose(copies)

    def sgd(copies: int) -> acc.PrivacyLoss:
        return acc.from_subsampled_gaussian(sigma=1.0, rate=0.01) * copies

    def sgd_peer(copies: int) -> Any:
        return pld.from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(copies)

    work: list[tuple[str, float, Callable[[], acc.PrivacyLoss], Callable[[], Any]]] = [
        (
            "Gaussian sd 50 x 1000",
            1.0,
            lambda: acc.from_gaussian(sigma=50.0) * 1000,
            lambda: pld.from_gaussian_mechanism(50.0).self_compose(1000),
        ),
        (
            "Laplace b 20 x 1000",
            5.0,
            lambda: acc.from_laplace(epsilon=0.05) * 1000,
            lambda: pld.from_laplace_mechanism(20.0).self_compose(1000),
        ),
        (
            "Laplace b 20 x 10000",
            30.0,
            lambda: acc.from_laplace(epsilon=0.05) * 10000,
            lambda: pld.from_laplace_mechanism(20.0).self_compose(10000),
        ),
        ("subsampled Gaussian x 1000", 1.0, lambda: sgd(1000), lambda: sgd_peer(1000)),
        ("subsampled Gaussian x 10000", 3.0, lambda: sgd(10000), lambda: sgd_peer(10000)),
        ("subsampled Gaussian x 100000", 20.0, lambda: sgd(100000), lambda: sgd_peer(100000)),
        ("100 Laplace and Gaussian", 1.0, hetero, hetero_peer),
        (
            "randomised response 0.1 x 1000",
            5.0,
            lambda: acc.from_randomized_response(epsilon=0.1) * 1000,
            lambda: response_peer(1000),
        ),
    ]
    print("End to end: build, compose, delta, epsilon")
    for name, eps, ours, theirs in work:
        (delta, epsilon), (peer_delta, peer_epsilon) = ask(ours(), eps), ask_peer(theirs(), eps)
        # The peer rounds to a grid of 1e-4: its answers are close, not equal.
        if not (
            abs(peer_delta / delta.upper - 1.0) < 0.05 and abs(peer_epsilon - epsilon.upper) < 0.05 * epsilon.upper
        ):
            raise SystemExit(f"{name}: {delta} and {epsilon} against {peer_delta} and {peer_epsilon}")
        mine = timed(lambda ours=ours, eps=eps: ask(ours(), eps), samples=5)
        other = timed(lambda theirs=theirs, eps=eps: ask_peer(theirs(), eps), samples=2, least=0.001)
        off = peer_delta / delta.upper - 1
        note = f"width of delta {delta.upper / delta.lower - 1:.1e}, peer off by {off:+.1e}"
        compare(name, mine, other, peer_name, least=100.0, note=note)

    print("\nBucket engine alone, one delta, at the peer's grid of 1e-4")
    for name, eps, ours, theirs in (work[0], work[1], work[4]):
        bounds = ours().delta(eps, engine="buckets", step=GRID)
        truth = ours().delta(eps)
        if not (bounds.lower <= truth.upper and bounds.upper >= truth.lower):
            raise SystemExit(f"{name}: buckets {bounds} against {truth}")
        mine = timed(lambda ours=ours, eps=eps: ours().delta(eps, engine="buckets", step=GRID), samples=3)
        other = timed(lambda theirs=theirs, eps=eps: theirs().get_delta_for_epsilon(eps), samples=2, least=0.001)
        note = f"width of delta {bounds.upper / bounds.lower - 1:.1e}"
        compare(f"buckets at 1e-4, {name}", mine, other, peer_name, least=5.0, note=note)

    print("\nCost against the number of copies (one delta, Laplace and subsampled Gaussian)")
    for exponent in range(2, 6 if QUICK else 10):
        copies = 10**exponent
        scale = 4.0 / copies**0.5
        laplace = timed(
            lambda c=copies, s=scale: (acc.from_laplace(epsilon=min(1.0, s)) * c).delta(8.0), samples=3
        )
        rate = min(0.05, 1.0 / copies**0.5)
        training = timed(
            lambda c=copies, q=rate: (acc.from_subsampled_gaussian(sigma=1.0, rate=q, neighbours="add") * c).delta(
                3.0
            ),
            samples=3,
        )
        growth("one delta of copies of Laplace", copies, laplace, unit="copies")
        growth("one delta of copies of the subsampled Gaussian", copies, training, unit="copies")
        print(f"  10^{exponent}: Laplace {human(laplace.best):>9}   subsampled Gaussian {human(training.best):>9}")

    print("\nPrivacy buckets of granularity 100000 (the thesis's choice), composed 1000 times")
    loss = acc.from_laplace(epsilon=0.05) * 1000
    step = 2 * 10.0 / 100_000
    bounds = loss.delta(5.0, engine="buckets", step=step)
    print(f"  {human(timed(lambda: loss.delta(5.0, engine='buckets', step=step), samples=3).best)}, {bounds}")

    print("\nCalibration of the subsampled Gaussian, rate 0.01, 1000 steps, to (1, 1e-6)")

    def calibrate() -> acc.Calibration:
        return acc.calibrate(
            lambda s: acc.from_subsampled_gaussian(sigma=s, rate=0.01) * 1000,
            epsilon=1.0,
            delta=1e-6,
            parameter_range=(0.5, 20.0),
        )

    def calibrate_peer() -> float:
        from dp_accounting import dp_event, mechanism_calibration
        from dp_accounting.pld import PLDAccountant

        return mechanism_calibration.calibrate_dp_mechanism(
            PLDAccountant,
            lambda s: dp_event.SelfComposedDpEvent(
                dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(s)), 1000
            ),
            1.0,
            1e-6,
        )

    found, theirs_found = calibrate(), calibrate_peer()
    if not abs(theirs_found / found.parameter - 1.0) < 0.01:
        raise SystemExit(f"calibration: {found.parameter} against {theirs_found}")
    compare(
        "calibrate",
        timed(calibrate, samples=3),
        timed(calibrate_peer, samples=1, least=0.001),
        peer_name,
        least=100.0,
    )


if __name__ == "__main__":
    main()
