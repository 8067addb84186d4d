"""A valid call of every public function, class and method, in which one argument at a time is replaced.

`bases()` gives them by name; several calls of one callable bear the same name where arguments exclude each other.
`OBJECTS` are public names that are not called by users. tests/test_hostile_input.py fails for a public callable,
or an argument of one, that is neither here nor there.
"""

import dataclasses
import functools
import inspect
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dpcore
from dpcore import (
    accounting,
    audit,
    distributions,
    gaussian,
    ledger,
    mechanisms,
    partial_knowledge,
    risk,
    samplers,
    sensitivity,
)
from dpcore.partial_knowledge import published

AREAS = {
    "accounting": accounting,
    "audit": audit,
    "distributions": distributions,
    "gaussian": gaussian,
    "ledger": ledger,
    "mechanisms": mechanisms,
    "partial_knowledge": partial_knowledge,
    "partial_knowledge.published": published,
    "risk": risk,
    "samplers": samplers,
    "sensitivity": sensitivity,
}

# Made by the library and handed out: results, errors, warnings, constants, an abstract base.
OBJECTS = {
    "accounting": {"Bounds", "Calibration"},
    "audit": {"AuditResult"},
    "distributions": {"ExcludedMass", "PmfWindow"},
    "ledger": {
        "Charge",
        "CorruptLedgerError",
        "LedgerBusyError",
        "LedgerError",
        "OverspentError",
        "Spending",
    },
    "mechanisms": {"ExpectedError", "Mechanism"},
    "partial_knowledge": {"CountCalibration", "CountRelease", "EstimatedCalibration", "published"},
    "partial_knowledge.published": {"Algorithm1", "Algorithm2", "NotForRelease"},
    "risk": {
        "Cheapest",
        "Composition",
        "Conflict",
        "DisclosureBudget",
        "EpsilonRange",
        "IDENTITY_ASSETS",
        "Limit",
        "Noise",
        "NotConvexError",
    },
    "samplers": {"GREATEST_SCALE", "LEAST_SCALE", "RandomnessError"},
    "sensitivity": {
        "EvaluationError",
        "ExecutorError",
        "OperatingPoint",
        "RandomPrivateRelease",
        "SamplerError",
        "TargetError",
    },
}


@dataclasses.dataclass(frozen=True)
class Base:
    """One valid call.

    `kinds` says what an argument is where its value does not. Those in `data` are private: NaN and booleans are
    documented to be taken, since a refusal would depend on the data. `aliases` is what a message calls them.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], dict[str, Any]]]
    kinds: dict[str, str] = dataclasses.field(default_factory=dict)
    data: frozenset[str] = frozenset()
    aliases: dict[str, str] = dataclasses.field(default_factory=dict)


def rng() -> Any:
    return samplers.InsecureTestRng(7)


def incomes(count: int, rng: Any) -> Any:
    return rng.lognormal(size=count)


@functools.cache
def folder() -> str:
    return tempfile.mkdtemp(prefix="dpcore-hostile-")


def path(name: str) -> str:
    return os.path.join(folder(), name)


def fresh(name: str) -> str:
    """A path at which nothing is."""
    where = path(name)
    if os.path.exists(where):
        os.unlink(where)
    return where


def new_ledger() -> ledger.Ledger:
    return ledger.Ledger.create(fresh("ledger.json"), epsilon=1.0, delta=0.25)


@functools.cache
def small_estimate() -> Any:
    return sensitivity.SensitivitySampler(np.median, incomes, records=20).estimate(gamma=0.25, seed=1)


@functools.cache
def saved(kind: str) -> str:
    where = path(f"saved {kind}.json")
    if kind == "loss":
        accounting.save(accounting.from_laplace(epsilon=0.5), where)
    elif kind == "estimate":
        small_estimate().save(where)
    elif kind == "evaluations":
        evaluations().save(where)
    else:
        new = ledger.Ledger.create(where, epsilon=1.0, delta=0.25)
        new.charge(epsilon=0.5, label="first")
    return where


@functools.cache
def evaluations() -> Any:
    sampler = sensitivity.SensitivitySampler(np.median, incomes, records=20)
    sampler.estimate(gamma=0.25, seed=1)
    return sampler.evaluations


@functools.cache
def loss() -> Any:
    return accounting.from_gaussian(sigma=2.0)


@functools.cache
def buckets() -> Any:
    return accounting.from_laplace(epsilon=0.5).buckets(step=0.125)


@functools.cache
def recommendation() -> Any:
    return risk.recommend(records=1000, impact=100.0, threshold=10.0)


@functools.cache
def bernstein_release() -> Any:
    return mechanisms.Bernstein(epsilon=1.0, sensitivity=0.5, lattice=4).release([0.5] * 5, rng=rng())


def cost() -> risk.CostModel:
    return risk.CostModel(full=1000.0)


def bases() -> Iterator[Base]:
    yield from _accounting()
    yield from _audit()
    yield from _distributions()
    yield from _gaussian()
    yield from _ledger()
    yield from _mechanisms()
    yield from _partial_knowledge()
    yield from _published()
    yield from _risk()
    yield from _samplers()
    yield from _sensitivity()
    yield Base("SecureBitGenerator", lambda: (dpcore.SecureBitGenerator, {}))
    yield Base("SecureBitGenerator.spawn", lambda: (dpcore.SecureBitGenerator().spawn, {"n_children": 2}))


def _accounting() -> Iterator[Base]:
    a = accounting
    yield Base("accounting.from_laplace", lambda: (a.from_laplace, {"epsilon": 0.5}))
    yield Base("accounting.from_gaussian", lambda: (a.from_gaussian, {"sigma": 2.0, "sensitivity": 1.0}))
    yield Base(
        "accounting.from_discrete_laplace", lambda: (a.from_discrete_laplace, {"scale": 2.0, "sensitivity": 1})
    )
    yield Base(
        "accounting.from_discrete_gaussian", lambda: (a.from_discrete_gaussian, {"sigma": 2.0, "sensitivity": 1})
    )
    yield Base("accounting.from_randomized_response", lambda: (a.from_randomized_response, {"epsilon": 0.5}))
    yield Base("accounting.from_pure", lambda: (a.from_pure, {"epsilon": 0.5}))
    yield Base("accounting.from_approximate", lambda: (a.from_approximate, {"epsilon": 0.5, "delta": 0.125}))
    yield Base(
        "accounting.from_subsampled_gaussian",
        lambda: (a.from_subsampled_gaussian, {"sigma": 2.0, "rate": 0.25, "neighbours": "both"}),
    )
    yield Base("accounting.from_pmf", lambda: (a.from_pmf, {"p": [0.5, 0.5], "q": [0.25, 0.75]}))
    yield Base("accounting.compose", lambda: (a.compose, {"losses": [loss(), loss()]}), kinds={"losses": "object"})
    yield Base(
        "accounting.calibrate",
        lambda: (
            a.calibrate,
            {
                "make": lambda sigma: a.from_gaussian(sigma=sigma),
                "epsilon": 1.0,
                "delta": 0.0625,
                "parameter_range": (0.5, 8.0),
                "increasing": True,
                "relative_tolerance": 2.0**-20,
                "engine": "auto",
            },
        ),
        aliases={"parameter_range": "parameter_range|sigma"},  # the caller's function may be what refuses
    )
    yield Base("accounting.save", lambda: (a.save, {"loss": loss(), "path": fresh("loss.json")}))
    yield Base("accounting.load", lambda: (a.load, {"path": saved("loss")}))
    yield Base(
        "accounting.plot",
        lambda: (_plotter(), {"losses": loss(), "epsilon": [0.5, 1.0], "ax": None, "engine": "auto"}),
        kinds={"ax": "object"},
    )
    yield Base("accounting.PrivacyLoss", lambda: (_unconstructible(a.PrivacyLoss), {}))
    yield Base("accounting.PrivacyLoss.compose", lambda: (loss().compose, {"other": loss()}))
    yield Base(
        "accounting.PrivacyLoss.__add__",
        lambda: (lambda other: loss() + other, {"other": loss()}),
        aliases={"other": "operand"},
    )
    yield Base("accounting.PrivacyLoss.__mul__", lambda: (lambda copies: loss() * copies, {"copies": 3}))
    yield Base(
        "accounting.PrivacyLoss.delta",
        lambda: (loss().delta, {"epsilon": 0.5, "engine": "buckets", "step": 0.0625}),
    )
    yield Base("accounting.PrivacyLoss.delta", lambda: (loss().delta, {"epsilon": [0.5, 1.0], "engine": "auto"}))
    yield Base("accounting.PrivacyLoss.log_delta", lambda: (loss().log_delta, {"epsilon": 0.5, "engine": "auto"}))
    yield Base("accounting.PrivacyLoss.epsilon", lambda: (loss().epsilon, {"delta": 0.125, "engine": "auto"}))
    yield Base("accounting.PrivacyLoss.confidence", lambda: (loss().confidence, {"epsilon": 0.5}))
    yield Base(
        "accounting.PrivacyLoss.buckets",
        lambda: (loss().buckets, {"step": 0.0625, "low": -2.0, "high": 2.0, "direction": "forward"}),
    )
    yield Base("accounting.PrivacyLoss.to_dict", lambda: (loss().to_dict, {}))
    yield Base(
        "accounting.PrivacyLoss.from_dict",
        lambda: (a.PrivacyLoss.from_dict, {"data": loss().to_dict()}),
        kinds={"data": "object"},
    )
    yield Base("accounting.Buckets", lambda: (_unconstructible(a.Buckets), {}))
    yield Base("accounting.Buckets.convolve", lambda: (buckets().convolve, {"other": buckets()}))
    yield Base("accounting.Buckets.self_compose", lambda: (buckets().self_compose, {"copies": 3}))
    yield Base("accounting.Buckets.coarsen", lambda: (buckets().coarsen, {}))
    yield Base("accounting.Buckets.delta", lambda: (buckets().delta, {"epsilon": 0.25}))


def _plotter() -> Callable[..., Any]:
    """The function, with matplotlib loaded: the first import takes seconds."""
    import matplotlib.figure

    matplotlib.figure.Figure().subplots()
    return lambda **arguments: accounting.plot(**arguments) and None


def _unconstructible(kind: type) -> Callable[[], Any]:
    """Users get objects of this class from functions; the constructor refuses or makes what cannot be used."""

    def call() -> Any:
        try:
            kind()
        except TypeError:
            return None
        return None

    return call


def _audit() -> Iterator[Base]:
    a = audit
    yield Base(
        "audit.clopper_pearson", lambda: (a.clopper_pearson, {"hits": 3, "samples": 100, "confidence": 0.5})
    )
    yield Base(
        "audit.audit",
        lambda: (
            a.audit,
            {
                "mechanism": mechanisms.DiscreteLaplace(scale=1.0),
                "x": 0,
                "y": 1,
                "epsilon": 1.0,
                "delta": 0.0625,
                "samples": 200,
                "confidence": 0.5,
                "event": lambda z: z > 0,
                "rng": rng(),
                "batched": False,
                "progress": False,
            },
        ),
        kinds={"mechanism": "object", "x": "any", "y": "any", "event": "function", "progress": "progress"},
        aliases={"x": "x|value|mechanism", "y": "y|value|mechanism"},
    )


def _distributions() -> Iterator[Base]:
    d = distributions
    hyper = {"population": 100, "marked": 40, "drawn": 30}
    binomial = {"trials": 64, "probability": 0.25}
    yield Base("distributions.hypergeometric_pmf", lambda: (d.hypergeometric_pmf, dict(hyper)))
    for name in ("logpmf", "cdf", "sf"):
        yield Base(
            f"distributions.hypergeometric_{name}",
            lambda name=name: (getattr(d, f"hypergeometric_{name}"), {"k": 10, **hyper}),  # type: ignore[misc]
        )
        yield Base(
            f"distributions.binomial_{name}",
            lambda name=name: (getattr(d, f"binomial_{name}"), {"k": 10, **binomial}),  # type: ignore[misc]
        )
    yield Base("distributions.binomial_pmf", lambda: (d.binomial_pmf, {**binomial, "tail": 0.125}))
    window = {"low": 5, "high": 20, "depth": 8.0}
    yield Base("distributions.hypergeometric_window", lambda: (d.hypergeometric_window, {**hyper, **window}))
    yield Base("distributions.binomial_window", lambda: (d.binomial_window, {**binomial, **window}))
    yield Base("distributions.HypergeometricStepper", lambda: (d.HypergeometricStepper, {**hyper, "k": 10}))
    yield Base("distributions.HypergeometricStepper.up", lambda: (d.HypergeometricStepper(**hyper).up, {}))
    yield Base("distributions.HypergeometricStepper.down", lambda: (d.HypergeometricStepper(**hyper).down, {}))
    yield Base(
        "distributions.poisson_binomial_pmf", lambda: (d.poisson_binomial_pmf, {"probabilities": [0.25, 0.5, 1.0]})
    )
    yield Base(
        "distributions.stratified_pmf",
        lambda: (d.stratified_pmf, {"strata": [(3, 0.25), (4, 0.5)]}),
        kinds={"strata": "object"},
    )
    yield Base("distributions.bernoulli_kl", lambda: (d.bernoulli_kl, {"q": 0.5, "p": 0.25}))
    yield Base(
        "distributions.kl_half_width",
        lambda: (d.kl_half_width, {"bias": 0.5, "divergence": 0.125, "side": "below"}),
    )
    yield Base(
        "distributions.chernoff_half_width",
        lambda: (d.chernoff_half_width, {"trials": 100, "bias": 0.5, "failure": 0.125, "side": "below"}),
    )
    yield Base("distributions.log_factorial", lambda: (d.log_factorial, {"n": 10, "extended": False}))
    yield Base("distributions.stirling_error", lambda: (d.stirling_error, {"n": 10.0}))
    yield Base("distributions.deviance", lambda: (d.deviance, {"x": 3.0, "mean": 2.0}))
    yield Base(
        "distributions.excluded_mass",
        lambda: (d.excluded_mass, {"losses": [0.5, 1.0], "masses": [0.5, 0.25], "budget": 0.25}),
    )


def _gaussian() -> Iterator[Base]:
    g = gaussian
    yield Base("gaussian.delta", lambda: (g.delta, {"epsilon": 0.5, "sigma": 2.0, "sensitivity": 1.0}))
    yield Base("gaussian.log_delta", lambda: (g.log_delta, {"epsilon": 0.5, "sigma": 2.0, "sensitivity": 1.0}))
    yield Base("gaussian.epsilon", lambda: (g.epsilon, {"sigma": 2.0, "delta": 0.125, "sensitivity": 1.0}))
    for method in ("analytic", "probabilistic", "classical"):
        yield Base(
            "gaussian.sigma",
            lambda method=method: (  # type: ignore[misc]
                g.sigma,
                {"epsilon": 0.5, "delta": 0.125, "sensitivity": 1.0, "method": method, "compositions": 2},
            ),
        )


def _ledger() -> Iterator[Base]:
    yield Base("ledger.Ledger", lambda: (ledger.Ledger, {"path": saved("ledger"), "timeout": 1.0}))
    yield Base(
        "ledger.Ledger.create",
        lambda: (
            ledger.Ledger.create,
            {
                "path": fresh("new.json"),
                "epsilon": 1.0,
                "delta": 0.25,
                "composition": "sum",
                "label": "data",
                "timeout": 1.0,
            },
        ),
        kinds={"label": "text"},
    )
    yield Base("ledger.Ledger.to_dict", lambda: (new_ledger().to_dict, {}))
    yield Base(
        "ledger.Ledger.charge",
        lambda: (
            new_ledger().charge,
            {"epsilon": 0.5, "delta": 0.125, "label": "a", "details": {"a": 1}, "after": 0},
        ),
        kinds={"label": "text", "details": "mapping"},
    )
    yield Base(
        "ledger.Ledger.charge",
        lambda: (
            ledger.Ledger.create(fresh("losses.json"), epsilon=4.0, delta=0.25, composition="certified").charge,
            {"loss": accounting.from_laplace(epsilon=0.5), "label": "a"},
        ),
        kinds={"label": "text"},
    )


def _mechanisms() -> Iterator[Base]:
    m = mechanisms
    yield Base("mechanisms.count_sensitivity", lambda: (m.count_sensitivity, {"neighbours": "replace"}))
    yield Base(
        "mechanisms.sum_sensitivity",
        lambda: (m.sum_sensitivity, {"lower": 0.5, "upper": 2.0, "neighbours": "replace"}),
    )
    yield Base(
        "mechanisms.mean_sensitivity",
        lambda: (m.mean_sensitivity, {"lower": 0.5, "upper": 2.0, "records": 8, "neighbours": "replace"}),
    )
    yield Base(
        "mechanisms.histogram_sensitivity",
        lambda: (m.histogram_sensitivity, {"norm": "l1", "neighbours": "replace"}),
    )
    vector = {"dimension": 2, "norm": "l1", "neighbours": "replace"}
    grid = {"grid": 2.0**-20, "values_on_grid": False}
    yield Base("mechanisms.Laplace", lambda: (m.Laplace, {"epsilon": 0.5, "sensitivity": 1.0, **vector, **grid}))
    yield Base("mechanisms.Laplace", lambda: (m.Laplace, {"scale": 2.0, **grid}))
    yield Base(
        "mechanisms.Gaussian",
        lambda: (
            m.Gaussian,
            {
                "epsilon": 0.5,
                "delta": 0.125,
                "sensitivity": 1.0,
                **vector,
                "norm": "l2",
                **grid,
                "method": "analytic",
            },
        ),
    )
    yield Base("mechanisms.Gaussian", lambda: (m.Gaussian, {"sigma": 2.0}))
    yield Base("mechanisms.Gaussian", lambda: (m.Gaussian, {"scale": 2.0}))
    yield Base(
        "mechanisms.DiscreteLaplace", lambda: (m.DiscreteLaplace, {"epsilon": 0.5, "sensitivity": 1, **vector})
    )
    yield Base("mechanisms.DiscreteLaplace", lambda: (m.DiscreteLaplace, {"scale": 2.0}))
    yield Base(
        "mechanisms.DiscreteGaussian",
        lambda: (
            m.DiscreteGaussian,
            {"epsilon": 0.5, "delta": 0.125, "sensitivity": 1.0, **vector, "norm": "l2"},
        ),
    )
    yield Base("mechanisms.DiscreteGaussian", lambda: (m.DiscreteGaussian, {"sigma": 2.0}))
    yield Base("mechanisms.DiscreteGaussian", lambda: (m.DiscreteGaussian, {"scale": 2.0}))
    yield Base("mechanisms.RandomizedResponse", lambda: (m.RandomizedResponse, {"epsilon": 0.5, "categories": 3}))
    yield Base(
        "mechanisms.Exponential",
        lambda: (
            m.Exponential,
            {"epsilon": 0.5, "sensitivity": 1.0, "monotone": False, "neighbours": "replace"},
        ),
    )
    yield Base("mechanisms.Exponential", lambda: (m.Exponential, {"factor": 0.5}))
    yield Base(
        "mechanisms.Bernstein",
        lambda: (
            m.Bernstein,
            {
                "epsilon": 0.5,
                "sensitivity": 1.0,
                "lattice": 4,
                "order": 2,
                "dimension": 2,
                "neighbours": "replace",
            },
        ),
    )
    yield Base(
        "mechanisms.BernsteinRelease",
        lambda: (_unconstructible(m.BernsteinRelease), {}),
    )
    yield Base("mechanisms.BernsteinRelease.__call__", lambda: (bernstein_release(), {"points": [0.25, 0.5]}))
    made = {
        "Laplace": (lambda: m.Laplace(epsilon=0.5, sensitivity=1.0), [1.0, 2.0]),
        "Gaussian": (lambda: m.Gaussian(epsilon=0.5, delta=0.125, sensitivity=1.0), [1.0, 2.0]),
        "DiscreteLaplace": (lambda: m.DiscreteLaplace(epsilon=0.5, sensitivity=1), [1, 2]),
        "DiscreteGaussian": (lambda: m.DiscreteGaussian(epsilon=0.5, delta=0.125, sensitivity=1), [1, 2]),
        "RandomizedResponse": (lambda: m.RandomizedResponse(epsilon=0.5), [0, 1]),
        "Exponential": (lambda: m.Exponential(epsilon=0.5, sensitivity=1.0), [1.0, 2.0]),
        "Bernstein": (
            lambda: m.Bernstein(epsilon=0.5, sensitivity=1.0, lattice=4),
            [0.5, 0.25, 0.0, 1.0, 0.5],
        ),
    }
    for name, (make, value) in made.items():
        one = value[0]
        for example in (value,) if name in ("Exponential", "Bernstein") else (value, one):
            yield Base(
                f"mechanisms.{name}.release",
                lambda make=make, v=example: (make().release, {"value": v, "rng": rng()}),  # type: ignore[misc]
                data=frozenset({"value"}),
                aliases={"value": "value|scores|function|answer"},
            )
        extra: dict[str, Any] = {
            "RandomizedResponse": {"responses": 10},
            "Exponential": {"candidates": 5},
        }.get(name, {})
        yield Base(f"mechanisms.{name}.error", lambda make=make, e=extra: (make().error, dict(e)))  # type: ignore[misc]
        yield Base(
            f"mechanisms.{name}.interval",
            lambda make=make, e=extra: (make().interval, {"level": 0.5, **e}),  # type: ignore[misc]
        )
        yield Base(f"mechanisms.{name}.privacy_loss", lambda make=make: (make().privacy_loss, {}))  # type: ignore[misc]
        yield Base(f"mechanisms.{name}.to_dict", lambda make=make: (make().to_dict, {}))  # type: ignore[misc]
    yield Base("mechanisms.Bernstein.points", lambda: (made["Bernstein"][0]().points, {}))
    yield Base(
        "mechanisms.RandomizedResponse.estimate",
        lambda: (m.RandomizedResponse(epsilon=0.5).estimate, {"responses": [0, 1, 1]}),
        data=frozenset({"responses"}),
    )
    yield Base("mechanisms.NoiseInterval", lambda: (_unconstructible(m.NoiseInterval), {}))
    yield Base(
        "mechanisms.NoiseInterval.around",
        lambda: (m.Laplace(scale=1.0).interval(0.5).around, {"released": [1.0, 2.0]}),
    )


def _partial_knowledge() -> Iterator[Base]:
    p = partial_knowledge
    people = {"records": 100, "known": 30}
    for extra in ({"bias": 0.25}, {"bias": (0.25, 0.5)}, {"bias": [(39, 0.25), (30, 0.5)]}):
        kinds = {} if isinstance(extra["bias"], float) else {"bias": "bias"}
        yield Base(
            "partial_knowledge.count_delta",
            lambda e=extra: (  # type: ignore[misc]
                p.count_delta,
                {"epsilon": 0.5, **people, "noise_scale": 2.0, "direction": "both", **e},
            ),
            kinds=kinds,
        )
    yield Base(
        "partial_knowledge.log_count_delta",
        lambda: (
            p.log_count_delta,
            {"epsilon": 0.5, **people, "bias": 0.25, "noise_scale": 2.0, "direction": "both"},
        ),
    )
    for name in ("joint_delta", "joint_delta_bounds"):
        yield Base(
            f"partial_knowledge.{name}",
            lambda name=name: (
                getattr(p, name),
                {
                    "epsilon": 0.5,
                    **people,
                    "bias": 0.25,
                    "noise_scale": 2.0,
                    "estimate_scale": 8.0,
                    "estimate_noise": "laplace",
                    "direction": "both",
                },
            ),
        )
    yield Base(
        "partial_knowledge.calibrate",
        lambda: (
            p.calibrate,
            {
                "epsilon": 0.5,
                "delta": 2.0**-10,
                **people,
                "bias": 0.25,
                "worst_case_epsilon": 2.0,
                "releases": 2,
                "earlier_noise_scales": [8.0],
            },
        ),
    )
    shares = {"attacker": "passive", "estimate_share": 0.25, "failure_share": 0.25}
    yield Base(
        "partial_knowledge.calibrate_unknown_bias",
        lambda: (
            p.calibrate_unknown_bias,
            {
                "count": 30,
                **people,
                "epsilon": 0.5,
                "delta": 2.0**-10,
                **shares,
                "worst_case_epsilon": 2.0,
                "rng": rng(),
            },
        ),
        # Too little noise for its grid, or too much for a double, is said of the noise.
        aliases={name: f"{name}|\\w+ must be" for name in ("epsilon", "delta", "estimate_share", "failure_share")},
        data=frozenset({"count"}),
    )
    yield Base(
        "partial_knowledge.PartialKnowledgeCount",
        lambda: (
            p.PartialKnowledgeCount,
            {
                **people,
                "epsilon": 0.5,
                "delta": 2.0**-10,
                "worst_case_epsilon": 2.0,
                "bias": 0.25,
                "attacker": "passive",
                "releases": 2,
                "earlier_noise_scales": [8.0],
            },
        ),
    )
    yield Base(
        "partial_knowledge.PartialKnowledgeCount",
        lambda: (
            p.PartialKnowledgeCount,
            {**people, "epsilon": 0.5, "delta": 2.0**-10, "worst_case_epsilon": 2.0, **shares},
        ),
    )
    yield Base(
        "partial_knowledge.PartialKnowledgeCount.release",
        lambda: (
            p.PartialKnowledgeCount(
                **people, epsilon=0.5, delta=2.0**-10, worst_case_epsilon=2.0, bias=0.25
            ).release,
            {"count": 30, "rng": rng()},
        ),
        data=frozenset({"count"}),
    )
    yield Base("partial_knowledge.Range", lambda: (p.Range, {"low": 0.25, "high": 0.5}))
    yield Base(
        "partial_knowledge.Strata",
        lambda: (p.Strata, {"groups": [(3, 0.25), (4, 0.5)]}),
        kinds={"groups": "object"},
        aliases={"groups": "strata|groups"},
    )
    yield Base("partial_knowledge.Unequal", lambda: (p.Unequal, {"probabilities": [0.25, 0.5]}))
    yield Base(
        "partial_knowledge.Mixture",
        lambda: (p.Mixture, {"components": [(0.5, 0.25), (0.5, 0.5)]}),
        kinds={"components": "object"},
        aliases={"components": "mixture|components"},
    )


def _published() -> Iterator[Base]:
    p = published
    people = {"records": 100, "known": 30}
    yield Base(
        "partial_knowledge.published.algorithm_1",
        lambda: (
            _quiet(p.algorithm_1),
            {
                "epsilon": 0.5,
                "delta": 2.0**-10,
                **people,
                "bias": 0.25,
                "error": 2.0**-10,
                "steps": 0.5,
                "update": lambda steps: steps / 2,
                "smallest": 2.0**-20,
            },
        ),
    )
    yield Base(
        "partial_knowledge.published.algorithm_2",
        lambda: (
            _quiet(p.algorithm_2),
            {
                "count": 30,
                **people,
                "epsilon": 0.5,
                "delta": 2.0**-8,
                "kappa1": 2.0**-10,
                "kappa2": 2.0**-10,
                "kappa3": 2.0**-9,
                "error": 2.0**-10,
                "laplace": 0.5,
                "rng": rng(),
            },
        ),
    )
    yield Base(
        "partial_knowledge.published.chernoff_tau",
        lambda: (p.chernoff_tau, {"records": 100, "bias": 0.25, "kappa2": 2.0**-10}),
    )
    yield Base(
        "partial_knowledge.published.laplace_truncation_error",
        lambda: (p.laplace_truncation_error, {"epsilon": 0.5, "records": 100, "tau": 0.125}),
    )
    yield Base(
        "partial_knowledge.published.kappa_split",
        lambda: (p.kappa_split, {"delta": 0.125, "shares": (0.25, 0.25, 0.5)}),
    )
    yield Base(
        "partial_knowledge.published.background_losses",
        lambda: (p.background_losses, {"known": 30, "bias": 0.25, "first": 2, "last": 20}),
    )
    yield Base(
        "partial_knowledge.published.occurrence_probabilities",
        lambda: (p.occurrence_probabilities, {**people, "count": 30}),
    )
    yield Base(
        "partial_knowledge.published.quasi_worst_case",
        lambda: (
            p.quasi_worst_case,
            {"losses": [0.5, 1.0], "occurrence": [0.5, 0.5], "kappa1": 0.125},
        ),
    )


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its warning that its result is not for release."""

    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", published.NotForRelease)
            return function(**arguments)

    return call


def _risk() -> Iterator[Base]:
    r = risk
    shape = {"dimension": 2, "method": "exact"}
    yield Base(
        "risk.laplace_confidence", lambda: (r.laplace_confidence, {"epsilon": 0.5, "epsilon0": 1.0, **shape})
    )
    yield Base(
        "risk.epsilon_at_confidence",
        lambda: (r.epsilon_at_confidence, {"confidence": 0.25, "epsilon0": 1.0, **shape}),
    )
    yield Base("risk.epsilon0_for", lambda: (r.epsilon0_for, {"epsilon": 0.5, "confidence": 0.125, **shape}))
    yield Base(
        "risk.gaussian_confidence",
        lambda: (r.gaussian_confidence, {"epsilon": 0.5, "sigma": 2.0, "sensitivity": 1.0}),
    )
    yield Base(
        "risk.mechanism_confidence",
        lambda: (
            r.mechanism_confidence,
            {"mechanism": mechanisms.Laplace(epsilon=1.0, sensitivity=1.0), "epsilon": 0.5},
        ),
        kinds={"mechanism": "object"},
    )
    yield Base("risk.approximate_dp", lambda: (r.approximate_dp, {"epsilon": 0.5, "confidence": 0.5}))
    yield Base(
        "risk.compose",
        lambda: (
            r.compose,
            {
                "epsilon0": 0.5,
                "epsilon": 0.25,
                "confidence": 0.5,
                "releases": 4,
                "delta": 2.0**-10,
                "dimension": 1,
                "method": "exact",
            },
        ),
    )
    yield Base("risk.CostModel", lambda: (r.CostModel, {"full": 1000.0, "floor": 1.0, "rate": 0.5}))
    yield Base(
        "risk.CostModel.custom",
        lambda: (r.CostModel.custom, {"function": lambda epsilon: 1000 * math.exp(-1 / epsilon)}),
        aliases={"function": "function|cost"},
    )
    yield Base("risk.CostModel.cost", lambda: (cost().cost, {"epsilon": 0.5}))
    yield Base(
        "risk.CostModel.cost_at_risk",
        lambda: (cost().cost_at_risk, {"epsilon": 0.5, "epsilon0": 1.0, **shape, "confidence": 0.5}),
    )
    yield Base("risk.CostModel.cheapest", lambda: (cost().cheapest, {"epsilon0": 1.0, **shape}))
    yield Base("risk.CostModel.epsilon_within", lambda: (cost().epsilon_within, {"budget": 100.0}))
    yield Base(
        "risk.CostModel.epsilon_range",
        lambda: (
            cost().epsilon_range,
            {
                "budget": 500.0,
                "allowed_error": 4.0,
                "sensitivity": 1.0,
                "epsilon0": 2.0,
                "confidence": 0.5,
                **shape,
            },
        ),
    )
    yield Base("risk.published_u", lambda: (r.published_u, {"confidence": 0.25, "sensitivity": 1.0}))
    yield Base(
        "risk.disclosure_probability", lambda: (r.disclosure_probability, {"epsilon": 0.5, "sensitivity": 1.0})
    )
    yield Base(
        "risk.disclosure_bound",
        lambda: (r.disclosure_bound, {"epsilon": 0.5, "delta": 0.125, "sensitivity": 1.0, "values": 100}),
    )
    for impact in (100.0, [100.0, 50.0]):
        yield Base(
            "risk.disclosure_epsilon",
            lambda impact=impact: (  # type: ignore[misc]
                r.disclosure_epsilon,
                {
                    "impact": impact,
                    "threshold": 25.0,
                    "sensitivity": 1.0,
                    "confidence": 0.75,
                    "method": "posterior",
                    "share": "each",
                },
            ),
        )
    yield Base(
        "risk.disclosure_epsilon",
        lambda: (
            r.disclosure_epsilon,
            {"impact": 100.0, "threshold": 125.0, "method": "published", "u": 1.0},
        ),
    )
    yield Base("risk.tolerance", lambda: (r.tolerance, {"samples": 1000, "accuracy": 0.0625}))
    yield Base(
        "risk.sampled_sensitivity_confidence",
        lambda: (
            r.sampled_sensitivity_confidence,
            {"samples": 1000, "order": 900, "method": "confident", "confidence": 0.75},
        ),
    )
    yield Base(
        "risk.sampled_sensitivity_confidence",
        lambda: (
            r.sampled_sensitivity_confidence,
            {"samples": 1000, "quantile": 0.75, "method": "published", "accuracy": 0.0625},
        ),
    )
    both = {
        "sampled": 0.75,
        "eta": 1.0,
        "samples": 1000,
        "accuracy": 0.0625,
        "dimension": 1,
        "method": "published",
    }
    yield Base(
        "risk.combined_confidence", lambda: (r.combined_confidence, {"epsilon": 0.5, "epsilon0": 1.0, **both})
    )
    yield Base(
        "risk.combined_epsilon0_for",
        lambda: (r.combined_epsilon0_for, {"epsilon": 0.5, "confidence": 0.25, **both}),
        aliases={"eta": "eta|epsilon0"},
    )
    yield Base(
        "risk.lemma12_eta",
        lambda: (r.lemma12_eta, {"accuracy": 0.0625, "sampled_sensitivity": 1.0, "constant": 1.0}),
    )
    yield Base(
        "risk.recommend",
        lambda: (
            r.recommend,
            {
                "records": 1000,
                "known": 100,
                "bias": 0.25,
                "impact": 100.0,
                "threshold": 10.0,
                "cost": 1000.0,
                "budget": 500.0,
                "allowed_error": 16.0,
                "releases": 2,
                "delta": 2.0**-10,
                "sensitivity": 1.0,
                "confidence": 0.75,
                "prefer": "privacy",
                "rely_on_partial_knowledge": False,
                "title": "Which?",
            },
        ),
        kinds={"title": "text"},
    )
    yield Base("risk.Recommendation", lambda: (_unconstructible(r.Recommendation), {}))
    for name in ("to_dict", "to_json", "table", "to_html"):
        yield Base(f"risk.Recommendation.{name}", lambda name=name: (getattr(recommendation(), name), {}))  # type: ignore[misc]
    yield Base("risk.Recommendation.save", lambda: (recommendation().save, {"path": path("report.txt")}))


def _samplers() -> Iterator[Base]:
    s = samplers
    # Of the core, and for tests only: pybind11 checks its one argument.
    yield Base("samplers.InsecureTestRng", lambda: (lambda: s.InsecureTestRng(7), {}))
    for name, argument in (
        ("discrete_laplace", "scale"),
        ("discrete_gaussian", "sigma"),
        ("geometric", "scale"),
        ("laplace", "scale"),
        ("gaussian", "sigma"),
    ):
        grid = {"grid": 2.0**-20} if name in ("laplace", "gaussian") else {}
        yield Base(
            f"samplers.{name}",
            lambda name=name, a=argument, g=grid: (  # type: ignore[misc]
                getattr(s, name),
                {a: 2.0, "size": 3, "rng": rng(), **g},
            ),
        )
    yield Base("samplers.grid_for", lambda: (s.grid_for, {"scale": 2.0}))
    yield Base("samplers.uniform_below", lambda: (s.uniform_below, {"bound": 10, "size": 3, "rng": rng()}))
    yield Base(
        "samplers.bernoulli", lambda: (s.bernoulli, {"numerator": 1, "denominator": 3, "size": 3, "rng": rng()})
    )
    yield Base("samplers.bernoulli_exp", lambda: (s.bernoulli_exp, {"x": 0.5, "size": 3, "rng": rng()}))
    yield Base(
        "samplers.randomized_response",
        lambda: (s.randomized_response, {"answer": [0, 1], "epsilon": 0.5, "categories": 3, "rng": rng()}),
        data=frozenset({"answer"}),
    )
    yield Base(
        "samplers.choose",
        lambda: (s.choose, {"scores": [0.5, 1.0], "factor": 0.5, "rng": rng()}),
        data=frozenset({"scores"}),
    )
    yield Base("samplers.random_bytes", lambda: (s.random_bytes, {"count": 8, "rng": rng()}))


def _sensitivity() -> Iterator[Base]:
    s = sensitivity
    data = frozenset({"data"})
    yield Base("sensitivity.Sum", lambda: (s.Sum, {}))
    yield Base("sensitivity.Sum.__call__", lambda: (s.Sum(), {"data": [1.0, 2.0]}), data=data)
    yield Base("sensitivity.Mean", lambda: (s.Mean, {}))
    yield Base("sensitivity.Mean.__call__", lambda: (s.Mean(), {"data": [[1.0, 2.0], [3.0, 4.0]]}), data=data)
    yield Base("sensitivity.Quantile", lambda: (s.Quantile, {"probability": 0.25}))
    yield Base("sensitivity.Quantile.__call__", lambda: (s.Quantile(0.25), {"data": [1.0, 2.0]}), data=data)
    yield Base("sensitivity.Histogram", lambda: (s.Histogram, {"edges": [0.0, 1.0, 2.0]}))
    yield Base(
        "sensitivity.Histogram.__call__", lambda: (s.Histogram((0.0, 1.0, 2.0)), {"data": [1.0, 2.0]}), data=data
    )
    rows = [[1.0, 2.0], [2.0, 5.0], [4.0, 3.0]]
    yield Base("sensitivity.RidgeRegression", lambda: (s.RidgeRegression, {"penalty": 0.5, "intercept": True}))
    named = {"data": "data|records"}
    yield Base(
        "sensitivity.RidgeRegression.__call__",
        lambda: (s.RidgeRegression(0.5), {"data": rows}),
        data=data,
        aliases=named,
    )
    yield Base("sensitivity.LinearRegression", lambda: (s.LinearRegression, {"intercept": True}))
    yield Base(
        "sensitivity.LinearRegression.__call__",
        lambda: (s.LinearRegression(), {"data": rows}),
        data=data,
        aliases=named,
    )
    yield Base(
        "sensitivity.operating_point",
        lambda: (s.operating_point, {"gamma": 0.25, "samples": 100, "method": "confident", "confidence": 0.75}),
    )
    yield Base(
        "sensitivity.operating_point",
        lambda: (s.operating_point, {"gamma": 0.25, "evaluations_per_second": 16.0, "seconds": 4.0}),
    )
    yield Base(
        "sensitivity.shifted_gamma",
        lambda: (
            s.shifted_gamma,
            {"gamma": 0.25, "records": 100, "divergence": 2.0**-12, "method": "exact"},
        ),
    )
    yield Base(
        "sensitivity.SensitivitySampler",
        lambda: (
            s.SensitivitySampler,
            {
                "target": np.median,
                "sample": incomes,
                "records": 20,
                "norm": "l1",
                "vectorised": False,
                "bound": 4.0,
            },
        ),
        kinds={"target": "function", "sample": "any"},
    )
    yield Base(
        "sensitivity.SensitivitySampler",
        lambda: (
            s.SensitivitySampler,
            {"target": _polynomial, "sample": incomes, "records": 20, "norm": "sup", "grid": [0.0, 0.5, 1.0]},
        ),
        kinds={"target": "function", "sample": "any", "grid": "any"},
    )
    yield Base(
        "sensitivity.SensitivitySampler.estimate",
        lambda: (
            s.SensitivitySampler(np.median, incomes, records=20).estimate,
            {
                "gamma": 0.25,
                "samples": 20,
                "method": "confident",
                "confidence": 0.75,
                "seed": 1,
                "executor": None,
                "progress": False,
            },
        ),
        kinds={"executor": "object", "progress": "progress"},
    )
    yield Base(
        "sensitivity.SensitivitySampler.estimate",
        lambda: (
            s.SensitivitySampler(np.median, incomes, records=20).estimate,
            {"gamma": 0.25, "resume": evaluations(), "checkpoint": fresh("checkpoint.json")},
        ),
        kinds={"checkpoint": "path"},
    )
    yield Base(
        "sensitivity.SensitivitySampler.estimate",
        lambda: (
            _timed(s.SensitivitySampler(np.median, incomes, records=20).estimate),
            {"gamma": 0.5, "seconds": 0.25},
        ),
        kinds={"seconds": "duration"},
    )
    yield Base(
        "sensitivity.SensitivitySampler.rate",
        lambda: (_timed(s.SensitivitySampler(np.median, incomes, records=20).rate), {"seconds": 2.0**-10}),
        kinds={"seconds": "duration"},
    )
    people = {
        "mechanism_class": mechanisms.Laplace,
        "target": np.median,
        "data": np.linspace(1.0, 3.0, 20),
        "sample": incomes,
    }
    yield Base(
        "sensitivity.sample_then_respond",
        lambda: (
            s.sample_then_respond,
            {
                **people,
                "epsilon": 0.5,
                "gamma": 0.25,
                "samples": 20,
                "method": "confident",
                "confidence": 0.75,
                "norm": "l1",
                "vectorised": False,
                "bound": 64.0,
                "seed": 1,
                "executor": None,
                "progress": False,
                "rng": rng(),
            },
        ),
        kinds={
            "mechanism_class": "object",
            "target": "function",
            "data": "any",
            "sample": "any",
            "executor": "object",
            "progress": "progress",
        },
        data=data,
        aliases={"data": "data|value|target|real numbers"},
    )
    yield Base(
        "sensitivity.sample_then_respond",
        lambda: (
            s.sample_then_respond,
            {
                **people,
                "mechanism_class": mechanisms.Gaussian,
                "target": _polynomial,
                "norm": "l2",
                "epsilon": 0.5,
                "delta": 0.125,
                "gamma": 0.25,
                "grid": [0.0, 0.5, 1.0],
                "seed": 1,
                "rng": rng(),
            },
        ),
        kinds={"mechanism_class": "object", "target": "function", "data": "any", "sample": "any", "grid": "any"},
        data=data,
        # A grid so fine or so wide that the sampled sensitivity leaves the mechanism's range is said of its noise.
        aliases={"grid": "grid|sigma must be"},
    )
    yield Base("sensitivity.SensitivityEstimate", lambda: (_unconstructible(s.SensitivityEstimate), {}))
    yield Base(
        "sensitivity.SensitivityEstimate.shifted",
        lambda: (small_estimate().shifted, {"divergence": 2.0**-12, "method": "exact"}),
    )
    yield Base(
        "sensitivity.SensitivityEstimate.mechanism",
        lambda: (
            small_estimate().mechanism,
            {"mechanism_class": mechanisms.Gaussian, "epsilon": 0.5, "delta": 0.125},
        ),
        kinds={"mechanism_class": "object"},
    )
    yield Base(
        "sensitivity.SensitivityEstimate.respond",
        lambda: (
            small_estimate().respond,
            {
                "mechanism_class": mechanisms.Gaussian,
                "value": 1.0,
                "epsilon": 0.5,
                "delta": 0.125,
                "rng": rng(),
            },
        ),
        kinds={"mechanism_class": "object"},
        data=frozenset({"value"}),
    )
    yield Base("sensitivity.SensitivityEstimate.save", lambda: (small_estimate().save, {"path": fresh("e.json")}))
    yield Base(
        "sensitivity.SensitivityEstimate.load", lambda: (s.SensitivityEstimate.load, {"path": saved("estimate")})
    )
    yield Base("sensitivity.SensitivityEstimate.to_dict", lambda: (small_estimate().to_dict, {}))
    yield Base("sensitivity.Evaluations", lambda: (_unconstructible(s.Evaluations), {}))
    yield Base("sensitivity.Evaluations.save", lambda: (evaluations().save, {"path": fresh("v.json")}))
    yield Base("sensitivity.Evaluations.load", lambda: (s.Evaluations.load, {"path": saved("evaluations")}))
    yield Base("sensitivity.Evaluations.to_dict", lambda: (evaluations().to_dict, {}))


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its result, which depends on how fast the machine is."""
    return lambda **arguments: function(**arguments) and None


def _polynomial(data: Any) -> Callable[[Any], Any]:
    mean = float(np.mean(data))
    return lambda x: mean * np.asarray(x)


# ---- what there is to cover -------------------------------------------------------------------------------------

# Arguments that replace one argument at a time cannot reach, with the reason.
UNREACHED = {
    ("sensitivity.sample_then_respond", "options"): "any keyword of the mechanism's own constructor",
    ("sensitivity.SensitivityEstimate.mechanism", "options"): "any keyword of the mechanism's own constructor",
    ("sensitivity.SensitivityEstimate.respond", "options"): "any keyword of the mechanism's own constructor",
    ("accounting.Buckets", "buckets"): "an object of the core; users get buckets from PrivacyLoss.buckets",
}

# Methods that take part though their names begin with an underscore.
OPERATORS = ("__call__", "__add__", "__mul__")


def public() -> Iterator[tuple[str, Any]]:
    """(name, callable) of everything that must have a base call."""
    yield "SecureBitGenerator", dpcore.SecureBitGenerator
    for area, module in AREAS.items():
        for name in module.__all__:
            if name in OBJECTS.get(area, ()):
                continue
            thing = getattr(module, name)
            yield f"{area}.{name}", thing
            if not inspect.isclass(thing):
                continue
            for method in dir(thing):
                static = inspect.getattr_static(thing, method)
                if method.startswith("_") and method not in OPERATORS:
                    continue
                if isinstance(static, property) or not callable(getattr(thing, method)):
                    continue
                if getattr(static, "__module__", "").startswith("numpy") or method in (
                    "to_dict",
                    "spawn",
                    "bytes",
                ):
                    continue  # to_dict takes no arguments in any class; bytes is of the test generator
                yield f"{area}.{name}.{method}", getattr(thing, method)


def parameters(thing: Any) -> list[str]:
    """Names of the arguments of a callable."""
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return []  # a class of the core, whose constructor has no signature
    return [name for name in signature.parameters if name not in ("self", "args")]
