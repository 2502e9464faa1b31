"""Base of the models: turns any kind of data into a source, and chooses and fits the features."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.backends import (
    FLOATS,
    Array,
    as_native,
    backend_of,
    check_moderate,
    is_tensor,
    limit_threads,
    n_threads,
    reading,
    refuse_mask,
    use_precision,
)
from bochner.backends.threads import blas_threads, each, one_thread
from bochner.checks import check_choice, check_count, check_device_name, check_flag, check_weight
from bochner.data.arrow import ArrowSource
from bochner.data.devices import open_device, rows_on
from bochner.data.frames import split_frame
from bochner.data.labels import labels_of
from bochner.data.sources import ArraySource, Block, BlockSource, Source, default_rows, limited, representative
from bochner.data.targets import check_target_size, numeric_targets
from bochner.data.validation import as_host, check_same_names, check_width, explain_rows, is_distributed, validate_rows
from bochner.displays import Summary, shortened
from bochner.draws.keys import Key
from bochner.estimators.fourier import TYPICAL_COMPONENTS, FourierFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.parameters import ModelParameters
from bochner.features.fourier import Fourier, choose_rows
from bochner.features.maps import FeatureMap, features_of, row_blocks
from bochner.features.nystrom import KernelColumns, Nystrom
from bochner.features.variants import as_nystrom_variant
from bochner.kernels.algebra import Kernel
from bochner.sampling import name_of

_PIECE_ROWS = 1024  # rows whose scores one thread computes at a time
_FEATURE_ROWS = 20_000  # rows on which features are fitted
CHOSEN_LANDMARKS = 1024  # beyond this number random rows are as good, and choosing would cost nearly as much as the fit
FEATURES: dict[str, Any] = {"fourier": FourierFeatures, "nystrom": NystromFeatures}


def is_there(device: str | None) -> bool:
    """Whether this machine has the device; models fitted on one predict on the host of other machines."""
    try:
        return device is not None and open_device(device) is not None
    except ValueError:
        return False


def check_sums(*models: Any) -> None:
    """Raise an error if a model has no sums to which rows can be added."""
    if any(model.statistics_.gram is None for model in models):
        raise ValueError(
            "this model keeps no sums to add to. If it was loaded from a file, fit again and keep them there with "
            "bochner.save(model, path, sums=True); if it was fitted with solver='cg' or 'sgd', use solver='cholesky'."
        )


def choose_landmark_scheme(preferred: str, n_landmarks: int, *, means: bool, nested: bool) -> str:
    """How a model samples its landmarks.

    Many landmarks are random rows: choosing them would cost nearly as much as the fit and gain little. But if they are
    `nested`, the first of them must be good landmarks by themselves, so they are chosen. The `preferred` scheme of a
    model may move landmarks to `means` of rows, which exist for stationary kernels of dense rows; otherwise landmarks
    are pivots.
    """
    if n_landmarks > CHOSEN_LANDMARKS and not nested:
        return "uniform"
    return preferred if means else "rpcholesky"


@dataclass(frozen=True)
class Transformed(FeatureMap):
    """Anything with a `transform` as a feature map."""

    transformer: Any
    n_components: int

    def __call__(self, X: Array) -> Array:
        Z = real_features(self.transformer, self.transformer.transform(X), X)
        if Z.shape[1] != self.n_components:
            raise ValueError(f"{self.transformer!r} gave {self.n_components} columns before, and {Z.shape[1]} now.")
        return Z


def real_features(transformer: Any, Z: Any, X: Any) -> Array:
    """The features that a transformer computed from the rows of X, in the dtype of X; raises an error if invalid."""
    Z = Z.toarray() if scipy.sparse.issparse(Z) else np.asarray(Z)
    name = f"the features of {transformer!r}"
    if np.iscomplexobj(Z):
        raise ValueError(
            f"{name} are complex, and a model takes real ones: FourierFeatures gives these with form='pairs' or "
            "form='offset'."
        )
    if Z.ndim != 2 or Z.shape[0] != X.shape[0] or not Z.shape[1]:
        raise ValueError(f"{name} have shape {Z.shape}; a model takes a row for each row of X, here {X.shape[0]}.")
    try:
        with np.errstate(over="ignore"):
            Z = Z.astype(X.dtype, copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{name} are of type {Z.dtype}; a model takes numbers.") from None
    largest = float(np.max(np.abs(Z), initial=0.0))
    if not largest < np.sqrt(np.finfo(Z.dtype).max) / 1e6:  # sums of squares must not overflow; also true for NaN
        raise ValueError(
            f"{name} reach {largest:.3g} in {Z.dtype}, whose squares a model adds up; scale the rows or the features."
        )
    return Z


def as_feature_map(transformer: Any, X: Any) -> FeatureMap:
    """The feature map of a fitted transformer; X is at least one row of the data."""
    found = getattr(transformer, "feature_map_", None)
    if isinstance(found, Nystrom):
        return found.truncated(max(1, found.rank))  # without the components that are zero
    if isinstance(found, Fourier) and found.form != "complex":
        return found
    Z = found(X[:1]) if isinstance(found, FeatureMap) else transformer.transform(X[:1])
    width = real_features(transformer, Z, X[:1]).shape[1]
    return found if isinstance(found, FeatureMap) and not scipy.sparse.issparse(Z) else Transformed(transformer, width)


def shift_of(transformer: Any) -> float:
    """The shift of fitted features with K ≈ ZZᵀ + shift I; for a pipeline, that of its last step."""
    last = transformer.steps[-1][1] if hasattr(transformer, "steps") else transformer
    parts = transformer.get_params().values() if hasattr(transformer, "get_params") else ()
    hidden = [part for part in parts if isinstance(part, NystromFeatures) and part is not last]
    variants = [as_nystrom_variant(part.variant) for part in hidden]
    if any(variant is not None and variant.shifts for variant in variants):
        raise ValueError(
            "NystromFeatures(variant='shifted') must be the features themselves, or the last step of a pipeline: what "
            "becomes of its shift in a union or before other steps is not known. Use variant='modified' there."
        )
    return float(getattr(last, "shift_", 0.0))


def is_stream(X: Any) -> bool:
    """Whether X is an iterable of blocks rather than a table of numbers."""
    if hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__") or not hasattr(X, "__iter__"):
        return False
    if isinstance(X, (list, tuple)):
        return bool(X) and all(isinstance(item, tuple) and len(item) in (2, 3) for item in X) and np.ndim(X[0][0]) == 2
    return True


def as_source(model: Any, X: Any, y: Any, sample_weight: Any, *, reset: bool, numeric: bool = True) -> Source:
    """The data given to `fit` as a source, after checks; sets or checks the number and names of the columns.

    With a path, an Arrow table or a frame, y and sample_weight may be names of columns; see `split_frame`.
    """
    if is_distributed(X) or is_distributed(y):
        return distributed_source(model, X, y, sample_weight, reset=reset)
    if isinstance(X, Source):
        source = X
        if isinstance(X, ArraySource):
            X.check()
            source = X.merged()
    elif isinstance(X, (str, os.PathLike)) or type(X).__module__.split(".")[0] == "pyarrow":
        named = y is None or isinstance(y, str) or (isinstance(y, list) and all(isinstance(c, str) for c in y))
        if not named or not (sample_weight is None or isinstance(sample_weight, str)):
            raise ValueError("for Parquet and Arrow data, y and sample_weight are names of columns.")
        if y is None:
            raise ValueError("name the target's column: fit(data, y='column').")
        source = ArrowSource(X, target=y, weight=sample_weight)
    elif y is None and is_stream(X):
        if sample_weight is not None:
            raise ValueError("in a stream the weights are the third member of each block: (X, y, weight).")
        source = BlockSource(X)
    else:
        if any(isinstance(data, np.ma.MaskedArray) for data in (X, y, sample_weight)):
            refuse_mask(X, y, sample_weight)
        X, y, sample_weight = as_host(X), as_host(y), as_host(sample_weight)
        if hasattr(X, "columns") or isinstance(y, str):
            X, y, sample_weight = split_frame(X, y, sample_weight)
        if not numeric and hasattr(y, "__array__"):
            y = np.asarray(y)  # scikit-learn would make floats of pandas' nullable integers, and fails on its NA
            y = labels_of(y) if y.dtype == object else y
        if numeric and y is not None:
            with reading("y"):
                values = np.asarray(y)
            y = numeric_targets(values).reshape(values.shape) if values.dtype.kind in "OSU" else y
        # any byte order is accepted: the source converts it block by block
        dtypes = [*FLOATS, *(np.dtype(t).newbyteorder() for t in FLOATS)]
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": dtypes, "multi_output": True}
        with reading("X or y", partial(explain_rows, model, X)):
            X, y = validate_data(model, X, as_native(y), reset=reset, y_numeric=numeric, **checks)
        check_moderate(X, alone=reset)
        if numeric and isinstance(y, np.ndarray):
            check_target_size(y)
        return ArraySource(X, y, None if sample_weight is None else _weights(sample_weight, X)).merged()
    _check_columns(model, source, reset=reset)
    return source


def _check_columns(model: Any, source: Source, *, reset: bool) -> None:
    """Set or check the number and names of the columns of a model by those of a source."""
    if not reset:
        check_same_names(model, source.feature_names)
        check_width(model, source.n_features)
        return
    model.n_features_in_ = source.n_features
    model.__dict__.pop("feature_names_in_", None)
    if source.feature_names is not None:
        model.feature_names_in_ = np.array(source.feature_names, dtype=object)


def _weights(sample_weight: Any, X: Any) -> Array:
    """Weights of the rows of X after checks, some of them positive."""
    weight = check_weight(sample_weight, X.shape[0], dtype=X.dtype)
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for every row.")
    return weight


def distributed_source(model: Any, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Source:
    """Dask data as a source; sets or checks the number and names of the columns."""
    from bochner.data.distributed import dask_source

    source = dask_source(model, X, y, sample_weight)
    validate_data(model, source.meta, reset=reset, skip_check_array=True)
    return source


def rows_source(model: Any, X: Any, sample_weight: Any, *, reset: bool) -> Source:
    """Rows without targets as a source, checked; sets or checks the number and names of the columns."""
    if is_distributed(X):
        return distributed_source(model, X, None, sample_weight, reset=reset).mapped(_no_targets)
    if isinstance(X, Source):
        if isinstance(X, ArraySource):
            X.check()
        _check_columns(model, X, reset=reset)
        return X.mapped(_no_targets)
    X = validate_rows(model, X, reset=reset)
    weight = None if sample_weight is None else _weights(sample_weight, X)
    return ArraySource(X, np.empty((X.shape[0], 0)), weight)


def _no_targets(block: Block) -> Block:
    return Block(block.X, np.empty((len(block), 0)), block.weight)


class DistributedScore:
    """`score` for Dask data, computed by its workers; must come before scikit-learn's mixins among the bases."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier, or the coefficient of determination R² of other models.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or dask data
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or the name of a column of a frame
        sample_weight : array-like of shape (n_samples,), the name of a column of a frame, or None
        """
        if is_distributed(X):
            from bochner.data.distributed import score

            return score(self, X, y, sample_weight, is_classifier(self))
        return super().score(*split_frame(X, y, sample_weight))  # type: ignore[misc]


class KernelModel(ModelParameters):
    """Parameters and steps that the models have in common."""

    _auto_features: str | None = None  # meaning of features="auto"; None: Fourier features of stationary kernels
    _landmarks = "auto"  # the sampling scheme of landmarks where means of rows make sense
    _takes_shift = False  # whether the model has a use for the shift of K ≈ ZZᵀ + shift I

    n_components: Any
    feature_map_: FeatureMap
    # values for models that have no such parameter
    alpha: Any = None
    checkpoint: str | os.PathLike[str] | None = None
    fit_intercept: bool = True
    n_restarts: int = 0
    precision: str = "full"

    def _check_options(self) -> None:
        """Raise an error for an invalid value of an option that all models have."""
        if self.block_size is not None:
            check_count("block_size", self.block_size)
        check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, least=0)
        check_flag("fit_intercept", self.fit_intercept)
        if self.device is not None:
            check_device_name(self.device)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, os.PathLike)):
            raise ValueError(f"checkpoint must be the path of a file or None, got {self.checkpoint!r}.")

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Set the model's precision and its number of threads, the same for this library and for BLAS."""
        with use_precision(self.precision):
            if self.n_jobs is None:
                yield
                return
            with limit_threads(self.n_jobs), blas_threads(n_threads()):
                yield

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Set the number of threads, and measure the time of a fit."""
        self.__dict__.pop("fit_seconds_", None)
        started = time.perf_counter()
        with self._threads():
            yield
        self.fit_seconds_ = time.perf_counter() - started

    def summary(self) -> Summary:
        """What was chosen, how certain that is, and how long the fit took: a table in a terminal or notebook.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import RBF, KernelRidge
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> print(KernelRidge(RBF(2.0), 64, alpha=0.1, random_state=0).fit(X, X[:, 0]).summary())
        KernelRidge, fitted to 200 rows of 2 columns
          kernel: RBF(2.0)
          features: FourierFeatures, 64 components, as given
          alpha: 0.1, as given
          system: cholesky, condition ...
          fit: ... s
        """
        check_is_fitted(self)
        rows = f"{self.n_samples_seen_:,} rows of " if hasattr(self, "n_samples_seen_") else ""
        headline = f"{type(self).__name__}, fitted to {rows}{self.n_features_in_:,} columns"
        return Summary(headline, {name: fact for name, fact in self._summary().items() if fact})

    def _summary(self) -> dict[str, str]:
        """Facts of the summary; subclasses add theirs."""
        certificate = getattr(self, "certificate_", None) or getattr(self.features_, "certificate_", None)
        wanted, m = self.n_components, self.feature_map_.n_components
        given = "" if certificate is not None or isinstance(wanted, str) else ", as given"
        if given and m < wanted:
            given = f" of the {wanted:,} given: the others would add nothing"
        seconds = getattr(self, "fit_seconds_", None)
        return {
            "kernel": shortened(repr(getattr(self.features_, "kernel_", self.kernel))),
            "features": f"{type(self.features_).__name__}, {m:,} components{given}",
            "certainty": "" if certificate is None else str(certificate),
            **self._chosen(),
            "fit": "" if seconds is None else f"{seconds:.3g} s",
        }

    def _chosen(self) -> dict[str, str]:
        """What the model chose besides its features, by name."""
        return {}

    def _scores(self, X: Array, coefficients: Array, intercept: Array) -> Array:
        """Zw + b (n, k) in the dtype of X, block by block."""
        with self._threads():
            return self._scores_here(X, coefficients, intercept)

    def _scores_here(self, X: Array, coefficients: Array, intercept: Array) -> Array:
        feature_map, matrix = self.feature_map_.factored()
        m = feature_map.n_components
        if is_tensor(X):
            scores = partial(self._device_scores, coefficients=coefficients, intercept=intercept)
            return backend_of(X).xp.vstack([scores(X[rows]) for rows in row_blocks(X, 2 * m)])
        if is_there(self.device):
            parts = [
                self._device_scores(block, coefficients, intercept) for block in rows_on(str(self.device), X, 2 * m)
            ]
            return np.concatenate([backend_of(part).fetch(part) for part in parts])
        wide = feature_map.dtype_of(X.dtype)
        if matrix is not None:  # multiplied with the few coefficients, not with every row
            coefficients = matrix.astype(np.float64, copy=False) @ coefficients
        with np.errstate(over="ignore"):
            weights, level = coefficients.astype(wide), intercept.astype(X.dtype)
        if not (np.isfinite(weights).all() and np.isfinite(level).all()):
            raise ValueError(f"these predictions are too large for {X.dtype}, the type of X; give X as float64.")
        out = np.empty((X.shape[0], weights.shape[1]), X.dtype)
        rows = min(X.shape[0], self.block_size or default_rows(m, wide))
        buffer = np.empty((rows, m), wide)
        for start in range(0, X.shape[0], rows):
            block = X[start : start + rows]
            Z = buffer[: block.shape[0]]
            feature_map.into(block, Z)

            def score(part: slice, Z: Array = Z, scores: Array = out[start : start + rows]) -> None:
                scores[part] = Z[part] @ weights + level

            if len(Z) <= _PIECE_ROWS:
                score(slice(None))
                continue
            with one_thread():
                each(score, [slice(i, i + _PIECE_ROWS) for i in range(0, len(Z), _PIECE_ROWS)], n_threads())
        return out

    def _device_scores(self, X: Any, coefficients: Array, intercept: Array) -> Any:
        backend, feature_map = backend_of(X), self.feature_map_
        # of a model saved for predictions the coefficients are those of kernel values: there is no root
        nystrom = feature_map.nystrom if isinstance(feature_map, KernelColumns) else feature_map
        if isinstance(nystrom, Nystrom):  # the root is multiplied with the few coefficients, not with every row
            given, X = X, X.double() if nystrom.root.dtype == np.float64 else X
            wide = X.new_empty(0, dtype=backend.xp.float64)
            folded = nystrom is not feature_map
            rank = len(nystrom.root) if folded else nystrom.rank
            weights = backend.place(np.ascontiguousarray(coefficients[:rank]), wide)
            weights = weights if folded else backend.place(nystrom.root, wide) @ weights
            if nystrom.kernel is not None and nystrom.runs_on_device:
                scores = nystrom.kernel.product(X, backend.place(nystrom.landmarks, X), weights)
            else:
                scores = features_of(KernelColumns(nystrom), X) @ weights.to(X.dtype)
            return scores.to(given.dtype) + backend.place(intercept, given)
        return features_of(feature_map, X) @ backend.place(coefficients, X) + backend.place(intercept, X)

    def _features_name(self, kernel: Kernel) -> str:
        """Which features the string `features` means for a kernel."""
        name: str = check_choice("features", self.features, ("auto", *FEATURES))
        return name if name != "auto" else self._auto_features or ("fourier" if kernel.stationary else "nystrom")

    def _fit_features(
        self, source: Source, kernel: Kernel, n_components: Any, key: Key, *, nested: bool = False
    ) -> tuple[Any, FeatureMap]:
        """A fitted transformer and its feature map: the one that `features` names, or a clone of `features`.

        With ``n_components="auto"`` the transformer finds the number itself, within the model's tol and limits. With
        `nested` the first components of many must be good features by themselves: frequencies are drawn by the same
        sampling scheme for any number, and landmarks by a scheme that starts with the best ones.
        """
        if isinstance(self.features, str):
            transformer, rows = self._named_features(source, kernel, n_components, key, nested)
        elif hasattr(self.features, "fit") and hasattr(self.features, "transform"):
            transformer, rows = self._given_features(source, key)
        else:
            raise ValueError(
                f"features must be 'auto', one of {', '.join(map(repr, FEATURES))} or a transformer with fit and "
                f"transform; got {self.features!r}."
            )
        if shift_of(transformer) and not self._takes_shift:
            raise ValueError(
                f"{type(self).__name__} has no use for features of K - {shift_of(transformer):.3g} I, which "
                "NystromFeatures(variant='shifted') gives: the shift belongs in the penalty of KernelRidge or the "
                "noise of GaussianProcessRegressor. Use variant='modified' here."
            )
        return transformer, as_feature_map(transformer, rows)

    def _named_features(
        self, source: Source, kernel: Kernel, n_components: Any, key: Key, nested: bool
    ) -> tuple[Any, Array]:
        """The transformer that `features` names, fitted on a sample of the rows, and these rows."""
        name = self._features_name(kernel)
        transformer = FEATURES[name](
            kernel=kernel,
            n_components=n_components,
            precision=self.precision,
            random_state=key.seed,
            n_jobs=self.n_jobs,
        )
        auto = isinstance(n_components, str)
        n_rows = _FEATURE_ROWS if auto else int(np.clip(4 * n_components, _FEATURE_ROWS // 4, _FEATURE_ROWS))
        if auto:
            limits = ("tol", "max_components", "max_seconds", "max_bytes")
            transformer.set_params(**{limit: getattr(self, limit) for limit in limits})
        if name == "fourier" and nested:
            transformer.set_params(rows=name_of(choose_rows(kernel, source.n_features, TYPICAL_COMPONENTS)))
        if name == "nystrom" and not auto:
            means = kernel.stationary and not scipy.sparse.issparse(next(source.blocks(1)).X)
            scheme = choose_landmark_scheme(self._landmarks, n_components, means=means, nested=nested)
            transformer.set_params(landmarks=scheme)
            if n_components > CHOSEN_LANDMARKS and not nested:
                n_rows = 2 * n_components
        block = limited(source.sample(n_rows, key.child("features")))
        transformer.set_params(kernel=kernel.resolve(block.X, key, block.weight))
        rows = representative(block, 0 if auto else int(n_components), key.child("weights")).X
        if name == "nystrom":
            device = self.device
            if source.remote and not is_there(device):  # the device is on the machines that have the rows
                device = None
            transformer._fit(rows, transform=False, measured=False, device=device)
        else:
            transformer.fit(rows)
        return transformer, rows

    def _given_features(self, source: Source, key: Key) -> tuple[Any, Array]:
        """A clone of the transformer that `features` is, fitted on a sample of the rows, and these rows."""
        transformer = clone(self.features)
        # all rows when they are in memory, as in a pipeline
        n_rows = int(source.n_samples or 0) if isinstance(source, ArraySource) else _FEATURE_ROWS
        block = source.sample(n_rows, key.child("features"))
        if isinstance(source, ArraySource) and isinstance(transformer, NystromFeatures):
            numbered = not isinstance(transformer.landmarks, str) and np.ndim(transformer.landmarks) == 1
            block = source.block if numbered else block  # landmark indices count rows of weight zero too
        # targets are passed only to transformers that need them, since not every transformer takes them
        asks = hasattr(transformer, "__sklearn_tags__") and get_tags(transformer).target_tags.required
        targets = (block.y if np.size(block.y) else None,) if asks else ()
        return transformer.fit(block.X, *targets), block.X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.features, "__sklearn_tags__"):  # scikit-learn then splits rows and columns of a kernel matrix
            tags.input_tags.pairwise = get_tags(self.features).input_tags.pairwise
        return tags

    @property
    def _shift(self) -> float:
        """The shift of the fitted features, K ≈ ZZᵀ + shift I."""
        return shift_of(getattr(self, "features_", None))
