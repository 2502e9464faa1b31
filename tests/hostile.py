"""What the hostile tests share: oracles for refusals, and things that are no data."""

from __future__ import annotations

import linecache
import os
import traceback
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse
import sklearn
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning

import bochner

try:
    import pandas
except ImportError:
    pandas = None

N_EXAMPLES = int(os.environ.get("BOCHNER_FUZZ_EXAMPLES", "8"))
FUZZING = N_EXAMPLES > 8
REFUSALS = (ValueError, TypeError, bochner.datasets.UnknownDatasetError)
_SPEAKERS = tuple(Path(module.__file__).parent for module in (bochner, sklearn))


def said_on_purpose(error: BaseException) -> bool:
    """Whether an error comes from a `raise` of ours or of scikit-learn's, and not from something that broke."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    ours = any(Path(last.filename).is_relative_to(folder) for folder in _SPEAKERS)
    return isinstance(error, REFUSALS) and ours and line.startswith("raise") and len(str(error)) > 15


def answer(function, /, *arguments, **options):
    """What a function returns, or None when it refuses with a message. Warnings it gives on purpose are fine."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LinAlgWarning)
        # scikit-learn sums an infinity and its negative when it looks for them
        warnings.filterwarnings("ignore", "invalid value encountered in reduce", RuntimeWarning)
        try:
            return function(*arguments, **options)
        except Exception as error:
            if not said_on_purpose(error):
                raise
    return None


def values_of(Z):
    return Z.data if scipy.sparse.issparse(Z) else np.asarray(Z)


def with_one(X, value):
    X = np.array(X)
    X.flat[1] = value
    return X


def hostile_rows(X):
    """Rows that are none, by name; X is what they are made of, positive numbers of shape (n, d)."""
    n, d = X.shape
    text, nothing = np.full((n, d), "a"), np.full((n, d), None)
    return {
        "a number": np.array(1.0),
        "one dimension": X[:, 0],
        "three dimensions": X[:, :, None],
        "no rows": X[:0],
        "no columns": X[:, :0],
        "neither": np.empty((0, 0)),
        "one row": X[:1],
        "one column": X[:, :1],
        "two rows": X[:2],
        "NaN": with_one(X, np.nan),
        "inf": with_one(X, np.inf),
        "-inf": with_one(X, -np.inf),
        "one of 1e300": with_one(X, 1e300),
        "a column of 1e300": X * np.r_[np.ones(d - 1), 1e300],
        "all of 1e300": X * 1e300,
        "all of 1e-300": X * 1e-300,
        "next to nothing": X * 5e-322,
        "nearly infinite": np.where(X > 0.5, 1.7e308, -1.7e308),
        "float16 with inf": np.full((n, d), np.inf, np.float16),
        "longdouble": X.astype(np.longdouble) * np.longdouble("1e400"),
        "text": text,
        "None": None,
        "a dict": {"a": 1},
        "Nones": nothing,
        "mixed": np.array([[1, 2.5, "x"]] * n, dtype=object),
        "integers of 400 digits": np.full((n, d), 10**400, dtype=object),
        "complex": X + 1j,
        "dates": np.full((n, d), np.datetime64("2020-01-01")),
        "a set": {1, 2},
        "an integer": 3,
        "a word": "abc",
        "bytes": b"abc",
        "ragged": [[1, 2], [3]],
        "an iterator": iter([1, 2]),
        "constant": np.ones((n, d)),
        "zeros": np.zeros((n, d)),
        "negative": -X,
        "equal rows": np.repeat(X[:1], n, axis=0),
        "equal rows far away": np.full((n, d), 1e279),
        "an empty sparse matrix": scipy.sparse.csr_array((n, d)),
        "sparse NaN": scipy.sparse.csr_array(with_one(X, np.nan)),
        "sparse without rows": scipy.sparse.csr_array((0, d)),
        "block sparse": scipy.sparse.bsr_array(X),
        "records": np.zeros(n, [("a", "f8"), ("b", "f8")]),
        "largest integers": np.full((n, d), 2**64 - 1, np.uint64),
        **hostile_frames(X, text),
    }


def hostile_frames(X, text):
    if pandas is None:
        return {}
    n = len(X)
    return {
        "text in a frame": pandas.DataFrame(text),
        "a frame with gaps": pandas.DataFrame({"a": pandas.array([1, None] * (n // 2), dtype="Int64"), "b": X[:, 0]}),
        "categories": pandas.DataFrame({"a": pandas.Categorical(["x", "y"] * (n // 2)), "b": X[:, 0]}),
        "an empty frame": pandas.DataFrame(),
    }


def hostile_targets(y):
    n = len(y)
    return {
        "too few": y[:5],
        "too many": np.r_[y, 1.0],
        "None": None,
        "NaN": with_one(y, np.nan),
        "inf": with_one(y, np.inf),
        "1e300": y * 1e300,
        "1e-300": y * 1e-300,
        "nearly infinite": np.full(n, 1.7e308),
        "text": np.array(["a", "b"] * (n // 2)),
        "objects": np.array([object()] * n),
        "no columns": np.empty((n, 0)),
        "two columns": np.c_[y, y],
        "a row": y[None],
        "three dimensions": y[:, None, None],
        "constant": np.ones(n),
        "a number": 1.0,
        "complex": y + 1j,
        "Nones": [None] * n,
        "a dict": {},
        "empty": [],
        "booleans": y > 0,
        "dates": np.full(n, np.datetime64("2020-01-01")),
        "integers of 400 digits": np.array([10**400] * n, dtype=object),
        "a name": "price",
        "mixed": np.array([1, "a"] * (n // 2), dtype=object),
        "all different": np.arange(n),
        "sparse": scipy.sparse.csr_array(y[:, None]),
    }


def hostile_weights(n):
    return {
        "too few": np.ones(5),
        "two dimensions": np.ones((n, 1)),
        "negative": -np.ones(n),
        "NaN": with_one(np.ones(n), np.nan),
        "inf": with_one(np.ones(n), np.inf),
        "zeros": np.zeros(n),
        "one row": np.r_[1.0, np.zeros(n - 1)],
        "text": np.array(["a"] * n),
        "a name": "w",
        "Nones": [None] * n,
        "a number": 2.0,
        "zero": 0.0,
        "1e-300": np.full(n, 1e-300),
        "complex": np.ones(n) + 1j,
        "an object": object(),
    }


# What a parameter may be given instead of a number, a word, a flag or a kernel.
HOSTILE = {
    "None": None,
    "-1": -1,
    "10**12": 10**12,
    "NaN": float("nan"),
    "a word": "no such thing",
    "an object": object(),
    "an empty list": [],
    "0": 0,
    "True": True,
    "0.5": 0.5,
    "-0.5": -0.5,
    "inf": float("inf"),
    "1e300": 1e300,
    "1e-300": 1e-300,
    "an empty word": "",
    "bytes": b"x",
    "[1]": [1],
    "a dict": {},
    "complex": 1j,
    "NumPy's 3": np.int64(3),
    "10**30": 10**30,
}
FEW = dict(list(HOSTILE.items())[:7])
