"""Random kitchen sinks: a random layer, a model on it in one call, and a greedy fit for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_X_y

from bochner.backends import FLOATS, Array, as_native, check_moderate, reading
from bochner.checks import check_choice, check_count, check_flag, check_positive, is_auto
from bochner.data.folds import accumulate
from bochner.data.sources import ArraySource
from bochner.data.targets import check_target_size, numeric_targets
from bochner.data.validation import check_rows, validate_rows
from bochner.draws.keys import Key, Seed
from bochner.draws.linear_maps import LinearMap
from bochner.estimators.fourier import FourierFeatures, row_law_of
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features.fourier import draw_frequencies
from bochner.features.kitchen_sinks import ACTIVATIONS, Activation, KitchenSink, RandomLayer
from bochner.features.maps import row_blocks
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import as_kernel
from bochner.kernels.stationary import RBF
from bochner.ridge.statistics import RidgeStatistics
from bochner.sampling import RowLaw, as_row_law, name_of


@dataclass(eq=False, repr=False)
class KitchenSinkFeatures(AdaptiveTransformer):
    """Any function of random projections of the data: general random kitchen sinks (Rahimi & Recht 2008).

    The components are activation(w·x + offset) for random w: a layer of a neural network that is not trained. The
    first perceptron had one (Block 1962), and the liquid state machine has one with feedback (Maass et al. 2002).

    Parameters
    ----------
    activation : {"cos", "relu", "squared_relu", "step", "sign", "gaussian"} or callable, default="relu"
        The kernel in expectation, with r = ‖x - y‖, θ the angle of x and y, length_scale 1 and no bias:
        "cos" exp(-r²/2); "step", "relu" and "squared_relu" the arc-cosine kernels of order 0, 1 and 2; "sign"
        1 - 2θ/π; "gaussian" ((1 + ‖x‖²)(1 + ‖y‖²) - (x·y)²)^(-1/2). A callable gets the array of projections.
    n_components : int or "auto", default=256
        Number of components, exactly. "auto" adds components until the relative Frobenius error of ZZᵀ on
        the rows given to `fit` is certified to be at most `tol`. That needs a named activation, whose kernel is known.
    rows : str or RowLaw, default="auto"
        How w is drawn; see `FourierFeatures`.
    length_scale : float, array of shape (n_features,) or "median", default=1.0
        What the data is divided by first.
    bias : float, default=0.0
        Standard deviation of normal offsets, as if the data had one more column of that value. The offsets of "cos"
        are uniform on [0, 2π) instead.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    feature_map_ : KitchenSink
        The map itself: small, frozen, picklable.
    rows_ : str
        How the vectors w were drawn.
    kernel_ : Kernel or None
        The kernel in expectation; None for a callable activation.
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import ArcCosine, KitchenSinkFeatures
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> Z = KitchenSinkFeatures("relu", n_components=4000, random_state=0).fit_transform(X)
    >>> K = ArcCosine(1)(X)
    >>> bool(np.linalg.norm(Z @ Z.T - K) < 0.05 * np.linalg.norm(K))
    True
    """

    activation: str | Activation = "relu"
    n_components: int | Literal["auto"] = 256
    _: KW_ONLY
    rows: str | RowLaw = "auto"
    length_scale: float | str | ArrayLike = 1.0
    bias: float = 0.0
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: object = None) -> KitchenSinkFeatures:
        """Draw w; the data determine only the number of features and, if asked for, the median distance.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        most = self._most_components()
        if not callable(self.activation):
            check_choice("activation", self.activation, tuple(ACTIVATIONS))
        check_positive("bias", self.bias, zero=True)
        points = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)
        kernel = RBF(self.length_scale).resolve(points, key)  # its frequencies serve as w: N(0, I) / length_scale
        law = row_law_of(self, kernel, points.shape[1], most)
        self.rows_ = name_of(law)
        self.kernel_ = None
        if isinstance(self.activation, str):
            self.kernel_ = RandomLayer(self.activation, kernel.scales(points.shape[1]), float(self.bias))
        elif is_auto(self.n_components):
            raise ValueError(
                "n_components='auto' compares with the kernel of the activation, which is known for "
                f"{', '.join(map(repr, ACTIVATIONS))} only; give a number of components."
            )

        def make(n_components: int) -> KitchenSink:
            rows = draw_frequencies(kernel, law, points.shape[1], n_components, key.child("rows"), points.dtype)
            return KitchenSink(rows, self._offsets(n_components, key), self.activation, self._amplitude())

        return self._fit_components(points, make)

    def _offsets(self, n_components: int, key: Key) -> Array:
        generator = key.child("offsets").generator()
        if isinstance(self.activation, str) and self.activation == "cos":
            return 2.0 * np.pi * generator.random(n_components)
        return float(self.bias) * generator.standard_normal(n_components)

    def _amplitude(self) -> float:
        return 1.0 if callable(self.activation) else ACTIVATIONS[self.activation][1]


def kitchen_sinks(
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    n_components: int = 256,
    noise: float = 0.1,
    *,
    kernel: str | Kernel = "rbf",
    random_state: Seed = None,
) -> Array:
    """Fit and predict in one call: the posterior mean of a Gaussian process, through random Fourier features.

    The prediction is Z_test (ZᵀZ + noise I)⁻¹ Zᵀ y with cosine and sine components Z such that ZZᵀ ≈ K. The components
    are divided by the square root of their number, so that `noise` has the same meaning for any number of them. They
    are real: ridge regression on complex exponentials is a different, worse estimator.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    X_test : array-like or CSR matrix of shape (n_test, n_features)
    n_components : int
        Number of random components.
    noise : float
        Variance of the noise in y, which is the penalty of the ridge regression; 0 interpolates if possible.
    kernel : str or Kernel
        Any stationary kernel.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    prediction : ndarray of shape (n_test,) or (n_test, n_targets)

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import kitchen_sinks
    >>> x = np.linspace(0, 6, 80)[:, None]
    >>> prediction = kitchen_sinks(x, np.sin(x[:, 0]), x, n_components=50, noise=1e-4, random_state=0)
    >>> bool(abs(prediction - np.sin(x[:, 0])).max() < 0.05)
    True
    """
    points, targets, new = _check_data(X, y, X_test)
    noise = check_positive("noise", noise, zero=True)
    feature_map = FourierFeatures(kernel, n_components, random_state=random_state).fit(points).feature_map_
    sums = RidgeStatistics(feature_map.n_components, targets[:1].size, penalty=0.0)
    accumulate(ArraySource(points, targets), feature_map, sums, numeric_targets)
    least = float(np.finfo(points.dtype).eps) * sums.trace  # the rounding error of the features' products
    weights = sums.spectrum(fit_intercept=False).coefficients(max(noise, least)).reshape(-1, *targets.shape[1:])
    weights = weights.astype(points.dtype)
    return np.concatenate([feature_map(new[rows]) @ weights for rows in row_blocks(new)])


def _check_data(X: ArrayLike, y: ArrayLike, X_test: ArrayLike) -> tuple[Array, Array, Array]:
    with reading("X or y"):
        points, targets = check_X_y(
            as_native(X), y, accept_sparse="csr", dtype=FLOATS, multi_output=True, y_numeric=True
        )
    points, new = check_moderate(as_native(points), alone=True), check_rows(X_test, input_name="X_test")
    if new.shape[1] != points.shape[1]:
        raise ValueError(f"X_test has {new.shape[1]} features and X has {points.shape[1]}; they must be the same.")
    return points, _numbers(targets).astype(points.dtype), new


def _numbers(y: Array) -> Array:
    y = numeric_targets(y).reshape(y.shape)
    check_target_size(y)
    return y


@dataclass(frozen=True)
class GreedyFit:
    """The result of `greedy_kitchen_sinks`: a weighted sum of the cosine and sine of each frequency.

    Attributes
    ----------
    frequencies : ndarray of shape (n_terms, n_features)
    weights : ndarray of shape (2 n_terms,) or (2 n_terms, n_targets)
        Of cos(w_1·x), sin(w_1·x), cos(w_2·x), ….
    errors : ndarray of shape (n_terms,)
        Root mean square error on the training data after each term.
    """

    frequencies: Array
    weights: Array
    errors: Array

    def predict(self, X: ArrayLike) -> Array:
        """Predict the targets of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        rows = check_rows(X, accept_sparse=False)
        if rows.shape[1] != self.frequencies.shape[1]:
            raise ValueError(f"X has {rows.shape[1]} features, and the fit was of {self.frequencies.shape[1]}.")
        return _cos_sin(rows @ self.frequencies.T) @ self.weights


def greedy_kitchen_sinks(
    X: ArrayLike,
    y: ArrayLike,
    n_terms: int = 50,
    *,
    method: str = "omp",
    radius: float | None = None,
    kernel: str | Kernel = "rbf",
    n_candidates: int = 64,
    refine: bool = True,
    random_state: Seed = None,
) -> GreedyFit:
    """Choose frequencies one at a time: the greedy fit that random kitchen sinks replace.

    Each step looks for the frequency whose cosine and sine explain most of the residual of y, first among candidates
    drawn from the kernel's spectrum and then by gradient steps. For y in the convex hull of C times such functions the
    error after T terms is at most C/√T (Jones 1992), which random frequencies reach too, up to a constant and without a
    search.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        All targets share the frequencies.
    n_terms : int
        Frequencies; each is a cosine and a sine.
    method : {"omp", "jones", "frank_wolfe"}
        "omp" fits all weights again after each step (orthogonal matching pursuit); "jones" shrinks the previous weights
        and adds one frequency, the relaxed greedy step of the theorem; "frank_wolfe" does so inside the ball of
        `radius` (Frank & Wolfe 1956; Jaggi 2013): it moves towards the frequency most correlated with the residual, as
        far as is best, and no further than the ball.
    radius : float or None, default=None
        Of "frank_wolfe", which needs it: the most that the sizes of all terms add up to, C. The size of a term is
        √(a² + b²) of its weights, over all targets.
    kernel : str or Kernel
        Stationary; candidates are drawn from its spectrum.
    n_candidates : int
        Number of candidates in each step.
    refine : bool
        Improve the best candidate by a few steps of L-BFGS.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    fit : GreedyFit

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import greedy_kitchen_sinks
    >>> x = np.linspace(0, 6, 80)[:, None]
    >>> fit = greedy_kitchen_sinks(x, np.cos(x[:, 0]), n_terms=3, random_state=0)
    >>> bool(fit.errors[-1] < 1e-2)
    True
    """
    refine = check_flag("refine", refine)
    n_terms, n_candidates = check_count("n_terms", n_terms), check_count("n_candidates", n_candidates)
    check_choice("method", method, ("omp", "jones", "frank_wolfe"))
    if (radius is None) == (method == "frank_wolfe"):
        raise ValueError(f"radius is the size of the ball of method='frank_wolfe', and of that only; got {radius!r}.")
    size = 0.0 if radius is None else check_positive("radius", radius)
    with reading("X or y"):
        rows, targets = check_X_y(as_native(X), y, dtype=FLOATS, multi_output=True, y_numeric=True)
    rows, targets = check_moderate(as_native(rows), alone=True), _numbers(targets)
    key = Key.from_random_state(random_state)
    resolved, law = as_kernel(kernel).resolve(rows, key), as_row_law("iid")
    Y = targets.reshape(len(rows), -1).astype(float)
    frequencies = np.empty((n_terms, rows.shape[1]))
    weights, errors = np.zeros((2 * n_terms, Y.shape[1])), np.empty(n_terms)
    basis, fitted = np.empty((len(rows), 2 * n_terms)), np.zeros_like(Y)
    score = _correlated if method == "frank_wolfe" else _explained
    for t in range(n_terms):
        pool = draw_frequencies(resolved, law, rows.shape[1], n_candidates, key.child("candidates").child(t))
        frequencies[t] = _best_frequency(rows, Y - fitted, pool, refine, score)
        old, new = slice(2 * t), slice(2 * t, 2 * t + 2)
        basis[:, new] = _cos_sin(rows @ frequencies[t, :, None])
        match method:
            case "omp":
                weights[: 2 * t + 2] = scipy.linalg.lstsq(basis[:, : 2 * t + 2], Y, lapack_driver="gelsy")[0]
            case "jones":
                weights[old], weights[new] = _relaxed(fitted, basis[:, new], Y, weights[old])
            case "frank_wolfe":
                weights[old], weights[new] = _inside(fitted, basis[:, new], Y, weights[old], size)
        fitted = basis[:, : 2 * t + 2] @ weights[: 2 * t + 2]
        errors[t] = np.sqrt(np.mean((Y - fitted) ** 2))
    return GreedyFit(frequencies, weights.reshape(-1, *targets.shape[1:]), errors)


def _relaxed(fitted: Array, pair: Array, Y: Array, weights: Array) -> tuple[Array, Array]:
    """Take Jones' step target by target: return the best multiple of the current fit, and weights of the new pair."""
    old, new = weights.copy(), np.empty((2, Y.shape[1]))
    for j, y in enumerate(Y.T):
        step = scipy.linalg.lstsq(np.column_stack([fitted[:, j], pair]), y, lapack_driver="gelsy")[0]
        old[:, j] *= step[0]
        new[:, j] = step[1:]
    return old, new


def _inside(fitted: Array, pair: Array, Y: Array, weights: Array, radius: float) -> tuple[Array, Array]:
    """Take Frank and Wolfe's step towards the best corner of the ball, by an exact line search."""
    residual = Y - fitted
    corner = pair.T @ residual
    corner *= radius / max(float(np.linalg.norm(corner)), np.finfo(float).tiny)
    way = pair @ corner - fitted
    square = float(np.sum(way * way))
    step = float(np.clip(np.sum(residual * way) / square, 0.0, 1.0)) if square > 0 else 0.0
    return (1.0 - step) * weights, step * corner


def _cos_sin(phases: Array) -> Array:
    """Return cosine and sine of each phase side by side: (n, T) → (n, 2T)."""
    return np.stack([np.cos(phases), np.sin(phases)], axis=-1).reshape(len(phases), -1)


_Score = Callable[[Array, Array], tuple[Array, Array]]


def _best_frequency(X: Array, residual: Array, pool: LinearMap, refine: bool, score: _Score) -> Array:
    """Return the frequency whose cosine and sine together have the highest score."""
    best = pool.to_dense()[int(np.argmax(score(pool(X), residual)[0]))]
    if not refine:
        return best
    scale = 1.0 / max(float(np.sum(residual * residual)), np.finfo(float).tiny)

    def loss(w: Array) -> tuple[float, Array]:
        found, slopes = score((X @ w)[:, None], residual)
        return -scale * float(found[0]), -scale * (slopes[:, 0] @ X)

    return np.asarray(scipy.optimize.minimize(loss, best, jac=True, method="L-BFGS-B", options={"maxiter": 20}).x)


def _correlated(phases: Array, residual: Array) -> tuple[Array, Array]:
    """Return Σ (cosᵀr)² + (sinᵀr)² over the targets r, (T,), and its derivatives in the phases, (n, T)."""
    cosine, sine = np.cos(phases), np.sin(phases)
    c, s = cosine.T @ residual, sine.T @ residual  # (T, k)
    slopes = 2.0 * (cosine * (residual @ s.T) - sine * (residual @ c.T))
    return np.sum(c * c + s * s, axis=1), slopes


def _explained(phases: Array, residual: Array) -> tuple[Array, Array]:
    """Return the part of ‖residual‖² that cosine and sine of each phase explain, (T,), and its derivatives, (n, T)."""
    cosine, sine = np.cos(phases), np.sin(phases)
    cc, ss, cs = (np.einsum("ij,ij->j", A, B)[:, None] for A, B in ((cosine, cosine), (sine, sine), (cosine, sine)))
    c, s = cosine.T @ residual, sine.T @ residual  # (T, k)
    jitter = 1e-9 * len(residual)  # a frequency of zero has no sine
    cc, ss = cc + jitter, ss + jitter
    determinant = cc * ss - cs**2
    a, b = (ss * c - cs * s) / determinant, (cc * s - cs * c) / determinant  # the best weights, (T, k)
    # the weights are optimal, so that the derivative is that in the phases alone
    slopes = sum(
        2.0 * (r[:, None] - a_ * cosine - b_ * sine) * (b_ * cosine - a_ * sine)
        for r, a_, b_ in zip(residual.T, a.T, b.T, strict=True)
    )
    return np.sum(c * a + s * b, axis=1), np.asarray(slopes)
