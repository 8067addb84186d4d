"""What other libraries answer, beside the truth: the table behind tests/test_cross_checks.py.

Run ``python tests/data/make_peers.py`` with an interpreter that has mpmath and at least one of dp-accounting,
prv-accountant, diffprivlib (with scikit-learn < 1.6), autodp, opendp and scipy. Rows of the peers it finds replace
theirs in peers.json, rows of the others stay: diffprivlib and autodp want environments of their own. The truth
comes from mpmath at 60 digits by the defining formulas, never from dpcore.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import pathlib
import warnings
from collections.abc import Callable
from math import comb
from typing import Any

import mpmath as mp

FILE = pathlib.Path(__file__).with_name("peers.json")
mp.mp.dps = 60


def gaussian_delta(epsilon: float, sigma: Any) -> Any:
    e, s = mp.mpf(epsilon), mp.mpf(sigma)
    return mp.ncdf(1 / (2 * s) - e * s) - mp.exp(e) * mp.ncdf(-1 / (2 * s) - e * s)


def gaussian_sigma(epsilon: float, delta: float) -> Any:
    low, high = mp.mpf("1e-3"), mp.mpf("1e3")
    for _ in range(220):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) > mp.mpf(delta) else (low, middle)
    return high


def response_delta(epsilon0: float, copies: int, epsilon: float) -> Any:
    """Randomised response composed: an exact finite sum."""
    e0, e = mp.mpf(epsilon0), mp.mpf(epsilon)
    p = mp.exp(e0) / (1 + mp.exp(e0))
    total = mp.mpf(0)
    for j in range(copies + 1):
        loss = (2 * j - copies) * e0
        if loss > e:
            total += comb(copies, j) * p**j * (1 - p) ** (copies - j) * (1 - mp.exp(e - loss))
    return total


def hypergeometric(n: int, c: int, d: int, k: int) -> Any:
    return mp.exp(log_choose(c, k) + log_choose(n - c, d - k) - log_choose(n, d))


def log_choose(n: int, k: int) -> Any:
    """To 50 digits: the logarithms of the factorials have at most nine before the point."""
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def dp_accounting() -> list[dict[str, Any]]:
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution as pld

    logging.disable(logging.WARNING)
    rows = []
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-9), (3.0, 1e-12)):
        value = dp_accounting.get_sigma_gaussian(epsilon, delta)
        rows.append(row("gaussian sigma", value, gaussian_sigma(epsilon, delta), epsilon=epsilon, delta=delta))
    grid, sigma, copies = 3e-5, 20.0, 400
    upper = pld.from_gaussian_mechanism(sigma, value_discretization_interval=grid).self_compose(copies)
    lower = pld.from_gaussian_mechanism(
        sigma, value_discretization_interval=grid, pessimistic_estimate=False
    ).self_compose(copies)
    for epsilon in (2.0, 4.0, 5.5, 6.0, 7.5, 8.0, 9.0):
        truth = gaussian_delta(epsilon, mp.mpf(sigma) / mp.sqrt(copies))
        case = dict(sigma=sigma, copies=copies, epsilon=epsilon)
        rows.append(row("gaussian composed", upper.get_delta_for_epsilon(epsilon), truth, claim="upper", **case))
        rows.append(row("gaussian composed", lower.get_delta_for_epsilon(epsilon), truth, claim="lower", **case))
    from dp_accounting.pld import common

    parameters = common.DifferentialPrivacyParameters(0.1, 0.0)
    composed = pld.from_privacy_parameters(parameters).self_compose(1000)
    for epsilon in (5.0, 10.0, 15.0):
        truth = response_delta(0.1, 1000, epsilon)
        case = dict(epsilon0=0.1, copies=1000, epsilon=epsilon)
        value = composed.get_delta_for_epsilon(epsilon)
        rows.append(row("randomised response composed", value, truth, claim="upper", **case))
    return rows


def prv_accountant() -> list[dict[str, Any]]:
    from prv_accountant import GaussianMechanism, PRVAccountant, PureDPMechanism

    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant = PRVAccountant(
            prvs=[PureDPMechanism(eps=0.1000537)], max_self_compositions=[1000], eps_error=0.002, delta_error=1e-10
        )
        low, _, high = accountant.compute_delta(10.0, [1000])
        case = dict(epsilon0=0.1000537, copies=1000, epsilon=10.0)
        truth = response_delta(0.1000537, 1000, 10.0)
        rows.append(row("randomised response composed", low, truth, claim="lower", **case))
        rows.append(row("randomised response composed", high, truth, claim="upper", **case))
        accountant = PRVAccountant(
            prvs=[GaussianMechanism(20.0)], max_self_compositions=[400], eps_error=0.01, delta_error=1e-10
        )
        for epsilon in (4.0, 6.0, 9.0):
            truth = gaussian_delta(epsilon, 1)
            low, middle, high = accountant.compute_delta(epsilon, [400])
            for claim, value in (("lower", low), ("estimate", middle), ("upper", high)):
                case = dict(sigma=20.0, copies=400, epsilon=epsilon)
                rows.append(row("gaussian composed", value, truth, claim=claim, **case))
    return rows


def diffprivlib() -> list[dict[str, Any]]:
    from diffprivlib.mechanisms import GaussianAnalytic

    return [
        row(
            "gaussian sigma",
            GaussianAnalytic(epsilon=epsilon, delta=delta, sensitivity=1)._scale,
            gaussian_sigma(epsilon, delta),
            epsilon=epsilon,
            delta=delta,
        )
        for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-9), (1.0, 1e-18))
    ]


def autodp() -> list[dict[str, Any]]:
    from autodp.calibrator_zoo import ana_gaussian_calibrator
    from autodp.mechanism_zoo import ExactGaussianMechanism

    calibrate = ana_gaussian_calibrator()
    return [
        row(
            "gaussian sigma",
            calibrate(ExactGaussianMechanism, epsilon, delta, name="g").params["sigma"],
            gaussian_sigma(epsilon, delta),
            epsilon=epsilon,
            delta=delta,
        )
        for epsilon, delta in ((1.0, 1e-6), (1.0, 1e-14))
    ]


def opendp() -> list[dict[str, Any]]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = []
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    for sigma in (2.0, 20.0):
        converted = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma))
        profile = converted.map(1.0)
        for delta in (1e-3, 1e-9):
            epsilon = profile.epsilon(delta)
            # The smallest epsilon is where the exact delta is the one given; the peer's must not be below it.
            exact = mp.findroot(
                lambda e, s=sigma, d=delta: mp.log(gaussian_delta(e, s)) - mp.log(mp.mpf(d)),
                (mp.mpf(epsilon) * 0.5, mp.mpf(epsilon)),
                solver="anderson",
            )
            rows.append(row("gaussian epsilon", epsilon, exact, claim="upper", sigma=sigma, delta=delta))
    for scale in (0.5, 3.0, 40.0):
        # The radius that the noise stays inside with probability 1 - alpha, an integer: exact sums decide.
        accuracy = dp.discrete_laplacian_scale_to_accuracy(scale=scale, alpha=0.05)
        q, radius = mp.exp(-1 / mp.mpf(scale)), 0
        while 2 * q ** (radius + 1) / (1 + q) > mp.mpf("0.05"):
            radius += 1
        rows.append(
            row("discrete laplace radius", accuracy, mp.mpf(radius), claim="upper", scale=scale, level=0.95)
        )
    return rows


def scipy() -> list[dict[str, Any]]:
    from scipy import stats

    rows = []
    for n in (10**3, 10**5, 10**7):
        case = dict(population=n, marked=n // 2, drawn=n // 10, k=n // 20 + 3)
        value = stats.hypergeom.pmf(case["k"], n, n // 2, n // 10)
        truth = hypergeometric(n, n // 2, n // 10, n // 20 + 3)
        rows.append(row("hypergeometric pmf", float(value), truth, **case))
    for n in (10**3, 10**6):
        value = stats.binom.pmf(n // 4, n, 0.25)
        truth = mp.exp(log_choose(n, n // 4)) * mp.mpf(0.25) ** (n // 4) * mp.mpf(0.75) ** (n - n // 4)
        rows.append(row("binomial pmf", float(value), truth, trials=n, probability=0.25, k=n // 4))
    return rows


def row(what: str, value: float, truth: Any, claim: str = "estimate", **case: Any) -> dict[str, Any]:
    return {"what": what, "case": case, "claim": claim, "value": float(value), "truth": mp.nstr(truth, 25)}


PEERS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "dp-accounting": dp_accounting,
    "prv-accountant": prv_accountant,
    "diffprivlib": diffprivlib,
    "autodp": autodp,
    "opendp": opendp,
    "scipy": scipy,
}


def main() -> None:
    old = json.loads(FILE.read_text())["rows"] if FILE.exists() else []
    made: list[dict[str, Any]] = []
    for name, make in PEERS.items():
        try:
            label = f"{name} {importlib.metadata.version(name)}"
            made += [{"peer": label, **found} for found in make()]
        except (ImportError, importlib.metadata.PackageNotFoundError):
            kept = [found for found in old if found["peer"].split()[0] == name]
            print(f"{name}: not installed, {len(kept)} rows kept")
            made += kept
    note = "Answers of other libraries and the truth to 25 digits; made by make_peers.py."
    rows = ",\n".join("  " + json.dumps(found) for found in made)
    FILE.write_text('{\n "note": ' + json.dumps(note) + ',\n "rows": [\n' + rows + "\n ]\n}\n")


if __name__ == "__main__":
    main()
