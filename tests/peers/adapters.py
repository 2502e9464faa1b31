"""Our classes behind the parameters of scikit-learn's: names are mapped, and as little else as can be is done.

Each use is counted, so that a test that never touches one of ours can be told from one that passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import get_tags

import bochner
from bochner import as_kernel, linalg

uses = 0


def used():
    global uses
    uses += 1


@dataclass(eq=False, repr=False)
class Peer(BaseEstimator):
    """An estimator with scikit-learn's parameters; fitted, it is one of ours."""

    def __post_init__(self):
        used()

    def ours(self, X):
        """Our estimator, not fitted, for data of the shape of X."""
        raise NotImplementedError

    def fit(self, X, y=None, **options):
        self.model_ = self.ours(X)
        self.model_.fit(X, y, **options)
        return self

    def fit_transform(self, X, y=None):
        self.model_ = self.ours(X)
        return self.model_.fit_transform(X)

    def get_feature_names_out(self, input_features=None):
        ours, theirs = (type(model).__name__.lower() for model in (self.model_, self))
        return np.array([name.replace(ours, theirs) for name in self.model_.get_feature_names_out(input_features)])

    def __getattr__(self, name):
        if name.startswith("__") or name == "model_":
            raise AttributeError(name)
        return getattr(self.__dict__.get("model_") or self.ours(np.empty((2, 2))), name)

    def __sklearn_tags__(self):
        return get_tags(self.ours(np.empty((2, 2))))


def kernel_of(kernel, X, gamma=None, coef0=None, degree=None, params=None):
    """Our kernel for one of scikit-learn's names; those that we have no name for are functions to us."""
    if callable(kernel):
        return bochner.Custom(lambda x, y: kernel(x, y, **(params or {})))
    if kernel in ("rbf", "laplacian"):
        return as_kernel(kernel, gamma=1.0 / np.shape(X)[1] if gamma is None else gamma)
    if kernel in ("linear", "precomputed"):
        return kernel
    if kernel in ("poly", "polynomial") and int(degree or 3) == (degree or 3):
        return bochner.Polynomial(int(degree or 3), gamma, 1.0 if coef0 is None else float(coef0))
    options = {"gamma": gamma, "degree": degree, "coef0": coef0}
    options = {name: value for name, value in options.items() if value is not None}
    return bochner.Custom(lambda X, Y: pairwise_kernels(X, Y, kernel, filter_params=True, **options))


def exact_features(peer, X):
    """Every row is a landmark: features of the kernel itself, to rounding."""
    kernel = kernel_of(peer.kernel, X, peer.gamma, peer.coef0, peer.degree, peer.kernel_params)
    return bochner.NystromFeatures(kernel, np.shape(X)[0], landmarks="rpcholesky", random_state=0)


@dataclass(eq=False, repr=False)
class RBFSampler(Peer):
    gamma: Any = 1.0
    n_components: int = 100
    random_state: Any = None

    def ours(self, X):
        kernel = as_kernel("rbf", gamma=self.gamma)
        return bochner.FourierFeatures(kernel, self.n_components, form="offset", random_state=self.random_state)

    @property
    def random_weights_(self):
        return self.model_.frequencies().T

    @property
    def random_offset_(self):
        return self.model_.feature_map_.offsets


@dataclass(eq=False, repr=False)
class PolynomialCountSketch(Peer):
    gamma: float = 1.0
    degree: int = 2
    coef0: float = 0
    n_components: int = 100
    random_state: Any = None

    def ours(self, X):
        kernel = bochner.Polynomial(self.degree, self.gamma, float(self.coef0))
        return bochner.TensorSketchFeatures(kernel, self.n_components, random_state=self.random_state)


@dataclass(eq=False, repr=False)
class AdditiveChi2Sampler(Peer):
    sample_steps: int = 2
    sample_interval: Any = None

    def ours(self, X):
        return bochner.AdditiveChi2Features(self.sample_steps, sample_interval=self.sample_interval)


@dataclass(eq=False, repr=False)
class Nystroem(Peer):
    kernel: Any = "rbf"
    gamma: Any = None
    coef0: Any = None
    degree: Any = None
    kernel_params: Any = None
    n_components: int = 100
    random_state: Any = None
    n_jobs: Any = None

    def ours(self, X):
        given = (self.gamma, self.coef0, self.degree)
        if (callable(self.kernel) or self.kernel == "precomputed") and any(value is not None for value in given):
            raise ValueError("Don't pass gamma, coef0 or degree to Nystroem with such a kernel.")
        kernel = kernel_of(self.kernel, X, *given, self.kernel_params)
        return bochner.NystromFeatures(
            kernel, self.n_components, landmarks="uniform", random_state=self.random_state, n_jobs=self.n_jobs
        )

    @property
    def component_indices_(self):
        return self.model_.landmark_indices_


@dataclass(eq=False, repr=False)
class KernelRidge(Peer):
    alpha: Any = 1
    kernel: Any = "linear"
    gamma: Any = None
    degree: Any = 3
    coef0: Any = 1
    kernel_params: Any = None

    def ours(self, X):
        return bochner.KernelRidge(features=exact_features(self, X), alpha=self.alpha, fit_intercept=False)


@dataclass(eq=False, repr=False)
class KernelPCA(Peer):
    n_components: Any = None
    kernel: Any = "linear"
    gamma: Any = None
    degree: Any = 3
    coef0: Any = 1
    kernel_params: Any = None
    alpha: float = 1.0
    fit_inverse_transform: bool = False
    eigen_solver: str = "auto"
    tol: float = 0
    max_iter: Any = None
    iterated_power: Any = "auto"
    remove_zero_eig: bool = False
    random_state: Any = None
    copy_X: bool = True  # noqa: N815
    n_jobs: Any = None

    def ours(self, X):
        features = exact_features(self, X)
        return bochner.KernelPCA(
            np.shape(X)[0] if self.n_components is None else self.n_components,
            kernel="rbf" if self.kernel == "precomputed" else features.kernel,
            features=features,
            fit_inverse_transform=self.fit_inverse_transform,
            alpha=self.alpha,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    @property
    def gamma_(self):
        return round(0.5 / self.model_.features_.kernel_.length_scale**2, 12)


@dataclass(eq=False, repr=False)
class GaussianRandomProjection(Peer):
    n_components: Any = "auto"
    eps: float = 0.1
    compute_inverse_components: bool = False
    random_state: Any = None

    def ours(self, X):
        return bochner.RandomProjection(self.n_components, law="gaussian", eps=self.eps, random_state=self.random_state)

    @property
    def components_(self):
        return self.model_.feature_map_.sketch.to_dense()

    @property
    def inverse_components_(self):
        return self.model_.inverse_transform(np.eye(self.model_.n_components_)).T


@dataclass(eq=False, repr=False)
class SparseRandomProjection(GaussianRandomProjection):
    density: Any = "auto"
    dense_output: bool = False

    def ours(self, X):
        options = {"eps": self.eps, "dense_output": self.dense_output, "random_state": self.random_state}
        return bochner.RandomProjection(self.n_components, law="very_sparse", **options)


def parts_of(kernel):
    """A kernel of scikit-learn's as constant (or None), kernel and variance of white noise."""
    noise, constant = 0.0, None
    if isinstance(kernel, sklearn_kernels.Sum) and isinstance(kernel.k2, sklearn_kernels.WhiteKernel):
        kernel, noise = kernel.k1, kernel.k2.noise_level
    if isinstance(kernel, sklearn_kernels.Product) and isinstance(kernel.k1, sklearn_kernels.ConstantKernel):
        constant, kernel = kernel.k1.constant_value, kernel.k2
    return constant, kernel, noise


@dataclass(eq=False, repr=False)
class GaussianProcessRegressor(Peer):
    """Where scikit-learn would optimise a length scale and a constant, ours are "auto"; all other numbers stay.

    Normalised targets have a level and an amplitude.
    """

    kernel: Any = None
    alpha: Any = 1e-10
    optimizer: Any = "fmin_l_bfgs_b"
    n_restarts_optimizer: int = 0
    normalize_y: bool = False
    copy_X_train: bool = True  # noqa: N815
    n_targets: Any = None
    random_state: Any = None

    def ours(self, X):
        constant, kernel, noise = parts_of(sklearn_kernels.RBF(1.0) if self.kernel is None else self.kernel)
        tuned = self.optimizer is not None and type(kernel) is sklearn_kernels.RBF
        tuned = tuned and not kernel.hyperparameter_length_scale.fixed
        amplitude = 1.0 if constant is None else constant
        return bochner.GaussianProcessRegressor(
            bochner.RBF("auto") if tuned else kernel,
            n_components=max(64, np.shape(X)[0]),  # every row is a landmark
            metric="diagonal" if tuned and kernel.anisotropic else "isotropic",
            noise_variance=self.alpha + noise,
            amplitude="auto" if tuned and (constant is not None or self.normalize_y) else amplitude,
            fit_intercept=self.normalize_y,
            n_restarts=self.n_restarts_optimizer,
            random_state=0 if self.random_state is None else self.random_state,  # scikit-learn's is not random
        )

    def fit(self, X, y):
        y = np.asarray(y)
        self.data_ = X, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        return super().fit(*self.data_)

    @property
    def kernel_(self):
        asked = sklearn_kernels.RBF(1.0) if self.kernel is None else self.kernel
        if not isinstance(self.model_.kernel, bochner.RBF):
            return asked
        kernel = sklearn_kernels.RBF(self.model_.kernel_.length_scale)
        if parts_of(asked)[0] is not None:
            kernel = sklearn_kernels.ConstantKernel(np.ravel(self.model_.amplitude_)[0]) * kernel
        return kernel

    def log_marginal_likelihood(self, theta=None):
        if theta is None:
            return self.model_.log_marginal_likelihood()
        kernel = self.kernel_.clone_with_theta(theta)
        noise = self.alpha + parts_of(self.kernel)[2]
        other = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None, normalize_y=self.normalize_y)
        return other.fit(*self.data_).model_.log_marginal_likelihood()


def randomized_svd(
    M,
    n_components,
    *,
    n_oversamples=10,
    n_iter="auto",
    power_iteration_normalizer="auto",
    transpose="auto",
    flip_sign=True,
    random_state=None,
    svd_lapack_driver="gesdd",
):
    used()
    options = {} if n_iter == "auto" else {"n_iter": n_iter}
    return linalg.randomized_svd(M, n_components, oversampling=n_oversamples, random_state=random_state, **options)
