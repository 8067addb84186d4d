"""`dpcore.SecureBitGenerator` under NumPy's Generator."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import dpcore


def words(count):
    return dpcore.SecureBitGenerator().random_raw(count).tolist()


def test_numpy_takes_it_for_one_of_its_own():
    bits = dpcore.SecureBitGenerator()
    assert isinstance(bits, np.random.BitGenerator)
    rng = np.random.Generator(bits)
    assert rng.bit_generator is bits
    assert np.random.default_rng(bits).bit_generator is bits
    assert repr(bits) == "SecureBitGenerator()"


def test_every_kind_of_draw():
    rng = np.random.Generator(dpcore.SecureBitGenerator())
    uniform = rng.random(10_000)
    assert 0 <= uniform.min() < uniform.max() < 1
    assert np.all(uniform * 2**53 % 1 == 0)
    assert rng.random(100, dtype=np.float32).dtype == np.float32
    assert rng.bit_generator.random_raw(3).dtype == np.uint64
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64, np.int64):
        drawn = rng.integers(0, 100, 5000, dtype=dtype)
        assert np.unique(drawn).size == 100  # missing one of 100 in 5000 draws: below 100 exp(-50)
    assert sorted(rng.permutation(50).tolist()) == list(range(50))
    assert rng.choice([1, 2, 3]) in (1, 2, 3)
    assert rng.hypergeometric(10, 20, 5) <= 5


@pytest.mark.statistical
def test_bits_are_fair():
    # 2^20 words: each bit's count is within 6 standard deviations of half with probability 1 - 2e-9; 64 bits, both
    # functions: the test errs with probability 3e-7. A bit that is 1 with probability 0.504 is found out.
    count = 2**20
    bits = dpcore.SecureBitGenerator()
    rng = np.random.Generator(bits)
    limit = 6 * np.sqrt(count) / 2
    raw = bits.random_raw(count)
    small = rng.integers(0, 2**32, count, dtype=np.uint32)
    for values, width in ((raw, 64), (small, 32)):
        for bit in range(width):
            ones = np.count_nonzero(values >> np.uint64(bit) & np.uint64(1))
            assert abs(ones - count / 2) < limit
    assert abs(rng.standard_normal(count).mean()) < 6 / np.sqrt(count)
    biased = raw & rng.integers(0, 2**64 - 1, count, dtype=np.uint64) | (raw & np.uint64(0xFF))
    assert abs(np.count_nonzero(biased >> np.uint64(63)) - count / 2) > limit


def test_nothing_can_be_seeded_read_copied_or_pickled():
    bits = dpcore.SecureBitGenerator()
    rng = np.random.Generator(bits)
    attempts = [
        lambda: dpcore.SecureBitGenerator(42),
        lambda: bits.state,
        lambda: setattr(bits, "state", {}),
        lambda: bits.seed_seq,
        lambda: bits._seed_seq.generate_state(4),
        lambda: copy.copy(bits),
        lambda: copy.deepcopy(bits),
        lambda: pickle.dumps(bits),
        lambda: pickle.dumps(rng),
        lambda: copy.deepcopy(rng),
    ]
    for attempt in attempts:
        with pytest.raises(TypeError):
            attempt()


def test_children_and_generators_are_independent():
    bits = dpcore.SecureBitGenerator()
    drawn = words(100) + words(100) + bits.random_raw(100).tolist()
    for child in bits.spawn(3):
        drawn += child.random_raw(100).tolist()
    for child in np.random.Generator(bits).spawn(2):
        drawn += child.bit_generator.random_raw(100).tolist()
    assert len(set(drawn)) == 800


def test_threads_draw_different_words():
    bits, results = dpcore.SecureBitGenerator(), []
    threads = [threading.Thread(target=lambda: results.append(bits.random_raw(1000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.unique(np.concatenate(results)).size == 4000


def test_a_forked_child_draws_different_words():
    bits = dpcore.SecureBitGenerator()
    bits.random_raw(10)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, bits.random_raw(50).tobytes())
        os._exit(0)
    os.waitpid(pid, 0)
    child = np.frombuffer(os.read(read, 400), dtype=np.uint64)
    os.close(read)
    os.close(write)
    assert child.size == 50
    assert np.unique(np.concatenate([child, bits.random_raw(50)])).size == 100


WORKERS = """
import multiprocessing, sys
import dpcore

def words(count):
    return dpcore.SecureBitGenerator().random_raw(count).tolist()

if __name__ == "__main__":
    own = words(20)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        parts = pool.map(words, [20] * 6, chunksize=1)
    print(len({word for part in [*parts, own, words(20)] for word in part}))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_draw_different_words(method, tmp_path):
    (tmp_path / "program.py").write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, "program.py", method], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.stdout == "160\n", done.stderr


def test_a_system_without_randomness_is_refused_at_once(tmp_path):
    source = tmp_path / "refuse.c"
    source.write_text("""
        #include <errno.h>
        #include <sys/types.h>
        ssize_t getrandom(void *out, size_t bytes, unsigned flags) { errno = EPERM; return -1; }
    """)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", tmp_path / "refuse.so"], check=True)
    program = "import dpcore; from dpcore.samplers import RandomnessError\n"
    program += "try: dpcore.SecureBitGenerator()\nexcept RandomnessError as error: print('refused:', error)"
    environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "refuse.so"), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert "refused: the operating system gave no randomness" in done.stdout, done.stderr
