"""How far predictions are from those of infinitely many features, and from new targets."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import scipy.linalg
from scipy import stats

from bochner.backends import Array
from bochner.certificates.kernels import _bounds
from bochner.certificates.records import Certificate, Effort
from bochner.certificates.residuals import _checked
from bochner.features import Fourier
from bochner.kernels import as_points
from bochner.statistics import RidgeStatistics
from bochner.theory import _arguments as check


def prediction_error(
    model: Any,
    X: Any,
    *,
    n_blocks: int = 10,
    confidence: float = 0.95,
) -> Certificate:
    r"""Root mean square distance of a model's predictions from those of the exact kernel, by a jackknife over features.

    Frequencies are exchangeable, so the model is solved again without each of `n_blocks` blocks of its columns, from
    the sums it has kept: no row of the training data is read. How the predictions move says how far they are from
    those of infinitely many columns with the same penalty (kernel ridge regression itself).

    Parameters
    ----------
    model : fitted KernelRidge
        With Fourier features: anything with `feature_map_`, `statistics_`, `alpha_` and `fit_intercept`.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows at which predictions matter; new ones, or some of the training rows.
    n_blocks : int
        At least 4; each costs one Cholesky factorisation.
    confidence : float

    Returns
    -------
    Certificate
        In the units of the targets; several targets count as so many more rows. Two-sided only if the frequencies are
        independent, `rows="iid"`. Those of every other law, the default's included, repel each other: the blocks then
        vary more than their mean does, so that value and upper end are too large, by what the law gains over
        independent frequencies, and the interval begins at zero. `how` says which it is.

    Notes
    -----
    With ψ_b the pseudo-values of the blocks, predictions minus the truth are (the jackknife's bias) + (mean of ψ_b -
    truth); the second has the variance of a mean of B terms, and its squared length the law of a weighted sum of χ²,
    replaced by F(ν, ν(B - 1)) with ν from the spread of the ψ_b over directions (Satterthwaite).

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
    started = time.perf_counter()
    B = check.count("n_blocks", n_blocks, minimum=4, advice="A spread needs a few of them.")
    confidence = check.fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    feature_map = _fourier_of(model)
    m = feature_map.n_components
    if m < 2 * B:
        raise ValueError(f"{m} columns cannot be cut into {B} blocks of pairs; use fewer blocks or more columns.")
    X = _checked(model, X)
    Z = np.asarray(feature_map(X), dtype=np.float64)
    statistics, alpha, intercept = model.statistics_, float(model.alpha_), bool(model.fit_intercept)
    if statistics.gram is None:
        raise ValueError("this model kept no Gram matrix (solver='cg'); fit it with solver='cholesky'.")
    G = statistics.operator(intercept).to_dense()
    right = statistics.right_side(intercept)
    centre = statistics.feature_mean if intercept else np.zeros(m)
    Z = Z - centre

    def predict(columns: Array) -> Array:
        """Predictions up to a constant, with these columns alone, scaled up to all of them."""
        scale = m / len(columns)
        inner = scale * G[np.ix_(columns, columns)]
        inner[np.diag_indices_from(inner)] += max(alpha, 1e-12 * float(np.trace(inner)) / len(columns))
        weights = scipy.linalg.solve(inner, scale * right[columns], assume_a="pos", check_finite=False)
        return np.ravel(Z[:, columns] @ weights)

    everything = np.arange(m)
    whole = predict(everything)
    blocks = np.array_split(np.arange(-(-m // 2)), B)  # of frequencies: a pair stays together
    frequency = everything // 2 if feature_map.form == "pairs" else everything
    if feature_map.form != "pairs":
        blocks = np.array_split(everything, B)
    without = np.array([predict(everything[~np.isin(frequency, block)]) for block in blocks])
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
    how = f"the model solved again without each of {B} blocks of columns; against infinitely many, alpha = {alpha:.3g}"
    if not independent:
        how += "; the frequencies are not independent, so only the upper end speaks"
    cost = Effort(0, X.shape[0], time.perf_counter() - started)
    return Certificate("prediction error", value, (low, high), confidence, how, cost)


def _fourier_of(model: Any) -> Fourier:
    for name in ("feature_map_", "statistics_", "alpha_", "fit_intercept"):
        if not hasattr(model, name):
            raise TypeError(f"model must be a fitted KernelRidge; {type(model).__name__} has no {name}.")
    if not isinstance(model.feature_map_, Fourier) or model.feature_map_.form == "complex":
        raise ValueError(
            "a jackknife over columns needs columns that are exchangeable: real Fourier features. For other features "
            "use kernel_error(features, X, norm='relative_spectral', alpha=...)."
        )
    return model.feature_map_


def leave_one_out_error(
    statistics: RidgeStatistics,
    features: Any,
    X: Any,
    y: Any,
    alpha: float,
    *,
    fit_intercept: bool = True,
    confidence: float = 0.95,
) -> Certificate:
    r"""Mean squared error of ridge regression at a new row, by leaving out every row given, exactly.

    The residual of row i in the fit without it is :math:`(y_i - \hat y_i)/(1 - h_i)` with
    :math:`h_i = z_i^T (G + \alpha I)^{-1} z_i`: one pass, no refitting.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all training rows, each of weight one.
    features : FeatureMap or fitted transformer
    X, y : arrays of shape (n_samples, n_features) and (n_samples,) or (n_samples, n_targets)
        Training rows to leave out: all of them, or a random part.
    alpha : float
    fit_intercept : bool
    confidence : float

    Returns
    -------
    Certificate
        The mean over rows and targets; the interval is that of a mean of as many squared residuals, for the error of
        new rows of the same law.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.certificates import leave_one_out_error
    >>> from bochner.statistics import RidgeStatistics
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 5))
    >>> y = Z @ np.ones(5) + rng.normal(size=300)
    >>> found = leave_one_out_error(RidgeStatistics(5, 1).update(Z, y), lambda Z: Z, Z, y, 1.0)
    >>> found.low < 1.0 < found.high
    True
    """
    started = time.perf_counter()
    alpha = check.positive("alpha", alpha, zero=True)
    confidence = check.fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    X = as_points(X)
    Y = np.asarray(y, dtype=np.float64).reshape(X.shape[0], -1)
    spectrum = statistics.spectrum(fit_intercept)
    inverse = 1.0 / np.maximum(spectrum.factor.eigenvalues + alpha, np.finfo(float).tiny)
    inverse[spectrum.factor.eigenvalues + alpha <= 0.0] = 0.0
    centre = statistics.feature_mean if fit_intercept else 0.0
    level = statistics.target_mean if fit_intercept else 0.0
    transform = getattr(features, "feature_map_", features)
    transform = transform if callable(transform) else features.transform
    squares = np.empty(Y.shape)
    step = max(1, (1 << 22) // statistics.n_components)
    for start in range(0, len(Y), step):
        rows = slice(start, start + step)
        rotated = (np.asarray(transform(X[rows]), dtype=np.float64) - centre) @ spectrum.factor.vectors
        leverage = (rotated * rotated) @ inverse + (1.0 / statistics.weight if fit_intercept else 0.0)
        residual = Y[rows] - level - rotated @ (inverse[:, None] * spectrum.moment)
        squares[rows] = (residual / np.maximum(1.0 - leverage, 1e-12)[:, None]) ** 2
    mine = squares.mean(axis=1)
    value = float(mine.mean())
    interval = _bounds(value, [mine], 1.0 - confidence) if len(mine) > 1 else (0.0, math.inf)
    how = f"{len(mine)} rows left out one at a time, exactly; interval of the mean of their squared residuals"
    cost = Effort(0, len(mine), time.perf_counter() - started)
    return Certificate("leave-one-out mean squared error", value, interval, confidence, how, cost)


def gcv_error(
    statistics: RidgeStatistics, alpha: float, *, fit_intercept: bool = True, confidence: float = 0.95
) -> Certificate:
    r"""Mean squared error of ridge regression at a new row, by generalised cross-validation, from the sums alone.

    :math:`n \sum (y - \hat y)^2 / (n - d_e(\alpha))^2` (Golub, Heath & Wahba 1979).

    Parameters
    ----------
    statistics : RidgeStatistics
    alpha : float
    fit_intercept : bool
    confidence : float

    Returns
    -------
    Certificate
        The mean over targets. The sums hold no single residual, so the interval takes them for normal, with
        n - d_e degrees of freedom; `leave_one_out_error` does not, and looks at the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.certificates import gcv_error
    >>> from bochner.statistics import RidgeStatistics
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 5))
    >>> found = gcv_error(RidgeStatistics(5, 1).update(Z, Z @ np.ones(5) + rng.normal(size=300)), 1.0)
    >>> found.low < 1.0 < found.high
    True
    """
    started = time.perf_counter()
    alpha = check.positive("alpha", alpha)
    confidence = check.fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    spectrum = statistics.spectrum(fit_intercept)
    value = float(spectrum.gcv([alpha]).mean())
    freedom = max(spectrum.n_samples - float(spectrum.effective_dimension([alpha])[0]), 1e-9)
    high, low = (
        value * freedom / float(stats.chi2.ppf(p, freedom)) for p in ((1 - confidence) / 2, (1 + confidence) / 2)
    )
    how = (
        f"the sums of {statistics.n_samples} rows; interval for normal residuals with {freedom:.0f} degrees of freedom"
    )
    cost = Effort(0, 0, time.perf_counter() - started)
    return Certificate("GCV mean squared error", value, (low, high), confidence, how, cost)
