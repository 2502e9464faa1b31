"""Sketches of polynomial kernels as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_choice
from bochner.estimators._validation import validate_rows
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features.tensor_sketch import FACTORS, TensorSketch, tensor_sketch, trace_shares
from bochner.kernels import Linear, Polynomial, as_kernel
from bochner.keys import Key


class TensorSketchFeatures(AdaptiveTransformer):
    """Sketched features of a polynomial kernel (gamma x·y + coef0)^degree, in O(nnz) of the data.

    The features Z satisfy E[ZZᵀ] = K. Along one direction, the mean row by default, the kernel is written out exactly
    and only what is orthogonal to it is sketched: on data with a mean (counts, pixels, any coef0 > 0) this leaves a
    fraction of the error of a sketch of everything.

    Parameters
    ----------
    kernel : str or Kernel, default="polynomial"
        A `Polynomial` (or `Linear`) kernel; the name alone means Polynomial(degree=3, gamma=None, coef0=1).
    n_components : int or "auto", default=256
        Number of components, exactly. "auto" adds components until the relative Frobenius error of ZZᵀ on
        the rows given to `fit` is certified to be at most `tol`. Each number tried is drawn anew.
    factors : str, default="count_sketch"
        What is multiplied: "count_sketch" (TensorSketch; the only one that takes sparse rows in O(nnz)),
        "rademacher", "srht", or their complex forms "complex_rademacher" and "complex_srht", which have the lower
        variance without a direction.
    tree : bool or "auto", default="auto"
        Multiply two by two with a sketch after each product. The error of the flat product grows like 3^(degree/2),
        that of the tree polynomially; "auto" uses the tree from degree 4 on (real factors only).
    direction : {"mean", "ones"}, array or None, default="mean"
        Where the kernel is exact. "mean" is the mean row, "ones" the vector of ones, which looks at no data (the
        components are then divided as if a third of each row's squared norm lay along it); None sketches everything.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
    n_jobs : int or None
        Threads; None uses every core (or OMP_NUM_THREADS).

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

    def __init__(
        self,
        kernel: Any = "polynomial",
        n_components: Any = 256,
        *,
        factors: str = "count_sketch",
        tree: Any = "auto",
        direction: Any = "mean",
        tol: float = 0.05,
        max_components: int = 16384,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.factors = factors
        self.tree = tree
        self.direction = direction
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs

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
        """The direction, with the offset's coordinate where there is one; None when it is zero."""
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
                    f"direction must be 'mean', 'ones', None or {X.shape[1]} finite numbers, one a feature; "
                    f"got {self.direction!r}."
                )
        if offset > 0:
            u = np.append(u, offset)
        top = np.abs(u).max()
        return u / top if top > 0 else None
