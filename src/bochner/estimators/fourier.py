"""Random Fourier features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_choice, is_auto
from bochner.estimators._validation import check_precision, validate_rows
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features import Fourier, choose_rows, fourier_map
from bochner.kernels import as_kernel
from bochner.keys import Key
from bochner.rows import as_row_law, name_of

TYPICAL_COMPONENTS = 1024  # for which the sampling scheme is chosen when their number is not known yet


class FourierFeatures(AdaptiveTransformer):
    """Random Fourier features of a stationary kernel.

    The transformed data Z satisfy ZZᵀ ≈ K, so that a linear model on Z is a kernel model on X. By Bochner's theorem the
    components are cosines and sines of random frequencies; `rows` says how the frequencies are drawn.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A stationary kernel; sums, products and multiples of such included. A name alone takes the median
        distance of (a sample of) the rows as length scale.
    n_components : int or "auto", default=256
        Number of components, exactly. "auto" adds components until the relative Frobenius error ‖ZZᵀ - K‖ / ‖K‖ on the
        rows given to `fit` is certified to be at most `tol`.
    rows : str or RowLaw, default="auto"
        "iid" (Rahimi & Recht), "quasi" (scrambled Sobol'; also "halton", "lattice"), "orthogonal", "structured"
        (Hadamard products: fast for many features), "fastfood", "fastfood_fft", "circulant", "kpw". All are exact,
        the mean of z(x)·z(y) is k(x, y), but for "structured", off by at most 0.004 for the Gaussian kernel (0.03 for
        17 to 32 features), and "kpw" beyond 64 features, at most 0.006: `rows.RowLaw.bias`. "auto" chooses by a
        measured rule and says what it chose in `rows_`.
    form : {"pairs", "offset", "complex"}, default="pairs"
        Cosine and sine of each frequency (the least variance for a given number of components), one cosine with a
        random offset, or complex exponentials.
    tol : float, default=0.05
        For ``n_components="auto"``.
    max_components, max_seconds, max_bytes : int, float and float or None, default=16384, None and None
        Limits for ``n_components="auto"``: number of components, approximate duration of the search, bytes of the
        features of the rows given to `fit`. A ConvergenceWarning says what was reached if `tol` was not.
    precision : {"full", "fast"}, default="full"
        "full" is the precision of the data's dtype. "fast" lets a GPU keep 11 bits of float32 data in dense phases,
        with errors of about 2e-4 |phase|, in half the time on an H200. It has no effect elsewhere.
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
        How the frequencies were drawn.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures, RBF
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> features = FourierFeatures(RBF(1.5), n_components=2000, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> bool(abs(Z @ Z.T - RBF(1.5)(X)).max() < 0.1)
    True
    >>> features = FourierFeatures(RBF(1.5), n_components="auto", tol=0.1, random_state=0).fit(X)
    >>> features.certificate_.high <= 0.1, features.n_components_ < 1000
    (True, True)
    """

    feature_map_: Fourier

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: Any = 256,
        *,
        rows: Any = "auto",
        form: str = "pairs",
        tol: float = 0.05,
        max_components: int = 16384,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        precision: str = "full",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.rows = rows
        self.form = form
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
        self.precision = precision
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> FourierFeatures:
        """Draw the frequencies; the data determine only the number of features and the length scale.

        With ``n_components="auto"`` the error is measured on the data as well.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        most = self._most_components()
        form = check_choice("form", self.form, ("pairs", "offset", "complex"))
        check_precision(self.precision)
        X = validate_rows(self, X, reset=True)
        n_features = X.shape[1]
        key = Key.from_random_state(self.random_state)
        self.kernel_ = as_kernel(self.kernel).resolve(X, key)
        auto = isinstance(self.rows, str) and self.rows == "auto"
        # one scheme for every number of components tried, so that more extend the same draw
        typical = min(most, TYPICAL_COMPONENTS) if is_auto(self.n_components) else most
        law = choose_rows(self.kernel_, n_features, typical) if auto else as_row_law(self.rows)
        self.rows_ = name_of(law)

        def make(n_components: int) -> Fourier:
            return fourier_map(self.kernel_, law, n_features, n_components, form, key, X.dtype)

        return self._fit_components(X, make, numbers=2.0 if form == "complex" else 1.0)

    def frequencies(self) -> Array:
        """Return the frequencies as a dense array (n_frequencies, n_features), for inspection."""
        check_is_fitted(self)
        return self.feature_map_.frequencies.to_dense()
