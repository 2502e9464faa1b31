"""Random features of any kernel that can be written down, as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from bochner.checks import check_choice
from bochner.estimators._validation import validate_rows
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features import FeatureMap, kernel_map
from bochner.kernels import as_kernel
from bochner.keys import Key

_SAMPLE = 1000  # rows from which traces, norms and variances are taken


class KernelFeatures(AdaptiveTransformer):
    """Random features of any kernel: sums, products, powers, multiples, restrictions, invariance.

    The tree of the kernel is walked. Stationary parts become Fourier features (products of them add frequencies), parts
    in x·y Maclaurin features, arc-cosine kernels random layers; sums are stacked, other products sketched, kernels
    under `CyclicInvariant` averaged over shifts. `explain` says what was built and why.

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
    n_jobs : int or None

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
    RBF() * RBF(length_scale=2.0).on([0]) + 0.5 * Linear(): 100 columns, stacked, divided in proportion to ... traces
    ├─ RBF() * RBF(length_scale=2.0).on([0]): ... columns, Fourier features with quasi frequencies: a function of x - y
    └─ 0.5 * Linear(): ... columns, the data itself: exact
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: Any = 256,
        *,
        division: str = "trace",
        tol: float = 0.05,
        max_components: int = 16384,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.division = division
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> KernelFeatures:
        """Build the map; of the data length scales, traces and norms are used, from a sample of rows.

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
        sample = _sample(X, key)

        def make(n_components: int) -> FeatureMap:
            self.tree_ = kernel_map(self.kernel_, sample, n_components, key, X.dtype, division=division)
            return self.tree_.feature_map

        return self._fit_components(X, make)

    def explain(self) -> str:
        """Return a readable tree of what was built for each part of the kernel, and why."""
        check_is_fitted(self)
        return str(self.tree_)


def _sample(X: Any, key: Key) -> Any:
    """Some rows, the longest among them: series must be summed that far."""
    if X.shape[0] <= _SAMPLE:
        return X
    squares = X.multiply(X).sum(axis=1) if scipy.sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    rows = key.child("sample").generator().choice(X.shape[0], _SAMPLE, replace=False)
    return X[np.unique(np.append(rows, int(np.argmax(squares))))]
