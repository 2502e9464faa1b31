"""Exact kernel methods for small n: the truth that approximations are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from bochner.backends import Array
from bochner.kernels import as_kernel


def exact_kernel_ridge(
    kernel: Any, X: Any, y: Any, X_new: Any, alpha: float, *, sample_weight: Any = None, fit_intercept: bool = True
) -> Array:
    """Predictions of exact kernel ridge regression, from the n × n kernel matrix: the truth for small n.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel
        Or any function of two sets of rows.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    X_new : array-like of shape (n_new, n_features)
    alpha : float
        The penalty of Σ w (f(x) + b - y)² + alpha ‖f‖².
    sample_weight : array-like of shape (n_samples,) or None
    fit_intercept : bool

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, exact_kernel_ridge
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> exact_kernel_ridge(RBF(1.0), X, np.sin(X[:, 0]), [[1.0]], alpha=1e-4).round(2)
    array([0.84])
    """
    k = as_kernel(kernel)
    X, X_new, Y = (np.asarray(a, dtype=np.float64) for a in (X, X_new, y))
    k = k.resolve(X, sample_weight=sample_weight)
    targets = Y.reshape(len(Y), -1)
    w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    X, targets, w = X[w > 0], targets[w > 0], w[w > 0]
    # K + alpha W⁻¹, bordered by the constraint Σ a = 0 that a free intercept puts on the dual
    n = len(X)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = k(X) + alpha * np.diag(1.0 / w)
    system[:n, n] = system[n, :n] = 1.0 if fit_intercept else 0.0
    system[n, n] = 0.0 if fit_intercept else 1.0
    dual = np.linalg.solve(system, np.vstack([targets, np.zeros((1, targets.shape[1]))]))
    predictions = k(X_new, X) @ dual[:n] + (dual[n] if fit_intercept else 0.0)
    return np.asarray(predictions.reshape(-1, *Y.shape[1:]))


def exact_gaussian_process(
    kernel: Any, X: Any, y: Any, X_new: Any, noise_variance: float, amplitude: float = 1.0
) -> tuple[Array, Array, float]:
    """Mean, covariance and log marginal likelihood of an exact Gaussian process of mean 0: the truth for small n.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    X_new : array-like of shape (n_new, n_features)
    noise_variance, amplitude : float

    Returns
    -------
    mean : ndarray of shape (n_new,)
    covariance : ndarray of shape (n_new, n_new)
    log_marginal_likelihood : float

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, exact_gaussian_process
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> mean, covariance, _ = exact_gaussian_process(RBF(1.0), X, np.sin(X[:, 0]), [[1.0], [9.0]], 1e-4)
    >>> mean.round(2) + 0.0, np.sqrt(np.diagonal(covariance)).round(2)
    (array([0.84, 0.  ]), array([0.01, 1.  ]))
    """
    X, X_new, y = (np.asarray(a, dtype=np.float64) for a in (X, X_new, y))
    k = as_kernel(kernel).resolve(X)
    K = amplitude * k(X) + noise_variance * np.eye(len(X))
    try:
        factor = cho_factor(K, lower=True)
    except LinAlgError:
        raise ValueError("the kernel matrix is not positive definite; raise noise_variance.") from None
    cross = amplitude * k(X_new, X)
    dual = cho_solve(factor, y)
    covariance = amplitude * k(X_new) - cross @ cho_solve(factor, cross.T)
    evidence = -0.5 * (y @ dual + len(y) * np.log(2.0 * np.pi)) - np.log(np.diagonal(factor[0])).sum()
    return cross @ dual, covariance, float(evidence)
