"""pandas, Polars and Arrow objects are accepted wherever arrays are, and give the same bits as arrays do."""

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from dpcore import accounting, distributions, gaussian, mechanisms, risk, samplers

EPSILONS = [0.1, 0.5, 1.0, 4.0]


class ArrayLike:
    """What others offer: ``__array__``, nothing that dpcore would have to know by name."""

    def __init__(self, values):
        self._values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self._values if dtype is None else self._values.astype(dtype)


FORMS = {
    "series": pandas.Series,
    "series with an index": lambda values: pandas.Series(values, index=[7, 3, 3, 1]),
    "column": lambda values: pandas.DataFrame({"epsilon": values})["epsilon"],
    "nullable": lambda values: pandas.Series(values, dtype="Float64"),
    "arrow dtype": lambda values: pandas.Series(values, dtype=pandas.ArrowDtype(pyarrow.float64())),
    "arrow array": pyarrow.array,
    "arrow chunks": lambda values: pyarrow.chunked_array([values[:1], values[1:]]),
    "polars": polars.Series,
    "polars column": lambda values: polars.DataFrame({"epsilon": values})["epsilon"],
    "polars chunks": lambda values: polars.concat(
        [polars.Series(values[:1]), polars.Series(values[1:])], rechunk=False
    ),
    "anything with __array__": ArrayLike,
}


@pytest.mark.parametrize("form", FORMS)
def test_calibrators_and_questions(form):
    given = FORMS[form](EPSILONS)
    loss = accounting.from_laplace(epsilon=0.05) * 20
    for function in (
        lambda e: gaussian.sigma(epsilon=e, delta=1e-6),
        lambda e: gaussian.delta(epsilon=e, sigma=2.0),
        lambda e: loss.delta(e).upper,
        lambda e: risk.laplace_confidence(epsilon=e, epsilon0=5.0),
    ):
        expected = function(np.array(EPSILONS))
        got = function(given)
        assert isinstance(got, np.ndarray)
        assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_mechanisms_release_them(form):
    given = FORMS[form](EPSILONS)
    noise = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
    expected = noise.release(np.array(EPSILONS), rng=samplers.InsecureTestRng(1))
    assert np.asarray(noise.release(given, rng=samplers.InsecureTestRng(1))).tobytes() == expected.tobytes()


@pytest.mark.parametrize("form", [form for form in FORMS if "null" not in form and "arrow" not in form])
def test_integers_stay_integers(form):
    given = FORMS[form]([5, 0, 17, 3])
    noise = mechanisms.DiscreteLaplace(epsilon=1.0, sensitivity=1)
    expected = noise.release([5, 0, 17, 3], rng=samplers.InsecureTestRng(1))
    assert noise.release(given, rng=samplers.InsecureTestRng(1)).tobytes() == expected.tobytes()


def test_probabilities_of_records():
    expected = distributions.poisson_binomial_pmf(np.array([0.1, 0.5, 0.25]))
    for form in (pandas.Series, polars.Series, pyarrow.array):
        first, pmf = distributions.poisson_binomial_pmf(form([0.1, 0.5, 0.25]))
        assert first == expected[0]
        assert np.array_equal(pmf, expected[1])


def test_a_missing_value_is_refused():
    with pytest.raises((TypeError, ValueError)):
        gaussian.sigma(epsilon=pandas.Series([0.1, None], dtype="Float64"), delta=1e-6)
    with pytest.raises((TypeError, ValueError)):
        gaussian.sigma(epsilon=pyarrow.array([0.1, None]), delta=1e-6)
    with pytest.raises((TypeError, ValueError)):
        gaussian.sigma(epsilon=polars.Series([0.1, None]), delta=1e-6)
