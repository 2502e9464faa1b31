"""Streams: every kind of source gives the same model; checkpoints survive kills, other models and corruption."""

import errno
import functools
import io
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import RBF, FourierFeatures, KernelClassifier, KernelRidge, RandomBinningFeatures
from bochner.data import checkpoints, devices
from bochner.data.arrow import ArrowSource
from bochner.data.checkpoints import Checkpoint, RowDigest, fingerprint, read_arrays, write_arrays
from bochner.data.folds import StreamedGram, accumulate
from bochner.data.progress import Progress
from bochner.data.sources import ArraySource, Block, BlockSource, read_ahead
from bochner.draws.keys import Key
from bochner.estimators.feature_spec import Transformed
from bochner.estimators.ridge_fit import RidgeSpec
from bochner.newton.curvature import _chances
from bochner.ridge.statistics import RidgeStatistics
from strikes import changes, nudged, struck_after


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1], rng.uniform(0.0, 2.0, n)


def ridge(**parameters):
    options = {"kernel": RBF(1.5), "n_components": 40, "alpha": 0.1, "random_state": 0}
    return KernelRidge(**(options | parameters))


class Blocks:
    """A re-iterable of blocks, which may break."""

    def __init__(self, X, y, weight=None, sizes=(100, 1, 0, 250, 149), bad=None):
        self.parts, start = [], 0
        for i, size in enumerate(sizes):
            rows = slice(start, start + size)
            start += size
            if size:
                part = (X[rows], y[rows]) if weight is None else (X[rows], y[rows], weight[rows])
                self.parts.append(bad if i == 3 and bad is not None else part)

    def __iter__(self):
        return iter(self.parts)


def parquet(folder, X, y, weight, n_files=3):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'parquet')")
    import pyarrow.parquet as pq

    for i, rows in enumerate(np.array_split(np.arange(len(X)), n_files)):
        columns = {f"x{j}": X[rows, j] for j in range(X.shape[1])} | {"y": y[rows], "w": weight[rows]}
        pq.write_table(pa.table(columns), folder / f"part{i}.parquet", row_group_size=70)
    return folder


def sources(tmp_path, X, y, weight):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pq = pytest.importorskip("pyarrow.parquet")
    memmap = np.memmap(tmp_path / "X.bin", X.dtype, "w+", shape=X.shape)
    memmap[:] = X
    frame = pandas.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=y, w=weight)
    yield "memmap", (memmap, y, weight)
    yield "csr", (scipy.sparse.csr_matrix(X), y, weight)
    yield "pandas", (frame, "y", "w")
    yield "polars", (polars.from_pandas(frame[["x0", "x1", "x2"]]), y, weight)
    yield "polars names", (polars.DataFrame({c: frame[c].to_numpy() for c in frame}), "y", "w")
    yield "blocks", (Blocks(X, y, weight), None, None)
    yield "list of blocks", (list(Blocks(X, y, weight)), None, None)
    yield "source", (ArraySource(X, y, weight), None, None)
    folder = tmp_path / "folder"
    folder.mkdir()
    yield "parquet folder", (parquet(folder, X, y, weight), "y", "w")
    yield "parquet file", (str(parquet(folder, X, y, weight, 1) / "part0.parquet"), "y", "w")
    yield "arrow table", (pq.read_table(folder / "part0.parquet"), "y", "w")


def test_every_source_gives_the_same_model(tmp_path):
    X, y, weight = table()
    truth = ridge().fit(X, y, weight)
    for name, arguments in sources(tmp_path, X, y, weight):
        model = ridge(block_size=64).fit(*arguments)
        assert model.n_features_in_ == 3, name
        np.testing.assert_allclose(
            model.component_weights_, truth.component_weights_, rtol=1e-6, atol=1e-9, err_msg=name
        )


def test_every_source_can_be_descended_on(tmp_path):
    """Rows in the order of each source: predictions within the distance from the solution that the report says."""
    X, y, weight = table()
    truth = ridge(alpha=10.0).fit(X, y, weight)
    size = weight @ ((truth.predict(X) - np.average(y, weights=weight)) * y)
    for name, arguments in sources(tmp_path, X, y, weight):
        model = ridge(alpha=10.0, solver="sgd", block_size=128).fit(*arguments)
        assert model.report_.converged, name
        found = model.feature_map_(X) @ model.component_weights_ + model.intercept_
        assert weight @ (found - truth.predict(X)) ** 2 <= model.report_.residual**2 * size, name


def test_scattered_blocks_have_every_row_once(tmp_path):
    """Also from memory, where each has rows from all over; a file is read in order."""
    X, y, weight = table()
    weight[::7] = 0.0
    memmap = np.memmap(tmp_path / "X.bin", X.dtype, "w+", shape=X.shape)
    memmap[:] = X
    kept = weight > 0
    for given in (X, scipy.sparse.csr_matrix(X), memmap, np.asarray(memmap)):
        source = ArraySource(given, y, weight).mapped(lambda block: Block(block.X, 2.0 * block.y, block.weight))
        blocks = list(source.scattered(64))
        assert max(map(len, blocks)) <= 64
        found = np.concatenate([block.y for block in blocks])
        np.testing.assert_array_equal(np.sort(found), np.sort(2.0 * y[kept]))
        first = np.flatnonzero(np.isin(y[kept], blocks[0].y / 2.0))
        assert (np.ptp(first) < 64) == (getattr(given, "base", None) is not None)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_a_mapped_source_is_learned_from_as_it_is_mapped(tmp_path, solver):
    """Features are made of the rows after the function, not before."""
    X, y, weight = table()

    def function(block):
        return Block(3.0 * block.X - 1.0, 2.0 * block.y, 0.5 * block.weight)

    truth = ridge(solver=solver).fit(3.0 * X - 1.0, 2.0 * y, 0.5 * weight)
    for source in (
        ArraySource(X, y, weight),
        BlockSource(Blocks(X, y, weight)),
        ArrowSource(parquet(tmp_path, X, y, weight), "y", weight="w"),
    ):
        model = ridge(block_size=64, solver=solver).fit(source.mapped(function))
        np.testing.assert_allclose(
            model.component_weights_, truth.component_weights_, rtol=1e-6, atol=1e-8, err_msg=type(source).__name__
        )


def test_names_of_columns_are_kept(tmp_path):
    X, y, weight = table()
    model = ridge().fit(parquet(tmp_path, X, y, weight), "y", "w")
    assert list(model.feature_names_in_) == ["x0", "x1", "x2"]
    some = ArrowSource(tmp_path, target=["y", "w"], columns=["x2", "x0"])
    several = ridge().fit(some)
    import pandas

    assert several.predict(pandas.DataFrame(X[:5, [2, 0]], columns=["x2", "x0"])).shape == (5, 2)


def test_more_rows_have_the_columns_of_the_first_ones_in_their_order(tmp_path):
    """Arrow, Parquet and streams of frames say what scikit-learn says of a frame."""
    pandas, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    X, y, weight = table()
    frame = pandas.DataFrame(X, columns=["x0", "x1", "x2"])
    other, renamed = frame[["x1", "x0", "x2"]], frame.rename(columns={"x0": "a"})
    stream = [(frame[:300], y[:300]), (frame[300:], y[300:])]
    by_frames, by_files = ridge().fit(stream), ridge().fit(parquet(tmp_path, X, y, weight), "y", "w")
    assert list(by_frames.feature_names_in_) == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(by_frames.predict(frame), ridge().fit(frame, y).predict(frame))
    for model, wrong in [(model, wrong) for model in (by_frames, by_files) for wrong in (other, renamed)]:
        for more in ((pa.table(dict(wrong) | {"y": y}), "y"), ([(wrong, y)], None)):
            before = model.n_samples_seen_
            with pytest.raises(ValueError, match="The feature names should match those") as found:
                model.partial_fit(*more)
            with pytest.raises(ValueError, match="The feature names should match those") as expected:
                model.partial_fit(wrong, y)
            assert str(found.value) == str(expected.value)
            assert model.n_samples_seen_ == before
        with pytest.raises(ValueError, match="block 1 of the stream has the columns"):
            ridge().fit([stream[0], (wrong, y)])
    labels = np.where(y > 0, "b", "a")
    classifier = KernelClassifier(RBF(1.5), 40, loss="squared", random_state=0)
    classifier.partial_fit(pa.table(dict(frame) | {"y": labels}), "y").partial_fit(frame, labels)
    with pytest.raises(ValueError, match="must be in the same order"):
        classifier.partial_fit(pa.table(dict(other) | {"y": labels}), "y")
    many = pandas.DataFrame(X[:, [0] * 7], columns=list("abcdefg"))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- a\n.*- e\n- \.\.\.\nFeature names seen"):
        by_files.partial_fit([(many, y)])


def test_tuned_and_grown_models_learn_from_streams(tmp_path):
    X, y, weight = table(600)
    model = KernelRidge(random_state=0, tol=1.0).fit(parquet(tmp_path, X, y, weight), "y")
    import pandas

    assert model.score(pandas.DataFrame(X, columns=["x0", "x1", "x2"]).assign(w=weight), y) > 0.99
    assert KernelRidge(random_state=0, tol=1.0).fit(Blocks(X, y, sizes=(200, 400))).score(X, y) > 0.99


def test_blocks_are_regrouped_and_start_anywhere(tmp_path):
    X, y, weight = table()
    for source in (
        ArraySource(X, y, weight),
        BlockSource(Blocks(X, y, weight)),
        ArrowSource(parquet(tmp_path, X, y, weight), "y", weight="w"),
    ):
        for rows, start in ((64, 0), (64, 128), (200, 400), (1000, 0), (7, 499)):
            blocks = list(source.blocks(rows, start))
            assert [len(b) for b in blocks[:-1]] == [rows] * (len(blocks) - 1)
            np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), X[start:])
            np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y[start:])
            np.testing.assert_array_equal(np.concatenate([b.weight for b in blocks]), weight[start:])


def test_samples_are_rows_of_the_data_drawn_evenly(tmp_path):
    X, y, weight = table()
    for source in (
        ArraySource(X, y),
        BlockSource(Blocks(X, y)),
        ArrowSource(parquet(tmp_path, X, y, weight), "y", columns=["x0", "x1", "x2"]),
    ):
        counts = np.zeros(500)
        for seed in range(60):
            block = source.sample(100, Key(seed))
            rows = [int(np.flatnonzero((x == X).all(axis=1))[0]) for x in block.X]
            assert len(set(rows)) == len(rows)
            np.testing.assert_array_equal(y[rows], block.y)
            counts[rows] += 1
        # halves of the data get the same number of draws: 6000 in all, 6 standard deviations
        assert abs(counts[:250].sum() - counts[250:].sum()) < 6 * np.sqrt(60 * 100)
        assert len(source.sample(10_000, Key(0))) == 500


def test_a_streamed_gram_is_the_gram_of_the_features():
    X, y, weight = table()
    model = ridge().fit(X, y, weight)
    Z = model.feature_map_(X)
    truth = (Z * weight[:, None]).T @ Z
    gram = StreamedGram(ArraySource(X, y, weight), model.feature_map_, rows=64)
    V = np.random.default_rng(0).normal(size=(40, 2))
    np.testing.assert_allclose(gram @ V, truth @ V, rtol=1e-9)
    np.testing.assert_allclose(gram @ V[:, 0], truth @ V[:, 0], rtol=1e-9)
    np.testing.assert_allclose(gram.to_dense(), truth, rtol=1e-9, atol=1e-10)
    plain = StreamedGram(ArraySource(X, y), model.feature_map_)
    np.testing.assert_allclose(plain @ V, Z.T @ (Z @ V), rtol=1e-9)


# -- reading ahead ---------------------------------------------------------------------------------------------------


def test_one_item_is_read_ahead_and_no_more():
    made = [threading.Event() for _ in range(6)]

    def items():
        for i in range(5):
            made[i].set()
            yield i

    seen = []
    for item in read_ahead(items()):
        seen.append(item)
        assert item == 4 or made[item + 1].wait(60.0)  # while this item is used,
        assert not any(event.is_set() for event in made[item + 2 :])  # and only the next one
    assert seen == [0, 1, 2, 3, 4]


def test_an_error_of_the_reader_comes_with_its_block_and_the_thread_ends():
    before = threading.active_count()

    def items():
        yield 1
        raise OSError("the disk is gone")

    reader = read_ahead(items())
    assert next(reader) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(reader)
    assert threading.active_count() == before
    unfinished = read_ahead(iter(range(100)))
    next(unfinished)
    assert threading.active_count() == before + 1
    unfinished.close()
    assert threading.active_count() == before


def test_ctrl_c_comes_while_a_block_is_awaited():
    waiting, stop, before = threading.Event(), threading.Event(), threading.active_count()

    def items():
        yield 1
        waiting.set()
        stop.wait(60.0)  # a slow disk
        yield 2

    def strike():
        assert waiting.wait(60.0)
        time.sleep(0.3)  # until the main thread waits, too
        os.kill(os.getpid(), signal.SIGINT)
        stop.set()

    reader = read_ahead(items())
    assert next(reader) == 1
    striking = threading.Thread(target=strike)
    striking.start()
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    striking.join()
    assert threading.active_count() == before


def files(folder, X, y, weight):
    """Sources whose rows are in files."""
    np.save(folder / "rows.npy", X)
    np.save(folder / "columns.npy", np.asfortranarray(X))
    mapped = [np.load(folder / name, mmap_mode="r") for name in ("rows.npy", "columns.npy")]
    yield from (ArraySource(A, y, w) for A in mapped for w in (None, weight, np.where(weight > 1, weight, 0.0)))
    yield ArrowSource(parquet(folder, X, y, weight), "y", weight="w")


def test_files_are_read_ahead_of_the_sums(tmp_path, monkeypatch):
    X, y, weight = table()
    readers = set()

    def watched(items):
        def read():
            for item in items:
                readers.add(threading.current_thread())
                yield item

        return read_ahead(read())

    for source in (ArraySource, ArrowSource):
        monkeypatch.setattr(sys.modules[source.__module__], "read_ahead", watched)
    for source in files(tmp_path, X, y, weight):
        for start in (0, 130):
            readers.clear()
            blocks = list(source.blocks(64, start))
            assert threading.current_thread() not in readers
            assert len(readers) == 1
            kept = X if source.n_samples == len(X) else X[weight > 1]
            np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), kept[start:])
        np.testing.assert_array_equal(source.head().X, kept[:1])


# -- interruptions ---------------------------------------------------------------------------------------------------


class Interrupting:
    """Blocks that raise after a while."""

    def __init__(self, X, y, error, after=3):
        self.X, self.y, self.error, self.after, self.armed = X, y, error, after, True

    def __iter__(self):
        for i, rows in enumerate(np.array_split(np.arange(len(self.X)), 10)):
            if self.armed and i == self.after:
                raise self.error
            yield self.X[rows], self.y[rows]


def disarmed(source):
    source.armed = False
    return source


def armed_during(fit, source):
    """The error strikes in the pass over the rows, not while features are chosen."""
    original = RidgeSpec.accumulate

    def arm(self, *arguments, **options):
        source.armed = True
        return original(self, *arguments, **options)

    source.armed = False
    RidgeSpec.accumulate = arm
    try:
        fit(source)
    finally:
        RidgeSpec.accumulate = original
        source.armed = False


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("disk on fire")])
def test_what_was_learned_before_an_error_is_not_lost(error, tmp_path):
    X, y, _ = table()
    source = Interrupting(X, y, error)
    model = ridge(block_size=50)
    with pytest.raises(type(error)):
        armed_during(model.fit, source)
    assert model.n_samples_seen_ == 150
    np.testing.assert_allclose(model.predict(X), ridge().fit(X[:150], y[:150]).predict(X), rtol=1e-6)
    model.partial_fit(X[150:], y[150:])
    np.testing.assert_allclose(model.predict(X), ridge().fit(X, y).predict(X), rtol=1e-6)


def test_an_interrupted_fit_resumes_to_the_last_bit(tmp_path):
    X, y, _ = table()
    path = tmp_path / "fit.checkpoint"
    for dtype in (np.float32, np.float64):
        source = Interrupting(X.astype(dtype), y, KeyboardInterrupt(), after=6)
        truth = ridge(block_size=60).fit(disarmed(source))
        with pytest.raises(KeyboardInterrupt):
            armed_during(ridge(block_size=60, checkpoint=path).fit, source)
        assert path.exists()
        assert read_arrays(path)[1]["rows"] == 300
        resumed = ridge(block_size=60, checkpoint=path).fit(disarmed(source))
        np.testing.assert_array_equal(resumed.component_weights_, truth.component_weights_)
        assert not path.exists()
        assert not list(tmp_path.glob("*.tmp"))


def test_a_checkpoint_remembers_the_seed(tmp_path):
    X, y, _ = table()
    path = tmp_path / "c"
    source = Interrupting(X, y, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        armed_during(ridge(random_state=None, checkpoint=path, block_size=50).fit, source)
    seed = read_arrays(path)[1]["seed"]
    model = ridge(random_state=None, checkpoint=path, block_size=50).fit(disarmed(source))
    np.testing.assert_array_equal(
        model.component_weights_, ridge(random_state=seed, block_size=50).fit(source).component_weights_
    )


def test_a_killed_process_resumes_to_the_last_bit(tmp_path):
    X, y, weight = table(4000)
    folder = tmp_path / "data"
    folder.mkdir()
    parquet(folder, X, y, weight)
    code = f"""
import sys, time
import bochner.data.checkpoints as checkpoints
from bochner import KernelRidge, RBF
from bochner.data.arrow import ArrowSource
class Slow(ArrowSource):
    def blocks(self, rows, start=0):
        for block in super().blocks(rows, start):
            time.sleep(float(sys.argv[1]))
            yield block
init = checkpoints.Checkpoint.__init__
def every_block(self, path, options, about=None, every=0.0):
    init(self, path, options, about, 0.0)
checkpoints.Checkpoint.__init__ = every_block
model = KernelRidge(RBF(1.5), 40, alpha=0.1, random_state=0, block_size=100, checkpoint={str(tmp_path / "c")!r})
model.fit(Slow({str(folder)!r}, "y", weight="w"))
print(model.component_weights_.tobytes().hex())
"""
    path = tmp_path / "c"
    process = subprocess.Popen([sys.executable, "-c", code, "0.05"], stdout=subprocess.PIPE)
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert 0 < read_arrays(path)[1]["rows"] < 4000
    resumed = subprocess.run([sys.executable, "-c", code, "0"], stdout=subprocess.PIPE, check=True).stdout
    assert not path.exists()
    whole = subprocess.run([sys.executable, "-c", code, "0"], stdout=subprocess.PIPE, check=True).stdout
    assert resumed == whole


def interrupted(tmp_path, **parameters):
    X, y, _ = table()
    path = tmp_path / "c"
    source = Interrupting(X, y, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        armed_during(ridge(checkpoint=path, block_size=50, **parameters).fit, source)
    return path, source


SEEN = 300  # rows, when a fit is struck


def test_a_checkpoint_proves_its_rows_whatever_they_come_from(tmp_path):
    (tmp_path / "as it was").mkdir()
    X, y, weight = table()
    truth = ridge(block_size=100).fit(X, y, weight)
    for name, data in sources(tmp_path / "as it was", X, y, weight):
        model = ridge(block_size=100, checkpoint=tmp_path / f"{name}.checkpoint")
        with struck_after(3):
            model.fit(*data)
        model.fit(*data)
        # sparse rows are multiplied in another order
        whole = ridge(block_size=100).fit(*data) if name == "csr" else truth
        np.testing.assert_array_equal(model.component_weights_, whole.component_weights_, err_msg=name)
        with struck_after(3):
            model.fit(*data)
    for kind, functions in changes(SEEN - 1).items():
        for i, change in enumerate(functions):
            folder = tmp_path / f"{kind} {i}"
            folder.mkdir()
            for name, data in sources(folder, *change(X, y, weight)):
                path = tmp_path / f"{name}.checkpoint"
                before = path.read_bytes()
                with pytest.raises(ValueError, match=f"other data: the {kind} of rows 0 to 299 differ"):
                    ridge(block_size=100, checkpoint=path).fit(*data)
                assert path.read_bytes() == before, name  # what was learned is still there
    (tmp_path / "rows to come").mkdir()
    other = nudged(X, SEEN), nudged(y, SEEN), nudged(weight, SEEN)
    for name, data in sources(tmp_path / "rows to come", *other):
        model = ridge(block_size=100, checkpoint=tmp_path / f"{name}.checkpoint").fit(*data)
        np.testing.assert_array_equal(
            model.component_weights_, ridge(block_size=100).fit(*data).component_weights_, err_msg=name
        )


def test_a_checkpoint_of_one_source_is_continued_with_the_same_rows_from_another(tmp_path):
    X, y, weight = table()
    path = tmp_path / "c"
    truth = ridge(block_size=100).fit(X, y, weight)
    for name, data in sources(tmp_path, X, y, weight):
        if name == "csr":
            continue
        with struck_after(3):
            ridge(block_size=100, checkpoint=path).fit(X, y, weight)
        again = ridge(block_size=100, checkpoint=path).fit(*data)
        np.testing.assert_array_equal(again.component_weights_, truth.component_weights_, err_msg=name)


def test_fewer_rows_and_missing_weights_are_noticed(tmp_path):
    X, y, weight = table()
    path = tmp_path / "c"
    model = ridge(block_size=100, checkpoint=path)
    with struck_after(3):
        model.fit(X, y, weight)
    with pytest.raises(ValueError, match="there are 299 rows where 300 were seen"):
        model.fit(X[:299], y[:299], weight[:299])
    with pytest.raises(ValueError, match="the weights of rows 0 to 299 differ"):
        model.fit(X, y)
    np.testing.assert_array_equal(
        model.fit(X[:300], y[:300], weight[:300]).component_weights_,
        ridge(block_size=100).fit(X[:300], y[:300], weight[:300]).component_weights_,
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"kernel": RBF(1.25)}, r"kernel was 'RBF\(1.5\)' there and is 'RBF\(1.25\)' here"),
        ({"n_components": 41}, "n_components was 40 there and is 41 here"),
        ({"random_state": 1}, "random_state was 0 there and is 1 here"),
        ({"features": FourierFeatures(RBF(1.5), 40, rows="iid", random_state=0)}, "kernel was"),
        ({"block_size": 50}, "block_size was 100 there and is 50 here"),
        ({"block_size": None}, "block_size was 100 there and is 16384 here"),
        ({"solver": "cg"}, "solver='cg' or 'sgd' was False there and is True here"),
        ({"alpha": 6e5}, "alpha over the number of rows was"),
        ({"alpha": "loo"}, "alpha over the number of rows was"),
        ({"device": "cpu"}, "device was None there and is 'cpu' here"),
    ],
    ids=str,
)
def test_a_checkpoint_with_another_option_is_refused_by_its_name(other, message, tmp_path):
    if "device" in other:
        pytest.importorskip("torch", reason="torch is not installed (extra 'torch')")
    X, y, weight = table()
    X = X.astype(np.float32)
    path = tmp_path / "c"
    model = ridge(kernel=RBF(1.5), n_components=40, block_size=100, checkpoint=path)
    with struck_after(3):
        model.fit(X, y, weight)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"belongs to another fit: {message}"):
        clone(model).set_params(**other).fit(X, y, weight)
    assert path.read_bytes() == before
    np.testing.assert_array_equal(
        model.fit(X, y, weight).component_weights_, clone(model).fit(X, y, weight).component_weights_
    )


def test_the_layout_of_the_data_is_an_option_too(tmp_path):
    X, y, weight = table()
    path = tmp_path / "c"
    model = ridge(block_size=100, checkpoint=path)
    with struck_after(3):
        model.fit(X, y, weight)
    for data, message in (
        ((X.astype(np.float32), y), "dtype was 'float64' there and is 'float32' here"),
        ((X[:, :2], y), "n_features was 3 there and is 2 here"),
        ((X, np.column_stack([y, y])), "n_targets was 1 there and is 2 here"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(*data, weight)


@pytest.mark.parametrize("other", [{"alpha": 2.0}, {"alpha": "gcv"}, {"fit_intercept": False}, {"n_jobs": 1}], ids=str)
def test_options_that_do_not_shape_the_sums_may_change(other, tmp_path):
    X, y, weight = table()
    path = tmp_path / "c"
    with struck_after(3):
        ridge(block_size=100, checkpoint=path).fit(X, y, weight)
    again = ridge(block_size=100, checkpoint=path, **other).fit(X, y, weight)
    np.testing.assert_array_equal(
        again.component_weights_, ridge(block_size=100, **other).fit(X, y, weight).component_weights_
    )


def test_landmarks_and_tuned_kernels_are_continued_on_the_same_rows_only(tmp_path):
    X, y, weight = table()
    path = tmp_path / "c"
    model = KernelRidge(n_components=30, features="nystrom", random_state=0, block_size=100, checkpoint=path)
    truth = clone(model).set_params(checkpoint=None).fit(X, y, weight)
    with struck_after(3):
        model.fit(X, y, weight)
    with pytest.raises(ValueError, match="belongs to another fit: kernel was"):
        model.fit(X, y**2, weight)
    np.testing.assert_array_equal(model.fit(X, y, weight).component_weights_, truth.component_weights_)


@pytest.mark.parametrize(
    "features",
    [
        RandomBinningFeatures("auto", length_scale=1.0, tol=0.3, random_state=0),
        FourierFeatures(RBF(1.5), "auto", tol=0.3, random_state=0),
        make_pipeline(StandardScaler(), Nystroem(gamma=1.0, n_components=30, random_state=0)),
    ],
    ids=lambda features: type(features).__name__,
)
def test_features_of_any_kind_are_continued(features, tmp_path):
    X, y, weight = table()
    path = tmp_path / "c"
    model = KernelRidge(features=features, alpha=0.1, random_state=0, block_size=100, checkpoint=path)
    truth = clone(model).set_params(checkpoint=None).fit(X, y, weight)
    with struck_after(3):
        model.fit(X, y, weight)
    np.testing.assert_array_equal(model.fit(X, y, weight).component_weights_, truth.component_weights_)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_checkpoints_of_classifiers_prove_their_rows(class_weight, tmp_path):
    X, y, weight = table()
    labels = np.where(y > 0.5, "high", np.where(y > -0.5, "middle", "low"))
    path = tmp_path / "c"

    def classifier(**parameters):
        options = {"loss": "squared", "alpha": 0.1, "block_size": 100, "random_state": 0, "class_weight": class_weight}
        return KernelClassifier(RBF(1.5), 40, **(options | parameters))

    with struck_after(3):
        classifier(checkpoint=path).fit(X, labels, weight)
    other = labels.copy()
    other[123] = "low" if labels[123] == "high" else "high"
    for data, kind in (
        ((nudged(X, 7), labels, weight), "features"),
        ((X, labels, nudged(weight, 7)), "weights"),
        ((X, other, weight), "targets"),
    ):
        with pytest.raises(ValueError, match=f"the {kind} of rows 0 to 299 differ"):
            classifier(checkpoint=path).fit(*data)
    with pytest.raises(ValueError, match="the weights of rows 0 to 299 differ"):
        classifier(checkpoint=path, class_weight={"low": 3.0}).fit(X, labels, weight)
    again = classifier(checkpoint=path).fit(X, labels, weight)
    np.testing.assert_array_equal(again.component_weights_, classifier().fit(X, labels, weight).component_weights_)


def test_sums_made_on_a_device_prove_their_rows(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed (extra 'torch')")
    monkeypatch.setattr(devices, "_SECONDS", 0.0)  # sums come back after every block: a piece of the digest each
    monkeypatch.setattr(devices, "_MOST_ROWS", 100)
    X, y, weight = table()
    path = tmp_path / "c"
    for data in ((X, y, weight), (scipy.sparse.csr_matrix(X), y, weight)):
        with struck_after(3):
            ridge(device="cpu", checkpoint=path).fit(*data)
        assert read_arrays(path)[1]["rows"] == SEEN
        for row, piece in ((7, "0 to 99"), (123, "100 to 199"), (SEEN - 1, "200 to 299")):
            with pytest.raises(ValueError, match=f"the targets of rows {piece} differ"):
                ridge(device="cpu", checkpoint=path).fit(data[0], nudged(y, row), weight)
        again = ridge(device="cpu", checkpoint=path).fit(*data)
        np.testing.assert_allclose(
            again.component_weights_, ridge(device="cpu").fit(*data).component_weights_, rtol=1e-9
        )


def test_digests_of_rows_do_not_depend_on_blocks_and_see_every_number():
    rng = np.random.default_rng(0)
    X, Y, weight = rng.normal(size=(40, 3)), rng.normal(size=(40, 2)), rng.random(40)
    for rows in (X, np.asfortranarray(X), X.astype(np.float32), scipy.sparse.random(40, 9, 0.3, "csr", rng=rng)):
        whole = RowDigest().update(rows, Y, weight)
        for _ in range(5):
            parts = RowDigest()
            for part in np.split(np.arange(40), np.sort(rng.integers(0, 41, 4))):
                parts.update(rows[part], Y[part], weight[part])
            assert parts.pieces == whole.pieces
        assert RowDigest.from_arrays(whole.arrays()).difference(whole) is None
        assert pickle.loads(pickle.dumps(whole)).difference(whole) is None
        assert whole.difference(RowDigest().update(rows, Y, None)) == "the weights of rows 0 to 39 differ"
    dense = RowDigest().update(X, Y, weight)
    for row in range(40):
        for j in range(3):
            other = X.copy()
            other[row, j] = np.nextafter(other[row, j], 9.0)
            assert dense.difference(RowDigest().update(other, Y, weight)) == "the features of rows 0 to 39 differ"
    sparse = scipy.sparse.csr_matrix(X)
    assert dense.difference(RowDigest().update(sparse, Y, weight)) == "the features of rows 0 to 39 differ"
    moved = sparse.copy()
    moved.indptr = moved.indptr.copy()
    moved.indptr[5] -= 1  # the last entry of a row becomes the first of the next
    digest = RowDigest().update(sparse, Y, weight)
    assert digest.difference(RowDigest().update(moved, Y, weight)) == "the features of rows 0 to 39 differ"
    halves = RowDigest().update(X[:20], Y[:20], None).merge(RowDigest().update(X[20:], Y[20:], None))
    other = RowDigest().update(X[:20], Y[:20], None).close().update(nudged(X, 30)[20:], Y[20:], None)
    assert halves.rows == 40
    assert halves.difference(other) == "the features of rows 20 to 39 differ"


def test_nothing_is_hashed_without_a_checkpoint(monkeypatch):
    X, y, weight = table()
    monkeypatch.setattr(RowDigest, "update", None)
    ridge(block_size=100).fit(X, y, weight)


def test_a_path_that_cannot_be_a_checkpoint_is_refused_before_the_data_are_read(tmp_path):
    class Unread:
        def __iter__(self):
            raise AssertionError("the data were read")

    with pytest.raises(ValueError, match="is a folder; give the name of a file"):
        ridge(checkpoint=tmp_path).fit(Unread())
    with pytest.raises(ValueError, match=r"the folder .* does not exist"):
        ridge(checkpoint=tmp_path / "nowhere" / "c").fit(Unread())
    with pytest.raises(ValueError, match="is a folder; give the name of a file"):
        KernelClassifier(loss="squared", checkpoint=tmp_path).fit(Unread())


@pytest.mark.parametrize("trouble", ["disk full", "folder removed", "no permission"])
def test_a_checkpoint_that_cannot_be_written_warns_once_and_the_fit_goes_on(trouble, tmp_path, monkeypatch):
    X, y, weight = table()
    folder = tmp_path / "folder"
    folder.mkdir()
    attempts = []

    def write(path, *arguments):
        attempts.append(1)
        if trouble == "folder removed":
            shutil.rmtree(folder, ignore_errors=True)
            return write_arrays(path, *arguments)
        number = errno.ENOSPC if trouble == "disk full" else errno.EACCES  # the superuser may write everywhere
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(checkpoints, "write_arrays", write)
    monkeypatch.setattr(Checkpoint.__init__, "__defaults__", (None, 0.0))
    model = ridge(block_size=100, checkpoint=folder / "c")
    with pytest.warns(RuntimeWarning, match="could not be written; the fit goes on without it: ") as caught:
        model.fit(X, y, weight)
    assert len(caught) == 1
    assert len(attempts) == 5  # disks are tidied up
    np.testing.assert_array_equal(model.component_weights_, ridge(block_size=100).fit(X, y, weight).component_weights_)


def test_a_checkpoint_that_cannot_be_written_does_not_hide_the_interruption(tmp_path, monkeypatch):
    X, y, weight = table()
    monkeypatch.setattr(checkpoints, "write_arrays", lambda *_: (_ for _ in ()).throw(OSError("disk on fire")))
    model = ridge(block_size=100, checkpoint=tmp_path / "c")
    with pytest.warns(RuntimeWarning, match="disk on fire"), struck_after(3):
        model.fit(X, y, weight)
    assert model.n_samples_seen_ == SEEN


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    path, source = interrupted(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"bochner\x02", b"bochner\x01", 1))
    with pytest.raises(ValueError, match="written by another version of bochner"):
        ridge(checkpoint=path, block_size=50).fit(disarmed(source))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    path, source = interrupted(tmp_path)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    contents = {"truncated": data[:-100], "flipped": data, "empty": b"", "foreign": b"PAR1" + bytes(200)}[damage]
    path.write_bytes(contents)
    message = "checksum" if damage in ("truncated", "flipped") else "not a bochner checkpoint"
    with pytest.raises(ValueError, match=message):
        ridge(checkpoint=path, block_size=50).fit(disarmed(source))


def test_files_of_arrays_round_trip(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "none": np.zeros((0, 4)), "b": np.array([True, False])}
    write_arrays(tmp_path / "f", arrays, {"note": "é"})
    found, about = read_arrays(tmp_path / "f")
    assert about == {"note": "é"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_fingerprints_tell_values_apart():
    values = [
        1, 1.0, "1", (1,), [1], {"a": 1}, np.ones(1), np.ones((1, 1)), np.ones(1, np.float32), RBF(1.0), RBF(2.0),
        lambda x: x, lambda x: x + 1, scipy.sparse.eye(2, format="csr"), Key(1), Key(2), None, np.array(["a"], object),
    ]  # fmt: skip
    prints = [fingerprint(v) for v in values]
    assert len(set(prints)) == len(prints)
    assert fingerprint(RBF(1.0), np.ones(3)) == fingerprint(RBF(1.0), np.ones(3))


SCALE = 1.0


def scaled(x):
    return x / SCALE


def test_fingerprints_tell_functions_apart_by_all_that_they_use(monkeypatch):
    def stretched(scale):
        return lambda x: x / scale

    def by_default(x, scale=1.0):
        return x / scale

    def nested(x):
        return [v + 1 for v in x if v not in {"a", "b", "c"}]

    functions = [
        np.sin, np.cos, stretched(1.0), stretched(2.0), lambda x: np.sin(x), lambda x: np.cos(x), by_default, nested,
        scaled, lambda x: scaled(x), functools.partial(by_default, scale=2.0), functools.partial(by_default, scale=3.0),
        RBF(1.0).profile, RBF(2.0).profile, np.random.default_rng(0).normal,
    ]  # fmt: skip
    prints = [fingerprint(f) for f in functions]
    assert len(set(prints)) == len(prints)
    assert prints == [fingerprint(f) for f in functions]
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    changed = [fingerprint(f) for f in functions]
    assert [a != b for a, b in zip(prints, changed, strict=True)] == [f in functions[8:10] for f in functions]
    monkeypatch.setattr(by_default, "__defaults__", (5.0,))
    assert fingerprint(by_default) != prints[6]


def test_fingerprints_see_what_a_transformer_has_learned():
    X = table()[0]
    learned = [RandomBinningFeatures(50, length_scale=s, random_state=0).fit(X) for s in (1.0, 1.0, 2.0)]
    maps = [Transformed(transformer, 50) for transformer in learned]
    assert fingerprint(maps[0]) == fingerprint(maps[1])
    assert fingerprint(maps[0]) != fingerprint(maps[2])


def test_fingerprints_are_the_same_in_every_process():
    code = """
import numpy as np
from bochner import Radial, NystromFeatures
from bochner.data.checkpoints import fingerprint
inner = lambda r: np.exp(-r) if r.shape not in {"a", "b", "c"} else [s for s in r]
made = NystromFeatures(Radial(inner), 5, random_state=np.random.RandomState(0)).fit(np.arange(20.0)[:, None] / 9)
print(fingerprint(made, made.feature_map_, inner, {"b", "a", "c"}))
"""
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=e) for e in environments]
    assert len({run.stdout for run in runs}) == 1


def test_statistics_are_saved_every_so_often(tmp_path):
    X, y, _ = table()
    model = ridge().fit(X, y)
    checkpoint = Checkpoint(tmp_path / "c", {}, every=0.0)
    statistics = RidgeStatistics(40, 1)
    accumulate(ArraySource(X, y), model.feature_map_, statistics, lambda y: y[:, None], rows=100, checkpoint=checkpoint)
    saved = checkpoint.load()
    assert saved.digest.rows == 500
    np.testing.assert_array_equal(saved.moment, statistics.moment)


# -- bad streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((np.zeros((5, 2)), np.zeros(5)), "block 2 of the stream has 2 columns"),
        ((np.full((5, 3), np.nan), np.zeros(5)), "block 2 of the stream: Input X contains NaN"),
        ((np.zeros((5, 3)), np.zeros(4)), "block 2 of the stream: X has 5 rows and y has 4"),
        ((np.zeros((5, 3)), np.full(5, np.nan)), "targets contain NaN"),
        ((np.zeros((5, 3)), np.array(["a"] * 5)), "block 2 of the stream has labels as targets, the first one numbers"),
        ((np.zeros((5, 3)), np.zeros((5, 2))), "targets of shape"),
        ((np.zeros((5, 3)), np.zeros(5), np.ones(5)), "having weights or not"),
        (np.zeros((5, 3)), "should be"),
    ],
)
def test_bad_blocks_are_named(bad, message):
    X, y, _ = table()
    with pytest.raises(ValueError, match=message):
        ridge().fit(Blocks(X, y, bad=bad))


def test_streams_that_cannot_be_read():
    X, y, _ = table()
    with pytest.raises(ValueError, match="only once"):
        ridge().fit(iter([(X, y)]))
    with pytest.raises(ValueError, match="no blocks"):
        ridge().fit(Blocks(X, y, sizes=()))
    with pytest.raises(ValueError, match="third member"):
        ridge().fit(Blocks(X, y), sample_weight=np.ones(500))


def test_bad_parquet(tmp_path):
    X, y, weight = table()
    parquet(tmp_path, X, y, weight)
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(ValueError, match="no column 'z'; its columns are 'x0'"):
        ridge().fit(tmp_path, "z")
    with pytest.raises(ValueError, match="name the target"):
        ridge().fit(tmp_path)
    with pytest.raises(ValueError, match="names of columns"):
        ridge().fit(tmp_path, y)
    with pytest.raises(ValueError, match="no file or folder"):
        ridge().fit(tmp_path / "nothing.parquet", "y")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no files that end in"):
        ridge().fit(tmp_path / "empty", "y")
    pq.write_table(pa.table({"x0": X[:9, 0], "x1": X[:9, 1], "y": y[:9]}), tmp_path / "part9.parquet")
    with pytest.raises(ValueError, match=r"part9.parquet has no column 'x2'"):
        ridge().fit(tmp_path, "y")
    (tmp_path / "part9.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        ridge().fit(tmp_path / "part9.parquet", "y")
    pq.write_table(pa.table({"x0": ["a", "b"], "y": [1.0, 2.0]}), tmp_path / "words.parquet")
    with pytest.raises(ValueError, match="every feature must be a number"):
        ridge().fit(tmp_path / "words.parquet", "y")
    for days in (np.array(["2024-01-01", "NaT"], "datetime64[ms]"), np.array([5, "NaT"], "timedelta64[s]")):
        dated = pa.table({"x0": [1.0, 2.0], "day": days, "y": [1.0, 2.0]})
        with pytest.raises(ValueError, match="every feature must be a number; 'day' holds dates or times"):
            ridge().fit(dated, "y")
        with pytest.raises(ValueError, match="the targets are dates or times"):
            ridge().fit(dated.drop(["y"]), "day")
    import pandas

    with pytest.raises(ValueError, match="no column 'z'"):
        ridge().fit(pandas.DataFrame({"a": [1.0], "b": [2.0]}), "z")


# -- progress --------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_only():
    for stream, enabled, written in (
        (Terminal(), True, True),
        (io.StringIO(), True, False),
        (Terminal(), False, False),
    ):
        progress = Progress(1000, "fit", enabled, stream, first=100)
        progress.drawn -= 1.0
        progress.advance(400)
        progress.close()
        assert bool(stream.getvalue()) == written
    line = Progress(1000, "fit", True, Terminal())
    line.done = 500
    assert "50 %" in line.line(10.0)
    assert "50 rows/s" in line.line(10.0)
    assert "0:10 left" in line.line(10.0)
    unknown = Progress(None, "fit", True, Terminal())
    unknown.done = 500
    assert unknown.line(10.0) == "fit 500 rows, 50 rows/s"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("metric", ["auto", "isotropic"])
def test_progress_names_every_stage(metric, terminal, monkeypatch):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    X = np.random.default_rng(0).normal(size=(600, 3))
    KernelRidge(metric=metric, verbose=1, random_state=0).fit(X, np.sin(X[:, 0]))
    lines = stream.getvalue().replace("\x1b[K", "").split("\r")
    if not terminal:
        assert not stream.getvalue()
        return
    stages = {
        "auto": {"metric: equal length scales", "metric: learned on 400 rows", "metric: compared on 200 rows"},
        "isotropic": {"length scale: 1 tried", "length scale: 5 tried"},
    }
    assert stages[metric] <= set(lines)
    assert any(line.endswith("components: landmarks") for line in lines)
    assert any(line.startswith("fit, ") for line in lines)
    assert lines[-1] == ""


def test_iterations_on_float32_rows_find_their_products_symmetric():
    X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
    model = KernelRidge(RBF(5.0), 256, alpha=1.0, solver="cg", random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.report_.converged


@pytest.mark.parametrize("size", [1, 7, 100, 300, 349, 399, 400, 500])
@pytest.mark.parametrize("decades", [0.0, 1.0, 24.0, 280.0, 600.0])
def test_rows_of_a_metric_are_as_many_as_asked_for_however_uneven_they_are(size, decades):
    h = 10.0 ** np.linspace(-0.5 * decades, 0.5 * decades, 400)
    h[::8] = 0.0  # 50 of them
    chance = _chances(h, size)
    assert (chance[h == 0.0] == 0.0).all()
    assert (np.diff(chance[h > 0.0]) >= 0.0).all()
    assert chance.max() <= 1.0
    if decades < 300:  # beyond, the least underflow and have no chance
        np.testing.assert_allclose(chance.sum(), min(size, 350), rtol=1e-9)
    uncertain = (chance < 1.0) & (h > 1e-12 * h[chance < 1.0].max(initial=0.0)) & (h > 0.0)
    if uncertain.any():
        ratios = chance[uncertain] / h[uncertain]
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)
