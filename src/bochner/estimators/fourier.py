"""Random Fourier features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.estimators._validation import check_choice, check_count, validate_rows
from bochner.estimators.transformers import FeatureTransformer
from bochner.features import choose_rows, fourier_map
from bochner.kernels import as_kernel
from bochner.keys import Key
from bochner.rows import as_row_law, name_of


class FourierFeatures(FeatureTransformer):
    """Random Fourier features of a stationary kernel.

    The columns Z of the transformed data satisfy ZZᵀ ≈ K, so that a linear model on Z is a kernel model on X. By
    Bochner's theorem every column is a plane wave; `rows` says how the waves are drawn.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A stationary kernel; sums, products and multiples of such included. A name alone takes the median
        distance of (a sample of) the rows as length scale.
    n_components : int, default=256
        Columns of the result, exactly.
    rows : str or RowLaw, default="auto"
        "iid" (Rahimi & Recht), "quasi" (scrambled Sobol'; also "halton", "lattice"), "orthogonal", "structured"
        (Hadamard products: fast for many features), "fastfood", "fastfood_fft", "circulant", "kpw". "auto" chooses
        by a measured rule and says what it chose in `rows_`.
    form : {"pairs", "offset", "complex"}, default="pairs"
        Cosine and sine of each frequency (the least variance for a given number of columns), one cosine with a
        random offset, or complex exponentials.
    random_state : int, RandomState, Generator or None
        The same integer gives the same features for any block size, thread count and device; more components extend
        the same draw.
    n_jobs : int or None
        Threads; None uses every core (or OMP_NUM_THREADS).

    Attributes
    ----------
    feature_map_ : Fourier
        The map itself: small, frozen, picklable. Calling it skips validation, which matters for single rows.
    kernel_ : Kernel
        The kernel with its length scale as a number.
    rows_ : str
        The law the frequencies were drawn from.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures, RBF
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> features = FourierFeatures(RBF(1.5), n_components=2000, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> bool(abs(Z @ Z.T - RBF(1.5)(X)).max() < 0.1)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: int = 256,
        *,
        rows: Any = "auto",
        form: str = "pairs",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.rows = rows
        self.form = form
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> FourierFeatures:
        """Draw the frequencies; of the data only the number of columns and the length scale are used.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        n_components = check_count("n_components", self.n_components)
        form = check_choice("form", self.form, ("pairs", "offset", "complex"))
        X = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)
        self.kernel_ = as_kernel(self.kernel).resolve(X, key)
        auto = isinstance(self.rows, str) and self.rows == "auto"
        law = choose_rows(self.kernel_, X.shape[1], n_components) if auto else as_row_law(self.rows)
        self.rows_ = name_of(law)
        self.feature_map_ = fourier_map(self.kernel_, law, X.shape[1], n_components, form, key, X.dtype)
        return self

    def frequencies(self) -> Array:
        """Return the frequencies as a dense array (n_frequencies, n_features), for inspection."""
        check_is_fitted(self)
        return self.feature_map_.frequencies.to_dense()
