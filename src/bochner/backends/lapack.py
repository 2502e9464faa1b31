"""Triangular routines of SciPy's LAPACK that let other Python threads run meanwhile.

The functions of ``scipy.linalg.lapack`` hold the global interpreter lock, so that factorisations on several threads
wait for one another. These call the same library by ctypes, which releases the lock, and work in place: matrices are
in Fortran order, or parts of such, and their lower triangles count.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.linalg import cython_lapack

from bochner.backends import Array

_LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


@cache
def _routine(name: str, n_arguments: int) -> Callable[..., None]:
    """Return a function of LAPACK, all of whose arguments are pointers."""
    capsule = cython_lapack.__pyx_capi__[name]
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    address = pointer_of(capsule, name_of(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _call(name: str, A: Array, *arguments: Array | bytes | int) -> bool:
    """Call a routine in the precision of A; bytes, ints and matrices become pointers. Tells whether it succeeded."""
    passed: list[object] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            if argument.strides[0] != argument.itemsize and len(argument) > 1:
                raise ValueError("expected a matrix in Fortran order.")
            apart = argument.strides[1] // argument.itemsize if argument.shape[1] > 1 else 0  # neighbouring columns
            passed += [argument.ctypes.data, ctypes.byref(ctypes.c_int(max(1, len(argument), apart)))]
        else:
            passed.append(argument if isinstance(argument, bytes) else ctypes.byref(ctypes.c_int(argument)))
    info = ctypes.c_int(0)
    _routine(_LETTERS[A.dtype] + name, len(passed) + 1)(*passed, ctypes.byref(info))
    return info.value == 0


def potrf(A: Array) -> bool:
    """Turn A (m, m) into its Cholesky factor, and clear the rest; tell whether there is one."""
    found = _call("potrf", A, b"L", len(A), A)
    for column in range(1, len(A)):
        A[:column, column] = 0.0
    return found


def potrs(L: Array, B: Array) -> None:
    """Turn B (m, k) into (L Lᵀ)⁻¹ B."""
    _call("potrs", L, b"L", len(L), B.shape[1], L, B)


def potri(L: Array) -> None:
    """Turn the lower triangle of L into that of (L Lᵀ)⁻¹."""
    _call("potri", L, b"L", len(L), L)


def trtri(L: Array) -> None:
    """Turn the lower triangle of L into that of L⁻¹."""
    _call("trtri", L, b"L", b"N", len(L), L)
