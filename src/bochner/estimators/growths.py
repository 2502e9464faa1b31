"""n_components="auto": the one way in which every transformer finds its number of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from bochner.backends import limit_threads
from bochner.certificates import Budget, Certificate, grow, kernel_error
from bochner.estimators._validation import check_count, check_positive
from bochner.estimators.transformers import FeatureTransformer
from bochner.features import FeatureMap
from bochner.keys import Key

_ENTRIES = 1 << 20  # kernel values of a certificate


def is_auto(value: Any, name: str = "n_components") -> bool:
    """Whether a number is to be found; complains about other words."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"{name} must be a positive integer or 'auto', got {value!r}.")
    return isinstance(value, str)


def check_budget(estimator: Any, tol: Any = None) -> None:
    """Complain about a tol or limit that is none."""
    check_positive("tol", estimator.tol if tol is None else tol)
    check_count("max_components", estimator.max_components)
    for name in ("max_seconds", "max_bytes"):
        if getattr(estimator, name) is not None:
            check_positive(name, getattr(estimator, name))


def budget_of(estimator: Any, bytes_per_column: float, ceiling: int | None = None, because: str = "") -> Budget:
    """The limits of an estimator; the clock starts now."""
    limits = (estimator.max_components, estimator.max_seconds, estimator.max_bytes)
    reason = because or "there are no more"
    return Budget(*limits, bytes_per_column=bytes_per_column, ceiling=ceiling, because=reason)


class GrowingTransformer(FeatureTransformer):
    """A transformer whose `fit` ends with `_fit_columns`: a number of columns, or as many as `tol` needs."""

    n_components: Any
    tol: Any
    max_components: int
    max_seconds: float | None
    max_bytes: float | None
    random_state: Any
    kernel_: Any
    feature_map_: Any
    certificate_: Certificate

    def _most_columns(self) -> int:
        """The number asked for; with "auto" the most that may be tried. Checks the parameters of both."""
        if not is_auto(self.n_components):
            return check_count("n_components", self.n_components)
        check_budget(self)
        return int(self.max_components)

    def _fit_columns(
        self,
        X: Any,
        make: Callable[[int], FeatureMap],
        *,
        n_components: int | None = None,
        certify: Callable[[int, str], Certificate] | None = None,
        step: int = 16,
        first: int = 64,
        numbers: float = 1.0,
        ceiling: int | None = None,
        refine: bool = True,
    ) -> Self:
        """Set `feature_map_` to make(n_components), n_components as given, here or by the user, or as `tol` needs.

        `make` extends the same draw where its law can, and is called last with the number chosen. `certify` is the
        relative Frobenius error to `kernel_` unless given; a column holds `numbers` numbers of every row.
        """
        if hasattr(self, "certificate_"):
            del self.certificate_
        if n_components is not None:
            chosen = n_components
        elif is_auto(self.n_components):
            key = Key.from_random_state(self.random_state).child("growth")

            def error(size: int, sample: str) -> Certificate:
                options: dict[str, Any] = {"norm": "relative_frobenius", "max_entries": _ENTRIES}
                return kernel_error(make(size), X, kernel=self.kernel_, random_state=key.child(sample), **options)

            budget = budget_of(self, numbers * X.shape[0] * X.dtype.itemsize, ceiling)
            with limit_threads(self.n_jobs):
                options: dict[str, Any] = {
                    "tol": self.tol,
                    "budget": budget,
                    "step": step,
                    "first": first,
                    "refine": refine,
                }
                chosen, self.certificate_ = grow(certify or error, **options)
        else:
            chosen = check_count("n_components", self.n_components)
        self.feature_map_ = make(chosen)
        self.n_components_ = int(self.feature_map_.n_components)
        return self
