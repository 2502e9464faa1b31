"""Random Maclaurin features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from bochner.checks import check_choice
from bochner.estimators._validation import validate_rows
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features import FeatureMap, geometric_map, is_series, optimal_map, series_of, squared_radius
from bochner.kernels import DotProduct, Kernel, as_kernel
from bochner.keys import Key


class MaclaurinFeatures(AdaptiveTransformer):
    """Random features of a kernel of x·y: products of random signs, one power of the series for each component.

    By Schoenberg's theorem f(x·y) is a kernel in every dimension exactly when f(t) = Σ a_n tⁿ with no a_n negative,
    and the product of n independent w·x with random signs w is a feature of (x·y)ⁿ (Kar & Karnick 2012).

    Parameters
    ----------
    kernel : str, Kernel or callable, default="polynomial"
        `Polynomial`, `ExponentialDot`, `MaclaurinSeries`, `Linear`, sums, products, multiples and powers of these, or
        a function f of t = x·y, whose series is found numerically.
    n_components : int or "auto", default=256
        Number of components, exactly. "auto" adds components until the relative Frobenius error of ZZᵀ on
        the rows given to `fit` is certified to be at most `tol`. Each number tried is allocated and drawn anew.
    allocation : {"optimal", "geometric"}, default="optimal"
        "optimal" spends the components where the variance on the data is: the kernel is exact along the mean row,
        constant and linear terms are exact where that pays, and other powers have their share of orthogonal sign rows.
        "geometric" is the published algorithm: every component draws its degree, n with probability 2^-(n+1).
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
    n_jobs : int or None

    Attributes
    ----------
    feature_map_ : Maclaurin
        The map itself: small, frozen, picklable.
    kernel_ : Kernel
    coefficients_ : ndarray
        a_0, a_1, …, as far as they matter for the norms seen in `fit`.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Notes
    -----
    The mean over draws is the kernel, as far as the series was kept: an infinite series is cut where the rest is below
    1e-12 of the kernel's largest value on the data of `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import ExponentialDot, MaclaurinFeatures
    >>> X = np.random.default_rng(0).uniform(size=(40, 5))
    >>> Z = MaclaurinFeatures(ExponentialDot(0.5), n_components=400, random_state=0).fit_transform(X)
    >>> K = ExponentialDot(0.5)(X)
    >>> bool(np.linalg.norm(Z @ Z.T - K) < 0.05 * np.linalg.norm(K))
    True
    """

    def __init__(
        self,
        kernel: Any = "polynomial",
        n_components: Any = 256,
        *,
        allocation: str = "optimal",
        tol: float = 0.05,
        max_components: int = 16384,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.allocation = allocation
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> MaclaurinFeatures:
        """Draw the signs; of the data the norms are used, and for "optimal" the mean and a sample of rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        self._most_components()
        allocation = check_choice("allocation", self.allocation, ("optimal", "geometric"))
        X = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)
        self.kernel_ = _dot_product_kernel(self.kernel)
        if not is_series(self.kernel_):
            raise ValueError(
                "MaclaurinFeatures needs a kernel of x·y, such as Polynomial, ExponentialDot or MaclaurinSeries; got "
                f"{self.kernel_!r}. Use KernelFeatures, which takes any combination of kernels, or NystromFeatures."
            )
        self.coefficients_ = series_of(self.kernel_, X.shape[1], squared_radius(X))

        def make(n_components: int) -> FeatureMap:
            if allocation == "geometric":
                return geometric_map(self.coefficients_, X.shape[1], n_components, key, X.dtype)
            return optimal_map(self.coefficients_, X, n_components, key, X.dtype)

        return self._fit_components(X, make)


def _dot_product_kernel(kernel: Any) -> Kernel:
    plain = callable(kernel) and not isinstance(kernel, Kernel)
    if plain and not type(kernel).__module__.startswith("sklearn.gaussian_process"):
        return DotProduct(kernel)
    return as_kernel(kernel)
