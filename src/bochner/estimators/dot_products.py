"""Features of kernels of x·y as scikit-learn transformers: monomials, random Maclaurin features, TensorSketch."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_choice, check_positive
from bochner.data.validation import validate_rows
from bochner.draws.keys import Key
from bochner.draws.structured import PickedRows
from bochner.estimators.transformers import AdaptiveTransformer, FeatureTransformer
from bochner.features.maclaurin import geometric_map, is_series, monomial_map, optimal_map, series_of, squared_radius
from bochner.features.maps import FeatureMap
from bochner.features.tensor_sketch import FACTORS, TensorSketch, tensor_sketch, trace_shares
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import as_kernel
from bochner.kernels.dot_products import DotProduct, Linear, Polynomial


@dataclass(eq=False, repr=False)
class MaclaurinFeatures(AdaptiveTransformer):
    """Random features of a kernel of x·y: each component is a product of random projections, for one power of x·y.

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
        "optimal" divides the components so that the variance on the data is least: the kernel is exact along the mean
        row, constant and linear terms are exact if that pays, and each other power has a share of the components, with
        orthogonal sign vectors. "geometric" is the published algorithm: every component draws its degree, n with
        probability (p - 1) / p^(n+1).
    p : float, default=2.0
        For ``allocation="geometric"``: the larger, the more components have a low degree. Above 1.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    feature_map_ : Maclaurin
        The map itself: small, frozen, picklable.
    kernel_ : Kernel
    coefficients_ : ndarray
        a_0, a_1, … up to the last one that is not negligible for the norms seen in `fit`.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Notes
    -----
    The features are unbiased up to the truncation of the series: an infinite series is cut where the remainder is below
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

    kernel: Any = "polynomial"
    n_components: Any = 256
    _: KW_ONLY
    allocation: str = "optimal"
    p: float = 2.0
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> MaclaurinFeatures:
        """Draw the signs; of the data only the norms are used, and for "optimal" also the mean and a sample of rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        self._most_components()
        allocation = check_choice("allocation", self.allocation, ("optimal", "geometric"))
        p = check_positive("p", self.p)
        if p <= 1.0:
            raise ValueError(
                f"p must be above 1, so that the probabilities (p - 1) / p^(n+1) add up to one; got {p!r}."
            )
        X = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)
        self.kernel_ = _dot_product_kernel(self.kernel, self)
        self.coefficients_ = series_of(self.kernel_, X.shape[1], squared_radius(X))

        def make(n_components: int) -> FeatureMap:
            if allocation == "geometric":
                return geometric_map(self.coefficients_, X.shape[1], n_components, key, X.dtype, base=p)
            return optimal_map(self.coefficients_, X, n_components, key, X.dtype)

        return self._fit_components(X, make)


@dataclass(eq=False, repr=False)
class MonomialFeatures(FeatureTransformer):
    """All monomials of the columns, with the weights that make their dot product a polynomial kernel: exact.

    A kernel f(x·y) = Σ a_n (x·y)ⁿ is the dot product of the monomials x^α = Π x_j^α_j with weights √(a_n n! / Π α_j!),
    n = Σ α_j. Of (x·y + c)^q these are (d + q choose q) components, of (x·y)^q (d + q - 1 choose q). The kernel trick
    computes the same dot products in O(d); the components are worth it for few features and many rows.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="polynomial"
        As in `MaclaurinFeatures`. An infinite series ends where the rest is below 1e-12 of the kernel's largest value
        on the data of `fit`.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    feature_map_ : Maclaurin
        The map itself: small, frozen, picklable.
    kernel_ : Kernel
    n_components_ : int
        Number of monomials.
    powers_ : ndarray of shape (n_components_, n_features)
        The exponents α of each component.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import MonomialFeatures, Polynomial
    >>> X = np.array([[1.0, 2.0], [3.0, -1.0]])
    >>> Z = MonomialFeatures(Polynomial(2, gamma=1.0, coef0=0.0)).fit_transform(X)
    >>> Z.round(2)  # x₁², √2 x₁x₂, x₂²
    array([[ 1.  ,  2.83,  4.  ],
           [ 9.  , -4.24,  1.  ]])
    >>> np.allclose(Z @ Z.T, (X @ X.T) ** 2)
    True
    """

    kernel: Any = "polynomial"
    _: KW_ONLY
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> MonomialFeatures:
        """List the monomials; of the data only the number of columns and, for infinite series, the norms are used.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        X = validate_rows(self, X, reset=True)
        self.kernel_ = _dot_product_kernel(self.kernel, self)
        self.feature_map_ = monomial_map(series_of(self.kernel_, X.shape[1], squared_radius(X)), X.shape[1])
        self.n_components_ = int(self.feature_map_.n_components)
        return self

    @property
    def powers_(self) -> Array:
        """The exponents of each component, (n_components_, n_features)."""
        check_is_fitted(self, "feature_map_")
        map_ = self.feature_map_
        powers = np.zeros((map_.n_components, self.n_features_in_), np.int64)
        for level, factor in enumerate(map_.factors):
            powers[np.flatnonzero(map_.degrees > level), cast(PickedRows, factor).picks] += 1
        return powers


def _dot_product_kernel(kernel: Any, estimator: Any) -> Kernel:
    plain = callable(kernel) and not isinstance(kernel, Kernel)
    if plain and not type(kernel).__module__.startswith("sklearn.gaussian_process"):
        return DotProduct(kernel)
    kernel = as_kernel(kernel)
    if not is_series(kernel):
        raise ValueError(
            f"{type(estimator).__name__} needs a kernel of x·y, such as Polynomial, ExponentialDot or MaclaurinSeries; "
            f"got {kernel!r}. Use KernelFeatures, which takes any combination of kernels, or NystromFeatures."
        )
    return kernel


@dataclass(eq=False, repr=False)
class TensorSketchFeatures(AdaptiveTransformer):
    """Sketched features of a polynomial kernel (gamma x·y + coef0)^degree, in O(nnz) of the data.

    The features Z satisfy E[ZZᵀ] = K. Along one direction, by default the mean row, the kernel is exact and only the
    orthogonal part of each row is sketched. If the mean of the data is not zero (counts, pixels, any coef0 > 0), the
    error is a fraction of that of a sketch of the whole rows.

    Parameters
    ----------
    kernel : str or Kernel, default="polynomial"
        A `Polynomial` (or `Linear`) kernel; the name alone means Polynomial(degree=3, gamma=None, coef0=1).
    n_components : int or "auto", default=256
        Number of components, exactly. "auto" adds components until the relative Frobenius error of ZZᵀ on
        the rows given to `fit` is certified to be at most `tol`. Each number tried is drawn anew.
    factors : str, default="count_sketch"
        What is multiplied: "count_sketch" (TensorSketch; the only one that takes sparse rows in O(nnz)),
        "rademacher", "srht", or their complex forms "complex_rademacher" and "complex_srht", which have a lower
        variance if `direction` is None.
    tree : bool or "auto", default="auto"
        Multiply two by two with a sketch after each product. The error of the flat product grows like 3^(degree/2),
        that of the tree polynomially; "auto" uses the tree from degree 4 on (real factors only).
    direction : {"mean", "ones"}, array or None, default="mean"
        The direction along which the kernel is exact. "mean" is the mean row; "ones" is the vector of ones, which does
        not depend on the data (the components are then divided as if a third of each row's squared norm lay along it);
        None sketches the whole rows.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    feature_map_ : TensorSketch
        The map itself: small, frozen, picklable.
    kernel_ : Kernel
        The kernel.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import Polynomial, TensorSketchFeatures
    >>> X = np.random.default_rng(0).uniform(size=(50, 20))
    >>> kernel = Polynomial(degree=2, gamma=1.0, coef0=0.0)
    >>> Z = TensorSketchFeatures(kernel, n_components=128, random_state=0).fit_transform(X)
    >>> K = kernel(X)
    >>> bool(np.linalg.norm(Z @ Z.T - K) < 0.05 * np.linalg.norm(K))
    True
    """

    kernel: Any = "polynomial"
    n_components: Any = 256
    _: KW_ONLY
    factors: str = "count_sketch"
    tree: Any = "auto"
    direction: Any = "mean"
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> TensorSketchFeatures:
        """Draw the sketches; of the data only the mean row and the mean sizes of the terms are used.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        self._most_components()
        factors = check_choice("factors", self.factors, FACTORS)
        X = validate_rows(self, X, reset=True)
        self._check_sparse(X)
        self.kernel_ = as_kernel(self.kernel)
        degree, gamma, coef0 = self._polynomial(X.shape[1])
        tree = self._tree(degree, factors)
        direction = self._direction(X, float(np.sqrt(coef0 / gamma)))
        shares = None
        if direction is not None and not (isinstance(self.direction, str) and self.direction == "ones"):
            shares = trace_shares(degree, X, direction, float(np.sqrt(coef0 / gamma)))
        key = Key.from_random_state(self.random_state)
        options: dict[str, Any] = {"factors": factors, "tree": tree, "direction": direction, "shares": shares}

        def make(n_components: int) -> TensorSketch:
            return tensor_sketch(degree, gamma, coef0, X.shape[1], n_components, key, **options)

        return self._fit_components(X, make)

    def transform(self, X: Any) -> Array:
        check_is_fitted(self)
        self._check_sparse(X)
        return super().transform(X)

    def _check_sparse(self, X: Any) -> None:
        if scipy.sparse.issparse(X) and self.factors.endswith("srht"):
            raise ValueError(
                f"factors={self.factors!r} mixes all columns and would make sparse data dense; use "
                "factors='count_sketch', or pass X.toarray()."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not str(self.factors).endswith("srht")
        return tags

    def _polynomial(self, n_features: int) -> tuple[int, float, float]:
        kernel = self.kernel_
        if isinstance(kernel, Linear):
            return 1, 1.0, 0.0
        if not isinstance(kernel, Polynomial):
            raise ValueError(
                f"TensorSketchFeatures sketches polynomial kernels, got {kernel!r}; use MaclaurinFeatures for other "
                "functions of x·y and KernelFeatures for any kernel."
            )
        kernel.profile(np.zeros(1), n_features)  # checks the parameters
        gamma = 1.0 / n_features if kernel.gamma is None else float(kernel.gamma)
        return int(kernel.degree), gamma, float(kernel.coef0)

    def _tree(self, degree: int, factors: str) -> bool:
        if isinstance(self.tree, str) and self.tree == "auto":
            return degree >= 4 and not factors.startswith("complex_")
        if not isinstance(self.tree, (bool, np.bool_)):
            raise ValueError(f"tree must be True, False or 'auto', got {self.tree!r}.")
        if self.tree and factors.startswith("complex_"):
            raise ValueError(
                f"tree=True multiplies real sketches only, got factors={factors!r}; "
                f"use factors={factors.removeprefix('complex_')!r} or tree=False."
            )
        return bool(self.tree)

    def _direction(self, X: Any, offset: float) -> Array | None:
        """The direction, with a coordinate for the offset if there is one; None if the direction is zero."""
        if self.direction is None:
            return None
        if isinstance(self.direction, str):
            check_choice("direction", self.direction, ("mean", "ones"))
            ones = self.direction == "ones"
            u = np.ones(X.shape[1]) if ones else np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        else:
            try:
                u = np.asarray(self.direction, np.float64)
            except (TypeError, ValueError):
                u = np.empty(0)
            if u.shape != (X.shape[1],) or not np.isfinite(u).all():
                raise ValueError(
                    f"direction must be 'mean', 'ones', None or {X.shape[1]} finite numbers, one for each feature; "
                    f"got {self.direction!r}."
                )
        if offset > 0:
            u = np.append(u, offset)
        top = np.abs(u).max()
        return u / top if top > 0 else None
