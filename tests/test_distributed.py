"""Dask data: the same bits on any workers, the in-memory fit to rounding, lazy predictions, faults, bad blocks."""

import functools
import logging
import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier

import bochner.estimators.classifier
from bochner import (
    RBF,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    MaclaurinFeatures,
    NystromFeatures,
    RandomProjection,
    load,
    save,
)
from bochner.data.checkpoints import read_arrays
from bochner.data.execution import Execution
from bochner.data.sources import ArraySource, Block
from bochner.data.workers import run_job
from bochner.draws.keys import Key
from laws import ESTIMATORS, TABLES, rounding_squares
from strikes import changes, nudged, struck_after

dask = pytest.importorskip("dask", reason="dask is not installed (extra 'dask')")
pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

import pandas  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from bochner.data import distributed  # noqa: E402


@contextmanager
def local_cluster(n_workers, **options):
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    made = LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, **quiet, **options)
    try:
        yield made
    finally:
        with suppress(TimeoutError):  # on a busy machine processes end later than Dask waits
            made.close()


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as made:
        yield made


@pytest.fixture
def client(cluster):
    with Client(cluster) as made:
        yield made


@pytest.fixture
def small_trees(monkeypatch):
    """Trees with leaves, branches and rounds although the data are few."""
    monkeypatch.setattr(distributed, "_LEAF_ROWS", 60)
    monkeypatch.setattr(distributed, "_LEAF_ROWS_A_COMPONENT", 0)
    monkeypatch.setattr(distributed, "_BRANCHES", 2)
    monkeypatch.setattr(distributed, "_ROUND", 4)


def table(n=700, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)
    return X, y, rng.uniform(0.1, 2.0, n)


def ridge(**parameters):
    return KernelRidge(RBF(0.5), **({"n_components": 40, "alpha": 0.1, "random_state": 0} | parameters))


def dense(A):
    return A.toarray() if scipy.sparse.issparse(A) else np.asarray(A)


def order_noise(model):
    """How far predictions may differ, as a share of their size, if the sums G are added up in another order.

    Sums differ by eps trace(G), and coefficients (G + alpha)⁻¹ Zᵀy by as much over alpha.
    """
    if not (hasattr(model, "statistics_") and hasattr(model, "alpha_")):
        return 0.0
    return float(np.finfo(float).eps * np.trace(model.statistics_.gram) / model.alpha_)


def learned(model, X):
    """Predictions or features, which everything that was learned goes into."""
    return dense(model.transform(X) if hasattr(model, "transform") else model.predict(X))


# -- every estimator -------------------------------------------------------------------------------------------------


def name_of(estimator):
    return repr(estimator).split("random_state")[0].replace("\n", " ")[:60]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_every_estimator_takes_dask_arrays_on_workers(estimator, client, small_trees):
    X, y, _ = table()
    y = np.where(y > np.median(y), "high", "low") if is_classifier(estimator) else y
    blocks = da.from_array(X, chunks=(150, 2)), da.from_array(y, chunks=130)
    truth = clone(estimator).fit(X, y)
    on_workers = clone(estimator).fit(*blocks)
    assert on_workers.n_features_in_ == 3
    method = "transform" if hasattr(truth, "transform") else "predict"
    lazy, expected = getattr(on_workers, method)(blocks[0]), getattr(truth, method)(X)
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    found = dense(lazy.compute())
    if method == "predict" and is_classifier(estimator):
        np.testing.assert_array_equal(found, expected)
        scores = truth.decision_function(X)
        np.testing.assert_allclose(on_workers.decision_function(X), scores, rtol=0, atol=1e-7 * abs(scores).max())
    else:
        atol = max(1e-9, order_noise(truth)) * max(1.0, abs(dense(expected)).max())
        np.testing.assert_allclose(found, dense(expected), rtol=0, atol=atol)
    if hasattr(truth, "score"):
        assert on_workers.score(*blocks) == pytest.approx(truth.score(X, y), abs=max(1e-10, order_noise(truth)))
    with dask.config.set(scheduler="threads"):  # and in other blocks
        again = clone(estimator).fit(da.from_array(X, chunks=((95, 0, 401, 204), 3)), da.from_array(y, chunks=700))
    np.testing.assert_array_equal(learned(again, X), learned(on_workers, X))


@pytest.mark.parametrize("dtype", [">f4", ">f8", "i2"])
def test_types_and_byte_order_are_made_native_on_the_workers(dtype):
    X, y, weight = table()
    X = np.round(100 * X).astype(dtype)
    native = X.astype(np.float32 if dtype == ">f4" else np.float64)
    model = KernelRidge(RBF(50.0), 40, alpha=0.1, random_state=0)
    with dask.config.set(scheduler="synchronous"):
        blocks = da.from_array(X, chunks=(150, 2)), da.from_array(y.astype(">f8"), chunks=130)
        plain = da.from_array(native, chunks=(150, 2))
        expected = clone(model).fit(plain, y, weight).predict(plain).compute()
        found = clone(model).fit(*blocks, weight.astype(">f8"))
        lazy = found.predict(blocks[0])
        assert lazy.dtype == native.dtype
        computed = lazy.compute()
    assert computed.dtype == native.dtype
    np.testing.assert_array_equal(computed, expected)


MODELS = [
    ridge(),
    ridge(alpha="loo", features="nystrom"),
    ridge(solver="cg"),
    KernelRidge(n_components=30, random_state=0),
    GaussianProcessRegressor(RBF(0.5), 30, random_state=0),
    GaussianProcessRegressor(n_components=30, features="fourier", n_restarts=0, random_state=0),
    KernelPCA(2, kernel=RBF(0.5), n_feature_components=20, random_state=0),
    KernelKMeans(3, n_components=20, random_state=0),
    KernelClassifier(RBF(0.5), 30, alpha=0.1, solver_tol=1e-10, random_state=0),
    KernelClassifier(
        RBF(0.5), 30, alpha=0.1, loss="squared_hinge", class_weight="balanced", solver_tol=1e-10, random_state=0
    ),
    KernelClassifier(RBF(0.5), 30, loss="squared", alpha=0.1, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=name_of)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_tree_gives_the_in_memory_fit(model, weighted, small_trees, monkeypatch):
    monkeypatch.setattr(bochner.estimators.classifier, "KEPT_BYTES", 0)  # Newton's passes too
    X, y, weight = table(600)
    y = (y > np.median(y)).astype(int) if is_classifier(model) else y
    weights = {"sample_weight": weight} if weighted else {}
    truth = clone(model).fit(X, y, **weights)
    dX, dy = da.from_array(X, chunks=(110, 3)), da.from_array(y, chunks=200)
    weights = {"sample_weight": da.from_array(weight, chunks=77)} if weighted else {}
    with dask.config.set(scheduler="threads", num_workers=2):
        found = clone(model).fit(dX, dy, **weights)
    if is_classifier(model):
        np.testing.assert_allclose(found.decision_function(X), truth.decision_function(X), rtol=1e-9, atol=1e-10)
    else:
        np.testing.assert_allclose(learned(found, X), learned(truth, X), rtol=1e-9, atol=1e-10)
    with dask.config.set(scheduler="synchronous"):
        again = clone(model).fit(dX, dy, **weights)
    np.testing.assert_array_equal(learned(again, X), learned(found, X))


def test_newtons_steps_are_those_of_the_fit_in_memory():
    X, y, _ = table(2000)
    labels = np.digitize(y, [0.5, 1.0])
    model = KernelClassifier(RBF(0.5), 64, alpha=0.1, random_state=0)  # stops far above rounding
    truth = clone(model).fit(X, labels).decision_function(X)
    with dask.config.set(scheduler="synchronous"):
        found = clone(model).fit(da.from_array(X, chunks=(300, 3)), da.from_array(labels, chunks=300))
    np.testing.assert_allclose(found.decision_function(X), truth, rtol=0, atol=1e-9 * abs(truth).max())


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_bits_do_not_depend_on_the_blocks(model, small_trees):
    X, y, weight = table(600)
    X, y = X.astype(np.float32), (y > np.median(y)).astype(int) if is_classifier(model) else y
    if hasattr(model, "solver_tol"):
        model = clone(model).set_params(solver_tol=1e-3)  # sums of all kinds, in few steps
    found = []
    with dask.config.set(scheduler="synchronous"):
        for chunks in (110, (1, 0, 598, 1), (59, 61, 60, 420)):
            blocks = [da.from_array(a, chunks=(chunks, *a.shape[1:])) for a in (X, y, weight)]
            found.append(learned(clone(model).fit(blocks[0], blocks[1], sample_weight=blocks[2]), X))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_leaves_follow_from_the_numbers_of_rows_and_components():
    def sizes(n, m, chunks, with_gram=True, d=2):
        source = distributed.dask_source(Execution(), da.zeros((n, d), chunks=(chunks, d), dtype=np.float32))
        leaves = source._leaves(m, with_gram)
        assert [leaf.start for leaf in leaves[1:]] == [leaf.stop for leaf in leaves[:-1]]
        for leaf in leaves[:3] + leaves[-3:]:  # every row is in one piece
            pieces = source._pieces(leaf)
            rows = [np.arange(source.offsets[i] + start, source.offsets[i] + stop) for i, start, stop in pieces]
            np.testing.assert_array_equal(np.concatenate(rows), np.arange(leaf.start, leaf.stop))
        return [len(leaf) for leaf in leaves]

    for n, m, size in [
        (5_000, 64, 5_000),
        (10**6, 1024, 8192),
        (2 * 10**7, 1024, 32_768),
        (10**9, 512, 262_144),
        (10**9, 1024, 65_536),
        (10**9, 4096, 262_144),
    ]:
        found = sizes(n, m, n // 7)
        assert found == sizes(n, m, n // 50)
        assert found[:-1] == [size] * (len(found) - 1)
        assert sum(found) == n
    assert sizes(10**9, 1024, 10**7, with_gram=False)[0] == 262_144  # they send little
    wide = sizes(10**8, 512, 10**6, d=1000)[0]
    assert 4000 * wide <= 1 << 27  # all rows of a leaf are in memory at once


def test_partial_fit_adds_blocks(small_trees):
    X, y, _ = table(800)
    parts = [
        (da.from_array(X[rows], chunks=(90, 3)), da.from_array(y[rows], chunks=90))
        for rows in (slice(0, 300), slice(300, 800))
    ]
    for model in (
        ridge(),
        GaussianProcessRegressor(RBF(0.5), 30, features="fourier", random_state=0),
        KernelPCA(2, kernel=RBF(0.5), features="fourier", n_feature_components=20, random_state=0),
    ):
        streamed, truth = clone(model), clone(model)
        for part in parts:
            streamed.partial_fit(*part)
        truth.partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
        np.testing.assert_allclose(learned(streamed, X), learned(truth, X), rtol=1e-9, atol=1e-11)
    labels = y > np.median(y)
    model = KernelClassifier(RBF(0.5), 20, loss="squared", alpha=0.1, random_state=0)
    streamed = clone(model).partial_fit(parts[0][0], da.from_array(labels[:300], chunks=90), classes=[False, True])
    np.testing.assert_allclose(
        streamed.decision_function(X), clone(model).fit(X[:300], labels[:300]).decision_function(X), rtol=1e-9
    )


def test_float32_stays_float32_and_differs_by_rounding(small_trees):
    X, y, _ = table(900)
    X = X.astype(np.float32)
    truth = ridge().fit(X, y)
    found = ridge().fit(da.from_array(X, chunks=(110, 3)), da.from_array(y, chunks=110))
    lazy = found.predict(da.from_array(X, chunks=(110, 3)))
    assert lazy.dtype == np.float32 == lazy.compute().dtype
    # blocks of other sizes are multiplied in float32: its rounding times the condition number, not the tree's; and
    # those in memory may be rounded to few bits
    atol = np.finfo(np.float32).eps * len(X) / 0.1
    moved = np.linalg.norm(found.predict(X) - truth.predict(X))
    assert moved <= atol * np.sqrt(len(X)) + np.sqrt(rounding_squares(truth.statistics_, truth.alpha_).sum())


def test_samples_are_the_rows_of_the_in_memory_sample():
    X, y, weight = table(500)
    chunked = [da.from_array(a, chunks=((70, 0, 330, 100), *a.shape[1:])) for a in (X, y, weight)]
    source = distributed.dask_source(Execution(), *chunked)
    for n in (1, 30, 499, 500, 1000):
        found, truth = source.sample(n, Key(3)), ArraySource(X, y, weight).sample(n, Key(3))
        np.testing.assert_array_equal(found.X, truth.X)
        np.testing.assert_array_equal(found.y, truth.y)
        np.testing.assert_array_equal(found.weight, truth.weight)
    for rows, start in ((64, 0), (200, 400), (7, 499), (1000, 70)):
        np.testing.assert_array_equal(np.concatenate([b.X for b in source.blocks(rows, start)]), X[start:])


def test_transformers_are_fitted_on_a_sample_with_the_longest_row(monkeypatch):
    monkeypatch.setattr(distributed, "_FIT_ROWS", 50)
    X, _, _ = table(1000)
    X[777] *= 30.0
    blocks = da.from_array(X, chunks=(150, 3))
    from bochner import ExponentialDot

    found, truth = (MaclaurinFeatures(ExponentialDot(0.01), random_state=0).fit(data) for data in (blocks, X))
    np.testing.assert_array_equal(found.coefficients_, truth.coefficients_)
    rows = NystromFeatures(RBF(0.5), 10, landmarks="uniform", random_state=0).fit(blocks).landmarks_
    assert all((row == X).all(axis=1).any() for row in rows)
    wide = np.random.default_rng(0).normal(size=(1000, 900))
    projection = RandomProjection(eps=0.5, random_state=0).fit(da.from_array(wide, chunks=(100, 900)))
    assert projection.n_components_ == RandomProjection(eps=0.5, random_state=0).fit(wide).n_components_


# -- every kind of data ----------------------------------------------------------------------------------------------


def unknown(array):
    """The same blocks, of unknown sizes."""
    return da.concatenate(
        [da.from_delayed(b, (np.nan, *array.shape[1:]), array.dtype) for b in array.to_delayed().ravel()],
        allow_unknown_chunksizes=True,
    )


def kinds(X, y, weight):
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    whole = dd.from_pandas(frame.assign(y=y, w=weight), npartitions=5)
    dX, dy, dw = (da.from_array(a, chunks=(100, *a.shape[1:])) for a in (X, y, weight))
    cut = [slice(i, i + 130) for i in range(0, len(X), 130)]
    yield "arrays", (dX, dy, dw)
    yield "other chunks", (dX.rechunk((333, 1)), dy, dw.rechunk(50))
    yield "targets in memory", (dX, y, weight)
    yield "one weight", (dX, dy, 1.0)
    yield "unknown sizes", (unknown(dX), unknown(dy), unknown(dw))
    yield "unknown sizes, targets in memory", (unknown(dX), y, weight)
    yield "frame and names", (whole, "y", "w")
    yield "frame and series", (whole[["a", "b", "c"]], whole["y"], whole["w"])
    yield "frame and arrays in memory", (whole[["a", "b", "c"]], y, weight)
    yield "frame of arrays", (dX.to_dask_dataframe(columns=["a", "b", "c"]), dy.to_dask_dataframe(), None)
    yield "sparse blocks", (dX.map_blocks(scipy.sparse.csr_matrix), dy, dw)
    for kind in (scipy.sparse.coo_matrix, scipy.sparse.bsr_array):
        yield f"{kind.__name__} blocks", ([dask.delayed(kind(X[r])) for r in cut], y, weight)
    yield "delayed blocks", ([dask.delayed((X[r], y[r], weight[r])) for r in cut], None, None)
    parts = [[dask.delayed(a[r]) for r in cut] for a in (X, y, weight)]
    yield "delayed parts", tuple(parts)
    yield "delayed frames", ([dask.delayed(frame[r]) for r in cut], parts[1], parts[2])
    yield "columns of targets", (dX, da.stack([dy, dy], axis=1), dw)
    yield "empty blocks", (dX.rechunk(((300, 0, 400, 0), 3)), dy, dw)
    yield "persisted", (dX.persist(), dy.persist(), dw.persist())
    yield "X in memory", (X, dy, None)


def test_every_kind_of_dask_data_gives_the_same_model(small_trees):
    X, y, weight = table()
    truths = [ridge().fit(X, y, w) for w in (None, weight)]
    for name, (data, targets, weights) in kinds(X, y, weight):
        weighted = name == "delayed blocks" or not (weights is None or name == "one weight")
        truth = truths[weighted]
        model = ridge().fit(data, targets, weights)
        prediction = (
            model.predict(X) if "frame" not in name else model.predict(pandas.DataFrame(X, columns=["a", "b", "c"]))
        )
        expected = truth.predict(X) if prediction.ndim == 1 else np.column_stack([truth.predict(X)] * 2)
        np.testing.assert_allclose(prediction, expected, rtol=1e-9, atol=1e-11, err_msg=name)
        data = data.drop(columns=["y", "w"]) if name == "frame and names" else data
        if name == "X in memory":
            continue
        lazy = model.predict(data)
        if isinstance(lazy, list):
            lazy = np.concatenate(dask.compute(*lazy))
        np.testing.assert_allclose(lazy, expected, rtol=1e-9, atol=1e-11, err_msg=name)


def test_frames_keep_the_names_of_their_columns():
    X, y, _ = table(300)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    blocks = dd.from_pandas(frame.assign(y=y), npartitions=3)
    model = ridge().fit(blocks, "y")
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.score(blocks, "y") == pytest.approx(model.score(frame, y), abs=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(blocks[["c", "b", "a"]])
    with pytest.raises(ValueError, match="no column 'z'"):
        ridge().fit(blocks, "z")
    features = FourierFeatures(RBF(0.5), 10, random_state=0).set_output(transform="pandas")
    lazy = features.fit_transform(blocks.drop(columns="y"))
    assert isinstance(lazy, dd.DataFrame)
    pandas.testing.assert_frame_equal(lazy.compute(), features.fit_transform(frame))
    assert list(lazy.columns) == list(features.get_feature_names_out())


def test_blocks_that_workers_hold_are_read_there(client, small_trees):
    X, y, _ = table()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    truth = ridge().fit(X, y).predict(X)
    dX, dy = (da.from_array(a, chunks=(100, *a.shape[1:])).map_blocks(np.copy).persist() for a in (X, y))
    held = dd.from_pandas(frame.assign(y=y), npartitions=5).persist()
    block = dask.delayed((X, y)).persist()
    for data, targets in ((dX, dy), (dX + 0.0, dy + 0.0), (held, "y"), (held[["a", "b", "c"]], held["y"] * 1.0)):
        model = ridge().fit(data, targets)
        again = model.predict(frame if hasattr(data, "columns") else X)
        np.testing.assert_allclose(again, truth, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ridge().fit([block]).predict(X), truth, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(model.predict(held[["a", "b", "c"]]).compute(), truth, rtol=1e-9, atol=1e-11)


# -- lazy results ----------------------------------------------------------------------------------------------------


def refuse(block):
    raise AssertionError("computed")


def test_predictions_are_lazy_and_say_what_they_will_be():
    X, y, _ = table()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))]
    blocks = da.from_array(X, chunks=(300, 3))
    never = blocks.map_blocks(refuse, dtype=float, meta=np.empty((0, 3)))
    models = [
        (ridge().fit(X, y), ["predict"]),
        (ridge().fit(X, np.column_stack([y, y])), ["predict"]),
        (
            KernelClassifier(RBF(0.5), 20, alpha=0.1, random_state=0).fit(X, labels),
            ["predict", "predict_proba", "predict_log_proba", "decision_function"],
        ),
        (GaussianProcessRegressor(RBF(0.5), 20, random_state=0).fit(X, y), ["predict", "sample_y"]),
        (KernelKMeans(3, n_components=20, random_state=0).fit(X), ["predict", "transform"]),
        (KernelPCA(2, n_feature_components=20, random_state=0).fit(X), ["transform"]),
        (FourierFeatures(form="complex", n_components=8, random_state=0).fit(X), ["transform"]),
    ]
    for model, methods in models:
        for method in methods:
            lazy, expected = getattr(model, method)(never), getattr(model, method)(X)
            assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype), method
            assert lazy.chunks[0] == (300, 300, 100)
            with pytest.raises(AssertionError, match="computed"):
                lazy.compute()
            found = getattr(model, method)(blocks).compute()
            if method == "sample_y":  # blocks of the same functions
                expected = model.sample_functions(1, 0)(X)
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
    process = models[3][0]
    functions = process.sample_functions(2, 7)
    np.testing.assert_allclose(process.sample_y(blocks, 2, 7).compute(), functions(X), rtol=1e-7, atol=1e-8)
    mean, std = process.predict(blocks, return_std=True)
    np.testing.assert_allclose(np.stack(dask.compute(mean, std)), np.stack(process.predict(X, return_std=True)))
    with pytest.raises(ValueError, match="return_cov"):
        process.predict(blocks, return_cov=True)
    back = KernelPCA(2, n_feature_components=20, fit_inverse_transform=True, alpha=0.1, random_state=0).fit(blocks)
    assert back.inverse_transform(back.transform(blocks)).shape == (700, 3)
    labels = KernelKMeans(3, n_components=20, random_state=0).fit_predict(blocks)
    np.testing.assert_array_equal(labels.compute(), models[4][0].labels_)


def test_models_of_dask_data_are_saved(tmp_path):
    X, y, _ = table(300)
    dX, dy = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    for model in (ridge().fit(dX, dy), KernelKMeans(3, n_components=10, random_state=0).fit(dX)):
        save(model, tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_names_on_the_dashboard_mean_something(small_trees):
    from dask.utils import key_split

    X, y, _ = table()
    blocks = da.from_array(X, chunks=(100, 3))
    seen = set()
    with dask.callbacks.Callback(pretask=lambda key, *_: seen.add(key_split(key))):
        model = ridge(features="nystrom").fit(blocks, da.from_array(y, chunks=100))
        model.predict(blocks).compute(optimize_graph=False)
    assert {"bochner-fold", "bochner-merge", "bochner-sample", "bochner-predict"} <= seen


def test_a_map_travels_once_to_each_worker(client, small_trees):
    X, y, _ = table()
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100kB"}):
        # a map of more than the threshold, used by every leaf of every pass
        ridge(n_components=400, features="nystrom", solver="cg").fit(
            da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
        )


def tripled(block):
    return Block(3.0 * block.X - 1.0, 2.0 * block.y, 0.5 * block.weight)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_a_mapped_source_is_mapped_on_the_workers(client, small_trees, solver):
    X, y, weight = table()
    blocks = [da.from_array(a, chunks=(100, 3)[: a.ndim]) for a in (X, y, weight)]
    source = distributed.dask_source(Execution(), *blocks).mapped(tripled)
    assert source.remote
    truth = ridge(solver=solver).fit(3.0 * X - 1.0, 2.0 * y, 0.5 * weight)
    np.testing.assert_allclose(
        ridge(solver=solver).fit(source).component_weights_, truth.component_weights_, rtol=1e-6, atol=1e-8
    )


ON_DEVICES = [model for model in MODELS if "device" in model.get_params()]


@pytest.mark.parametrize("model", ON_DEVICES, ids=name_of)
def test_the_client_needs_no_device(model, monkeypatch, small_trees):
    """A device that only workers have: features are chosen here without it, every sum is made there."""
    from bochner.backends import NoDeviceError, is_tensor
    from bochner.data import devices, folds, workers
    from bochner.estimators import nystrom

    made, on_worker = set(), threading.local()
    opened = devices.open_device

    def open_device(device):
        if not getattr(on_worker, "is_one", False):
            raise NoDeviceError(f"device={device!r} is not on this machine.")
        return opened(device)

    def fold_leaf(*arguments):
        on_worker.is_one = True
        try:
            return workers.fold_leaf(*arguments)
        finally:
            on_worker.is_one = False

    def tensors(Z):
        assert is_tensor(Z)
        return Z

    def recorded(cls):
        inner = cls.__init__
        monkeypatch.setattr(cls, "__init__", lambda self, *args: (made.add(cls.__name__), inner(self, *args))[1])

    pytest.importorskip("torch", reason="torch is not installed")
    for module in (devices, nystrom):  # a device is looked for in these
        monkeypatch.setattr(module, "open_device", open_device)
    monkeypatch.setattr(nystrom, "_DEVICE_ENTRIES", 0)
    monkeypatch.setattr(distributed, "fold_leaf", fold_leaf)
    for fold in (folds.StatisticsFold, folds.ProductFold):  # nothing may be added up on the host
        add = fold.add
        monkeypatch.setattr(fold, "add", lambda self, total, Z, *rest, add=add: add(self, total, tensors(Z), *rest))
    recorded(devices.DeviceSource)
    X, y, weight = table()
    y = np.where(y > np.median(y), "high", "low") if is_classifier(model) else y
    data = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100), da.from_array(weight, chunks=100)
    with dask.config.set(scheduler="threads"):
        there = clone(model).set_params(device="cpu").fit(*data)
        assert made == {"DeviceSource"}
        monkeypatch.undo()
        host = clone(model).fit(*data)
    found, expected = (m.decision_function(X) if is_classifier(m) else learned(m, X) for m in (there, host))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_workers_use_the_device_that_was_asked_for(monkeypatch, solver):
    """Torch on the host stands for a GPU; a device that a worker does not have is not missed."""
    pytest.importorskip("torch", reason="torch is not installed")
    from bochner.data import devices

    opened = []

    class Recorded(devices.DeviceSource):
        def __init__(self, leaf, device):
            opened.append(device)
            super().__init__(leaf, device)

    monkeypatch.setattr(devices, "DeviceSource", Recorded)
    X, y, _ = table()
    data = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    with dask.config.set(scheduler="threads"):
        host = ridge(n_components=30, alpha=0.1, solver=solver).fit(*data)
        assert not opened
        there = ridge(n_components=30, alpha=0.1, solver=solver, device="cpu").fit(*data)
        assert set(opened) == {"cpu"}
        with pytest.raises(ValueError, match="device must be None"):
            ridge(n_components=30, alpha=0.1, solver=solver, device="gpu7").fit(*data)
    np.testing.assert_allclose(there.predict(X), host.predict(X), rtol=1e-6, atol=1e-6)


# -- bad data --------------------------------------------------------------------------------------------------------


def fail(block, block_id=None):
    if block_id[0] == 2:
        raise OSError("the disk is on fire")
    return block


def blocks_of(*arrays):
    return da.concatenate([da.from_array(a, chunks=(len(a), -1)) for a in arrays])


def lying(array):
    """Blocks that are not what they promise."""
    return da.from_delayed(dask.delayed(array), (10, 3), float)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (blocks_of(np.ones((10, 3)), np.full((10, 3), np.nan)), ValueError, "block 1 of the dask data.*NaN"),
        (da.concatenate([lying(np.ones((10, 3))), lying(np.ones((10, 4)))]), ValueError, "block 1.*3 columns"),
        (da.concatenate([lying(np.ones((10, 3))), lying(np.ones((9, 3)))]), ValueError, "block 1.*9 rows.*say 10"),
        (da.ones((0, 3)), ValueError, "no rows"),
        (da.ones(20), ValueError, "Expected 2D"),
        (da.from_array(np.full((20, 3), "a", dtype=object), chunks=-1), ValueError, "block 0.*must hold numbers"),
        (da.ones((20, 3), chunks=(5, 3)).map_blocks(fail, dtype=float, meta=np.empty((0, 3))), OSError, "on fire"),
        (da.ones((20, 3), dtype=complex), ValueError, "Complex"),
    ],
)
def test_bad_blocks_are_named(X, error, message, client):
    y = da.arange(X.shape[0], chunks=X.chunks[0])
    for scheduler in ("synchronous", client):
        with dask.config.set(scheduler=scheduler):
            with pytest.raises(error, match=message):
                ridge().fit(X, y)
            with pytest.raises(error, match=message):
                KernelPCA(2, n_feature_components=5).fit(X)
    if X.ndim == 2 and X.shape[0] and "columns" not in message and "say 10" not in message:
        fitted = ridge().fit(*table()[:2])
        with pytest.raises(error, match=message.split(".*")[-1]):
            fitted.predict(X).compute()


def test_other_bad_data():
    X, y, _ = table(40)
    dX, dy = da.from_array(X, chunks=(10, 3)), da.from_array(y, chunks=10)
    for data, targets, message in [
        (dX, dy[:30], "40 rows and y has 30"),
        (dX, y[:30], "40 rows and y has 30"),
        (unknown(dX), unknown(dy[:30]), "4 blocks and y has 3"),
        (unknown(dX), unknown(dy.rechunk(((20, 5, 5, 10),))), "X has 10 rows and y has 20"),
        (dX, da.where(dy > 1, np.nan, dy), "NaN"),
        ([dask.delayed(X), "X"], [dask.delayed(y)] * 2, "holds a str"),
        ([dask.delayed(X)] * 2, [dask.delayed(y)], "2 blocks and y has 1"),
        (dX, [], "y"),
        (dX, None, "y"),
        (dd.from_pandas(pandas.DataFrame({"a": list("xyz"), "b": [1, 2, 3]}), npartitions=2), [1, 2, 3], "'a'.*type"),
    ]:
        with pytest.raises(ValueError, match=message):
            ridge().fit(data, targets)
    with pytest.raises(ValueError, match="weight"):
        ridge().fit(dX, dy, da.zeros(40, chunks=10))
    with pytest.raises(ValueError, match="not negative"):
        ridge().fit(dX, dy, -da.ones(40, chunks=10))
    for model in (KernelPCA(2, n_feature_components=5), KernelKMeans(2, n_components=5)):
        with pytest.raises(ValueError, match="weight"):
            model.fit(dX, sample_weight=da.zeros(40, chunks=10))
    model = ridge().fit(dX, dy)
    with pytest.raises(ValueError, match="4 features"):
        model.predict(da.ones((10, 4)))
    with pytest.raises(ValueError, match="4 features"):
        model.partial_fit(da.ones((10, 4)), da.ones(10))
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        ridge().predict(dX)
    with pytest.raises(NotFittedError):
        FourierFeatures().transform([dask.delayed(X)])


# -- faults ----------------------------------------------------------------------------------------------------------


def slow_rows(start, n, pause):
    time.sleep(pause)
    rng = np.random.default_rng(start)
    X = rng.uniform(size=(n, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1]


def slow_blocks(n_blocks=24, n=100, pause=0.05):
    return [dask.delayed(slow_rows)(i, n, pause) for i in range(n_blocks)]


def struck(fit, strike, when):
    """Run a fit, and strike as soon as `when` says so."""

    def watch():
        while not when() and not done.is_set():
            time.sleep(0.01)
        if not done.is_set():
            strike()
            hits.append(time.monotonic())

    done, hits = threading.Event(), []
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        fit()
    finally:
        done.set()
        thread.join()
    assert hits, "the fit was over before the fault"


def counted(monkeypatch, owner, method):
    """How often a method was called, as a function."""
    original, calls = getattr(owner, method), []
    monkeypatch.setattr(owner, method, lambda *a, **k: (calls.append(1), original(*a, **k))[1])
    return lambda: len(calls)


def test_a_killed_worker_changes_nothing(client, small_trees, monkeypatch):
    truth = ridge().fit(slow_blocks(pause=0.0))
    folds = counted(monkeypatch, distributed.DaskSource, "fold")
    pids = client.run(os.getpid)
    model = ridge()
    struck(lambda: model.fit(slow_blocks()), lambda: os.kill(next(iter(pids.values())), signal.SIGKILL), folds)
    np.testing.assert_array_equal(model.component_weights_, truth.component_weights_)


def fall(flag):
    """Kill this worker, once."""
    if Path(flag).exists():
        Path(flag).unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def fragile_rows(rows, flag):
    fall(flag)
    return rows


def fragile_job(flag, *arguments):
    fall(flag)
    return run_job(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_a_worker_killed_in_a_pass_changes_no_model(model, client, small_trees, monkeypatch, tmp_path):
    X, y, weight = table(600)
    y = (y > np.median(y)).astype(int) if is_classifier(model) else y
    flag, folds, fold = tmp_path / "flag", [], distributed.DaskSource.fold
    rows = da.from_array(X, chunks=(110, 3)).map_blocks(fragile_rows, str(flag), dtype=float, meta=np.empty((0, 3)))
    data = rows, da.from_array(y, chunks=110)
    weights = {"sample_weight": da.from_array(weight, chunks=110)}
    client.wait_for_workers(2)
    truth = learned(clone(model).fit(*data, **weights), X)

    def struck_fold(*arguments, **options):
        folds.append(1)
        if len(folds) == 1:
            flag.touch()
        return fold(*arguments, **options)

    monkeypatch.setattr(distributed.DaskSource, "fold", struck_fold)
    found = learned(clone(model).fit(*data, **weights), X)
    assert folds
    assert not flag.exists()
    np.testing.assert_array_equal(found, truth)


@pytest.mark.slow
@pytest.mark.parametrize("model", TABLES, ids=lambda m: type(m).__name__)
def test_a_worker_killed_with_a_leaf_changes_no_model_of_tables(model, client, monkeypatch, tmp_path):
    frame, flag = table_frame(), tmp_path / "flag"
    frame["y"] = frame["y"] > 0.5 if is_classifier(model) else frame["y"]
    lazy, model = dd.from_pandas(frame, npartitions=3), clone(model).set_params(leaf_size=60)
    client.wait_for_workers(2)
    truth = clone(model).fit(frame, "y").predict(frame.drop(columns="y"))
    flag.touch()
    monkeypatch.setattr(distributed, "run_job", functools.partial(fragile_job, str(flag)))
    found = clone(model).fit(lazy, "y").predict(frame.drop(columns="y"))
    assert not flag.exists()
    np.testing.assert_array_equal(found, truth)


def test_a_worker_restarted_during_iterations_changes_nothing(client, small_trees, monkeypatch):
    client.wait_for_workers(2)
    blocks = slow_blocks(n_blocks=6, pause=0.01)
    truth = ridge(solver="cg", alpha=3.0).fit(blocks)
    products = counted(monkeypatch, distributed.DaskSource, "fold")
    worker = next(iter(client.nthreads()))  # asked now: the one killed before may still be remembered
    model = ridge(solver="cg", alpha=3.0)
    struck(lambda: model.fit(blocks), lambda: client.restart_workers([worker]), lambda: products() > 3)
    np.testing.assert_array_equal(model.component_weights_, truth.component_weights_)


def dask_kinds(X, y, weight):
    """The same rows in every way that dask has for them."""
    frame = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=weight)
    parts = [slice(i, i + 70) for i in range(0, len(X), 70)]
    yield "array", [da.from_array(a, chunks=(70, *a.shape[1:])) for a in (X, y, weight)]
    yield "frame", (dd.from_pandas(frame, npartitions=10, sort=False), "y", "w")
    yield "delayed", ([dask.delayed((X[rows], y[rows], weight[rows])) for rows in parts],)
    yield "sparse", ([dask.delayed((scipy.sparse.csr_matrix(X[rows]), y[rows], weight[rows])) for rows in parts],)


def test_a_checkpoint_proves_its_rows_on_workers(small_trees, tmp_path):
    data = table()
    paths = {}
    for name, arguments in dask_kinds(*data):
        paths[name] = tmp_path / name
        truth = ridge().fit(*arguments)
        for _ in range(2):
            with struck_after(2):
                ridge(checkpoint=paths[name]).fit(*arguments)
            before = paths[name].read_bytes()
            again = ridge(checkpoint=paths[name]).fit(*arguments)
            np.testing.assert_array_equal(again.component_weights_, truth.component_weights_, err_msg=name)
        paths[name].write_bytes(before)
    last = read_arrays(paths["array"])[1]["rows"] - 1
    assert 300 < last < 690
    for kind, functions in changes(last).items():
        for change in functions:
            for name, arguments in dask_kinds(*change(*data)):
                with pytest.raises(ValueError, match=rf"other data: the {kind} of rows \d+ to \d+ differ"):
                    ridge(checkpoint=paths[name]).fit(*arguments)
    for name, arguments in dask_kinds(*(nudged(a, 699) for a in data)):
        again = ridge(checkpoint=paths[name]).fit(*arguments)  # rows that were not seen may be others
        np.testing.assert_array_equal(
            again.component_weights_, ridge().fit(*arguments).component_weights_, err_msg=name
        )


def test_a_checkpoint_of_sums_on_workers_devices_proves_its_rows(small_trees, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed (extra 'torch')")
    X, y, _ = table()
    data = [da.from_array(a, chunks=(70, *a.shape[1:])) for a in (X, y)]
    model, truth = ridge(device="cpu", checkpoint=tmp_path / "c"), ridge(device="cpu").fit(*data)
    with struck_after(2):
        model.fit(*data)
    with pytest.raises(ValueError, match="the targets of rows 60 to 119 differ"):
        model.fit(data[0], da.from_array(nudged(y, 100), chunks=70))
    np.testing.assert_array_equal(model.fit(*data).component_weights_, truth.component_weights_)


def test_a_checkpoint_continues_with_other_blocks(small_trees, tmp_path):
    X, y, _ = table()
    model, truth = ridge(checkpoint=tmp_path / "c"), ridge().fit(da.from_array(X, chunks=(70, 3)), y)
    with struck_after(2):
        model.fit(da.from_array(X, chunks=(70, 3)), da.from_array(y, chunks=70))
    with pytest.raises(ValueError, match="tree of sums over dask data, by its digest, was"):
        model.fit(X, y)
    model.fit(da.from_array(X, chunks=(71, 3)), da.from_array(y, chunks=71))
    np.testing.assert_array_equal(model.component_weights_, truth.component_weights_)


def test_checkpoints_of_classifiers_prove_their_rows_on_workers(small_trees, tmp_path, client):
    X, y, _ = table()
    blocks, labels = da.from_array(X, chunks=(70, 3)), np.where(y > 1.0, "high", "low")
    model = KernelClassifier(RBF(0.5), 40, loss="squared", alpha=0.1, random_state=0)
    truth = clone(model).fit(blocks, da.from_array(labels, chunks=70))
    model.set_params(checkpoint=tmp_path / "c")
    with struck_after(2):
        model.fit(blocks, da.from_array(labels, chunks=70))
    other = labels.copy()
    other[100] = "low" if labels[100] == "high" else "high"
    with pytest.raises(ValueError, match="the targets of rows 60 to 119 differ"):
        model.fit(blocks, da.from_array(other, chunks=70))
    model.fit(blocks, da.from_array(labels, chunks=70))
    np.testing.assert_array_equal(model.component_weights_, truth.component_weights_)


def hungry_rows(start, n, flag):
    """Rows 1500 and following need more memory than there is, as long as there is a file."""
    if start >= 15 and Path(flag).exists():
        waste = np.ones(1 << 27)  # 1 GiB
        time.sleep(5.0)
        del waste
    return slow_rows(start, n, 0.0)


@pytest.mark.slow
def test_too_little_memory_is_said_and_the_checkpoint_resumes(small_trees, tmp_path, monkeypatch):
    flag = tmp_path / "hungry"
    fold = distributed.DaskSource.fold
    # samples are read before, with memory enough
    monkeypatch.setattr(distributed.DaskSource, "fold", lambda *a, **k: (flag.touch(), fold(*a, **k))[1])
    blocks = [dask.delayed(hungry_rows)(i, 100, str(flag)) for i in range(24)]
    path = tmp_path / "checkpoint"
    model = KernelRidge(RBF(0.5), 40, alpha=0.1, random_state=0, checkpoint=path)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        local_cluster(2, memory_limit="700MB") as cluster,
        Client(cluster),
    ):
        with pytest.raises(RuntimeError, match="memory ran out"):
            model.fit(*as_arrays(blocks))
        # whole rounds of four leaves of 60 rows, before row 1500; one that was under way may be lost
        assert read_arrays(path)[1]["rows"] in (1200, 1440)
        monkeypatch.setattr(distributed.DaskSource, "fold", fold)
        flag.unlink()
        model = clone(model).fit(*as_arrays(blocks))
    assert not path.exists()
    truth = ridge().fit(*as_arrays(blocks))
    np.testing.assert_array_equal(model.component_weights_, truth.component_weights_)


def as_arrays(blocks):
    X = [da.from_delayed(b[0], (100, 3), float) for b in blocks]
    y = [da.from_delayed(b[1], (100,), float) for b in blocks]
    return da.concatenate(X), da.concatenate(y)


@pytest.mark.slow
def test_bits_are_the_same_for_any_number_of_workers(small_trees, monkeypatch):
    monkeypatch.setattr(bochner.estimators.classifier, "KEPT_BYTES", 0)
    X, y, weight = table(1200)
    data = [da.from_array(a, chunks=(170, *a.shape[1:])) for a in (X, y, weight)]
    models = [
        ridge(alpha="loo", features="nystrom"),
        ridge(solver="cg", alpha=1.0),
        GaussianProcessRegressor(RBF(0.5), 30, random_state=0),
        KernelKMeans(3, n_components=20, max_iter=3, random_state=0),
        KernelClassifier(RBF(0.5), 20, alpha=1.0, solver_tol=0.01, random_state=0),
    ]

    def fitted():
        targets = [data[1] > 1.0 if is_classifier(model) else data[1] for model in models]
        fits = [clone(model).fit(data[0], t, data[2]) for model, t in zip(models, targets, strict=True)]
        return [learned(fit, X) for fit in fits]

    truths = fitted()
    for n_workers in (1, 2, 4):
        with local_cluster(n_workers) as cluster, Client(cluster):
            for found, truth in zip(fitted(), truths, strict=True):
                np.testing.assert_array_equal(found, truth)


def table_frame(n=240, seed=0):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame["kind"] = rng.choice(["red", "green"], n)
    frame["y"] = np.sin(2.0 * frame["a"]) + (frame["kind"] == "red") + 0.1 * rng.normal(size=n)
    frame.loc[3, "b"] = np.nan
    return frame


@pytest.mark.parametrize("model", TABLES, ids=lambda m: type(m).__name__)
def test_models_of_tables_take_dask_frames(client, model):
    """Leaves fitted by workers are those fitted here, to the last bit; predictions are made block by block."""
    frame = table_frame()
    frame["y"] = frame["y"] > 0.5 if is_classifier(model) else frame["y"]
    X, weight = frame.drop(columns="y"), np.arange(len(frame)) % 3 + 1.0
    model = clone(model).set_params(leaf_size=60, max_seconds=1e6)  # what is learned depends on no clock
    here = clone(model).fit(X, frame["y"], weight)
    lazy = dd.from_pandas(frame, npartitions=3)
    there = clone(model).fit(lazy.drop(columns="y"), lazy["y"], da.from_array(weight, chunks=80))
    name = "predict_proba" if is_classifier(model) else "predict_interval"
    for method in (name, "predict"):
        expected, found = getattr(here, method)(X), getattr(there, method)(lazy.drop(columns="y"))
        assert hasattr(found, "dask")
        np.testing.assert_array_equal(getattr(there, method)(X), expected)
        np.testing.assert_allclose(np.asarray(found.compute()), expected, rtol=1e-9)  # sums of other blocks
    assert there.score(lazy.drop(columns="y"), lazy["y"]) == here.score(X, frame["y"])
    blocks = [dask.delayed(part) for part in (X[:100], X[100:])]
    of_blocks = clone(model).fit(blocks, frame["y"].to_numpy(), weight)
    np.testing.assert_array_equal(of_blocks.predict(X), here.predict(X))
    np.testing.assert_array_equal(clone(model).fit(lazy, "y").predict(X), clone(model).fit(frame, "y").predict(X))
    equal = frame.assign(a=0.0, b=0.0)  # two leaves of more equal rows than leaf_size
    lazy, X = dd.from_pandas(equal, npartitions=3), equal.drop(columns="y")
    np.testing.assert_array_equal(clone(model).fit(lazy, "y").predict(X), clone(model).fit(equal, "y").predict(X))
