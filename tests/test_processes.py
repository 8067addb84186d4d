"""What travels between processes and what refuses to: pickle, copy, worker pools, sub-interpreters."""

import copy
import pickle
import subprocess
import sys
import sysconfig
import threading

import numpy as np
import pytest

from dpcore import accounting, mechanisms, partial_knowledge, risk, samplers, sensitivity

LOSS = accounting.from_gaussian(sigma=50.0) * 1000 + accounting.from_laplace(epsilon=0.1)
TRAVELLERS = [
    LOSS,
    accounting.from_pmf([0.75, 0.25, 0.0], [0.5, 0.25, 0.25]),
    accounting.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours="add") * 7,
    accounting.PrivacyLoss(),
    LOSS.epsilon(1e-6),
    mechanisms.DiscreteLaplace(epsilon=1.0, sensitivity=1),
    mechanisms.DiscreteGaussian(scale=3.0, sensitivity=1),
    mechanisms.Laplace(epsilon=0.5, sensitivity=2.0),
    mechanisms.Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0),
    mechanisms.Laplace(epsilon=0.5, sensitivity=2.0).error(),
    partial_knowledge.calibrate(epsilon=0.2, delta=1e-6, records=1000, known=500, bias=(0.2, 0.3)),
    partial_knowledge.calibrate_unknown_bias(
        2417, records=10_000, known=5000, epsilon=0.5, delta=1e-6, rng=samplers.InsecureTestRng(1)
    ),
    sensitivity.operating_point(gamma=0.1, method="exchangeable"),
    risk.CostModel(full=1000.0),
]


@pytest.mark.parametrize("thing", TRAVELLERS, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_results_losses_and_mechanisms_travel(thing, protocol):
    for again in (pickle.loads(pickle.dumps(thing, protocol)), copy.copy(thing), copy.deepcopy(thing)):
        assert type(again) is type(thing)
        assert again == thing
        assert repr(again) == repr(thing)


def test_a_loss_that_travelled_gives_the_same_bits():
    again = pickle.loads(pickle.dumps(LOSS))
    assert (again.epsilon(1e-6).lower, again.epsilon(1e-6).upper) == (
        LOSS.epsilon(1e-6).lower,
        LOSS.epsilon(1e-6).upper,
    )


def test_generators_do_not_travel():
    rng = samplers.InsecureTestRng(1)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"InsecureTestRng.*(pickled|copied)"):
            attempt(rng)


PROGRAM = """
import pickle, sys
from dpcore import accounting, mechanisms, samplers

LOSS = accounting.from_laplace(epsilon=0.1) * 20
COUNTS = mechanisms.DiscreteLaplace(epsilon=1e-14, sensitivity=1)

def task(job):
    # A loss and a mechanism came here from another process, and noise is drawn here.
    loss, mechanism = job
    return loss.epsilon(1e-6).upper, [mechanism.release(0) for _ in range(20)]

def check(results):
    assert {upper for upper, _ in results} == {LOSS.epsilon(1e-6).upper}
    noise = [value for _, values in results for value in values]
    noise += [COUNTS.release(0) for _ in range(20)]
    assert len(set(noise)) == len(noise), "repeated noise"
    print("ok", len(noise))

if __name__ == "__main__":
    COUNTS.release(0)
    jobs = [(LOSS, COUNTS)] * 6
    kind = sys.argv[1]
    if kind == "joblib":
        import joblib
        check(joblib.Parallel(n_jobs=2)(joblib.delayed(task)(job) for job in jobs))
    elif kind == "dask":
        import distributed
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        )
        with cluster, distributed.Client(cluster) as client:
            check(client.gather(client.map(task, jobs, pure=False)))
    else:
        import multiprocessing
        with multiprocessing.get_context(kind).Pool(2) as pool:
            check(pool.map(task, jobs, chunksize=1))
"""


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver", "joblib", "dask"])
def test_worker_pools(kind, tmp_path):
    """Level: two of 140 draws of scale 1e14 are alike with probability below 140^2/8e14 = 3e-11."""
    if kind in ("joblib", "dask"):
        pytest.importorskip({"joblib": "joblib", "dask": "distributed"}[kind])
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py", kind], cwd=tmp_path, capture_output=True, text=True, timeout=180
    )
    assert done.stdout == "ok 140\n", done.stderr


def test_threads_share_losses_mechanisms_and_samplers():
    counts, noise, upper = mechanisms.DiscreteLaplace(epsilon=1e-14, sensitivity=1), [], []

    def work():
        noise.extend(counts.release(0) for _ in range(50))
        noise.extend(counts.release(np.zeros(50, dtype=np.int64)).tolist())
        upper.append(LOSS.epsilon(1e-6).upper)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(noise)) == 400
    assert len(set(upper)) == 1


SUB_INTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import dpcore._core
where = interpreters.create()
code = '''
try:
    import dpcore._core
except ImportError as error:
    print("refused", flush=True)
'''
interpreters.run_string(where, code)
"""


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="interpreters with a lock of their own came with Python 3.12"
)
def test_sub_interpreters_are_refused_not_broken(tmp_path):
    done = subprocess.run([sys.executable, "-c", SUB_INTERPRETER], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter was built with its lock"
)
def test_a_free_threaded_interpreter_gets_its_lock_back(tmp_path):
    # The core is free of shared state, but the bindings do not claim to run without the lock until that is tested.
    program = "import dpcore._core, sys; print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "True\n", done.stderr
