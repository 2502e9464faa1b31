"""Random binning features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from bochner.checks import check_count, check_flag, is_auto
from bochner.estimators._validation import validate_rows
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features import RandomBinning, binning_map
from bochner.kernels import Laplacian
from bochner.keys import Key

_GRID_COMPONENTS = 32  # components for each grid with n_components="auto"


class RandomBinningFeatures(AdaptiveTransformer):
    """Sparse features of the Laplacian kernel: which cell of each of many random grids a point is in.

    A row of the result has at most `n_grids` non-zeros, so that many components cost little: models on them are sparse
    linear models. The mean of the products is the kernel exp(-Σ|x_j - y_j| / length_scale) (Rahimi & Recht 2007).

    Parameters
    ----------
    n_components : int or "auto", default=4096
        Number of components, into which the cells are hashed with random signs. Collisions add an error of variance
        1/n_components. "auto" adds grids, and 32 components for each, until the relative Frobenius error of ZZᵀ on the
        rows given to `fit` is certified to be at most `tol`. More grids extend the same draw.
    n_grids : int, default=128
        Independent random grids; the error falls as their number to the power -1/2. Not used with "auto".
    length_scale : float, array of shape (n_features,), "median" or "mean", default="median"
        Of the Laplacian kernel; chosen in L1 distance.
    dense_output : bool, default=False
        Return an array instead of a CSR matrix.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`; the limits are higher, since 31 of 32 entries are zero.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    feature_map_ : RandomBinning
    kernel_ : Laplacian
        The kernel with its length scale as numbers.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import Laplacian, RandomBinningFeatures
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> Z = RandomBinningFeatures(20_000, n_grids=2000, length_scale=3.0, random_state=0).fit_transform(X)
    >>> bool(abs((Z @ Z.T).toarray() - Laplacian(3.0)(X)).max() < 0.1)
    True
    """

    def __init__(
        self,
        n_components: Any = 4096,
        *,
        n_grids: int = 128,
        length_scale: Any = "median",
        dense_output: bool = False,
        tol: float = 0.1,
        max_components: int = 1 << 19,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_grids = n_grids
        self.length_scale = length_scale
        self.dense_output = dense_output
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> RandomBinningFeatures:
        """Draw the grids; the data determine only the number of features and the length scale.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        self._most_components()
        n_grids = check_count("n_grids", self.n_grids)
        check_flag("dense_output", self.dense_output)
        X = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)
        self.kernel_ = Laplacian(self.length_scale).resolve(X, key)
        scales = self.kernel_.scales(X.shape[1])
        auto = is_auto(self.n_components)

        def make(n_components: int) -> RandomBinning:
            grids = -(-n_components // _GRID_COMPONENTS) if auto else n_grids
            return binning_map(scales, X.shape[1], n_components, grids, key)

        # a grid leaves one value and one index in a row, unless they are written out as an array
        numbers = 1.0 if self.dense_output else (1.0 + 4.0 / X.dtype.itemsize) / _GRID_COMPONENTS
        return self._fit_components(X, make, step=_GRID_COMPONENTS, first=64 * _GRID_COMPONENTS, numbers=numbers)

    def transform(self, X: Any) -> Any:
        """Map rows to features.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        Z : CSR matrix of shape (n_samples, n_components), or an array if `dense_output`
        """
        Z: Any = super().transform(X)
        return Z.toarray() if self.dense_output else Z
