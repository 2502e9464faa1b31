"""Every approximation on the same rows of your data: error against columns, time and memory."""

from __future__ import annotations

import io
import pickle
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from bochner.backends import Array
from bochner.backends.machines import describe
from bochner.checks import check_count
from bochner.experiments.candidates import Candidate, as_candidates
from bochner.experiments.references import EXACT, Reference, Rows, as_table, baselines, dense, draw_rows, linear_error
from bochner.kernels import Kernel, Polynomial, as_kernel
from bochner.keys import Key

COLUMNS = (
    *("map", "columns", "run", "frobenius", "spectral"),
    *("fit_seconds", "transform_seconds", "model_seconds", "bytes", "error"),
)
SIZES = (64, 128, 256, 512, 1024)  # columns, unless others are asked for
_PICTURE_ROWS = 96  # rows of the Gram matrix that the report draws
Progress = Callable[[int, int, str], None]


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("compare returns a pandas.DataFrame: pip install 'bochner[cli]'.") from error
    return pandas


@dataclass
class Comparison:
    """A table with one row a run, and what a report says about it."""

    frame: Any
    kernel: Kernel
    about: dict[str, Any]
    candidates: dict[str, Candidate]
    X: Any = field(repr=False)  # reference rows
    K: Array = field(repr=False)

    def transformer(self, name: str, n_components: int) -> Any:
        """The map of that name, not fitted, as it was measured in the first run."""
        return self.candidates[name].make(self.kernel, n_components, self.about["seed"])

    def picture(self, name: str, n_components: int) -> tuple[Array, Array]:
        """Exact and approximated entries of a few rows, similar rows next to each other."""
        n = min(_PICTURE_ROWS, len(self.K))
        rows = np.linspace(0, len(self.K) - 1, n).astype(int)
        Z = dense(self.transformer(name, n_components).fit(self.X).transform(self.X[rows]))
        K = self.K[np.ix_(rows, rows)]
        order = _seriation(K)
        return K[np.ix_(order, order)], (Z @ Z.T)[np.ix_(order, order)]


def _seriation(K: Array) -> Array:
    """An order in which rows like each other are neighbours."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(K) < 3:
        return np.arange(len(K))
    # rows of K are their own description: alike where they resemble the same others
    return leaves_list(linkage(K.astype(np.float64), "average", optimal_ordering=True))


def compare(
    X: Any,
    y: Any = None,
    *,
    kernel: Any = "rbf",
    maps: Any = None,
    n_components: Any = None,
    n_runs: int = 5,
    n_reference: int = 4000,
    random_state: Any = 0,
    progress: Progress | None = None,
) -> Any:
    """Measure every approximation of a kernel on the same rows of your data.

    Maps are fitted to `n_reference` rows and compared with the exact kernel matrix of those rows. With targets, ridge
    regression (of ±1 for each class where the targets are labels) is trained on the features of those rows and tested
    on other rows, next to the exact kernel, a linear model and a constant. The exact kernel is left out where solving
    for it would take longer than everything else together, and ``frame.attrs["notes"]`` says so. Ctrl-C ends it with
    what is done.

    Parameters
    ----------
    X : array-like, memmap or CSR matrix of shape (n_samples, n_features)
        Used as it is: scale columns of different units first. Of many rows a sample is looked at.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Labels (strings, booleans, integers of at most 50 distinct values) or numbers.
    kernel : Kernel, str or callable, default="rbf"
    maps : list of str and transformers, dict of transformers, or None
        None takes those that suit the kernel, ``bochner.experiments.candidates.default_maps``. A transformer is cloned
        and has `n_components` and `random_state` set; it keeps the kernel that it has.
    n_components : int, sequence of int or None, default=None
        Numbers of columns. None takes 64, 128, 256, 512 and 1,024, as far as there are twice as many reference rows.
    n_runs : int, default=5
        Draws of every map: run r has the seed random_state + r.
    n_reference : int, default=4000
        Rows; their kernel matrix is held.
    random_state : int, RandomState, Generator or None
    progress : callable, optional
        Called as progress(done, total, label) before each measurement and at the end.

    Returns
    -------
    pandas.DataFrame
        One row a run: "map", "columns", "run", relative errors "frobenius" and "spectral" of the kernel matrix,
        "fit_seconds", "transform_seconds" (of the reference rows), "bytes" (of the fitted map, pickled) and, with
        targets, "model_seconds" of training and "error" on the test rows (root mean squared error, or share of wrong
        labels). With targets the last rows are "exact kernel", "linear model" and "constant". ``frame.attrs`` says what
        was run.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import bochner
    >>> X, y = load_diabetes(return_X_y=True)
    >>> frame = bochner.compare(X, y, maps=["RBFSampler", "fourier:orthogonal"], n_components=[64], n_runs=2)
    >>> frame["map"].unique().tolist()
    ['RBFSampler', 'fourier:orthogonal', 'exact kernel', 'linear model', 'constant']
    >>> errors = frame.groupby("map")["frobenius"].mean()
    >>> bool(errors["fourier:orthogonal"] < errors["RBFSampler"])
    True
    """
    options = {"kernel": kernel, "maps": maps, "n_components": n_components, "n_runs": n_runs}
    options |= {"n_reference": n_reference, "random_state": random_state, "progress": progress}
    return run_comparison(X, y, **options).frame


def run_comparison(
    X: Any,
    y: Any = None,
    *,
    kernel: Any = "rbf",
    maps: Any = None,
    n_components: Any = None,
    n_runs: int = 5,
    n_reference: int = 4000,
    random_state: Any = 0,
    progress: Progress | None = None,
) -> Comparison:
    """`compare`, with what a report needs besides the table."""
    pandas = _pandas()
    asked = () if n_components is None else np.atleast_1d(np.asarray(n_components, object)).tolist()
    sizes = sorted({check_count("n_components", n) for n in asked})
    check_count("n_runs", n_runs)
    if check_count("n_reference", n_reference) < 10:
        raise ValueError(f"n_reference must be at least 10 rows, got {n_reference}.")
    begun = time.perf_counter()
    key = Key.from_random_state(random_state)
    seed = key.seed % 2**31
    rows = draw_rows(X, y, n_reference, key)
    n_rows = int(rows.X.shape[0])
    if n_components is None:  # with more columns than half the rows the exact kernel costs no more
        sizes = [n for n in SIZES if 2 * n <= n_rows] or [max(1, n_rows // 2)]
    resolved = as_kernel(kernel).resolve(rows.X, key)
    if isinstance(resolved, Polynomial) and resolved.gamma is None:  # as a number, which the peers need
        resolved.set_params(gamma=1.0 / rows.X.shape[1])
    candidates = as_candidates(maps, resolved)
    work = [(run, n, c) for run in range(n_runs) for n in sizes for c in candidates if not c.fixed or n == sizes[0]]
    done: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    notes: tuple[str, ...] = ()
    interrupted = False
    report = progress or (lambda done, total, label: None)
    total = len(work) + 1
    report(0, total, EXACT)
    reference = Reference(resolved, rows.X)
    try:
        _warm_up(candidates, resolved, sizes[0], seed, rows.X)
        if rows.Y is not None:
            others, notes = baselines(reference, resolved, rows, [n for _, n, _ in work], key)
        for i, (run, n, candidate) in enumerate(work):
            report(i + 1, total, f"{candidate.name}, {n} columns")
            done.append(_measure(candidate, resolved, n, seed + run, rows, reference) | {"run": run})
    except KeyboardInterrupt:
        interrupted = True
    report(total, total, "interrupted" if interrupted else "done")
    order = {c.name: i for i, c in enumerate(candidates)}
    done.sort(key=lambda r: (order[r["map"]], r["columns"], r["run"]))
    frame = pandas.DataFrame([*done, *others], columns=list(COLUMNS))
    frame.attrs.update(
        kernel=repr(resolved),
        n_samples=int(as_table(X).shape[0]),
        n_features=int(rows.X.shape[1]),
        n_reference=n_rows,
        n_test=0 if rows.y_test is None else len(rows.y_test),
        n_classes=0 if rows.classes is None else len(rows.classes),
        task=rows.task,
        n_runs=n_runs,
        n_components=sizes,
        random_state=seed,
        interrupted=interrupted,
        notes=notes,
        seconds=time.perf_counter() - begun,
        kernel_seconds=reference.seconds,
    )
    about = {**frame.attrs, "seed": seed, "dtype": str(rows.X.dtype), "machine": describe()}
    return Comparison(frame, resolved, about, {c.name: c for c in candidates}, rows.X, reference.K)


def _warm_up(candidates: list[Candidate], kernel: Kernel, n: int, seed: int, X: Any) -> None:
    """Fit everything once on a few rows: threads start, and a map that does not suit the kernel says so now."""
    few = X[: min(X.shape[0], max(20, 2 * n))]
    for candidate in candidates:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                candidate.make(kernel, min(n, few.shape[0]), seed).fit(few).transform(few)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{candidate.name} does not work on this data with {kernel!r}: {error}") from error


def _measure(
    candidate: Candidate, kernel: Kernel, n: int, seed: int, rows: Rows, reference: Reference
) -> dict[str, Any]:
    transformer = candidate.make(kernel, n, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more columns than rows: the table says how many there are
        start = time.perf_counter()
        transformer.fit(rows.X)
        fitted = time.perf_counter()
        features = transformer.transform(rows.X)
        transformed = time.perf_counter()
    Z = dense(features)
    if Z.shape[0] != rows.X.shape[0] or not np.isfinite(Z).all():
        raise ValueError(f"{candidate.name} gave {Z.shape} features, or some that are not finite.")
    error = model_seconds = np.nan
    if rows.Y is not None:
        error, model_seconds = linear_error(Z, dense(transformer.transform(rows.X_test)), rows)
    return {
        "map": candidate.name,
        "columns": int(features.shape[1]),
        "frobenius": reference.frobenius(Z),
        "spectral": reference.spectral(Z),
        "fit_seconds": fitted - start,
        "transform_seconds": transformed - fitted,
        "model_seconds": model_seconds,
        "bytes": size_of(transformer),
        "error": error,
    }


class _Sizer(pickle.Pickler):
    """A pickler that takes a function of the user's for its name, so that lambdas do not stop it."""

    def reducer_override(self, value: Any) -> Any:
        return (str, (value.__qualname__,)) if isinstance(value, FunctionType) else NotImplemented


def size_of(transformer: Any) -> int:
    """Bytes of a fitted transformer, pickled."""
    buffer = io.BytesIO()
    _Sizer(buffer, protocol=5).dump(transformer)
    return buffer.tell()
