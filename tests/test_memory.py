"""Memory of large results: used again, never by two arrays at once, and no more of it is kept than is said."""

import gc
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_all_start_methods, get_context

import numpy as np
import pytest
from sklearn.base import clone

from bochner import FourierFeatures
from bochner.backends import memory
from bochner.backends.memory import empty_columns, product
from bochner.estimators.transformers import FeatureTransformer
from laws import ESTIMATORS, points

pytestmark = pytest.mark.skipif(not hasattr(memory.mmap, "MADV_FREE"), reason="the system has no lazily freed memory")
ROWS, COLUMNS = 2048, 1024  # 8 MiB in float32
TRANSFORMERS = [e for e in ESTIMATORS if isinstance(e, FeatureTransformer)]


@pytest.fixture(autouse=True)
def nothing_kept():
    gc.collect()
    memory._kept.clear()
    yield
    memory._kept.clear()


def address(array):
    return array.__array_interface__["data"][0]


def owner(array):
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


def test_memory_is_used_again_and_by_one_array_at_a_time():
    first = empty_columns(ROWS, COLUMNS, np.float32)
    first[...] = 1.0
    place, view = address(first), first[5:7]
    del first
    other = empty_columns(ROWS, COLUMNS, np.float32)  # the view still needs the memory of the first
    assert address(other) != place
    other[...] = 2.0
    assert (view == 1.0).all()
    del view
    again = empty_columns(COLUMNS, ROWS, np.float32)
    assert address(again) == place
    again[...] = 3.0
    assert (other == 2.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_begins_at_a_huge_page_and_can_be_written_to_the_end(dtype):
    arrays = [empty_columns(ROWS + i, COLUMNS, dtype) for i in range(3)]
    for i, array in enumerate(arrays):
        assert array.shape == (ROWS + i, COLUMNS)
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert address(array) % memory._PAGE == 0
        array[...] = i
    assert [array.min() for array in arrays] == [array.max() for array in arrays] == [0, 1, 2]


def test_only_memory_of_about_the_size_is_taken():
    place = address(empty_columns(8 * ROWS, COLUMNS, np.float32))
    small = empty_columns(ROWS, COLUMNS, np.float32)  # would hold an eighth of it
    assert address(small) != place
    larger = empty_columns(16 * ROWS, COLUMNS, np.float32)
    larger[...] = 1.0
    half = empty_columns(5 * ROWS, COLUMNS, np.float32)
    assert address(half) == place


def test_no_more_is_kept_than_is_said(monkeypatch):
    size = ROWS * COLUMNS * 4
    monkeypatch.setattr(memory, "_MOST_KEPT", 3 * size + 3 * memory._PAGE)
    arrays = [empty_columns(ROWS, COLUMNS, np.float32) for _ in range(6)]
    last = [address(array) for array in arrays[-3:]]
    while arrays:
        del arrays[0]
    assert sum(map(len, memory._kept)) == memory._MOST_KEPT
    assert {address(a) for a in [empty_columns(ROWS, COLUMNS, np.float32) for _ in range(3)]} == set(last)
    memory._kept.clear()
    del arrays
    large = empty_columns(4 * ROWS, COLUMNS, np.float32)  # more than may be kept
    del large
    assert not memory._kept


def test_small_arrays_are_numpys():
    assert isinstance(owner(empty_columns(10, 10, np.float64)), np.ndarray)
    aligned = empty_columns(ROWS, 128, np.float64)
    assert address(aligned) % 64 == 0
    assert isinstance(owner(aligned), np.ndarray)


def test_products():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(3000, 40)), rng.normal(size=(40, 500))
    np.testing.assert_array_equal(product(A, B), A @ B)
    assert isinstance(owner(product(A, B)), memory._Loan)
    assert product(A.astype(np.float32), B).dtype == np.float64


def _n_kept():
    return len(memory._kept)


@pytest.mark.skipif("fork" not in get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_starts_with_nothing():
    empty_columns(ROWS, COLUMNS, np.float32)
    assert _n_kept() == 1
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(_n_kept) == 0


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=repr)
def test_every_transform_writes_to_such_memory(estimator, monkeypatch):
    """Results of every transformer are taken from there, but for sparse ones; and kept memory changes no result."""
    X = np.abs(points(40, 4))
    fitted = clone(estimator).fit(X, X[:, 0] > X[:, 0].mean())
    expected = fitted.transform(X)
    if not isinstance(expected, np.ndarray):
        return
    for name, value in (("_ALIGNED", 1), ("_LENT", 1), ("_PAGE", 64)):
        monkeypatch.setattr(memory, name, value)
    dirty = [empty_columns(*expected.shape, expected.dtype) for _ in range(4)]
    for array in dirty:
        array[...] = np.nan
    places = [address(array) for array in dirty]
    del array, dirty
    found = fitted.transform(X)
    assert isinstance(owner(found), memory._Loan)
    assert address(found) in places
    np.testing.assert_array_equal(found, expected)


def test_many_threads_transform_at_once():
    """The same features as alone, with memory that goes from one thread to the other."""
    X = points(4000, 5).astype(np.float32)
    features = FourierFeatures(n_components=512, random_state=0, n_jobs=1).fit(X)
    expected = features.transform(X)
    with ThreadPoolExecutor(4) as pool:
        same = pool.map(lambda _: np.array_equal(features.transform(X), expected), range(40))
        assert all(same)
