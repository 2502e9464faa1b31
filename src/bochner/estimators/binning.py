"""Random binning features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from bochner.estimators._validation import check_count, validate_rows
from bochner.estimators.transformers import FeatureTransformer
from bochner.features import binning_map
from bochner.kernels import Laplacian
from bochner.keys import Key


class RandomBinningFeatures(FeatureTransformer):
    """Sparse features of the Laplacian kernel: which cell of each of many random grids a point is in.

    A row of the result has at most `n_grids` non-zeros, so that many columns cost little: models on them are sparse
    linear models. The mean of the products is the kernel exp(-Σ|x_j - y_j| / length_scale) (Rahimi & Recht 2007).

    Parameters
    ----------
    n_components : int, default=4096
        Columns into which the cells are hashed, with random signs. Collisions add an error of variance 1/n_components.
    n_grids : int, default=128
        Independent random grids; the error falls as their number to the power -1/2.
    length_scale : float, array of shape (n_features,), "median" or "mean", default="median"
        Of the Laplacian kernel; chosen in L1 distance.
    dense_output : bool, default=False
        Return an array instead of a CSR matrix.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    feature_map_ : RandomBinning
    kernel_ : Laplacian
        The kernel with its length scale as numbers.

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
        n_components: int = 4096,
        *,
        n_grids: int = 128,
        length_scale: Any = "median",
        dense_output: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_grids = n_grids
        self.length_scale = length_scale
        self.dense_output = dense_output
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> RandomBinningFeatures:
        """Draw the grids; of the data only the number of columns and the length scale are used.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        n_components = check_count("n_components", self.n_components)
        n_grids = check_count("n_grids", self.n_grids)
        X = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)
        self.kernel_ = Laplacian(self.length_scale).resolve(X, key)
        scales = self.kernel_.scales(X.shape[1])
        self.feature_map_ = binning_map(scales, X.shape[1], n_components, n_grids, key)
        return self

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
