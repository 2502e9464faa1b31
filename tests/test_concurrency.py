"""Many threads on one estimator, forks, spawned processes, and grids of jobs: the same bits, no more threads."""

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV

from bochner import RBF, FourierFeatures, KernelRidge, TabularRegressor
from bochner.backends import limit_threads, n_threads
from bochner.backends.threads import each
from laws import ESTIMATORS


def data(seed=0, n=400, d=6):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(n, d)))  # histograms take no negative numbers
    return X, X[:, 0] + X[:, 1] * X[:, 2]


def outputs(model, X):
    Z = model.transform(X) if hasattr(model, "transform") else model.predict(X)
    return Z.toarray() if scipy.sparse.issparse(Z) else np.asarray(Z)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_many_threads_share_one_estimator(estimator):
    X, y = data()
    y = (y > np.median(y)).astype(int) if is_classifier(estimator) else y
    model = clone(estimator).fit(X, y)
    parts = [X[i : i + 50] for i in range(0, len(X), 50)]
    expected = [outputs(model, part) for part in parts]
    barrier = threading.Barrier(8)

    def work(part):
        barrier.wait()
        return outputs(model, part)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, parts))
    for ours, truth in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, truth)


def test_a_limit_of_threads_is_seen_by_one_thread_only():
    seen = []
    inside, done = threading.Event(), threading.Event()

    def limited():
        with limit_threads(1):
            inside.set()
            done.wait()

    before = n_threads()
    other = threading.Thread(target=limited)
    other.start()
    inside.wait()
    seen.append(n_threads())
    done.set()
    other.join()
    assert seen == [before]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("struck_here", [True, False], ids=["here", "elsewhere"])
def test_after_an_error_no_job_begins_and_none_is_left_running(struck_here, error):
    begun, ended, struck, all_busy = [], [], [], threading.Barrier(3)

    def job(i):
        begun.append(i)
        if i < 3:
            all_busy.wait()  # each of the three threads has one of the first three jobs
            if (threading.current_thread() is threading.main_thread()) is struck_here and not struck:
                struck.append(i)
                raise error
            time.sleep(0.05)
        ended.append(i)

    with pytest.raises(error):
        each(job, range(1000), 3)
    assert len(begun) == len(ended) + len(struck)
    assert len(begun) < 1000
    n = len(begun)
    time.sleep(0.05)
    assert len(begun) == n


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(random_state=0),
        KernelRidge(metric="full", random_state=0),
        TabularRegressor(kernel="rbf", scaling="standard", n_members=2, max_seconds=1e6, random_state=0),
    ],
    ids=["scales", "directions", "table"],
)
def test_what_is_learned_does_not_depend_on_the_number_of_threads(model):
    """Searches for metrics magnify every rounding error, most of all where targets are noisy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 4))
    y = X[:, 0] + 3.0 * rng.normal(size=2100)
    one, three = (clone(model).set_params(n_jobs=n).fit(X, y).predict(X) for n in (1, 3))
    np.testing.assert_allclose(three, one, rtol=0, atol=1e-8 * np.ptp(one))


def big_transform(seed=0):
    """Large enough that the native backend uses its pool."""
    X = np.random.default_rng(seed).normal(size=(2000, 64)).astype(np.float32)
    return FourierFeatures(RBF(8.0), 512, rows="structured", random_state=0, n_jobs=2).fit(X).transform(X)


def send_transform(pipe):
    pipe.send(big_transform())
    pipe.close()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
def test_a_child_computes_what_its_parent_does(method):
    expected = big_transform()  # the parent's pool is running when the child is made
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=send_transform, args=(theirs,))
    child.start()
    theirs.close()
    assert ours.poll(60), "the child hangs"
    found = ours.recv()
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(found, expected)


def test_jobs_share_the_cores():
    """Two jobs do not use twice the cores: joblib tells each how many threads are its own."""
    alone = n_threads()
    inside = Parallel(n_jobs=2, backend="loky")(delayed(n_threads)() for _ in range(4))
    assert max(inside) <= max(1, alone // 2 + alone % 2)


def test_a_grid_search_gives_the_same_with_one_job_and_two():
    X, y = data(n=150)
    grid = {"alpha": [0.01, 1.0]}
    one, two = (GridSearchCV(KernelRidge(RBF(2.0), 20, random_state=0), grid, cv=2, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
