"""Matrices with given spectra, and the kinds of matrices that bochner.linalg takes."""

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

from bochner.draws.linear_maps import Dense


def with_singular_values(m, n, s, seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(m, len(s))))[0]
    V = np.linalg.qr(rng.normal(size=(n, len(s))))[0]
    return (U * s) @ V.T


def with_eigenvalues(n, values, seed=0):
    U = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, len(values))))[0]
    A = (U * values) @ U.T
    return (A + A.T) / 2.0


class Products:
    """Nothing but a shape and products."""

    def __init__(self, A):
        self.A, self.shape = A, A.shape

    @property
    def T(self):  # noqa: N802
        return Products(self.A.T)

    def __matmul__(self, B):
        return self.A @ B


FORMS = {
    "csr": scipy.sparse.csr_array,
    "csc_matrix": scipy.sparse.csc_matrix,
    "linear_operator": aslinearoperator,
    "linear_map": Dense,
    "products": Products,
    "fortran": np.asfortranarray,
    "list": lambda A: A.tolist(),
}
