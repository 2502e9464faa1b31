"""Random features of kernels as scikit-learn transformers: Fourier, binning, χ² and compositions of them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_choice, check_count, check_flag, check_positive, is_auto
from bochner.data.validation import check_precision, validate_rows
from bochner.draws.keys import Key
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features.fourier import (
    Fourier,
    HistogramSamples,
    RandomBinning,
    binning_map,
    check_histograms,
    choose_rows,
    fourier_map,
    histogram_map,
)
from bochner.kernels.algebra import Kernel, squared_norms
from bochner.kernels.conversion import as_kernel
from bochner.kernels.dot_products import AdditiveChi2
from bochner.kernels.stationary import Laplacian
from bochner.sampling import RowLaw, as_row_law, name_of

_SAMPLE = 1000  # rows from which traces, norms and variances are taken


def rows_for_choosing(X: Any, key: Key) -> Any:
    """A sample of rows that includes the one of largest norm, which decides how far series are summed."""
    if X.shape[0] <= _SAMPLE:
        return X
    rows = key.child("sample").generator().choice(X.shape[0], _SAMPLE, replace=False)
    return X[np.unique(np.append(rows, int(np.argmax(squared_norms(X)))))]


TYPICAL_COMPONENTS = 1024  # the number for which the sampling scheme is chosen if it is not known yet


def row_law_of(transformer: Any, kernel: Kernel, n_features: int, most: int) -> RowLaw:
    """The sampling scheme that `rows` of a transformer means; `most` is the number of components, or the most of them.

    It is one scheme for every number of components that "auto" tries, so that more extend the same draw.
    """
    if not (isinstance(transformer.rows, str) and transformer.rows == "auto"):
        return as_row_law(transformer.rows)
    return choose_rows(kernel, n_features, min(most, TYPICAL_COMPONENTS) if is_auto(transformer.n_components) else most)


@dataclass(eq=False, repr=False)
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
        (Hadamard products: fast for many features), "fastfood", "fastfood_fft", "circulant", "kpw". For all but two the
        mean of z(x)·z(y) is exactly k(x, y); the bias (`rows.RowLaw.bias`) of "structured" is at most 0.004 for the
        Gaussian kernel (0.03 for 17 to 32 features), that of "kpw" at most 0.006, beyond 64 features. "auto" chooses by
        a rule from measurements; `rows_` says which.
    form : {"pairs", "offset", "complex"}, default="pairs"
        Cosine and sine of each frequency (the least variance for a given number of components), one cosine with a
        random offset, or complex exponentials.
    tol : float, default=0.05
        For ``n_components="auto"``.
    max_components : int, default=16384
        Limit for ``n_components="auto"``. A ConvergenceWarning says what was reached if `tol` was not.
    max_seconds : float or None, default=None
        Approximate time limit of the search, in seconds. None for no limit.
    max_bytes : float or None, default=None
        Memory limit, in bytes. None for no limit. It applies to the features of the rows given to `fit`.
    precision : {"full", "fast"}, default="full"
        Precision of computations with float32 data. "full" is the precision of the data's dtype. "fast" lets a GPU keep
        11 bits of float32 data in dense phases, with errors of about 2e-4 |phase|, in half the time on an H200. It has
        no effect elsewhere.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time. Features do not depend on block size, thread
        count and device, and more components extend the same draw.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

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

    kernel: Any = "rbf"
    n_components: Any = 256
    _: KW_ONLY
    rows: Any = "auto"
    form: str = "pairs"
    precision: str = "full"
    n_jobs: int | None = None

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
        law = row_law_of(self, self.kernel_, n_features, most)
        self.rows_ = name_of(law)

        def make(n_components: int) -> Fourier:
            return fourier_map(self.kernel_, law, n_features, n_components, form, key, X.dtype)

        return self._fit_components(X, make, numbers=2.0 if form == "complex" else 1.0)

    def frequencies(self) -> Array:
        """Return the frequencies as a dense array (n_frequencies, n_features), for inspection."""
        check_is_fitted(self)
        return self.feature_map_.frequencies.to_dense()


_GRID_COMPONENTS = 32  # components for each grid with n_components="auto"


@dataclass(eq=False, repr=False)
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
        Seed of everything random: an int gives the same result every time.

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

    n_components: Any = 4096
    _: KW_ONLY
    n_grids: int = 128
    length_scale: Any = "median"
    dense_output: bool = False
    tol: float = 0.1
    max_components: int = 1 << 19

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

        # each grid stores one value and one index for each row, unless the output is dense
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


_LONGEST = 100.0  # beyond this interval all samples of the spectrum but the first are zero
_INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}  # by Vedaldi & Zisserman's figure, as in scikit-learn
_INTERVAL = 0.7  # over the root of more steps: makes the errors of cutting the spectrum and of its period equal


@dataclass(eq=False, repr=False)
class AdditiveChi2Features(AdaptiveTransformer):
    """Features of the additive χ² kernel Σ_j 2 x_j y_j / (x_j + y_j) of histograms and counts.

    Without `n_components`, the spectrum is sampled at regular frequencies: the components of scikit-learn's
    AdditiveChi2Sampler, deterministic, sparse for sparse data, with a small fixed error. With `n_components`,
    frequencies are drawn at random: any number of components, without bias.

    Parameters
    ----------
    sample_steps : int, default=2
        Number of frequencies, including zero: 2 sample_steps - 1 components for each feature.
    sample_interval : float or None, default=None
        Distance between frequencies; None takes the usual one for up to three steps, 0.7 / sqrt(sample_steps) for more.
    n_components : int, "auto" or None, default=None
        Number of components, with random instead of regular frequencies. "auto" takes the fewest regular frequencies
        for which the relative Frobenius error of ZZᵀ on the rows given to `fit` is at most `tol`; this error falls like
        exp(-π sqrt(steps)).
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time. Only random frequencies use it.

    Attributes
    ----------
    feature_map_ : HistogramSamples or HistogramFourier
    kernel_ : AdditiveChi2
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import AdditiveChi2, AdditiveChi2Features
    >>> X = np.random.default_rng(0).uniform(size=(20, 4))
    >>> Z = AdditiveChi2Features(sample_steps=3).fit_transform(X)
    >>> bool(abs(Z @ Z.T - AdditiveChi2()(X)).max() < 0.2)
    True
    """

    sample_steps: int = 2
    _: KW_ONLY
    sample_interval: float | None = None
    n_components: Any = None

    def fit(self, X: Any, y: Any = None) -> AdditiveChi2Features:
        """Choose the frequencies; random ones prefer the features that are large in X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), non-negative
        y : ignored
        """
        steps = check_count("sample_steps", self.sample_steps)
        X = validate_rows(self, X, reset=True)
        check_histograms(X)
        if self.sample_interval is not None and check_positive("sample_interval", self.sample_interval) > _LONGEST:
            raise ValueError(f"sample_interval must be at most {_LONGEST}, got {self.sample_interval!r}.")
        self.kernel_ = AdditiveChi2()
        d = X.shape[1]

        def regular(n_components: int) -> HistogramSamples:
            steps = max(1, (n_components // d + 1) // 2)
            return HistogramSamples(d, steps, self._interval(steps))

        if self.n_components is None:
            return self._fit_components(X, regular, n_components=(2 * steps - 1) * d)
        self._most_components()
        if is_auto(self.n_components):
            return self._fit_components(X, regular, step=2 * d, first=1)
        key = Key.from_random_state(self.random_state)
        return self._fit_components(X, lambda n_components: histogram_map(X, n_components, key))

    def _interval(self, steps: int) -> float:
        if self.sample_interval is not None:
            return float(self.sample_interval)
        return _INTERVALS.get(steps, _INTERVAL / steps**0.5)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
