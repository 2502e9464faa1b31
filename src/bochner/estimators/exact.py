"""Exact kernel methods, as a reference for approximations."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from bochner.backends import Array, backend_of, reading
from bochner.checks import check_choice, check_flag, check_positive, check_weight
from bochner.data.labels import Labels, labels_of, unique_labels
from bochner.data.sources import Block
from bochner.data.targets import numeric_targets
from bochner.data.validation import check_rows
from bochner.estimators.exact_solves import in_float64, place_rows, solve_exactly
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import as_kernel
from bochner.landmarks.grams import Gram
from bochner.newton.losses import as_loss

_SOLVERS = ("auto", "direct", "cg")
_DIRECT_ROWS = 10_000  # whose kernel matrix takes a gigabyte
_LOSSES = ("log_loss", "squared_hinge", "squared")  # of classifiers


def exact_rows(X: Any, X_new: Any, *, narrow: bool = False) -> tuple[Array, Array]:
    """Training rows and new rows in float64, or in their common precision if it may be narrow, after checks."""
    X, X_new = (check_rows(A, input_name=name, accept_sparse=False) for name, A in (("X", X), ("X_new", X_new)))
    if X.shape[1] != X_new.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features and X_new has {X_new.shape[1]}; they must be the same.")
    dtype = np.result_type(X.dtype, X_new.dtype) if narrow else np.float64
    return X.astype(dtype, copy=False), X_new.astype(dtype, copy=False)


def _exact_targets(y: Any, n: int) -> Array:
    """Targets in float64, checked to have one or two dimensions and n rows."""
    with reading("y"):
        y = np.asarray(y)
    if y.ndim not in (1, 2) or len(y) != n or not y.size:
        raise ValueError(f"y must have a row for each of the {n} rows of X, and one or two dimensions; got {y.shape}.")
    return numeric_targets(y).reshape(y.shape)


def exact_kernel_ridge(
    kernel: Any,
    X: Any,
    y: Any,
    X_new: Any,
    alpha: float,
    *,
    sample_weight: Any = None,
    fit_intercept: bool = True,
    solver: str = "auto",
    tol: float = 1e-6,
    device: str | None = None,
) -> Array:
    """Predictions of exact kernel ridge regression: no random features, no landmarks.

    It takes n² kernel values: as a matrix and its factors (`solver="direct"`), or in each step of conjugate gradients,
    which never store them (`solver="cg"`): on a GPU for up to a million rows. With ``fit_intercept=False`` and the
    noise's variance as alpha these are the means of a Gaussian process.

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
        Add a constant to the model, which is not penalised.
    solver : {"auto", "direct", "cg"}
        "auto" is "direct" up to 10,000 rows and without a device. "cg" needs alpha > 0, and keeps a partial Cholesky
        factor with 10 √n random pivots as its preconditioner, or as many as fit into a quarter of the free memory.
    tol : float
        Where conjugate gradients stop: the norm of the residual, as a share of that of the right-hand side.
    device : str or None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are. Kernel values have the precision of
        X.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, exact_kernel_ridge
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> exact_kernel_ridge(RBF(1.0), X, np.sin(X[:, 0]), [[1.0]], alpha=1e-4).round(2)
    array([0.84])
    """
    alpha, fit_intercept = check_positive("alpha", alpha, zero=True), check_flag("fit_intercept", fit_intercept)
    solver, tol = check_choice("solver", solver, _SOLVERS), check_positive("tol", tol)
    X, X_new = exact_rows(X, X_new, narrow=device is not None)
    Y = _exact_targets(y, len(X))
    targets = Y.reshape(len(Y), -1)
    w = np.ones(len(X)) if sample_weight is None else check_weight(sample_weight, len(X))
    if not (w > 0).any():
        raise ValueError("sample_weight is zero for every row.")
    k = as_kernel(kernel).resolve(X, sample_weight=w)
    X, targets, w = X[w > 0], targets[w > 0], w[w > 0]
    if solver == "cg" or (solver == "auto" and (device is not None or len(X) > _DIRECT_ROWS)):
        predictions = _without_a_matrix(k, X, targets, X_new, alpha, w, fit_intercept, tol, device)
        return np.asarray(predictions.reshape(-1, *Y.shape[1:]))
    # K + alpha W⁻¹, bordered by the constraint Σ a = 0 that a free intercept puts on the dual
    n = len(X)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = k(X) + alpha * np.diag(1.0 / w)
    system[:n, n] = system[n, :n] = 1.0 if fit_intercept else 0.0
    system[n, n] = 0.0 if fit_intercept else 1.0
    try:
        dual = np.linalg.solve(system, np.vstack([targets, np.zeros((1, targets.shape[1]))]))
    except LinAlgError:
        raise ValueError("the kernel matrix is singular; raise alpha.") from None
    predictions = k(X_new, X) @ dual[:n] + (dual[n] if fit_intercept else 0.0)
    return np.asarray(predictions.reshape(-1, *Y.shape[1:]))


def _without_a_matrix(
    k: Kernel,
    X: Array,
    Y: Array,
    X_new: Array,
    alpha: float,
    w: Array,
    fit_intercept: bool,
    tol: float,
    device: str | None,
) -> Array:
    """Predictions by conjugate gradients."""
    if alpha == 0.0:
        raise ValueError("solver='cg' needs a positive alpha; use solver='direct'.")
    there, free = place_rows(device, X)
    gram = Gram(X, k, None if device is None else there)
    dual, intercept, _ = solve_exactly(gram, Y, alpha, w, fit_intercept=fit_intercept, tol=tol, free=free)
    backend = backend_of(there)
    new = X_new if device is None else place_rows(device, X_new)[0]
    return np.asarray(backend.fetch(k.product(new, there, backend.place(dual, in_float64(there)))) + intercept)


def exact_gaussian_process(
    kernel: Any, X: Any, y: Any, X_new: Any, noise_variance: float, amplitude: float = 1.0
) -> tuple[Array, Array, float]:
    """Mean, covariance and log marginal likelihood of an exact Gaussian process of mean 0: a reference for small n.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel
        The covariance, up to `amplitude`.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    X_new : array-like of shape (n_new, n_features)
    noise_variance, amplitude : float
        Variances of the noise of an observation, and of the function where the kernel is one.

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
    noise_variance = check_positive("noise_variance", noise_variance, zero=True)
    amplitude = check_positive("amplitude", amplitude)
    X, X_new = exact_rows(X, X_new)
    y = _exact_targets(y, len(X))
    if y.ndim != 1:
        raise ValueError(f"y must have one dimension, got {y.ndim}; call it for one column after the other.")
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


def exact_kernel_classifier(
    kernel: Any,
    X: Any,
    y: Any,
    X_new: Any,
    alpha: float,
    *,
    loss: str = "log_loss",
    sample_weight: Any = None,
    fit_intercept: bool = True,
) -> Array:
    """Scores of exact kernel classification, from the n × n kernel matrix by L-BFGS: a reference for small n.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel
        Its length scale is used as it is.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    X_new : array-like of shape (n_new, n_features)
    alpha : float
        The penalty of Σ w ℓ(f(x) + b, y) + alpha / 2 ‖f‖².
    loss : {"log_loss", "squared_hinge", "squared"}
        The loss of `KernelClassifier` of that name.
    sample_weight : array-like of shape (n_samples,) or None
    fit_intercept : bool
        Add a constant to the model, which is not penalised.

    Returns
    -------
    scores : ndarray of shape (n_new,) for two classes, (n_new, n_classes) for more

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, exact_kernel_classifier
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> exact_kernel_classifier(RBF(1.0), X, X[:, 0] > 0, [[0.0]], alpha=1.0).round(3) + 0.0
    array([0.])
    """
    rule = as_loss(check_choice("loss", loss, _LOSSES))
    alpha, fit_intercept = check_positive("alpha", alpha), check_flag("fit_intercept", fit_intercept)
    X, X_new = exact_rows(X, X_new)
    y = labels_of(y)
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows and y has {len(y)}; they must agree.")
    w = np.ones(len(X)) if sample_weight is None else check_weight(sample_weight, len(X))
    X, y, w = X[w > 0], y[w > 0], w[w > 0]
    classes = unique_labels(y)
    if len(classes) < 2:
        raise ValueError(f"a classifier needs two classes or more, got {classes.tolist()}.")
    labels = Labels(classes, np.ones(len(classes)))
    Y = labels(Block(X, y)).y
    k = as_kernel(kernel).resolve(X, sample_weight=w)
    # f = K a in an orthonormal basis of the functions k(·, x_i): K = V λ Vᵀ, f(X) = V √λ c
    values, V = np.linalg.eigh(k(X))
    keep = values > 1e-13 * values[-1]
    Z, to_dual = V[:, keep] * np.sqrt(values[keep]), V[:, keep] / np.sqrt(values[keep])

    def objective(flat: Array) -> tuple[float, Array]:
        P = flat.reshape(-1, Y.shape[1])
        F = Z @ P[:-1] + P[-1]
        slope = rule.slope(F, Y) * w[:, None]
        gradient = np.vstack([Z.T @ slope + alpha * P[:-1], slope.sum(axis=0) * float(fit_intercept)])
        return float(w @ rule.value(F, Y)) + 0.5 * alpha * float((P[:-1] ** 2).sum()), gradient.ravel()

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
    start = np.zeros((Z.shape[1] + 1) * Y.shape[1])
    P = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x.reshape(-1, Y.shape[1])
    F = k(X_new, X) @ (to_dual @ P[:-1]) + P[-1]
    return np.asarray(F[:, 0] if Y.shape[1] == 1 else F)
