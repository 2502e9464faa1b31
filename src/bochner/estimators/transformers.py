"""Base classes of the transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array, limit_threads, use_precision
from bochner.certificates.records import Certificate
from bochner.checks import check_count, is_auto
from bochner.data.validation import as_tensor, check_budget, dask_aware, validate_rows
from bochner.displays import Written
from bochner.draws.keys import Key
from bochner.estimators.parameters import SearchParameters
from bochner.features.maps import FeatureMap, features_of
from bochner.tuning.component_search import Budget, ComponentSearch
from bochner.tuning.deadline import Deadline

_ENTRIES = 1 << 20  # the number of kernel values from which an error is certified


class RowTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of what maps rows to components: sparse rows are taken, and the dtype of the rows is kept."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dask_aware
class FeatureTransformer(RowTransformer, Written, BaseEstimator):
    """Base of all transformers: `fit` sets `feature_map_`, and `transform` validates rows and calls it."""

    n_jobs: int | None = None
    precision: str = "full"

    def transform(self, X: Any) -> Array:
        """Map rows to features.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components), or a tensor on the device of X
            In the dtype of X when that is float32 or float64.
        """
        if not hasattr(self, "feature_map_"):
            check_is_fitted(self)
        X, back = as_tensor(X)
        X = validate_rows(self, X, reset=False)
        with limit_threads(self.n_jobs), use_precision(self.precision):
            Z = features_of(self.feature_map_, X)
        return Z if back is None else back(Z)

    @property
    def _n_features_out(self) -> int:
        return int(self.feature_map_.n_components)


class AdaptiveTransformer(FeatureTransformer, SearchParameters):
    """Base of the transformers with ``n_components="auto"``, whose `fit` ends with `_fit_components`."""

    n_components: Any
    kernel_: Any
    feature_map_: Any
    certificate_: Certificate

    def _most_components(self) -> int:
        """The number of components asked for, or the most that "auto" may try; checks the parameters of both."""
        if not is_auto(self.n_components):
            return check_count("n_components", self.n_components)
        check_budget(self)
        return int(self.max_components)

    def _search_components(
        self,
        certify: Callable[[int, str], Certificate],
        bytes_per_component: float,
        *,
        tol: float | None = None,
        ceiling: int | None = None,
        **options: Any,
    ) -> int:
        """Find the number of components and set `certificate_`; options are those of `ComponentSearch`."""
        budget = Budget(
            self.max_components,
            Deadline(self.max_seconds),
            self.max_bytes,
            bytes_for=lambda n_components: n_components * bytes_per_component,
            ceiling=ceiling,
        )
        tol = self.tol if tol is None else tol
        n_components, self.certificate_ = ComponentSearch(certify, tol, budget, **options).run()
        return n_components

    def _fit_components(
        self,
        X: Any,
        make: Callable[[int], FeatureMap],
        *,
        n_components: int | None = None,
        certify: Callable[[int, str], Certificate] | None = None,
        numbers: float = 1.0,
        **options: Any,
    ) -> Self:
        """Set `feature_map_` to ``make(n_components)``, with the number given or the one that `tol` needs.

        The last call of `make` is the one whose map is kept; where possible, more components extend the same draw.
        `certify` and the options are those of `ComponentSearch`; unless given, it measures the relative Frobenius error
        of the approximation of `kernel_`. Each component stores `numbers` numbers for each row.
        """
        self.__dict__.pop("certificate_", None)
        if n_components is None and not is_auto(self.n_components):
            n_components = check_count("n_components", self.n_components)
        if n_components is None:
            from bochner.certificates.kernels import kernel_error  # only a search measures errors

            key = Key.from_random_state(self.random_state).child("growth")

            def error(size: int, sample: str) -> Certificate:
                options: dict[str, Any] = {"norm": "relative_frobenius", "max_entries": _ENTRIES}
                return kernel_error(make(size), X, kernel=self.kernel_, random_state=key.child(sample), **options)

            with limit_threads(self.n_jobs):
                bytes_per_component = numbers * X.shape[0] * X.dtype.itemsize
                n_components = self._search_components(certify or error, bytes_per_component, **options)
        self.feature_map_ = make(n_components)
        self.n_components_ = int(self.feature_map_.n_components)
        return self
