"""Kernels from names, functions and scikit-learn's Gaussian-process kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bochner.backends import Array
from bochner.checks import check_positive
from bochner.kernels import dot_products, stationary
from bochner.kernels.algebra import Kernel, dense
from bochner.kernels.dot_products import MaclaurinSeries, Polynomial
from bochner.kernels.stationary import RBF, Matern, RationalQuadratic


@dataclass(eq=False, repr=False)
class Custom(Kernel):
    """A kernel given by a function, of two sets of rows or of two rows.

    Parameters
    ----------
    function : callable
        function(X, Y) → (n, m), or function(x, y) → number; which of the two is found by calling it.
    """

    function: Callable[..., ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"function must be a function of two sets of rows or of two rows, got {self.function!r}.")

    def block(self, X: Array, Y: Array) -> Array:
        X, Y = dense(X), dense(Y)
        try:
            gram = np.asarray(self.function(X, Y))
        except (ValueError, TypeError, IndexError):
            gram = np.empty(0)
        if gram.shape != (len(X), len(Y)):
            gram = np.array([[self.function(x, y) for y in Y] for x in X]).reshape(len(X), len(Y))
        return gram.astype(X.dtype, copy=False)

    def block_diagonal(self, X: Array) -> Array:
        return np.array([self.block(x, x)[0, 0] for x in dense(X)[:, None, :]])


KERNEL_NAMES: dict[str, Callable[..., Kernel]] = {**stationary.NAMES, **dot_products.NAMES}


# what functions accept as kernel, besides the kernels of scikit-learn
KernelLike = str | Kernel | Callable[..., ArrayLike]


def as_kernel(kernel: KernelLike, **params: object) -> Kernel:
    """Return a bochner kernel for a name, a kernel, a function or a kernel of ``sklearn.gaussian_process.kernels``.

    Parameters
    ----------
    kernel : str, Kernel, callable or scikit-learn kernel
        A name may be followed by parameters: ``as_kernel("rbf", gamma=0.5)`` has scikit-learn's meaning,
        exp(-gamma ||x - y||²) (for the Laplacian exp(-gamma ||x - y||₁)); ``length_scale=`` is ours. A stationary
        kernel given by name alone has ``length_scale="median"``.
    **params
        Parameters of a kernel given by name.

    Examples
    --------
    >>> from bochner import as_kernel
    >>> as_kernel("rbf", gamma=0.5)
    RBF(1.0)
    >>> as_kernel("matern52", length_scale=2.0)
    Matern(2.0, nu=2.5)
    """
    if isinstance(kernel, str):
        return _kernel_of_name(kernel, params)
    if params:
        raise ValueError(f"parameters {sorted(params)} go with a kernel given by name; set them on {kernel!r} itself.")
    if isinstance(kernel, Kernel):
        return kernel
    if type(kernel).__module__.startswith("sklearn.gaussian_process"):
        return _kernel_of_sklearn(kernel)
    if callable(kernel):
        return Custom(kernel)
    raise ValueError(
        f"kernel must be a name ({', '.join(sorted(KERNEL_NAMES))}), a bochner or scikit-learn kernel, or a function; "
        f"got {kernel!r}."
    )


def _kernel_of_name(name: str, params: dict[str, object]) -> Kernel:
    if name not in KERNEL_NAMES:
        raise ValueError(f"unknown kernel {name!r}; the names are {', '.join(sorted(KERNEL_NAMES))}.")
    make = KERNEL_NAMES[name]
    if name in dot_products.NAMES:
        return make(**params)
    if "gamma" in params:
        gamma = params.pop("gamma")
        if "length_scale" in params:
            raise ValueError("give gamma or length_scale, not both.")
        if name not in ("rbf", "gaussian", "laplacian"):
            raise ValueError(f"gamma has no agreed meaning for kernel {name!r}; give length_scale.")
        gamma = check_positive("gamma", gamma)
        params["length_scale"] = 1.0 / gamma if name == "laplacian" else float(1.0 / np.sqrt(2.0 * gamma))
    params.setdefault("length_scale", "median")
    return make(**params)


def _kernel_of_sklearn(kernel: Any) -> Kernel:
    import sklearn.gaussian_process.kernels as gp

    convert = _kernel_of_sklearn
    if isinstance(kernel, gp.Matern):  # before RBF, its base class
        return RBF(kernel.length_scale) if np.isinf(kernel.nu) else Matern(kernel.length_scale, kernel.nu)
    if isinstance(kernel, gp.RBF):
        return RBF(kernel.length_scale)
    if isinstance(kernel, gp.RationalQuadratic):
        return RationalQuadratic(kernel.length_scale, kernel.alpha)
    if isinstance(kernel, gp.DotProduct):
        return Polynomial(1, gamma=1.0, coef0=kernel.sigma_0**2)
    if isinstance(kernel, gp.ConstantKernel):
        return MaclaurinSeries([kernel.constant_value])
    if isinstance(kernel, gp.Sum):
        return convert(kernel.k1) + convert(kernel.k2)
    if isinstance(kernel, gp.Product):
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if isinstance(constant, gp.ConstantKernel):
                return convert(other) * float(constant.constant_value)
        return convert(kernel.k1) * convert(kernel.k2)
    if isinstance(kernel, gp.Exponentiation):
        return convert(kernel.kernel) ** kernel.exponent
    if isinstance(kernel, gp.WhiteKernel):
        raise ValueError(
            "WhiteKernel is noise, not a function of two points; remove it and set alpha or noise_variance."
        )
    return Custom(kernel)
