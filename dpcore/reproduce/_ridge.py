"""Ridge regression on generated households: the illustration of section 6 of Dandekar et al. (2021)."""

from __future__ import annotations

import dataclasses

import numpy as np

from dpcore._validation import FloatArray

PENALTY = 0.01
ATTRIBUTES = ("age", "gender", "race", "marital status", "education")


@dataclasses.dataclass(frozen=True)
class Households:
    """Attributes of household heads, each row of norm 1, and incomes in [0, 1]."""

    attributes: FloatArray
    income: FloatArray


def generate(count: int, seed: int = 2000) -> Households:
    """A population like that of the paper: five attributes that explain part of a skewed income.

    The census extract of the paper (IPUMS, 212 605 household heads) is not public without registration, so
    the data are generated; the seed is fixed and not secret, which is right for a study and wrong for a release.
    """
    rng = np.random.default_rng(seed)
    age = rng.gamma(9.0, 5.4, count).clip(16, 95)
    gender = rng.integers(0, 2, count)
    race = rng.choice(9, count, p=[0.75, 0.12, 0.01, 0.02, 0.02, 0.02, 0.03, 0.02, 0.01])
    married = rng.choice(6, count, p=[0.5, 0.03, 0.04, 0.13, 0.1, 0.2])
    education = rng.normal(7, 2.4, count).round().clip(1, 14)
    log_income = 9.4 + 0.12 * education + 0.018 * age - 0.00016 * age**2 - 0.25 * gender - 0.05 * married
    income = np.exp(log_income + rng.normal(0, 0.55, count)).clip(0, 400_000)
    raw = np.column_stack([age, gender, race, married, education]).astype(np.float64)
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    return Households(raw, income / income.max())


def fit(data: Households, rows: FloatArray | slice = slice(None)) -> FloatArray:
    """Coefficients that minimise mean((y - x b)^2)/2 + PENALTY |b|^2/2."""
    x, y = data.attributes[rows], data.income[rows]
    gram = x.T @ x / len(y) + PENALTY * np.eye(x.shape[1])
    return np.asarray(np.linalg.solve(gram, x.T @ y / len(y)))


def sensitivity_bound(records: int) -> float:
    """L1 sensitivity of `fit` when one of `records` rows is replaced.

    The objective is PENALTY-strongly convex, the gradient of one row's term is at most 1 + |b| with
    |b| <= 1/sqrt(PENALTY) (the value at b = 0 is at most 1/2), so two minimisers are
    2 (1 + 1/sqrt(PENALTY))/(records PENALTY) apart at most; sqrt(5) turns the Euclidean distance
    into the L1 distance.
    """
    return float(np.sqrt(len(ATTRIBUTES)) * 2 * (1 + PENALTY**-0.5) / (records * PENALTY))


def rmse(data: Households, coefficients: FloatArray) -> float:
    """Root mean squared error of the predicted incomes."""
    return float(np.sqrt(np.mean((data.income - data.attributes @ coefficients) ** 2)))


def sampled_sensitivities(data: Households, records: int, pairs: int, seed: int = 7) -> FloatArray:
    """L1 distances of the coefficients on random pairs of databases that differ in one row, sorted."""
    rng = np.random.default_rng(seed)
    x, y = data.attributes, data.income
    ridge = PENALTY * np.eye(x.shape[1])
    out = np.empty(pairs)
    for i in range(pairs):
        rows = rng.integers(0, len(y), records + 1)
        common, first, second = rows[:-2], rows[-2], rows[-1]
        gram = x[common].T @ x[common]
        moment = x[common].T @ y[common]
        both = [
            np.linalg.solve((gram + np.outer(x[r], x[r])) / records + ridge, (moment + x[r] * y[r]) / records)
            for r in (first, second)
        ]
        out[i] = np.abs(both[0] - both[1]).sum()
    return np.sort(out)
