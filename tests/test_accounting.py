"""Bounds of composed privacy losses against independent references, without any tolerance."""

import json
import pathlib

import mpmath as mp
import pytest

from dpcore import accounting as acc

DATA = pathlib.Path(__file__).parent / "data"
SPECTRAL_WIDTH = 1e-9  # the width promised by the docs


def rows(name: str) -> list[dict]:
    return json.loads((DATA / f"{name}.json").read_text())["rows"]


def check_bracket(bounds: acc.Bounds, truth: mp.mpf, width: float) -> None:
    lower, upper = mp.mpf(bounds.lower), mp.mpf(bounds.upper)
    assert lower <= truth <= upper
    assert lower > 0
    assert upper / lower - 1 <= width


@pytest.mark.parametrize("row", rows("laplace_composed"))
def test_laplace_table(row: dict) -> None:
    loss = acc.from_laplace(epsilon=float(row["epsilon0"])) * row["k"]
    check_bracket(loss.delta(float(row["epsilon"])), mp.mpf(row["delta"]), SPECTRAL_WIDTH)


@pytest.mark.parametrize("row", rows("randomized_response_composed"))
def test_randomized_response_table(row: dict) -> None:
    loss = acc.from_randomized_response(epsilon=float(row["epsilon0"])) * row["k"]
    check_bracket(loss.delta(float(row["epsilon"])), mp.mpf(row["delta"]), SPECTRAL_WIDTH)


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("row", rows("subsampled_gaussian"))
def test_subsampled_gaussian_table(row: dict, direction: str) -> None:
    loss = acc.from_subsampled_gaussian(sigma=float(row["sigma"]), rate=float(row["rate"]), neighbours=direction)
    bounds = (loss * row["k"]).delta(float(row["epsilon"]))
    check_bracket(bounds, mp.mpf(row[f"delta_{direction}"]), SPECTRAL_WIDTH)
