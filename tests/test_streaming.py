"""Streams: every kind of source gives the same model; checkpoints survive kills, other models and corruption."""

import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse

from bochner import RBF, KernelRidge
from bochner.keys import Key
from bochner.statistics import RidgeStatistics
from bochner.streaming import (
    ArraySource,
    ArrowSource,
    Block,
    BlockSource,
    Checkpoint,
    Progress,
    StreamedGram,
    accumulate,
    fingerprint,
    read_arrays,
    write_arrays,
)


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1], rng.uniform(0.0, 2.0, n)


def ridge(**parameters):
    return KernelRidge(RBF(1.5), 40, **({"alpha": 0.1, "random_state": 0} | parameters))


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
    import pandas
    import polars

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
    import pyarrow.parquet as pq

    yield "arrow table", (pq.read_table(folder / "part0.parquet"), "y", "w")


def test_every_source_gives_the_same_model(tmp_path):
    X, y, weight = table()
    truth = ridge().fit(X, y, weight)
    for name, arguments in sources(tmp_path, X, y, weight):
        model = ridge(block_size=64).fit(*arguments)
        assert model.n_features_in_ == 3, name
        np.testing.assert_allclose(model.coef_, truth.coef_, rtol=1e-6, atol=1e-9, err_msg=name)


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
        np.testing.assert_allclose(model.coef_, truth.coef_, rtol=1e-6, atol=1e-8, err_msg=type(source).__name__)


def test_names_of_columns_are_kept(tmp_path):
    X, y, weight = table()
    model = ridge().fit(parquet(tmp_path, X, y, weight), "y", "w")
    assert list(model.feature_names_in_) == ["x0", "x1", "x2"]
    some = ArrowSource(tmp_path, target=["y", "w"], columns=["x2", "x0"])
    several = ridge().fit(some)
    import pandas

    assert several.predict(pandas.DataFrame(X[:5, [2, 0]], columns=["x2", "x0"])).shape == (5, 2)


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
    original = KernelRidge._accumulate

    def arm(self, *arguments, **options):
        source.armed = True
        return original(self, *arguments, **options)

    source.armed = False
    KernelRidge._accumulate = arm
    try:
        fit(source)
    finally:
        KernelRidge._accumulate = original
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
        np.testing.assert_array_equal(resumed.coef_, truth.coef_)
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
    np.testing.assert_array_equal(model.coef_, ridge(random_state=seed, block_size=50).fit(source).coef_)


def test_a_killed_process_resumes_to_the_last_bit(tmp_path):
    X, y, weight = table(4000)
    folder = tmp_path / "data"
    folder.mkdir()
    parquet(folder, X, y, weight)
    code = f"""
import sys, time
import bochner.streaming.checkpoints as checkpoints
from bochner import KernelRidge, RBF
from bochner.streaming import ArrowSource
class Slow(ArrowSource):
    def blocks(self, rows, start=0):
        for block in super().blocks(rows, start):
            time.sleep(float(sys.argv[1]))
            yield block
init = checkpoints.Checkpoint.__init__
def every_block(self, path, belongs_to, about=None, every=0.0):
    init(self, path, belongs_to, about, 0.0)
checkpoints.Checkpoint.__init__ = every_block
model = KernelRidge(RBF(1.5), 40, alpha=0.1, random_state=0, block_size=100, checkpoint={str(tmp_path / "c")!r})
model.fit(Slow({str(folder)!r}, "y", weight="w"))
print(model.coef_.tobytes().hex())
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


def test_a_checkpoint_of_another_model_or_other_data_is_refused(tmp_path):
    path, source = interrupted(tmp_path)
    before = path.read_bytes()
    others = [ridge(checkpoint=path, block_size=50, random_state=1), ridge(checkpoint=path, block_size=60)]
    for other in others:
        with pytest.raises(ValueError, match="belongs to another model or other data"):
            other.fit(disarmed(source))
    X, y, _ = table(seed=5)
    with pytest.raises(ValueError, match="belongs to another model or other data"):
        ridge(checkpoint=path, block_size=50).fit(X, y)
    assert path.read_bytes() == before  # what was learned is still there
    with pytest.raises(ValueError, match="does not exist"):
        ridge(checkpoint=tmp_path / "nowhere" / "c").fit(X, y)


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


def test_statistics_are_saved_every_so_often(tmp_path):
    X, y, _ = table()
    model = ridge().fit(X, y)
    checkpoint = Checkpoint(tmp_path / "c", "me", every=0.0)
    statistics = RidgeStatistics(40, 1)
    accumulate(ArraySource(X, y), model.feature_map_, statistics, lambda y: y[:, None], rows=100, checkpoint=checkpoint)
    saved, rows = checkpoint.load()
    assert rows == 500
    np.testing.assert_array_equal(saved.moment, statistics.moment)


# -- bad streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((np.zeros((5, 2)), np.zeros(5)), "block 2 of the stream has 2 columns"),
        ((np.full((5, 3), np.nan), np.zeros(5)), "block 2 of the stream: Input X contains NaN"),
        ((np.zeros((5, 3)), np.zeros(4)), "block 2 of the stream: X has 5 rows and y has 4"),
        ((np.zeros((5, 3)), np.full(5, np.nan)), "targets contain NaN"),
        ((np.zeros((5, 3)), np.array(["a"] * 5)), "targets must be numbers"),
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
        progress = Progress(1000, "fit", enabled, stream)
        progress.skip(100)
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


def test_iterations_on_float32_rows_find_their_products_symmetric():
    X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
    model = KernelRidge(RBF(5.0), 256, alpha=1.0, solver="cg", random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.report_.converged
