"""Peak memory of the large operations, and what happens when there is none left.

Each runs in a process of its own; the peak is that of the process less what it had after its imports. A bound is
the size of the result times a factor, plus 48 MB for what any call may need (threads, tables, the allocator).
"""

import subprocess
import sys

import pytest

MB = 1 << 20

START = """
import resource, sys
import numpy as np
from dpcore import accounting as a, distributions as d, mechanisms as m
from dpcore import partial_knowledge as p, samplers as s
from dpcore.audit import audit
from dpcore.sensitivity import Mean, SensitivitySampler
def sample(count, rng):
    return rng.random(count)
"""

# name: (call, size of the result in bytes, factor)
OPERATIONS = {
    "hypergeometric_pmf": (
        "d.hypergeometric_pmf(population=4 * 10**7, marked=2 * 10**7, drawn=2 * 10**7)", 16e7, 2.0
    ),
    "binomial_pmf": ("d.binomial_pmf(trials=10**12, probability=0.5, tail=1e-300)", 30e7, 2.5),
    "poisson_binomial_pmf": ("d.poisson_binomial_pmf(np.linspace(0.1, 0.9, 200_000))", 200_001 * 8, 40.0),
    "discrete_laplace": ("s.discrete_laplace(10.0, 2 * 10**7)", 16e7, 1.0),
    "gaussian": ("s.gaussian(1.0, 2 * 10**7)", 16e7, 1.0),
    "Laplace.release": ("m.Laplace(epsilon=1.0, sensitivity=1.0).release(np.zeros(10**7))", 8e7, 2.0),
    "audit, 2e7 draws of each": ("audit(m.DiscreteLaplace(scale=1.0), 0, 1, samples=2 * 10**7)", 2**20 * 8, 16.0),
    "buckets, 2e6 of them": (
        "(a.from_gaussian(sigma=3.0) * 7).delta(5.0, engine='buckets', step=4e-5)", 2**21 * 80, 1.5
    ),
    "count_delta, 1e12 records": (
        "p.count_delta(epsilon=0.1, records=10**12, known=1, bias=0.5, noise_scale=1.0)", 0, 1.0
    ),
    "sensitivity, 2e5 samples": (
        "SensitivitySampler(Mean(), sample, records=100).estimate(samples=200_000, seed=1)", 200_000 * 8, 10.0
    ),
}  # fmt: skip


def peak(call):
    """Bytes that a call took at most, and bytes of the arrays that it returned."""
    programme = f"""{START}
def most():  # of this process alone: ru_maxrss starts with what the one that started it had
    status = open("/proc/self/status").read()
    return int(status[status.index("VmHWM:") + 6:].split()[0])
before = most()
kept = {call}
print(most() - before)
print(sum(getattr(part, "nbytes", 0) for part in (kept if isinstance(kept, tuple) else (kept,))))
"""
    done = subprocess.run([sys.executable, "-I", "-c", programme], capture_output=True, text=True, check=True)
    used, returned = map(int, done.stdout.split())
    return used * 1024, returned


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_peak(name, record_property):
    call, size, factor = OPERATIONS[name]
    used, returned = peak(call)
    record_property("megabytes", used / MB)
    assert used <= size * factor + 48 * MB, f"{used / MB:.0f} MB, result {size / MB:.0f} MB"
    if returned:
        assert returned == pytest.approx(size, rel=0.03)  # the bound is one on this call's result


@pytest.mark.slow
def test_a_wasteful_call_is_noticed():
    # The numbers, and a copy of them that nobody needs.
    _, size, factor = OPERATIONS["gaussian"]
    used, returned = peak("np.copy(s.gaussian(1.0, 2 * 10**7))")
    assert returned == size
    assert used > size * factor + 48 * MB


# Each needs more than is left; a bound on the address space stands for a full machine.
TOO_LARGE = {
    "hypergeometric_pmf": "d.hypergeometric_pmf(population=10**14, marked=5 * 10**13, drawn=5 * 10**13)",
    "binomial_pmf": "d.binomial_pmf(trials=10**13, probability=0.5, tail=1e-300)",
    "poisson_binomial_pmf": "d.poisson_binomial_pmf(np.broadcast_to(0.5, (10**9,)))",
    "discrete_laplace": "s.discrete_laplace(10.0, 10**9)",
    "gaussian": "s.gaussian(1.0, 10**9)",
    "random_bytes": "s.random_bytes(10**10)",
    "bernoulli": "s.bernoulli(1, 3, 10**10)",
    "Laplace.release": "m.Laplace(epsilon=1.0, sensitivity=1.0).release(np.broadcast_to(1.0, (10**9,)))",
    "RandomizedResponse.release": "m.RandomizedResponse(epsilon=1.0).release(np.broadcast_to(1, (10**9,)))",
    "Exponential.release": "m.Exponential(epsilon=1.0, sensitivity=1.0).release(np.broadcast_to(1.0, (10**9,)))",
    "gaussian.delta": "__import__('dpcore').gaussian.delta(epsilon=np.broadcast_to(1.0, (10**9,)), sigma=1.0)",
    "loss.delta": "a.from_laplace(epsilon=1.0).delta(np.broadcast_to(1.0, (10**9,)))",
    "from_pmf": "a.from_pmf(np.broadcast_to(2.0**-26, (2**26,)), np.broadcast_to(2.0**-26, (2**26,)))",
    "count_delta": "p.count_delta(epsilon=np.broadcast_to(1.0, (10**9,)), records=100, known=1, bias=0.5,"
    " noise_scale=1.0)",
    "sensitivity": "SensitivitySampler(Mean(), sample, records=10**9).estimate(samples=20)",
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_allocation_failure_is_an_exception(name, tally):
    tally("faults injected", 1)
    programme = f"""{START}
here = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (here + {200 * MB}, here + {200 * MB}))
try:
    {TOO_LARGE[name]}
except BaseException as error:
    print(type(error).__name__, "from", type(error.__cause__).__name__)
# What is small still works afterwards.
assert 0 < d.binomial_pmf(trials=10, probability=0.5)[1][0] < 1
s.gaussian(1.0, 10)
print("alive")
"""
    done = subprocess.run([sys.executable, "-I", "-c", programme], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    # The sampler of sensitivity sampling is the caller's: its failure is named so, with the cause.
    expected = "SamplerError from MemoryError" if name == "sensitivity" else "MemoryError from NoneType"
    assert done.stdout == f"{expected}\nalive\n"
