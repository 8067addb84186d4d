"""The C interface as a program outside Python sees it: symbols, declarations, and answers equal to Python's."""

import ctypes
import math
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import dpcore
from dpcore import accounting, gaussian, samplers
from dpcore import partial_knowledge as pk

DATA = pathlib.Path(__file__).resolve().parent / "data"
HEADER = (pathlib.Path(dpcore.get_include()) / "dpcore" / "c_api.h").read_text()
LIBRARY = pathlib.Path(dpcore.get_library_dir()) / "libdpcore_c.so"
OK, INVALID = 0, 1


def functions(text):
    """{name: (result, arguments)} as declared in C or in Cython."""
    flat = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    flat = re.sub(r"\s+", " ", flat).replace("(void)", "()")
    found = re.findall(r"(const char\*|dpcore_status|int|void) (dpcore_\w+)\(([^()]*)\)", flat)
    return {name: (result, [a.strip() for a in arguments.split(",") if a]) for result, name, arguments in found}


def test_exported_symbols_are_the_snapshot():
    # A release may add lines to the snapshot, never remove or rename one: programs out there link against them.
    out = subprocess.run(["nm", "-D", "--defined-only", str(LIBRARY)], capture_output=True, text=True, check=True)
    names = sorted(line.split()[-1].partition("@")[0] for line in out.stdout.splitlines())
    assert [n for n in names if n != "DPCORE_1"] == (DATA / "c_api_symbols.txt").read_text().split()


def test_header_library_and_cython_declare_the_same_functions():
    pxd = (pathlib.Path(dpcore.__file__).parent / "core.pxd").read_text()
    assert functions(HEADER) == functions(pxd)
    assert sorted(functions(HEADER)) == (DATA / "c_api_symbols.txt").read_text().split()


def test_header_constants_are_the_snapshot():
    constants = re.findall(r"\b(DPCORE_[A-Z_]+) = (\d)", HEADER)
    assert constants == [
        ("DPCORE_OK", "0"),
        ("DPCORE_INVALID_ARGUMENT", "1"),
        ("DPCORE_NO_RANDOMNESS", "2"),
        ("DPCORE_NO_MEMORY", "3"),
        ("DPCORE_INTERNAL", "4"),
        ("DPCORE_NEIGHBOURS_BOTH", "0"),
        ("DPCORE_NEIGHBOURS_ADD", "1"),
        ("DPCORE_NEIGHBOURS_REMOVE", "2"),
    ]
    assert "Python.h" not in HEADER


def test_library_needs_no_python():
    out = subprocess.run(
        ["nm", "-D", "--undefined-only", str(LIBRARY)], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1] for line in out.stdout.splitlines()]
    assert not [n for n in names if n.startswith(("Py", "_Py", "GOMP", "omp_"))]


@pytest.fixture(scope="module")
def c():
    library = ctypes.CDLL(str(LIBRARY))
    types = {"double": ctypes.c_double, "size_t": ctypes.c_size_t, "unsigned": ctypes.c_uint, "int": ctypes.c_int}
    types |= {"int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "dpcore_status": ctypes.c_int}
    for name, (result, arguments) in functions(HEADER).items():
        function = getattr(library, name)
        function.argtypes = [ctypes.c_void_p if "*" in a else types[a.split(" ")[0]] for a in arguments]
        function.restype = ctypes.c_char_p if "char" in result else ctypes.c_int
    return library


def made(function, *arguments):
    handle = ctypes.c_void_p()
    assert function(*arguments, ctypes.byref(handle)) == OK
    return handle


def answer(function, *arguments):
    out = ctypes.c_double(math.nan)
    assert function(*arguments, ctypes.byref(out)) == OK
    return out.value


def bounds(function, *arguments):
    lower, upper = ctypes.c_double(math.nan), ctypes.c_double(math.nan)
    assert function(*arguments, ctypes.byref(lower), ctypes.byref(upper)) == OK
    return lower.value, upper.value


def test_versions(c):
    assert c.dpcore_version().decode() == dpcore.__version__
    assert c.dpcore_abi_version() == int(re.search(r"#define DPCORE_ABI_VERSION (\d+)", HEADER).group(1))


@pytest.mark.parametrize("name", ["geometric", "discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize("scale", [0.5, 12.75, 1e12])
def test_integer_noise_is_python_s(c, name, scale):
    sampler = made(getattr(c, f"dpcore_{name}_new"), scale)
    source, rng = made(c.dpcore_insecure_test_source_new, 2024), samplers.InsecureTestRng(2024)
    draw = getattr(samplers, name)
    out = ctypes.c_int64()
    for _ in range(50):
        assert c.dpcore_sampler_draw(sampler, source, ctypes.byref(out)) == OK
        assert out.value == draw(scale, rng=rng)
    for size in (0, 1, 1000, 70_000):
        array = np.full(size, -7, dtype=np.int64)
        assert c.dpcore_sampler_fill(sampler, source, array.ctypes.data, size, 1) == OK
        np.testing.assert_array_equal(array, draw(scale, size, rng=rng))
    values = np.arange(1000, dtype=np.int64)
    assert c.dpcore_sampler_add_fill(sampler, source, values.ctypes.data, values.ctypes.data, 1000, 0) == OK
    np.testing.assert_array_equal(values, np.arange(1000) + draw(scale, 1000, rng=rng))
    c.dpcore_insecure_test_source_free(source)
    c.dpcore_sampler_free(sampler)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize(("scale", "grid"), [(3.5, None), (3.5, 0.25), (1e-200, None)])
def test_real_noise_is_python_s(c, name, scale, grid):
    noise = made(getattr(c, f"dpcore_{name}_new"), scale, grid or 0.0)
    source, rng = made(c.dpcore_insecure_test_source_new, 7), samplers.InsecureTestRng(7)
    draw = getattr(samplers, name)
    step = answer(c.dpcore_noise_grid, noise)
    assert step == (grid or samplers.grid_for(scale))
    for _ in range(20):
        assert answer(c.dpcore_noise_draw, noise, source) == draw(scale, grid=grid, rng=rng)
    array = np.empty(5000)
    assert c.dpcore_noise_fill(noise, source, array.ctypes.data, array.size, 0) == OK
    np.testing.assert_array_equal(array, draw(scale, 5000, grid=grid, rng=rng))
    # A value on the grid, small beside it: the sum is exact in floating point too.
    assert answer(c.dpcore_noise_add, noise, source, 4 * step) == 4 * step + draw(scale, grid=grid, rng=rng)
    values = np.full(100, 8 * step)
    assert c.dpcore_noise_add_fill(noise, source, values.ctypes.data, values.ctypes.data, 100, 1) == OK
    np.testing.assert_array_equal(values, 8 * step + draw(scale, 100, grid=grid, rng=rng))
    c.dpcore_insecure_test_source_free(source)
    c.dpcore_noise_free(noise)


@pytest.mark.statistical
def test_fills_without_a_handle_draw_fresh_noise(c):
    # Scales are so large that equal draws among 2000 have probability below 2000^2/4e12 = 1e-6 a call; five calls.
    for name in ("geometric", "discrete_laplace", "discrete_gaussian"):
        array = np.zeros(2000, dtype=np.int64)
        for half in (array[:1000], array[1000:]):
            assert getattr(c, f"dpcore_{name}_fill")(1e12, half.ctypes.data, half.size) == OK
        assert np.unique(array).size == array.size
    for name in ("laplace", "gaussian"):
        array = np.zeros(2000)
        for half in (array[:1000], array[1000:]):
            assert getattr(c, f"dpcore_{name}_fill")(1.0, 2.0**-40, half.ctypes.data, half.size) == OK
        assert np.unique(array).size == array.size
    raw = np.zeros(4, dtype=np.uint64)
    assert c.dpcore_random_bytes(raw.ctypes.data, raw.nbytes) == OK
    assert np.unique(raw).size == 4


def test_gaussian_calibration_is_python_s(c):
    for epsilon, delta in ((0.1, 1e-9), (1.0, 1e-6), (8.0, 0.25)):
        for compositions in (1, 1000):
            sigma = answer(c.dpcore_gaussian_sigma, epsilon, delta, 2.0, compositions)
            assert sigma == gaussian.sigma(
                epsilon=epsilon, delta=delta, sensitivity=2.0, compositions=compositions
            )
        assert answer(c.dpcore_gaussian_delta, epsilon, sigma, 1.0) == gaussian.delta(epsilon=epsilon, sigma=sigma)
        assert answer(c.dpcore_gaussian_epsilon, sigma, delta, 1.0) == gaussian.epsilon(sigma=sigma, delta=delta)


LOSSES = [
    ("laplace", (0.5,), accounting.from_laplace(epsilon=0.5)),
    ("gaussian", (9.0, 2.0), accounting.from_gaussian(sigma=9.0, sensitivity=2.0)),
    ("discrete_laplace", (3.0, 2), accounting.from_discrete_laplace(scale=3.0, sensitivity=2)),
    ("discrete_gaussian", (3.0, 2), accounting.from_discrete_gaussian(sigma=3.0, sensitivity=2)),
    ("randomized_response", (0.7,), accounting.from_randomized_response(epsilon=0.7)),
    ("pure", (0.3,), accounting.from_pure(epsilon=0.3)),
    ("approximate", (0.3, 1e-7), accounting.from_approximate(epsilon=0.3, delta=1e-7)),
    ("subsampled_gaussian", (1.0, 0.01, 0), accounting.from_subsampled_gaussian(sigma=1.0, rate=0.01)),
    (
        "subsampled_gaussian",
        (1.0, 0.01, 1),
        accounting.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours="add"),
    ),
    (
        "subsampled_gaussian",
        (1.0, 0.01, 2),
        accounting.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours="remove"),
    ),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), LOSSES, ids=lambda x: x if isinstance(x, str) else "")
def test_accounting_is_python_s(c, name, arguments, expected):
    # Composed subsampled Gaussians are slow to ask, and neighbours are all that is special about them here.
    copies = 1 if name == "subsampled_gaussian" else 50
    one = made(getattr(c, f"dpcore_loss_from_{name}"), *arguments)
    many = made(c.dpcore_loss_times, one, copies)
    other = made(c.dpcore_loss_from_gaussian, 8.0, 1.0)
    both = made(c.dpcore_loss_compose, many, other)
    questions = [(one, expected)]
    if copies > 1:
        questions.append((both, expected * copies + accounting.from_gaussian(sigma=8.0)))
    for loss, same in questions:
        b = same.delta(0.25)
        assert bounds(c.dpcore_loss_delta, loss, 0.25) == (b.lower, b.upper)
        b = same.epsilon(1e-4)
        assert bounds(c.dpcore_loss_epsilon, loss, 1e-4) == (b.lower, b.upper)
        if copies > 1:
            b = same.confidence(0.25)
            assert bounds(c.dpcore_loss_confidence, loss, 0.25) == (b.lower, b.upper)
    for loss in (one, many, other, both):
        c.dpcore_loss_free(loss)


def test_accounting_of_a_pair_of_laws(c):
    p, q = np.array([0.75, 0.25, 0.0]), np.array([0.5, 0.25, 0.25])
    loss = made(c.dpcore_loss_from_pmf, p.ctypes.data, q.ctypes.data, 3)
    expected = accounting.from_pmf(p, q).delta(0.1)
    assert bounds(c.dpcore_loss_delta, loss, 0.1) == (expected.lower, expected.upper)
    c.dpcore_loss_free(loss)


def test_a_refusal_says_what_python_says(c):
    handle = ctypes.c_void_p()
    assert c.dpcore_discrete_laplace_new(-2.5, ctypes.byref(handle)) == INVALID
    assert handle.value is None
    assert c.dpcore_last_error().decode() == "scale must be a number in [1e-3, 1e15], got -2.5"
    assert c.dpcore_status_name(INVALID) == b"invalid argument"


def test_count_delta_is_python_s_on_the_safe_side(c):
    for bias in (0.3, (0.2, 0.4)):
        low, high = bias if isinstance(bias, tuple) else (bias, bias)
        for noise in (0.0, 3.0):
            upper = answer(c.dpcore_count_delta, 0.3, 1000, 200, low, high, noise)
            value = pk.count_delta(epsilon=0.3, records=1000, known=200, bias=bias, noise_scale=noise)
            assert value <= upper <= value * (1 + 1e-10)
    # Nothing unknown is the plain Gaussian mechanism; no noise at all protects nobody.
    plain = answer(c.dpcore_count_delta, 1.0, 10, 9, 0.5, 0.5, 2.0)
    assert gaussian.delta(epsilon=1.0, sigma=2.0) <= plain <= gaussian.delta(epsilon=1.0, sigma=2.0) * (1 + 1e-12)
    assert answer(c.dpcore_count_delta, 1.0, 10, 9, 0.5, 0.5, 0.0) == 1.0


@pytest.mark.parametrize("bias", [0.25, (0.2, 0.3)])
@pytest.mark.parametrize(("worst", "releases"), [(math.inf, 1), (1.0, 1), (1.0, 7)])
def test_count_calibration_is_python_s(c, bias, worst, releases):
    low, high = bias if isinstance(bias, tuple) else (bias, bias)
    for epsilon, delta, records, known in ((0.2, 1e-6, 10_000, 5000), (0.05, 1e-9, 300, 20), (1.0, 0.1, 2, 1)):
        noise, achieved = bounds(
            c.dpcore_count_calibrate, epsilon, delta, records, known, low, high, worst, releases
        )
        same = pk.calibrate(
            epsilon=epsilon,
            delta=delta,
            records=records,
            known=known,
            bias=bias,
            worst_case_epsilon=worst,
            releases=releases,
        )
        assert (noise, achieved) == (same.noise_scale, same.delta)
        assert achieved <= delta


HOSTILE = """
import ctypes, math, random, re, sys
random.seed(int(sys.argv[3]))  # which cases, not what noise
header = re.sub(r"/\\*.*?\\*/", " ", open(sys.argv[1]).read(), flags=re.S)
header = re.sub(r"\\s+", " ", header).replace("(void)", "()")
library = ctypes.CDLL(sys.argv[2])
found = re.findall(r"(const char\\*|dpcore_status|int|void) (dpcore_\\w+)\\(([^()]*)\\)", header)
DOUBLES = [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 5e-324, 1e-300, 1e-9, 0.25, 0.5, 1.0, 3.0, 1e9, 1.7e308]
WHOLES = [-(2**63), -1, 0, 1, 2, 1000, 2**52, 2**53, 2**53 + 1, 2**63 - 1]
SIZE = 64
buffer = (ctypes.c_double * SIZE)(*[1 / SIZE] * SIZE)
handles = {}
for name, maker in (
    ("dpcore_sampler", lambda out: library.dpcore_discrete_laplace_new(ctypes.c_double(3.0), out)),
    ("dpcore_noise", lambda out: library.dpcore_laplace_new(ctypes.c_double(3.0), ctypes.c_double(0.0), out)),
    ("dpcore_insecure_test_source", lambda out: library.dpcore_insecure_test_source_new(ctypes.c_uint64(1), out)),
    ("dpcore_loss", lambda out: library.dpcore_loss_from_laplace(ctypes.c_double(0.5), out)),
):
    handles[name] = ctypes.c_void_p()
    assert maker(ctypes.byref(handles[name])) == 0

def value(kind):
    if "**" in kind or "*" in kind and "dpcore" not in kind:
        return random.choice([None, buffer, buffer])
    if "*" in kind:
        return random.choice([None, *[handles[re.search(r"dpcore_\\w+", kind).group()]] * 3])
    if kind == "double":
        return ctypes.c_double(random.choice(DOUBLES))
    if kind == "size_t":  # a lie about an array's length is the one thing that no library can survive
        return ctypes.c_size_t(random.choice([0, 1, SIZE]))
    number = random.choice(WHOLES)
    if kind == "unsigned":
        return ctypes.c_uint(number & 0xFFFFFFFF)
    return ctypes.c_int64(number) if kind == "int64_t" else ctypes.c_int(number & 0xFFFFFFFF)

calls = 0
for result, name, arguments in found:
    function = getattr(library, name)
    function.restype = ctypes.c_char_p if "char" in result else ctypes.c_int
    kinds = [re.sub(r"\\w+$", "", a.strip()).replace("const ", "").strip() for a in arguments.split(",") if a]
    frees = name.endswith("_free")
    for _ in range(1 if frees else 300):
        for i in range(SIZE):
            buffer[i] = 1 / SIZE
        status = function(None) if frees else function(*map(value, kinds))
        calls += 1
        if result == "dpcore_status":
            assert status in (0, 1), (name, status)
            if status == 1:
                library.dpcore_last_error.restype = ctypes.c_char_p
                assert re.search(rb" must |copies", library.dpcore_last_error()), library.dpcore_last_error()
print("survived", calls > 5000)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_arguments_are_refused_or_answered_never_fatal(seed, tmp_path):
    """NULL, NaN, infinities and the ends of the integers through every function, in a process of its own."""
    header = pathlib.Path(dpcore.get_include()) / "dpcore" / "c_api.h"
    (tmp_path / "hostile.py").write_text(HOSTILE)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "hostile.py", str(header), str(LIBRARY), str(seed)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "survived True\n", done.stderr
