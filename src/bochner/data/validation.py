"""Validation of the rows of X, and checks that several estimators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_array, validate_data

from bochner.backends import (
    FLOATS,
    PRECISIONS,
    Array,
    as_native,
    backend_of,
    check_moderate,
    densified,
    is_moderate,
    is_tensor,
    reading,
)
from bochner.checks import check_choice, check_count, check_positive, is_auto
from bochner.data.frames import split_frame
from bochner.data.sources import names_of

# An outlier is _FAR times as far from the median as the share _MOST of the rows, and _GAP times as far as any other
# row: heavy tails have no gap.
_MOST, _FAR, _GAP = 0.9, 30.0, 3.0
_QUANTILE_ROWS, _GOLDEN = 1000, (5.0**0.5 - 1.0) / 2.0  # rows used for the median, and the step from one to the next
_NUMBERS = 1 << 24  # numbers in those rows from which outliers are not searched for


def check_budget(estimator: BaseEstimator, tol: float | None = None) -> None:
    """Check `tol` and the limits of a search for the number of components."""
    check_positive("tol", estimator.tol if tol is None else tol)
    check_count("max_components", estimator.max_components)
    for name, limit in (("max_seconds", estimator.max_seconds), ("max_bytes", estimator.max_bytes)):
        if limit is not None:
            check_positive(name, limit)


def check_components(estimator: BaseEstimator, name: str = "n_components") -> None:
    """Check a number of components, which may be "auto", and the limits of a search for it."""
    value = vars(estimator)[name]
    if not is_auto(value, name):
        check_count(name, value)
    check_budget(estimator)


def check_precision(value: object) -> str:
    """Return the precision, which must be "full" or "fast"."""
    return check_choice("precision", value, PRECISIONS)


def is_distributed(X: object) -> bool:
    """Return True for a dask array or frame or a list of delayed blocks, without importing dask."""
    first = X[0] if isinstance(X, (list, tuple)) and len(X) else X
    return type(first).__module__.split(".")[0] in ("dask", "dask_expr")


def dask() -> ModuleType:
    """Import `bochner.data.distributed`, the only module that needs dask."""
    import bochner.data.distributed as module

    return module


def in_memory(estimator: BaseEstimator, X: Any, y: Any = None) -> tuple[Any, Any]:
    """Return rows and targets to fit a transformer on: all or, of Dask data, 20,000 with the one of largest norm."""
    if not is_distributed(X):
        return X, y
    rows, targets = dask().gathered(estimator, X, y)
    return rows, targets


def count_rows(X: object) -> int | None:
    """Return the number of rows of dask data; None for anything else."""
    return int(dask().n_rows(X)) if is_distributed(X) else None


def map_dask_blocks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method that returns a row for every row of X: map Dask data lazily, block by block."""

    @wraps(method)
    def call(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        if is_distributed(X):
            return dask().map_rows(method.__name__, self, X, *arguments, **options)
        return method(self, X, *arguments, **options)

    return call


def dask_aware(cls: Any) -> Any:
    """Decorate a class: `transform` and `fit_transform` accept Dask data, without scikit-learn's `set_output`."""
    if "transform" in vars(cls):
        cls.transform = map_dask_blocks(cls.transform)
    inner = cls.fit_transform

    @wraps(inner)
    def fit_transform(self: Any, X: Any, y: Any = None, **options: Any) -> Any:
        if is_distributed(X):
            return self.fit(X, y, **options).transform(X)
        return inner(self, X, y, **options)

    cls.fit_transform = fit_transform
    return cls


class DistributedScore:
    """Mixin for `score` of Dask data and of columns by name; must come before scikit-learn's mixins among the bases."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier, or the coefficient of determination R² of other models.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or dask data
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or the name of a column of a frame
        sample_weight : array-like of shape (n_samples,), the name of a column of a frame, or None
        """
        if is_distributed(X):
            return float(dask().score(self, X, y, sample_weight))
        return super().score(*split_frame(X, y, sample_weight))  # type: ignore[misc]


def validate_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Array:
    """Return X as a finite float array, tensor or CSR matrix with the right number of columns; see `as_native`.

    In `fit` (`reset`) a tensor is copied to host memory, so that what is learned is the same for every device.
    """
    if reset and is_distributed(X):
        X, _ = in_memory(estimator, X)
    X = as_native(X)
    if not reset and _is_plain(estimator, X):
        return X
    if is_tensor(X):
        return _validate_tensor(estimator, X, reset=reset)
    with reading("X", partial(explain_rows, estimator, X)):
        X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=FLOATS)
    return check_moderate(as_native(X), alone=reset)


def explain_rows(estimator: BaseEstimator, X: object, message: str) -> str | None:
    """Name the column of X that holds text or missing values, and a model that accepts it; None for other errors."""
    gap = "Input X contains NaN" in message
    found = _unsuitable_column(X) if gap or "must hold numbers" in message else None
    if found is None:
        return None
    head = "Input X contains NaN" if gap else "X must hold numbers"
    advice = "Impute missing values" if gap else "Encode it as numbers"
    if is_classifier(estimator) or is_regressor(estimator):
        tabular = "TabularClassifier" if is_classifier(estimator) else "TabularRegressor"
        advice += f", or use {tabular}, which accepts categories, dates and missing values"
    return f"{head}; {found}. {advice}."


def _unsuitable_column(X: Any) -> str | None:
    """Say in words what the first column with text, dates or missing values holds; None if there is no such column."""
    X = np.asarray(X, dtype=object) if isinstance(X, (list, tuple)) else X  # rows may differ in length
    if np.ndim(X) != 2:
        return None
    if scipy.sparse.issparse(X):
        _, columns, values = scipy.sparse.find(X)
        first = columns[np.isnan(values)][:1]
        return f"column {first[0]} has missing values" if len(first) else None
    names = names_of(X)
    X = X if names else np.asarray(X)
    for name in names or range(X.shape[1]):
        values = np.asarray(X[name] if names else X[:, name])
        if values.dtype.kind in "mM":
            return f"column {name!r} holds dates or times"
        try:
            gaps = np.count_nonzero(np.isnan(values.astype(np.float64)))
        except (TypeError, ValueError):
            text = next((value for value in values.tolist() if isinstance(value, str)), None)
            return None if text is None else f"column {name!r} holds text, such as {text!r}"
        if gaps:
            return f"column {name!r} has {gaps} missing {'values' if gaps > 1 else 'value'}"
    return None


def check_rows(X: ArrayLike, **options: Any) -> Array:
    """Do the same as `validate_rows`, for functions: X becomes an array or CSR matrix."""
    with reading(options.get("input_name", "X")):
        X = check_array(as_native(X), **{"accept_sparse": "csr", "dtype": FLOATS, **options})
    return check_moderate(as_native(X))


def check_width(estimator: BaseEstimator, n_features: int) -> None:
    """Raise scikit-learn's error for rows with another number of columns than those of `fit`."""
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input."
        )


def check_same_names(estimator: BaseEstimator, names: Sequence[str] | None) -> None:
    """Raise scikit-learn's error for columns with other names, or in another order, than those of `fit`, if named."""
    fitted = vars(estimator).get("feature_names_in_")
    if names is None or fitted is None or list(names) == list(fitted):
        return
    unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))
    message = "The feature names should match those that were passed during fit.\n"
    for what, found in (("unseen at fit time", unseen), ("seen at fit time, yet now missing", missing)):
        if found:
            message += f"Feature names {what}:\n" + "".join(f"- {name}\n" for name in found[:5])
            message += "- ...\n" * (len(found) > 5)
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)


def _validate_tensor(estimator: BaseEstimator, X: Any, *, reset: bool) -> Array:
    backend = backend_of(X)
    if reset:
        return check_moderate(validate_data(estimator, backend.fetch(X), reset=True, dtype=FLOATS), alone=True)
    name = type(estimator).__name__
    if X.ndim != 2 or not len(X):
        raise ValueError(f"expected a 2-D tensor of at least one row, got one of shape {tuple(X.shape)}.")
    check_width(estimator, X.shape[1])
    if X.is_complex():
        raise ValueError("Complex data not supported; pass a tensor of real numbers.")
    if X.dtype not in (backend.xp.float32, backend.xp.float64):
        X = X.float() if X.dtype in (backend.xp.float16, backend.xp.bfloat16) else X.double()
    if not bool(backend.xp.isfinite(X).all()):
        raise ValueError(f"Input X contains NaN or infinity. {name} needs finite numbers; drop or impute those rows.")
    return X.detach()


def as_host(X: Any) -> Any:
    """Return a tensor as a NumPy array, anything else as it is."""
    return backend_of(X).fetch(X) if is_tensor(X) else X


def as_tensor(X: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return a JAX or CuPy array as a tensor over the same memory, and the way back; anything else as it is."""
    library = type(X).__module__.split(".")[0]
    if library not in ("cupy", "jax", "jaxlib"):
        return X, None
    try:
        from bochner.backends.torch.memory import from_dlpack
    except ImportError:
        raise TypeError(
            f"arrays of {library} are taken through torch, which is not installed; pass numpy.asarray(X) instead."
        ) from None
    return from_dlpack(X), X.__array_namespace__().from_dlpack


def _is_plain(estimator: BaseEstimator, X: object) -> bool:
    """Return True if X is valid without conversion, so that scikit-learn's checks, which take 100 µs, are skipped."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.type not in FLOATS or not len(X):
        return False
    fitted = vars(estimator)
    same = X.shape[1] == fitted.get("n_features_in_") and "feature_names_in_" not in fitted
    return same and is_moderate(X)


def usual_rows(X: Array) -> Array:
    """Mark the rows without outliers, (n,): values far from the median of their column, with a gap before them.

    All rows if half of them have one. Columns mostly of one value have none, and nor have heavy tails.
    """
    n, d = X.shape
    usual = np.ones(n, bool)
    rows = np.arange(n) if n <= _QUANTILE_ROWS else np.arange(_QUANTILE_ROWS) * _GOLDEN % 1.0 * n  # in no regular steps
    if len(rows) * d > _NUMBERS or not n:
        return usual
    few = X[rows.astype(np.intp)]
    few = densified(few)
    centre = np.median(few, axis=0)
    half, most = np.quantile(np.abs(few - centre), [0.5, _MOST], axis=0)
    for j in np.flatnonzero(half > 0):
        column = X[:, [j]]
        column = densified(column)
        distances = np.abs(column[:, 0] - centre[j])
        far = distances > _FAR * most[j]
        if far.any() and distances[far].min() > _GAP * distances[~far].max():
            usual &= ~far
    return usual if 2 * np.count_nonzero(usual) >= n else np.ones(n, bool)
