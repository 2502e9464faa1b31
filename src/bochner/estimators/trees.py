"""Features of kernels that are built from others."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from bochner.checks import check_choice
from bochner.data.validation import validate_rows
from bochner.draws.keys import Key
from bochner.estimators.fourier import rows_for_choosing
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features.maps import FeatureMap
from bochner.features.trees import kernel_map
from bochner.kernels.conversion import as_kernel


@dataclass(eq=False, repr=False)
class KernelFeatures(AdaptiveTransformer):
    """Random features of any kernel: sums, products, powers, multiples, restrictions, invariance.

    Each part of the kernel has features of its own kind: stationary parts become Fourier features (products of them add
    frequencies), functions of x·y Maclaurin features, arc-cosine kernels random layers. Features of sums are stacked,
    those of other products sketched, and kernels under `CyclicInvariant` averaged over shifts. `explain` says what was
    built and why.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A `Custom` kernel, a function of two points, has no such map: use NystromFeatures.
    n_components : int or "auto", default=256
        Number of components, exactly. "auto" adds components until the relative Frobenius error of ZZᵀ on
        the rows given to `fit` is certified to be at most `tol`. For each number tried, the components are divided
        among the parts of the kernel and drawn anew.
    division : {"trace", "equal"}, default="trace"
        How the terms of a sum divide the components: in proportion to their share of the kernel's trace on the data, or
        equally.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    feature_map_ : FeatureMap
        The map itself: small, frozen, picklable.
    kernel_ : Kernel
        The kernel with its length scales as numbers.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, KernelFeatures, Linear, Polynomial
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> features = KernelFeatures(RBF(1.0) * RBF(2.0).on([0]) + 0.5 * Linear(), n_components=100, random_state=0)
    >>> features.fit_transform(X).shape
    (60, 100)
    >>> print(features.explain())
    RBF(1.0) * RBF(2.0).on([0]) + 0.5 * Linear(): 100 components, stacked, divided in proportion to ... traces
    ├─ RBF(1.0) * RBF(2.0).on([0]): ... components, Fourier features with quasi frequencies: ...
    └─ 0.5 * Linear(): ... components, the data itself: exact
    """

    kernel: Any = "rbf"
    n_components: Any = 256
    _: KW_ONLY
    division: str = "trace"
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> KernelFeatures:
        """Build the map; length scales, traces and norms are taken from a sample of the rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        self._most_components()
        division = check_choice("division", self.division, ("trace", "equal"))
        X = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)
        self.kernel_ = as_kernel(self.kernel).resolve(X, key)
        sample = rows_for_choosing(X, key)

        def make(n_components: int) -> FeatureMap:
            self.tree_ = kernel_map(self.kernel_, sample, n_components, key, X.dtype, division=division)
            return self.tree_.feature_map

        return self._fit_components(X, make)

    def explain(self) -> str:
        """Return a readable tree of what was built for each part of the kernel, and why."""
        check_is_fitted(self)
        return str(self.tree_)
