"""Nyström features as a scikit-learn transformer."""

from __future__ import annotations

from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array, is_tensor, limit_threads
from bochner.certificates.records import Certificate, Effort
from bochner.checks import check_count, is_auto, warn
from bochner.data.devices import open_device
from bochner.data.progress import Stopwatch
from bochner.data.validation import check_budget, check_precision, dask_aware, validate_rows
from bochner.draws.keys import Key
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features.nystrom import Nystrom, measure, nystrom_map
from bochner.features.variants import NystromVariant, as_nystrom_variant
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import Custom, as_kernel
from bochner.landmarks.grams import FLOAT32_FLOOR, Gram, check_residual, check_symmetric, row_slices
from bochner.landmarks.laws import LandmarkLaw, Landmarks
from bochner.landmarks.registry import LANDMARK_LAWS, as_landmark_law, landmark_law_name

_TOL = 0.05  # default for n_components="auto"
_FIRST = 256  # landmarks that n_components="auto" starts with
_DEVICE_ENTRIES = 1 << 24  # from this many rows times landmarks on, a device is faster than the host


@dask_aware
@dataclass(eq=False, repr=False)
class NystromFeatures(AdaptiveTransformer):
    """Nyström features of any kernel.

    K is approximated by its projection on the span of `n_components` landmarks: ZZᵀ = K_nm K_mm⁻¹ K_mn, which is
    positive semi-definite and nowhere exceeds K. For smooth kernels a few hundred components are as good as thousands
    of random features.

    Parameters
    ----------
    kernel : str, Kernel, scikit-learn kernel, callable or "precomputed", default="rbf"
        Any positive semi-definite kernel. With "precomputed", `fit` takes the matrix K(X, X) and `transform` takes
        K(X_new, X), with one column for every training row.
    n_components : int or "auto", default=256
        Number of components, exactly. If the landmarks span fewer dimensions (more landmarks than rows, repeated rows,
        a kernel of low rank), the components after `effective_rank_` are zero. With `tol`, an upper limit. "auto"
        doubles the number of landmarks until `tol` is met, and keeps as many components as that takes.
    landmarks : str, LandmarkLaw or array, default="auto"
        Indices of rows, points (at most n_components), or a sampling scheme: "uniform" (scikit-learn's), "kmeans",
        "minibatch_kmeans", "refined" (pivots moved by a few steps of k-means), "mixed" (random rows and pivots, moved
        in the same way: what `KernelRidge` and `KernelClassifier` use), "column_norms", "ridge_leverage",
        "recursive_leverage", "bless", "adaptive", "rpcholesky", "greedy", "farthest_point". "auto" is "refined" for
        stationary kernels of dense rows; for all other data, and whenever `tol` is given, it is "rpcholesky".
    tol : float or None, default=None
        Use only as many components as it takes for the exact relative trace error tr(K - ZZᵀ) / tr(K) to be at most
        tol. A warning says so if n_components are not enough. The trace error is an upper bound of the relative
        Frobenius error that `tol` means for random features. With ``n_components="auto"``, None means 0.05.
    precision : {"full", "fast"}, default="full"
        Precision of computations with float32 data. With "full" landmarks and features are those of float64 rows:
        kernel values are computed in float64 if rounding to float32 would be visible in the features. "fast" computes
        in float32 and drops the landmarks that are then combinations of others: fewer components and half the time for
        smooth kernels, but another approximation.
    max_components : int, default=16384
        Limit for ``n_components="auto"``. A ConvergenceWarning says what was reached if `tol` was not.
    max_seconds : float or None, default=None
        Approximate time limit of the search, in seconds. None for no limit.
    max_bytes : float or None, default=None
        Memory limit, in bytes. None for no limit. It applies to the features of the rows given to `fit`.
    variant : str or NystromVariant, default="projection"
        How kernel values of rows and landmarks become features. "projection" is the Nyström method; "ensemble" averages
        several; "modified" is the best approximation from the same kernel values (reads all of K); "shifted"
        approximates K minus `shift_` times the identity; "sketched" replaces landmarks by a sketch of all rows; "meka"
        gives every cluster of rows its own landmarks, and is kept for comparison: "projection" is more accurate. See
        `bochner.lab.low_rank` for their parameters.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    feature_map_ : Nystrom
        The map itself: frozen and picklable. Calling it skips validation.
    kernel_ : Kernel or None
        The kernel with its length scale as a number; None if precomputed.
    landmarks_ : ndarray or CSR matrix of shape (effective_rank_, n_features), or None
        Component j uses the first j + 1 of them. None if precomputed, and in other variants than "projection".
    landmark_indices_ : ndarray of shape (effective_rank_,) or None
        Indices of the landmarks among the training rows; None if they are not rows, as with k-means, and in other
        variants.
    landmarks_law_ : str
        The sampling scheme of the landmarks.
    trace_error_ : float
        tr(K - ZZᵀ) / tr(K) of the training rows, exactly: 0 if ZZᵀ = K, 1 if Z = 0. Missing if a model fitted the
        features, since models do not need it.
    effective_rank_ : int
        Number of components that are not zero.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The trace error that `tol` limits; only with ``n_components="auto"``.
    shift_ : float
        K ≈ ZZᵀ + shift_ I: zero unless variant is "shifted". `KernelRidge` adds it to its penalty and
        `GaussianProcessRegressor` to its noise; other models refuse such features.

    Notes
    -----
    `fit` measures the trace error, which takes about as long as `transform` of the same rows; `fit_transform` does
    both at once. Data is read in blocks of rows; "rpcholesky", "greedy" and "adaptive" keep n_samples × n_components
    numbers while they choose landmarks, "ridge_leverage" keeps the kernel matrix of at most 8000 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import NystromFeatures, RBF
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> features = NystromFeatures(RBF(2.0), tol=1e-3, random_state=0).fit(X)
    >>> features.trace_error_ <= 1e-3, features.effective_rank_ < 100
    (True, True)
    """

    kernel: Any = "rbf"
    n_components: Any = 256
    _: KW_ONLY
    landmarks: Any = "auto"
    tol: float | None = None
    variant: Any = "projection"
    precision: str = "full"
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> NystromFeatures:
        """Choose the landmarks and factor their kernel matrix.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or the kernel matrix if precomputed
        y : ignored
        """
        self._fit(X, transform=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and return the features of the same rows, in about the time of `fit` alone.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or the kernel matrix if precomputed
        y : ignored
        """
        return self._fit(X, transform=True)

    def _fit(self, X: Any, transform: bool, measured: bool = True, device: str | None = None) -> Any:
        """Fit, and return the features if asked; large products run on the device, or on that of a tensor X."""
        searching = is_auto(self.n_components)
        tol = _check_tol(self.tol)
        if searching:
            tol = _TOL if tol is None else tol
            check_budget(self, tol)
        else:
            n_components = check_count("n_components", self.n_components)
        variant = as_nystrom_variant(self.variant)
        key = Key.from_random_state(self.random_state)
        given, X = X, validate_rows(self, X, reset=True)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            _check_kernel_matrix(X)
            self.kernel_: Kernel | None = None
        else:
            self.kernel_ = as_kernel(self.kernel).resolve(X, key)
        fine = check_precision(self.precision) == "full" and self.kernel_ is not None and variant is None
        gram = Gram(X, self.kernel_, fine=fine)
        if isinstance(self.kernel_, Custom):  # the only kernels that are not known to be symmetric
            check_symmetric(gram.block(slice(0, 8), slice(0, 8)), gram.floor)
        auto = isinstance(self.landmarks, str) and self.landmarks == "auto"
        law = choose_landmarks(gram, tol) if auto else as_landmark_law(self.landmarks)
        self.landmarks_law_ = landmark_law_name(law)
        if variant is not None and not variant.chooses_landmarks and not auto:
            raise ValueError(
                "variant='sketched' has no landmarks: leave landmarks='auto', and choose the sketch as in "
                "variant=Sketched('gaussian')."
            )
        if variant is not None and tol is not None:
            raise ValueError(
                f"tol goes with variant='projection', whose components are nested; got variant={self.variant!r}."
            )
        self.__dict__.pop("certificate_", None)
        key = key.child("landmarks")
        with limit_threads(self.n_jobs):
            if searching:
                Z = self._fit_auto(gram, law, float(tol or 0.0), key, transform)
            elif variant is not None:
                Z = self._fit_variant(gram, variant, law, n_components, key, transform)
            else:
                gram = _on_device(gram, n_components, given, device)
                Z = self._fit_map(gram, law, n_components, tol, key, transform, measured)
                if tol is not None and self.trace_error_ > tol:
                    warn(
                        f"the relative trace error is {self.trace_error_:.3g} with n_components={n_components}, above "
                        f"tol={tol}; raise n_components.",
                        ConvergenceWarning,
                    )
        self.n_components_ = int(self.feature_map_.n_components)
        return Z

    def _fit_auto(self, gram: Gram, law: LandmarkLaw, tol: float, key: Key, transform: bool) -> Any:
        """Fit as many landmarks as the trace error `tol` needs, and return the features of the rows if asked."""
        started, fitted = Stopwatch(), dict[int, Any]()

        def certify(n_components: int, sample: str) -> Certificate:
            if n_components not in fitted:
                fitted.clear()
                fitted[n_components] = self._fit_map(gram, law, n_components, tol, key, transform, True)
            value = self.trace_error_
            how = f"the diagonals of K and ZZᵀ, all {len(gram)} rows"
            cost = Effort(len(gram) * n_components, len(gram), started.seconds())
            return Certificate("relative trace", value, (value, value), 1.0, how, cost)

        bytes_per_component = len(gram) * gram.X.dtype.itemsize
        options: dict[str, Any] = {"step": 1, "first": _FIRST, "refine": False, "ceiling": len(gram)}
        return fitted[self._search_components(certify, bytes_per_component, tol=tol, **options)]

    def _fit_variant(
        self, gram: Gram, variant: NystromVariant, law: LandmarkLaw, n_components: int, key: Key, transform: bool
    ) -> Any:
        self.feature_map_, self.shift_ = variant.fit(gram, law, n_components, key)
        Z = np.empty((len(gram), n_components), gram.X.dtype) if transform else None
        _, of_columns = measure(gram, self.feature_map_, Z)
        trace = float(gram.diagonal().sum())
        self.trace_error_: float = float(trace - of_columns.sum()) / (trace or 1.0)
        self.effective_rank_ = int(np.count_nonzero(of_columns))
        self.landmarks_: Any = None
        self.landmark_indices_: Array | None = None
        return Z

    def _fit_map(
        self,
        gram: Gram,
        law: LandmarkLaw,
        n_components: int,
        tol: float | None,
        key: Key,
        transform: bool,
        measured: bool,
    ) -> Any:
        drawn = law.sample(gram, n_components, key, tol or 0.0)
        feature_map, order = nystrom_map(gram, drawn, n_components)
        if not (measured or transform or tol is not None):
            self._keep(gram, drawn, feature_map, order)
            return None
        diagonal = gram.diagonal()
        trace = float(diagonal.sum())
        Z = np.zeros((len(gram), n_components), gram.X.dtype) if transform else None
        if drawn.factor is not None:
            of_rows = np.einsum("ij,ij->i", drawn.factor, drawn.factor)
            of_columns = np.zeros(n_components)
            of_columns[: len(order)] = np.einsum("ij,ij->j", drawn.factor, drawn.factor)
            if Z is not None:
                Z[:, : len(order)] = drawn.factor
        else:
            of_rows, of_columns = measure(gram, feature_map, Z)
            floor = gram.floor if gram.X.dtype == np.float64 else FLOAT32_FLOOR  # the floor that the features use
            check_residual(diagonal - of_rows, float(diagonal.max()), floor)
        # the share of the trace that the first components leave unexplained: negative only by rounding
        left = np.maximum(trace - np.cumsum(of_columns), 0.0) / (trace or 1.0)
        if tol is not None:
            enough = np.flatnonzero(left <= tol)
            feature_map = feature_map.truncated(int(enough[0]) + 1 if len(enough) else n_components)
        self._keep(gram, drawn, feature_map, order)
        self.trace_error_ = float(left[feature_map.n_components - 1])
        return None if Z is None else Z[:, : feature_map.n_components]

    def _truncated(self, n_components: int) -> NystromFeatures:
        """The same fitted features with only the first components."""
        made = copy(self).set_params(n_components=n_components)
        made.feature_map_ = self.feature_map_.truncated(n_components)
        made.effective_rank_, made.n_components_ = made.feature_map_.rank, n_components
        made.landmarks_ = made.feature_map_.landmarks
        if self.landmark_indices_ is not None:
            made.landmark_indices_ = self.landmark_indices_[: made.effective_rank_]
        return made

    def _keep(self, gram: Gram, drawn: Landmarks, feature_map: Nystrom, order: Array) -> None:
        self.feature_map_, self.shift_ = feature_map, 0.0
        self.effective_rank_ = feature_map.rank
        self.landmarks_ = None if gram.kernel is None else feature_map.landmarks
        self.landmark_indices_ = None if drawn.indices is None else drawn.indices[order[: feature_map.rank]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


def _on_device(gram: Gram, n_landmarks: int, given: Any, device: str | None) -> Gram:
    """The Gram matrix with its rows on the device of a tensor, or on a named one, where this is faster.

    The landmarks are the same as on the host, and their factor is the same up to rounding.
    """
    large = len(gram) * n_landmarks >= _DEVICE_ENTRIES
    tensors = gram.kernel is not None and gram.kernel.runs_on_device and not scipy.sparse.issparse(gram.X)
    device = str(given.device) if is_tensor(given) else device
    if not (large and tensors) or device is None:
        return gram
    backend = open_device(device)
    if 8 * (len(gram) + 4 * n_landmarks) * n_landmarks > 0.8 * backend.free_memory(device):
        return gram
    return replace(gram, there=backend.Link(device)(gram.X))


def choose_landmarks(gram: Gram, tol: float | None) -> LandmarkLaw:
    """The sampling scheme that `landmarks="auto"` means, from measurements (benchmarks/bench_landmarks.py).

    Pivots moved by k-means have the smallest error, but only unmoved pivots can be added until a tolerance is met.
    """
    means = tol is None and gram.kernel is not None and gram.kernel.stationary and not scipy.sparse.issparse(gram.X)
    return LANDMARK_LAWS["refined" if means else "rpcholesky"]


def _check_tol(tol: Any) -> float | None:
    if tol is None:
        return None
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.number)) or not 0.0 <= tol < 1.0:
        raise ValueError(f"tol must be a number between 0 and 1 (a relative trace error) or None, got {tol!r}.")
    return float(tol)


def _check_kernel_matrix(K: Any) -> None:
    """Check that a precomputed matrix is square and symmetric."""
    n, m = K.shape
    if n != m:
        raise ValueError(
            f"kernel='precomputed' is fitted on the square matrix K(X, X), got shape {K.shape}. "
            "Give K(X_new, X) to transform only."
        )
    largest = abs(K).max()
    for rows in row_slices(n, n):
        gap = abs(K[rows] - K[:, rows].T).max()
        if gap > (1e-3 if K.dtype == np.float32 else 1e-6) * largest:
            raise ValueError(
                f"the kernel matrix is not symmetric: K and its transpose differ by {gap:.3g} (largest entry "
                f"{largest:.3g}). Give K(X, X); if the difference is rounding, give (K + K.T) / 2."
            )
