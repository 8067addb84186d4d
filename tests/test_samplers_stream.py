"""The random stream: forks, threads, reference vectors, the test generator, refusal of bad input."""

from __future__ import annotations

import copy
import hashlib
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dpcore import samplers
from dpcore.samplers import InsecureTestRng

WORDS = 8


def in_child(body: Any) -> bytes:
    """Bytes that body() returns in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # the child
        try:
            os.write(write, body())
        finally:
            os._exit(0)
    os.close(write)
    out = b""
    while part := os.read(read, 65536):
        out += part
    os.close(read)
    os.waitpid(pid, 0)
    return out


def blocks(data: bytes, size: int = 16) -> set[bytes]:
    return {data[i : i + size] for i in range(0, len(data) - size + 1, size)}


def test_forked_children_repeat_nothing() -> None:
    samplers.random_bytes(8)  # a stream with buffered words exists before the forks
    outputs = [in_child(lambda: samplers.random_bytes(4096)) for _ in range(4)]
    outputs.append(samplers.random_bytes(4096))
    seen = [blocks(o) for o in outputs]
    assert all(len(s) == 256 for s in seen)
    assert len(set().union(*seen)) == 5 * 256


def test_a_fork_of_a_fork_repeats_nothing() -> None:
    samplers.random_bytes(8)

    def child() -> bytes:
        grandchild = in_child(lambda: samplers.random_bytes(256))
        return samplers.random_bytes(256) + grandchild

    data = in_child(child) + samplers.random_bytes(256)
    assert len(data) == 768
    assert len(blocks(data)) == 48


@pytest.mark.parametrize(
    "draw",
    [
        lambda: samplers.discrete_laplace(1e9, WORDS).tobytes(),
        lambda: samplers.discrete_gaussian(1e9, WORDS).tobytes(),
        lambda: samplers.laplace(1.0, WORDS).tobytes(),
        lambda: samplers.gaussian(1.0, WORDS).tobytes(),
        lambda: b"".join(samplers.discrete_laplace(1e9).to_bytes(8, "little", signed=True) for _ in range(WORDS)),
    ],
)
def test_samplers_repeat_nothing_across_forks(draw: Any) -> None:
    draw()
    outputs = [in_child(draw) for _ in range(3)] + [draw()]
    assert len(set(outputs)) == 4


def test_a_fork_behind_the_back_of_libc_is_seen() -> None:
    # The raw system call runs no pthread_atfork handler: only the wiped page protects.
    import ctypes
    import platform

    if platform.machine() != "x86_64":
        pytest.skip("the number of the fork system call is that of x86-64")
    libc = ctypes.CDLL(None, use_errno=True)
    samplers.random_bytes(8)
    read, write = os.pipe()
    pid = libc.syscall(57)
    if pid == 0:
        os.write(write, samplers.random_bytes(256))
        os._exit(0)
    assert pid > 0
    os.waitpid(pid, 0)
    child = os.read(read, 256)
    os.close(read)
    os.close(write)
    assert len(blocks(child + samplers.random_bytes(256))) == 32


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_pools_repeat_nothing(method: str) -> None:
    samplers.discrete_laplace(1.0)
    with multiprocessing.get_context(method).Pool(2) as pool:
        draws = pool.starmap_async(samplers.discrete_laplace, [(1e12, 64)] * 16, chunksize=1).get(timeout=60)
    assert len({d.tobytes() for d in draws}) == 16


def test_prefork_server_workers_repeat_nothing() -> None:
    """A master that forks workers, each of which answers requests, is killed and forked anew."""
    samplers.gaussian(1.0)
    seen: list[bytes] = []
    for _generation in range(3):
        pipes, pids = [], []
        for _worker in range(4):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                for _request in range(8):
                    os.write(write, samplers.gaussian(1.0, 8).tobytes())
                os.close(write)
                signal.pause()  # until killed, like a worker that waits for the next request
            os.close(write)
            pipes.append(read)
            pids.append(pid)
        for read in pipes:
            data = b""
            while len(data) < 512:
                data += os.read(read, 512)
            seen.extend(data[i : i + 64] for i in range(0, 512, 64))
            os.close(read)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert len(set(seen)) == 3 * 4 * 8


def test_threads_repeat_nothing() -> None:
    with ThreadPoolExecutor(8) as pool:
        outputs = list(pool.map(lambda _: samplers.random_bytes(4096), range(64)))
    assert len(set().union(*(blocks(o) for o in outputs))) == 64 * 256


def test_a_fork_from_a_thread_repeats_nothing() -> None:
    results: list[bytes] = []

    def work() -> None:
        samplers.random_bytes(8)
        results.append(in_child(lambda: samplers.random_bytes(256)))
        results.append(samplers.random_bytes(256))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set().union(*(blocks(o) for o in results))) == 8 * 16


def test_the_fork_test_sees_a_generator_that_is_not_safe() -> None:
    rng = InsecureTestRng(1)
    outputs = [in_child(lambda: rng.bytes(256)) for _ in range(2)]
    assert outputs[0] == outputs[1]


REFUSING_GETRANDOM = """
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t getrandom(void* out, size_t bytes, unsigned flags) {
    if (getenv("REFUSE") != NULL) { errno = ENOSYS; return -1; }
    return syscall(SYS_getrandom, out, bytes, flags);
}
"""

UNDER_A_REFUSING_KERNEL = """
import os
from dpcore import mechanisms, samplers
laplace, count = mechanisms.Laplace(scale=1.0), mechanisms.DiscreteLaplace(scale=1.0)
calls = [
    lambda: samplers.discrete_laplace(1.0), lambda: samplers.gaussian(1.0, 10), lambda: samplers.random_bytes(8),
    lambda: samplers.uniform_below(5), lambda: samplers.bernoulli_exp(1.0),
    lambda: samplers.choose([1.0], factor=1.0), lambda: samplers.randomized_response(1, epsilon=1.0, categories=2),
    lambda: laplace.release(3.0), lambda: count.release([1, 2]),
]
os.putenv("REFUSE", "1")
for call in calls:
    try:
        print("released", call())
    except samplers.RandomnessError:
        print("refused")
os.unsetenv("REFUSE")
print(len([call() for call in calls]))
"""


def test_without_randomness_nothing_is_released(tmp_path: Any) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to replace getrandom with; tests/cpp/test_random_stream.cpp does it too")
    source, library = tmp_path / "refuse.c", tmp_path / "refuse.so"
    source.write_text(REFUSING_GETRANDOM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_REFUSING_KERNEL],
        env={**os.environ, "LD_PRELOAD": str(library)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["refused"] * 9 + ["9"]


@pytest.mark.statistical
def test_streams_look_uniform_and_apart() -> None:
    # 2^20 bytes of two threads' streams: bytes, and the xor of the two streams, are uniform.
    # Level 1e-9 each, three statistics.
    from scipy import stats

    with ThreadPoolExecutor(2) as pool:
        a, b = (np.frombuffer(x, np.uint8) for x in pool.map(samplers.random_bytes, [1 << 20, 1 << 20]))
    for data in (a, b, a ^ b):
        counts = np.bincount(data, minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-9
    stuck = np.where(np.arange(len(a)) % 50 == 0, a & 0xFE, a)  # wrong on purpose: the last bit stuck now and then
    assert stats.chisquare(np.bincount(stuck, minlength=256)).pvalue < 1e-9


# ---- the test generator


def chacha_block(key: bytes, counter: int) -> bytes:
    """RFC 8439, transcribed: the reference for the documented stream."""

    def rotl(x: int, n: int) -> int:
        return ((x << n) | (x >> (32 - n))) & 0xFFFFFFFF

    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    start += [int.from_bytes(key[4 * i : 4 * i + 4], "little") for i in range(8)]
    start += [counter, 0, 0, 0]
    x = list(start)
    for _ in range(10):
        for a, b, c, d in (
            (0, 4, 8, 12),
            (1, 5, 9, 13),
            (2, 6, 10, 14),
            (3, 7, 11, 15),
            (0, 5, 10, 15),
            (1, 6, 11, 12),
            (2, 7, 8, 13),
            (3, 4, 9, 14),
        ):
            x[a] = (x[a] + x[b]) & 0xFFFFFFFF
            x[d] = rotl(x[d] ^ x[a], 16)
            x[c] = (x[c] + x[d]) & 0xFFFFFFFF
            x[b] = rotl(x[b] ^ x[c], 12)
            x[a] = (x[a] + x[b]) & 0xFFFFFFFF
            x[d] = rotl(x[d] ^ x[a], 8)
            x[c] = (x[c] + x[d]) & 0xFFFFFFFF
            x[b] = rotl(x[b] ^ x[c], 7)
    return b"".join(((p + q) & 0xFFFFFFFF).to_bytes(4, "little") for p, q in zip(x, start, strict=True))


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_the_documented_stream_of_the_test_generator(seed: int) -> None:
    key = seed.to_bytes(8, "little") + b"dpcore-insecure-test-rng"
    count = 100  # beyond one refill of 63 blocks
    expected = b"".join(chacha_block(key, i) for i in range(count))
    assert InsecureTestRng(seed).bytes(64 * count) == expected


def test_the_test_generator_against_openssl() -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl program")
    key = (7).to_bytes(8, "little") + b"dpcore-insecure-test-rng"
    zeros = b"\0" * (1 << 18)
    command = [openssl, "enc", "-chacha20", "-K", key.hex(), "-iv", "00" * 16, "-nopad"]
    done = subprocess.run(command, input=zeros, capture_output=True)
    if done.returncode != 0:
        pytest.skip("this openssl has no chacha20")
    assert InsecureTestRng(7).bytes(1 << 18) == done.stdout


def digest(x: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]


def test_same_seed_same_draws_and_different_seeds_differ() -> None:
    for f in (
        samplers.discrete_laplace,
        samplers.discrete_gaussian,
        samplers.geometric,
        samplers.laplace,
        samplers.gaussian,
    ):
        a, b, c = (
            f(5.0, 100, rng=InsecureTestRng(3)),
            f(5.0, 100, rng=InsecureTestRng(3)),
            f(5.0, 100, rng=InsecureTestRng(4)),
        )
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)
        assert f(5.0, rng=InsecureTestRng(3)) == f(5.0, rng=InsecureTestRng(3))


def test_long_draws_do_not_depend_on_the_number_of_threads() -> None:
    n = 1 << 18  # above the size from which two threads work
    draws = samplers.discrete_laplace(10.0, n, rng=InsecureTestRng(3))
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        alone = samplers.discrete_laplace(10.0, n, rng=InsecureTestRng(3))
    finally:
        os.sched_setaffinity(0, cores)
    assert np.array_equal(draws, alone)
    # The chunks are streams of their own, numbered: the first is that of a short call.
    assert np.array_equal(draws[:32768], samplers.discrete_laplace(10.0, 32768, rng=InsecureTestRng(3)))
    assert len({draws[i : i + 64].tobytes() for i in range(0, n, 64)}) == n // 64


def test_generators_cannot_be_copied_or_pickled() -> None:
    rng = InsecureTestRng(1)
    with pytest.raises(TypeError):
        pickle.dumps(rng)
    with pytest.raises(TypeError):
        copy.copy(rng)
    assert repr(rng) == "InsecureTestRng(seed=1)"


def test_threads_may_share_a_test_generator() -> None:
    rng = InsecureTestRng(5)
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: rng.bytes(64), range(200)))
    whole = InsecureTestRng(5).bytes(64 * 200)
    assert set(got) == {whole[i : i + 64] for i in range(0, len(whole), 64)}


# ---- bad input: refused before any randomness is used

FUNCTIONS = [
    samplers.discrete_laplace,
    samplers.discrete_gaussian,
    samplers.geometric,
    samplers.laplace,
    samplers.gaussian,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "bad", [0, 0.0, -1.0, math.nan, math.inf, -math.inf, 1e-300, 1e300, pytest.param(10**400, id="10**400")]
)
def test_bad_scales(function: Any, bad: float) -> None:
    rng = InsecureTestRng(1)
    for size in (None, 3):
        with pytest.raises(ValueError, match=r"(scale|sigma) must be a number in"):
            function(bad, size, rng=rng)
    assert rng.bytes(8) == InsecureTestRng(1).bytes(8)


@pytest.mark.parametrize("function", FUNCTIONS[:3])
@pytest.mark.parametrize("bad", [math.nextafter(1e-3, 0), math.nextafter(1e15, math.inf)])
def test_scales_just_outside(function: Any, bad: float) -> None:
    with pytest.raises(ValueError, match="must be a number in"):
        function(bad)


@pytest.mark.parametrize("function", FUNCTIONS[:3])
@pytest.mark.parametrize("edge", [1e-3, 1e15])
def test_scales_at_the_edges(function: Any, edge: float) -> None:
    draws = function(edge, 10000)
    assert np.abs(draws).max() < 128 * edge + 1
    assert isinstance(function(edge), int)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("bad", [None, True, "3", 1j, [1.0, 2.0], b"1"])
def test_bad_types(function: Any, bad: Any) -> None:
    with pytest.raises(TypeError, match=r"scale|sigma"):
        function(bad, 3)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bad_sizes(function: Any) -> None:
    rng = InsecureTestRng(1)
    for bad in (-1, (2, -1)):
        with pytest.raises(ValueError, match="size must be an integer in"):
            function(1.0, bad, rng=rng)
    for bad in (2**59 + 1, (2**30, 2**30), (2**40, 2**40, 2**40)):
        with pytest.raises(ValueError, match="size must"):
            function(1.0, bad, rng=rng)
    for bad in (2.0, "3", True, [2], (1.5,)):
        with pytest.raises(TypeError, match="size must be an integer"):
            function(1.0, bad, rng=rng)
    with pytest.raises(MemoryError):
        function(1.0, 2**50, rng=rng)
    assert rng.bytes(8) == InsecureTestRng(1).bytes(8)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("bad", [0, 42, np.random.default_rng(1), "secure"])
def test_bad_generators(function: Any, bad: Any) -> None:
    with pytest.raises(TypeError, match="rng must be None"):
        function(1.0, 3, rng=bad)
    with pytest.raises(TypeError, match="rng must be None"):
        function(1.0, rng=bad)


@pytest.mark.parametrize("function", [samplers.laplace, samplers.gaussian])
def test_bad_grids(function: Any) -> None:
    for bad in (0.3, 0.0, -1.0, math.nan, math.inf, 2048.0, 2.0**-50):
        with pytest.raises(ValueError, match="grid must be a power of two"):
            function(1.0, 3, grid=bad)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_shapes(function: Any) -> None:
    assert function(1.0, 0).shape == (0,)
    assert function(1.0, ()).shape == ()
    assert function(1.0, (2, 0, 3)).shape == (2, 0, 3)
    assert function(1.0, (2, 3)).shape == (2, 3)
    assert function(1.0, np.int64(4)).shape == (4,)
    expected = np.float64 if function in (samplers.laplace, samplers.gaussian) else np.int64
    assert function(3, 5).dtype == expected


def draw_for_long() -> None:
    for _ in range(1000):
        samplers.discrete_gaussian(10.0, 20_000_000)


def test_ctrl_c_stops_a_long_draw() -> None:
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        draw_for_long()
    assert time.monotonic() - begin < 5
    timer.join()


def test_a_fork_inside_a_signal_handler_does_not_share_the_draw() -> None:
    """The child stops with an error instead of going on with its parent's key."""
    read, write = os.pipe()
    children: list[int] = []

    def handler(signum: int, frame: Any) -> None:
        if not children:
            pid = os.fork()
            children.append(pid)

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    message = b"finished"
    try:
        for _ in range(100):
            samplers.discrete_gaussian(10.0, 4_000_000)
            if children:
                break
    except RuntimeError as error:
        message = str(error).encode()
    finally:
        if children and children[0] == 0:
            os.write(write, message)
            os._exit(0)
        signal.signal(signal.SIGALRM, old)
    os.waitpid(children[0], 0)
    said = os.read(read, 100)
    os.close(read)
    os.close(write)
    # The handler may also have run between two draws; then both processes finish with keys of their own.
    assert said in (b"the process forked in the middle of a draw", b"finished")
