"""Datasets: bundled, in a folder, fetched from a server, or refused in words."""

import gzip
import http.server
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

from bochner import datasets
from bochner.datasets import REGISTRY, Entry, File, _bike, _idx, _last_column, _letter, _pmlb, _svmlight, digest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder of real data."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("BOCHNER_DATA", raising=False)
    return tmp_path / "cache" / "bochner"


@pytest.fixture
def server(tmp_path):
    """A folder that is served on this machine, and its address."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{served.server_address[1]}/"
        served.shutdown()


def test_reads_what_the_folder_holds(tmp_path, monkeypatch):
    np.savez(tmp_path / "tiny.npz", X=np.arange(6).reshape(3, 2), y=np.array([1, 2, 3]), n_train=2)
    np.savez(tmp_path / "sparse.npz", data=[1, 2], indices=[0, 2], indptr=[0, 1, 2], shape=[2, 3], y=[0, 1])
    monkeypatch.setenv("BOCHNER_DATA", str(tmp_path))
    assert {"sparse", "tiny", "digits"} <= set(datasets.available())
    tiny = datasets.load("tiny")
    assert tiny.X.dtype == np.float32
    assert tiny.n_train == 2
    np.testing.assert_array_equal(datasets.load("sparse").X.toarray(), [[1, 0, 0], [0, 0, 2]])
    with pytest.raises(FileNotFoundError, match=r"no dataset 'other'; there are .*sparse, tiny"):
        datasets.load("other")


@pytest.mark.parametrize("name", datasets.BUNDLED)
def test_bundled_sets_need_nothing(name, cache):
    data = datasets.load(name)
    assert data.X.dtype == np.float32
    assert len(data.y) == len(data.X) == data.n_train
    assert name in datasets.available()


def test_the_folder_comes_first(tmp_path, monkeypatch):
    np.savez(tmp_path / "digits.npz", X=np.zeros((2, 2)), y=np.zeros(2))
    monkeypatch.setenv("BOCHNER_DATA", str(tmp_path))
    assert datasets.load("digits").X.shape == (2, 2)


# -- fetching ------------------------------------------------------------------------------------------------------


def made(X, y, url, checksum=None, convert=_last_column):
    return Entry("here", "none", X.shape, "regression", (File(url, checksum),), convert, digest(X, y))


def serve_table(server, X, y, name="data.csv.gz"):
    folder, address = server
    text = "\n".join(",".join(map(repr, map(float, row))) for row in np.column_stack([X, y]))
    (folder / name).write_bytes(gzip.compress(text.encode(), mtime=0))
    return address + name


@pytest.fixture
def tiny(server, monkeypatch):
    pytest.importorskip("pooch")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)).astype(np.float32), rng.normal(size=12)
    entry = made(X, y, serve_table(server, X, y))
    monkeypatch.setitem(REGISTRY, "tiny", entry)
    return X, y, entry


def test_fetched_once_and_kept(tiny, cache, server):
    X, y, _ = tiny
    assert "tiny" in datasets.names()
    assert "tiny" not in datasets.available()
    with pytest.warns(UserWarning, match="publishes no checksum"):
        data = datasets.load("tiny")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_allclose(data.y, y)
    assert "tiny" in datasets.available()
    (server[0] / "data.csv.gz").unlink()
    np.testing.assert_array_equal(datasets.load("tiny").X, X)  # from the cache, and without a warning
    assert sorted(path.name for path in cache.iterdir()) == ["sources", "tiny.npz"]


def test_a_known_checksum_is_checked(tiny, cache, server, monkeypatch):
    import hashlib

    right = hashlib.sha256((server[0] / "data.csv.gz").read_bytes()).hexdigest()
    entry = tiny[2]
    monkeypatch.setitem(REGISTRY, "tiny", replace(entry, files=(File(entry.files[0].url, f"sha256:{'0' * 64}"),)))
    with pytest.raises(OSError, match="has changed since we converted it"):
        datasets.load("tiny")
    monkeypatch.setitem(REGISTRY, "tiny", replace(entry, files=(File(entry.files[0].url, f"sha256:{right}"),)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert datasets.load("tiny").X.shape == (12, 3)


def test_a_source_with_a_checksum_needs_none_of_its_numbers(tiny, cache, server, monkeypatch):
    import hashlib

    right = hashlib.sha256((server[0] / "data.csv.gz").read_bytes()).hexdigest()
    entry = replace(tiny[2], files=(File(tiny[2].files[0].url, f"sha256:{right}"),), digest=None)
    monkeypatch.setitem(REGISTRY, "tiny", entry)
    np.testing.assert_array_equal(datasets.load("tiny").X, tiny[0])
    (cache / "tiny.npz").unlink()
    monkeypatch.setitem(REGISTRY, "tiny", replace(entry, shape=(12, 4)))
    with pytest.raises(OSError, match="are not those that we know"):
        datasets.load("tiny")


def test_covertype_is_read_as_it_is_published(tmp_path):
    rows = ["2596,51,3,258,0,510,221,232,148,6279," + ",".join("1" if j in (0, 42) else "0" for j in range(44)) + ",5"]
    X, y, n_train = REGISTRY["covtype"].convert([written(tmp_path, "\n".join(rows * 2), compress=True)])
    assert X.shape == (2, 54)
    assert X[0, :3].tolist() == [2596.0, 51.0, 3.0]
    assert X[0, 10:].sum() == 2.0
    assert (y.tolist(), n_train) == ([5.0, 5.0], None)


@pytest.mark.filterwarnings("ignore:tiny")
def test_other_numbers_are_refused(tiny, cache, server):
    serve_table(server, tiny[0] + 1, tiny[1])
    with pytest.raises(OSError, match="are not those that we know"):
        datasets.load("tiny")
    assert not (cache / "tiny.npz").exists()


@pytest.mark.filterwarnings("ignore:tiny")
def test_another_format_is_refused(tiny, cache, server):
    (server[0] / "data.csv.gz").write_bytes(b"<html>moved</html>")
    with pytest.raises(OSError, match="is not in the format it had"):
        datasets.load("tiny")


def test_offline_says_what_to_do(cache, monkeypatch):
    pytest.importorskip("pooch")
    entry = replace(REGISTRY["kin40k"], files=(File("http://127.0.0.1:9/data.csv.gz"),))  # nobody listens there
    monkeypatch.setitem(REGISTRY, "kin40k", entry)
    with pytest.raises(OSError, match=r"could not be fetched from http://127.0.0.1:9.*BOCHNER_DATA"):
        datasets.load("kin40k")
    with pytest.raises(OSError, match=r"usps is not fetched automatically: get it from .*BOCHNER_DATA"):
        datasets.load("usps")


def test_without_pooch(cache, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'bochner\[data\]'"):
        datasets.load("kin40k")


# -- the registry --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGISTRY)
def test_every_entry_says_where_from_and_under_which_terms(name):
    entry = REGISTRY[name]
    assert entry.source
    assert entry.licence
    assert (entry.convert is None) == (not entry.files)
    assert (entry.digest is not None) or entry.convert is None or entry.verified
    for file in entry.files:
        assert file.url.startswith("https://")
        if file.checksum:
            algorithm, _, value = file.checksum.partition(":")
            assert len(value) == {"md5": 32, "sha256": 64}[algorithm]
    assert name not in datasets.BUNDLED


@pytest.mark.parametrize("name", REGISTRY)
def test_the_folder_holds_what_the_registry_says(name):
    if name not in [path.stem for path in (datasets.folder() or datasets.cache()).glob("*.npz")]:
        pytest.skip("needs BOCHNER_DATA")
    data, entry = datasets.load(name), REGISTRY[name]
    assert data.X.shape == entry.shape
    values = data.X.data if hasattr(data.X, "indptr") else data.X
    assert np.isfinite(values).all()
    assert len(data.y) == data.X.shape[0] >= data.n_train
    if entry.digest:
        assert digest(data.X, data.y) == entry.digest


# files as their sources write them; the first rows of each are facts about those files


def written(tmp_path, text, name="file", compress=False):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if compress else text.encode())
    return path


def test_pmlb_files(tmp_path):
    path = written(tmp_path, "a\ttarget\tb\n1\t2\t3\n4\t5\t6\n", compress=True)
    X, y, n_train = _pmlb(1)([path])
    np.testing.assert_array_equal(X, [[1, 3], [4, 6]])
    np.testing.assert_array_equal(y, [2, 5])
    assert n_train == 1


def test_two_files_of_commas(tmp_path):
    paths = [written(tmp_path, "1,2,3\n4,5,6\n", "a"), written(tmp_path, "7,8,9\n", "b")]
    X, y, _ = _last_column(paths)
    np.testing.assert_array_equal(X, [[1, 2], [4, 5], [7, 8]])
    np.testing.assert_array_equal(y, [3, 6, 9])


def test_bike_file(tmp_path):
    header = "instant,dteday,season,yr,mnth,hr,holiday,weekday,workingday,weathersit,temp,atemp,hum,windspeed"
    path = written(tmp_path, f"{header},casual,registered,cnt\n1,1/1/2011,1,0,1,0,0,6,0,1,0.24,0.2879,0.81,0,3,13,16\n")
    X, y, _ = _bike([path])
    np.testing.assert_array_equal(X, [[1, 0, 1, 0, 0, 6, 0, 1, 0.24, 0.2879, 0.81, 0]])
    np.testing.assert_array_equal(y, [16])


def test_letter_file(tmp_path):
    path = written(tmp_path, "T,2,8,3\nA,1,1,1\n")
    X, y, n_train = _letter([path])
    np.testing.assert_array_equal(X, [[2, 8, 3], [1, 1, 1]])
    np.testing.assert_array_equal(y, [19, 0])
    assert n_train == 16_000


def test_svmlight_files(tmp_path):
    paths = [written(tmp_path, "-1 1:0.5 3:1\n", "a"), written(tmp_path, "+1 2:2\n", "b")]
    X, y, n_train = _svmlight(4)(paths)
    np.testing.assert_array_equal(X, [[0.5, 0, 1, 0], [0, 2, 0, 0]])
    np.testing.assert_array_equal(y, [-1, 1])
    assert n_train == 1


def test_idx_files(tmp_path):
    data = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, *range(6)])
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(data))
    np.testing.assert_array_equal(_idx(path), np.arange(6).reshape(2, 3))


REBUILT = ["california", "insurance", "kin40k", "pol", "wine"]


@pytest.mark.parametrize("name", REBUILT)
def test_a_source_written_from_our_numbers_comes_back(name, tmp_path, server, monkeypatch):
    """The way from a source's file to the checksum of its numbers, for real sets."""
    pytest.importorskip("pooch")
    if datasets.folder() is None:
        pytest.skip("needs BOCHNER_DATA")
    data, entry = datasets.load(name), REGISTRY[name]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("BOCHNER_DATA")
    table = np.column_stack([data.X.astype(np.float64), data.y])
    pmlb = "pmlb" in entry.files[0].url
    files = []
    for i, part in enumerate(np.array_split(table, len(entry.files))):
        names = ["\t".join([*(f"c{j}" for j in range(data.X.shape[1])), "target"])] if pmlb else []
        lines = [("\t" if pmlb else ",").join(map(repr, row)) for row in part.tolist()]
        (server[0] / f"{i}.gz").write_bytes(gzip.compress("\n".join([*names, *lines]).encode(), 1))
        files.append(File(server[1] + f"{i}.gz"))
    monkeypatch.setitem(REGISTRY, name, replace(entry, files=tuple(files)))
    with pytest.warns(UserWarning, match="publishes no checksum"):
        fetched = datasets.load(name)
    np.testing.assert_array_equal(fetched.X, data.X)
    assert fetched.n_train == data.n_train
