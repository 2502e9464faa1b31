"""How far predictions are from those of the exact kernel, and from new targets."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy import stats

from bochner.backends import Array
from bochner.certificates.kernels import influence_bounds
from bochner.certificates.records import Certificate, Effort
from bochner.certificates.residuals import checked_rows, transform_of
from bochner.checks import check_count, check_fraction, check_positive
from bochner.data.progress import Stopwatch
from bochner.features.fourier import Fourier
from bochner.features.maps import FeatureMap, Features
from bochner.kernels.algebra import as_points
from bochner.ridge.statistics import RidgeStatistics


@runtime_checkable
class FittedRidge(Protocol):
    """A fitted `KernelRidge`, or another model with the same attributes."""

    feature_map_: FeatureMap
    statistics_: RidgeStatistics
    alpha_: float
    fit_intercept: bool


def prediction_error(
    model: FittedRidge,
    X: ArrayLike,
    *,
    n_blocks: int = 10,
    confidence: float = 0.95,
) -> Certificate:
    r"""Estimate the root mean square distance of predictions from the exact kernel's, by a jackknife over features.

    Frequencies are exchangeable, so the model is solved again without each of `n_blocks` blocks of its components, from
    the sums it has kept: no row of the training data is read. From how far predictions move follows how far they are
    from those of exact kernel ridge regression with the same penalty.

    Parameters
    ----------
    model : fitted KernelRidge
        With Fourier features: anything with `feature_map_`, `statistics_`, `alpha_` and `fit_intercept`.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows whose predictions are of interest: new ones, or some of the training rows.
    n_blocks : int
        At least 4; each costs one Cholesky factorisation.
    confidence : float
        Probability with which the interval holds the error.

    Returns
    -------
    Certificate
        In the units of the targets; several targets count like additional rows. The interval is two-sided only if the
        frequencies are independent, ``rows="iid"``. All other schemes, including the default, spread frequencies more
        evenly than chance and have smaller errors than independent frequencies, which value and upper end do not take
        into account; the interval then begins at zero. `how` says which case it is.

    Notes
    -----
    With ψ_b the pseudo-values of the blocks, predictions minus the truth are (the jackknife's bias) + (mean of ψ_b -
    truth); the second has the variance of a mean of B terms, and its squared length is distributed like a weighted sum
    of χ², replaced by F(ν, ν(B - 1)) with ν from the spread of the ψ_b over directions (Satterthwaite).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures, KernelRidge, RBF
    >>> from bochner.certificates import prediction_error
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(500, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> features = FourierFeatures(RBF(1.0), n_components=400, rows="iid", random_state=0)
    >>> model = KernelRidge(features=features, alpha=0.1).fit(X, y)
    >>> error = prediction_error(model, X[:100])
    >>> 0.0 <= error.low < error.value < error.high < 0.2
    True
    """
    started = Stopwatch()
    B = check_count("n_blocks", n_blocks, least=4, advice="A spread needs a few of them.")
    confidence = check_fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    feature_map = _fourier_of(model)
    m = feature_map.n_components
    if m < 2 * B:
        raise ValueError(f"{m} components do not make {B} blocks of pairs; use fewer blocks or more components.")
    rows = checked_rows(model, X)
    alpha = float(model.alpha_)
    whole, without = _predictions_without_blocks(model, feature_map, rows, B)
    pseudo = B * whole - (B - 1) * without
    mean = pseudo.mean(axis=0)
    bias = float(np.sqrt(np.mean((whole - mean) ** 2)))
    deviations = (pseudo - mean) / math.sqrt(whole.size)
    # eigenvalues of the covariance over rows, from the B × B matrix of products
    products = deviations @ deviations.T / (B - 1)
    variance = float(np.trace(products)) / B
    directions = float(np.trace(products)) ** 2 / max(float(np.sum(products**2)), np.finfo(float).tiny)
    low_f, high_f = (
        float(stats.f.ppf(p, directions, directions * (B - 1)))
        for p in ((1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0)
    )
    value = math.sqrt(bias**2 + variance)
    independent = getattr(getattr(model, "features_", None), "rows_", "") == "iid"
    low = max(0.0, math.sqrt(variance * low_f) - bias) if independent else 0.0
    high = bias + math.sqrt(variance * high_f)
    how = f"the model solved again without each of {B} blocks of components; distance from the exact kernel with "
    how += f"alpha = {alpha:.3g}"
    if not independent:
        how += "; the frequencies are not independent, so only the upper end is a bound"
    cost = Effort(0, rows.shape[0], started.seconds())
    return Certificate("prediction error", value, (low, high), confidence, how, cost)


def _predictions_without_blocks(
    model: FittedRidge, feature_map: Fourier, X: Array, n_blocks: int
) -> tuple[Array, Array]:
    """Predict rows (n,) with the model, and with the model without each block of frequencies (n_blocks, n).

    Both are up to a constant, and targets follow one another.
    """
    statistics, alpha = model.statistics_, float(model.alpha_)
    if statistics.gram is None:
        raise ValueError(
            "this model kept no Gram matrix: fit it with solver='cholesky' rather than 'cg', or save it with "
            "bochner.save(model, path, sums=True)."
        )
    intercept, m = bool(model.fit_intercept), feature_map.n_components
    G, right = statistics.operator(intercept).to_dense(), statistics.right_side(intercept)
    Z = np.asarray(feature_map(X), dtype=np.float64) - (statistics.feature_mean if intercept else np.zeros(m))

    def predict(kept: Array) -> Array:
        """Predict from some components, scaled up to all of them."""
        scale = m / len(kept)
        inner = scale * G[np.ix_(kept, kept)]
        inner[np.diag_indices_from(inner)] += max(alpha, 1e-12 * float(np.trace(inner)) / len(kept))
        weights = scipy.linalg.solve(inner, scale * right[kept], assume_a="pos", check_finite=False)
        return np.ravel(Z[:, kept] @ weights)

    components = np.arange(m)
    frequency = components // 2 if feature_map.form == "pairs" else components  # a pair stays together
    blocks = np.array_split(np.arange(int(frequency[-1]) + 1), n_blocks)
    return predict(components), np.array([predict(components[~np.isin(frequency, block)]) for block in blocks])


def _fourier_of(model: object) -> Fourier:
    if not isinstance(model, FittedRidge):
        raise TypeError(f"model must be a fitted KernelRidge, got {model!r}.")
    if not isinstance(model.feature_map_, Fourier) or model.feature_map_.form == "complex":
        raise ValueError(
            "a jackknife over components needs real Fourier features, whose components are exchangeable. For other "
            "features use kernel_error(features, X, norm='relative_spectral', alpha=...)."
        )
    return model.feature_map_


def leave_one_out_error(
    statistics: RidgeStatistics,
    features: Features,
    X: ArrayLike,
    y: ArrayLike,
    alpha: float,
    *,
    fit_intercept: bool = True,
    confidence: float = 0.95,
) -> Certificate:
    r"""Return the mean squared error of ridge regression at a new row, from exact leave-one-out residuals.

    The residual of row i in the fit without it is :math:`(y_i - \hat y_i)/(1 - h_i)` with
    :math:`h_i = z_i^T (G + \alpha I)^{-1} z_i`: one pass, no refitting.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all training rows, each of weight one.
    features : FeatureMap or fitted transformer
        The features of the ridge regression.
    X, y : arrays of shape (n_samples, n_features) and (n_samples,) or (n_samples, n_targets)
        Training rows to leave out: all of them, or a random part.
    alpha : float
        The penalty.
    fit_intercept : bool
        Add a constant to the model, which is not penalised.
    confidence : float
        Probability with which the interval holds the error.

    Returns
    -------
    Certificate
        The mean over rows and targets. The interval is for the error at new rows from the same distribution. Its upper
        end fits a Pareto tail to the largest squares, with the uncertainty of its exponent; it is infinite for fewer
        than 200 rows, and where that tail may have no mean. It cannot know of large errors so rare that none of the
        given rows has one.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.certificates import leave_one_out_error
    >>> from bochner.ridge.statistics import RidgeStatistics
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 5))
    >>> y = Z @ np.ones(5) + rng.normal(size=300)
    >>> found = leave_one_out_error(RidgeStatistics(5, 1).update(Z, y), lambda Z: Z, Z, y, 1.0)
    >>> found.low < 1.0 < found.high
    True
    """
    started = Stopwatch()
    alpha = check_positive("alpha", alpha, zero=True)
    confidence = check_fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    points = as_points(X)
    Y = np.asarray(y, dtype=np.float64).reshape(points.shape[0], -1)
    spectrum = statistics.spectrum(fit_intercept)
    transform = transform_of(features)
    squares = np.empty(Y.shape)
    step = max(1, (1 << 22) // statistics.n_components)
    for start in range(0, len(Y), step):
        rows = slice(start, start + step)
        Z = np.asarray(transform(points[rows]), dtype=np.float64)
        squares[rows] = statistics.left_out_residuals(Z, Y[rows], np.array([alpha]), spectrum, fit_intercept)[:, 0] ** 2
    mine = squares.mean(axis=1)
    value = float(mine.mean())
    interval = 0.0, math.inf
    if len(mine) > 1:
        low, high = influence_bounds(value, [mine], 1.0 - confidence)
        interval = low, max(high, _heaviest_mean(mine, (1.0 - confidence) / 3.0))
    how = f"{len(mine)} rows left out one at a time, exactly; interval of a mean of squares, with a Pareto tail"
    cost = Effort(0, len(mine), started.seconds())
    return Certificate("leave-one-out mean squared error", value, interval, confidence, how, cost)


def _heaviest_mean(x: Array, failure: float) -> float:
    """Bound the mean of positive numbers with a heavy tail from above, if the sample x may show too little of the tail.

    Excesses over a high quantile are generalised Pareto (Pickands 1975); ξ and σ are Zhang and Stephens' (2009), and
    the bound has the largest ξ that its standard error (1 + ξ) / sqrt(k) allows. Infinite where that is one or more,
    and for fewer than 200 numbers, which are too few to estimate a tail.
    """
    n = len(x)
    if n < 200:
        return math.inf
    k = min(n // 10, int(2.0 * n**0.6))
    ordered = np.sort(x)
    threshold, excess = ordered[-k - 1], ordered[-k:] - ordered[-k - 1]
    if excess[k // 4] <= 0.0:  # ties: there is no tail beyond them
        return 0.0
    shares = (np.arange(30) + 0.5) / 30.0
    b = 1.0 / excess[-1] + (1.0 - np.sqrt(1.0 / shares)) / (3.0 * excess[k // 4])
    shapes = np.log1p(-b[:, None] * excess).mean(axis=1)
    likelihoods = k * (np.log(-b / shapes) - shapes - 1.0)
    weights = np.exp(likelihoods - likelihoods.max())
    centre = float(weights @ b / weights.sum())
    shape = float(np.log1p(-centre * excess).mean())
    heaviest = shape + float(stats.norm.isf(failure)) * (1.0 + shape) / math.sqrt(k)
    if heaviest >= 1.0:
        return math.inf
    body = np.minimum(x, threshold)
    error = float(stats.t.isf(failure, n - 1)) * float(body.std(ddof=1)) / math.sqrt(n)
    return float(body.mean()) + error + k / n * max(float(excess.mean()), -shape / centre / (1.0 - heaviest))


def gcv_error(statistics: RidgeStatistics, alpha: float, *, fit_intercept: bool = True) -> Certificate:
    r"""Return the mean squared error of ridge regression at a new row, by generalised cross-validation on the sums.

    :math:`n \sum (y - \hat y)^2 / (n - d_e(\alpha))^2` (Golub, Heath & Wahba 1979).

    Parameters
    ----------
    statistics : RidgeStatistics
        The sums of a fit, `statistics_` of a model.
    alpha : float
        The penalty.
    fit_intercept : bool
        Add a constant to the model, which is not penalised.

    Returns
    -------
    Certificate
        The mean over targets, without an interval: how much a mean of squared residuals varies depends on their fourth
        powers, which the sums do not contain. `leave_one_out_error` reads the rows and has an interval.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.certificates import gcv_error
    >>> from bochner.ridge.statistics import RidgeStatistics
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 5))
    >>> found = gcv_error(RidgeStatistics(5, 1).update(Z, Z @ np.ones(5) + rng.normal(size=300)), 1.0)
    >>> 0.8 < found.value < 1.2, found.interval
    (True, None)
    """
    started = Stopwatch()
    alpha = check_positive("alpha", alpha)
    value = float(statistics.spectrum(fit_intercept).gcv([alpha]).mean())
    how = f"the sums of {statistics.n_samples} rows, which contain no single residuals, so that there is no interval"
    cost = Effort(0, 0, started.seconds())
    return Certificate("GCV mean squared error", value, None, None, how, cost)
