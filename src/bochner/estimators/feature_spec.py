"""What `features` and `kernel` of a model mean, and features fitted to a sample of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils import get_tags

from bochner.backends import (
    Array,
)
from bochner.checks import check_choice
from bochner.data.devices import is_there
from bochner.data.sources import ArraySource, Source, limited, representative
from bochner.draws.keys import Key
from bochner.estimators.fourier import TYPICAL_COMPONENTS, FourierFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.features.fourier import Fourier, choose_rows
from bochner.features.maps import FeatureMap
from bochner.features.nystrom import Nystrom
from bochner.features.variants import as_nystrom_variant
from bochner.kernels.algebra import Kernel
from bochner.sampling import name_of

_FEATURE_ROWS = 20_000  # rows on which features are fitted

CHOSEN_LANDMARKS = 1024  # beyond this number random rows are as good, and choosing would cost nearly as much as the fit
FEATURES: dict[str, Any] = {"fourier": FourierFeatures, "nystrom": NystromFeatures}
LIMITS = ("tol", "max_components", "max_seconds", "max_bytes")  # what a search for the number of components takes


@dataclass(frozen=True)
class FeatureSpec:
    """What the parameters of a model say about its features.

    Attributes
    ----------
    features : str or transformer
        "auto", a name of `FEATURES`, or a transformer that is cloned.
    limits : mapping
        Values of `LIMITS`, for a transformer that finds its number of components itself.
    owner : str
        The model, for error messages.
    auto : str or None
        What "auto" means; None for Fourier features of stationary kernels and Nyström features of others.
    scheme : str
        The sampling scheme of landmarks if means of rows make sense.
    takes_shift : bool
        Whether the model corrects for the shift of features with K ≈ ZZᵀ + shift I.
    precision, device, n_jobs
        Those of the model.
    """

    features: Any
    limits: Mapping[str, Any]
    owner: str
    auto: str | None = None
    scheme: str = "auto"
    takes_shift: bool = False
    precision: str = "full"
    device: str | None = None
    n_jobs: int | None = None

    @property
    def named(self) -> bool:
        """Return True unless a transformer was given, which has its own kernel and number of components."""
        return isinstance(self.features, str)

    def name_for(self, kernel: Kernel) -> str:
        """Return which features the string `features` means for a kernel."""
        name: str = check_choice("features", self.features, ("auto", *FEATURES))
        return name if name != "auto" else self.auto or ("fourier" if kernel.stationary else "nystrom")

    def fit(
        self, source: Source, kernel: Kernel, n_components: Any, key: Key, *, nested: bool = False
    ) -> tuple[Any, FeatureMap]:
        """Return a fitted transformer and its feature map: the one that `features` names, or a clone of `features`.

        With ``n_components="auto"`` the transformer finds the number itself, within the limits. With `nested` the first
        components of many must be good features by themselves: frequencies are drawn by the same sampling scheme for
        any number, and landmarks by a scheme that starts with the best ones.
        """
        if self.named:
            transformer, rows = self._named(source, kernel, n_components, key, nested)
        elif hasattr(self.features, "fit") and hasattr(self.features, "transform"):
            transformer, rows = self._given(source, key)
        else:
            raise ValueError(
                f"features must be 'auto', one of {', '.join(map(repr, FEATURES))} or a transformer with fit and "
                f"transform; got {self.features!r}."
            )
        shift = shift_of(transformer)
        if shift and not self.takes_shift:
            raise ValueError(
                f"{self.owner} does not support features of K - {shift:.3g} I, which "
                "NystromFeatures(variant='shifted') gives: the shift belongs in the penalty of KernelRidge or the "
                "noise of GaussianProcessRegressor. Use variant='modified' here."
            )
        return transformer, as_feature_map(transformer, rows)

    def _named(self, source: Source, kernel: Kernel, n_components: Any, key: Key, nested: bool) -> tuple[Any, Array]:
        """Return the transformer that `features` names, fitted on a sample of the rows, and these rows."""
        name = self.name_for(kernel)
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
            transformer.set_params(**self.limits)
        if name == "fourier" and nested:
            transformer.set_params(rows=name_of(choose_rows(kernel, source.n_features, TYPICAL_COMPONENTS)))
        if name == "nystrom" and not auto:
            means = kernel.stationary and not scipy.sparse.issparse(next(source.blocks(1)).X)
            scheme = choose_landmark_scheme(self.scheme, n_components, means=means, nested=nested)
            transformer.set_params(landmarks=scheme)
            if n_components > CHOSEN_LANDMARKS and not nested:
                n_rows = 2 * n_components
        block = limited(source.sample(n_rows, key.child("features")))
        transformer.set_params(kernel=kernel.resolve(block.X, key, block.weight))
        rows = representative(block, 0 if auto else int(n_components), key.child("weights")).X
        if name == "nystrom":
            # a source of other machines' rows may have the device there
            device = None if source.remote and not is_there(self.device) else self.device
            transformer._fit(rows, transform=False, measured=False, device=device)
        else:
            transformer.fit(rows)
        return transformer, rows

    def _given(self, source: Source, key: Key) -> tuple[Any, Array]:
        """Return a clone of the transformer that `features` is, fitted on a sample of the rows, and these rows."""
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
