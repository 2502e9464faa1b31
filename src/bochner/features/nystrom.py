"""Nyström features: k(x, landmarks) times a root, so that ZZᵀ is K projected on the span of the landmarks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.linalg.lapack import dtrtri

from bochner.backends import Array, DType, Rows, backend_of, densified, is_host, limit_threads, n_threads
from bochner.backends.threads import each, one_thread
from bochner.backends.tiled import factor_in_place
from bochner.features.maps import FeatureMap, expect, row_blocks
from bochner.kernels.algebra import Kernel
from bochner.landmarks.grams import FLOAT32_PIVOTS, DeviceCholesky, Gram, check_residual, check_symmetric, row_slices
from bochner.landmarks.laws import Landmarks

_PIECE_ROWS = 512  # rows that one thread works on at a time
_STEP, _DEVICE_STEP = 64, 2048  # columns of a triangular root that are multiplied at a time
_DEFLATED = 128  # landmarks whose projection is taken from kernel values before their squares are added up
_ONE_THREAD = 2048  # landmarks up to which LAPACK runs on one thread: its threads spin afterwards


@dataclass(frozen=True)
class Nystrom(FeatureMap):
    """Z = K(X, landmarks) root, followed by zeros up to n_components.

    Attributes
    ----------
    kernel : Kernel or None
        None if the rows of X hold their kernel values with all training rows.
    landmarks : ndarray or CSR matrix of shape (n_landmarks, n_features)
        Indices (n_landmarks,) of training rows if kernel is None.
    root : ndarray of shape (n_landmarks, rank)
        root rootᵀ is the middle matrix of K(X, landmarks) root rootᵀ K(landmarks, Y).
    n_components : int
    triangular : bool
        Whether root is upper triangular. Then component j needs only the first j + 1 landmarks.

    Notes
    -----
    A float64 root magnifies the rounding of float32 kernel values: those of float32 rows are then computed, and
    multiplied by the root, in float64.
    """

    kernel: Kernel | None
    landmarks: Rows
    root: Array
    n_components: int
    triangular: bool = False

    @property
    def input_width(self) -> int | None:
        return None if self.kernel is None else int(self.landmarks.shape[1])

    def validate(self) -> None:
        expect(self.root.ndim == 2 and self.root.dtype.kind == "f", self, "a root that is not a matrix of floats")
        kinds, n_axes = ("iu", 1) if self.kernel is None else ("f", 2)
        if isinstance(self.landmarks, np.ndarray):
            fits = self.landmarks.ndim == n_axes and self.landmarks.dtype.kind in kinds
        else:
            fits = self.kernel is not None
        expect(fits and self.landmarks.shape[0] == len(self.root), self, "landmarks that do not fit its root")
        expect(self.rank <= self.n_components, self, "a rank larger than n_components")
        expect(not self.triangular or len(self.root) == self.rank, self, "a triangle that is not square")

    @property
    def rank(self) -> int:
        """Return the number of components that are not zero."""
        return int(self.root.shape[1])

    @property
    def runs_on_device(self) -> bool:
        return self.kernel is None or (self.kernel.runs_on_device and not scipy.sparse.issparse(self.landmarks))

    def __call__(self, X: Array) -> Array:
        Z = backend_of(X).empty((X.shape[0], self.n_components), X)
        width = max(self.root.shape)
        for rows in row_slices(X.shape[0], width // 8) if is_host(X) else row_blocks(X, width):
            self.into(X[rows], Z[rows])
        return Z

    def into(self, X: Array, out: Array) -> None:
        """Write the features of a few rows; for our own kernels in pieces that stay in a thread's cache."""
        out[:, self.rank :] = 0.0
        if not is_host(X):
            C = self.columns(X)
            self._multiply(C, backend_of(C).place(self.root, C), out, _DEVICE_STEP)
        else:
            root = self.root.astype(np.result_type(self.root, X.dtype), copy=False)
            self.by_pieces(X, lambda rows: self._multiply(self.columns(X[rows]), root, out[rows], _STEP))

    def by_pieces(self, X: Array, write: Callable[[slice], None]) -> None:
        """Call a function on all rows in host memory; for our own kernels on pieces, one for each thread at a time."""
        if not self.runs_on_device or X.shape[0] < 2 * _PIECE_ROWS:
            write(slice(None))
            return

        def write_alone(rows: slice) -> None:
            with limit_threads(1):
                write(rows)

        with one_thread():
            each(write_alone, [slice(i, i + _PIECE_ROWS) for i in range(0, X.shape[0], _PIECE_ROWS)], n_threads())

    def _multiply(self, C: Array, root: Array, out: Array, step: int) -> None:
        """Multiply C by the root; panels of a triangular root skip most of its zeros."""
        step = step if self.triangular else max(1, self.rank)
        for start in range(0, self.rank, step):
            columns = slice(start, min(start + step, self.rank))
            used = columns.stop if self.triangular else len(root)
            if C.dtype == out.dtype:
                backend_of(C).xp.matmul(C[:, :used], root[:used, columns], out=out[:, columns])
            else:
                out[:, columns] = C[:, :used] @ root[:used, columns]

    def columns(self, X: Array) -> Array:
        """Return k(X, landmarks), C-contiguous; in float64 if the root is float64."""
        backend = backend_of(X)
        if self.kernel is not None and self.root.dtype == np.float64:
            X = X.astype(np.float64, copy=False) if is_host(X) else backend.xp.asarray(X, dtype=backend.xp.float64)
        points = self.landmarks if is_host(X) else backend.place(self.landmarks, X)
        C = X[:, points] if self.kernel is None else self.kernel(X, points)
        return np.ascontiguousarray(densified(C)) if is_host(X) else C

    def factored(self) -> tuple[FeatureMap, Array | None]:
        missing = self.n_components - self.rank
        return KernelColumns(self), np.pad(self.root, ((0, 0), (0, missing))) if missing else self.root

    def deflated(self) -> tuple[DeflatedColumns, Array]:
        """Return a cheaper map and an upper triangular A with Z = cheaper(X) A, precise enough for sums of squares.

        Sums AᵀSA of `factored` would have the rounding errors of S times the square of A, the inverse of the
        landmarks' kernel matrix. Without what a few landmarks explain, S is smaller by orders of magnitude.
        """
        few, R = min(_DEFLATED, self.rank), self.root
        W = (self.columns(self.landmarks[few:])[:, :few] @ R[:few, :few]).T
        A = np.eye(self.rank)
        A[few:, few:] = R[few:, few:]
        return DeflatedColumns(self, np.ascontiguousarray(R[:few, :few]), np.ascontiguousarray(W)), A

    def gradient(self, X: Array, coefficients: Array) -> Array:
        if self.kernel is None:
            raise ValueError("features of a precomputed kernel have no derivative, as the rows are not known.")
        return self.kernel.gradient(X, self.landmarks, self.root @ coefficients[: self.rank]).astype(
            X.dtype, copy=False
        )

    def truncated(self, n_components: int) -> Nystrom:
        """Restrict the map to its first components, and to the landmarks they need."""
        rank = min(n_components, self.rank)
        if rank == self.rank:  # the same root, and the copies of it on devices
            return replace(self, n_components=n_components)
        n_landmarks = rank if self.triangular else len(self.root)
        return replace(
            self,
            landmarks=self.landmarks[:n_landmarks],
            root=np.ascontiguousarray(self.root[:n_landmarks, :rank]),
            n_components=n_components,
        )


@dataclass(frozen=True)
class KernelColumns(FeatureMap):
    """k(X, landmarks) of a Nyström map, without its root."""

    nystrom: Nystrom

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return len(self.nystrom.root)

    @property
    def runs_on_device(self) -> bool:
        return self.nystrom.runs_on_device

    @property
    def input_width(self) -> int | None:
        return self.nystrom.input_width

    def dtype_of(self, dtype: DType) -> DType:
        return np.result_type(dtype, self.nystrom.root)

    def __call__(self, X: Array) -> Array:
        return self.nystrom.columns(X)

    def into(self, X: Array, out: Array) -> None:
        def write(rows: slice) -> None:
            out[rows] = self.nystrom.columns(X[rows])

        if is_host(X):
            self.nystrom.by_pieces(X, write)
        else:
            write(slice(None))

    def gradient(self, X: Array, coefficients: Array) -> Array:
        if self.nystrom.kernel is None:
            return self.nystrom.gradient(X, coefficients)  # which says that there is none
        return self.nystrom.kernel.gradient(X, self.nystrom.landmarks, coefficients).astype(X.dtype, copy=False)


@dataclass(frozen=True)
class DeflatedColumns(FeatureMap):
    """[Z₁, k(X, others) - Z₁ W] with the features Z₁ = k(X, first) root₁ of the first landmarks of a Nyström map.

    W = Z₁ᵀ of the other landmarks, so that the second part is the kernel less its projection on the first ones.
    """

    nystrom: Nystrom
    root: Array  # of the first landmarks, (a, a)
    W: Array  # (a, n_components - a)

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return len(self.nystrom.root)

    def dtype_of(self, dtype: DType) -> DType:
        return np.result_type(dtype, self.nystrom.root)

    def __call__(self, X: Array) -> Array:
        Z = np.empty((X.shape[0], self.n_components), self.dtype_of(X.dtype))
        self.into(X, Z)
        return Z

    def into(self, X: Array, out: Array) -> None:
        few = len(self.root)

        def write(rows: slice) -> None:
            C, first, rest = self.nystrom.columns(X[rows]), out[rows, :few], out[rows, few:]
            np.matmul(C[:, :few], self.root, out=first)
            np.matmul(first, self.W, out=rest)
            np.subtract(C[:, few:], rest, out=rest)

        self.nystrom.by_pieces(X, write)


def nystrom_map(gram: Gram, drawn: Landmarks, n_components: int) -> tuple[Nystrom, Array]:
    """Build the map of drawn landmarks, and return it with the indices of the landmarks it uses, in its own order.

    Landmarks that the others span, up to rounding, are left out. The root is the inverse of a Cholesky factor rather
    than of a symmetric root: components are nested, and products with it are twice as fast.
    """
    if gram.there is not None:
        return _device_map(gram, drawn, n_components)
    if drawn.triangle is not None:  # the order of the draw
        L = drawn.triangle
        order = np.arange(len(L))
    else:
        L, order = pivoted_cholesky(gram.among(drawn.points), gram.floor)
    with one_thread() if len(L) <= _ONE_THREAD else nullcontext():
        root = dtrtri(L, lower=1)[0].T if len(L) else np.zeros((0, 0))
    dtype = _root_dtype(gram, L.diagonal())
    root = np.ascontiguousarray(root, dtype=dtype)
    return Nystrom(gram.kernel, _as_points(gram, drawn.points[order], dtype), root, n_components, True), order


def _root_dtype(gram: Gram, pivots: Array) -> DType:
    """Return the dtype of the rows, or float64 if the landmarks' factor magnifies the rounding of float32."""
    least = float(pivots.min()) ** 2 if len(pivots) else np.inf
    rough = gram.fine and least <= FLOAT32_PIVOTS * float(gram.diagonal().max())
    return np.dtype(np.float64) if rough else gram.X.dtype


def _as_points(gram: Gram, points: Rows, dtype: DType) -> Rows:
    return points if gram.kernel is None else points.astype(dtype, copy=False)


_PANEL = 512  # landmarks factored at a time


def _device_map(gram: Gram, drawn: Landmarks, n_components: int) -> tuple[Nystrom, Array]:
    """Build the map as `nystrom_map` does, on the device and in the order of the draw; fetch its root to the host."""
    backend = backend_of(gram.there)
    if drawn.triangle is not None:
        L, order = backend.place(drawn.triangle, gram.there.new_empty(0, dtype=backend.xp.float64)), None
    else:
        points = backend.place(drawn.points, gram.there)
        factor = DeviceCholesky(replace(gram, X=drawn.points, there=points), len(points))
        for start in range(0, len(points), _PANEL):
            factor.extend(np.arange(start, min(start + _PANEL, len(points))))
        order = factor.pivots.copy()
        L = factor.F[order, : len(order)]
        del factor
    order = np.arange(len(L)) if order is None else order
    unit = backend.xp.eye(len(L), dtype=L.dtype, device=L.device)
    dtype = _root_dtype(gram, L.diagonal())
    there = backend.xp.linalg.solve_triangular(L, unit, upper=False).T
    there = (there if dtype == np.float64 else there.to(gram.there.dtype)).contiguous()
    root = backend.fetch(there)
    backend.keep(root, there)
    return Nystrom(gram.kernel, _as_points(gram, drawn.points[order], dtype), root, n_components, True), order


def pivoted_cholesky(K: Array, floor: float) -> tuple[Array, Array]:
    """Return L and an order with K[order][:, order] ≈ LLᵀ; the length of the order is the numerical rank."""
    check_symmetric(K, floor)
    scale = float(K.diagonal().max(initial=0.0))
    if K.diagonal().min(initial=0.0) < 0.0 or (scale <= 0.0 and K.any()):
        check_residual(np.array([-np.abs(K).max()]), 0.0, floor)
    if scale <= 0.0:
        return np.zeros((0, 0)), np.arange(0)
    # in the given order, which is faster than with pivots, if every landmark is far from the span of those before it
    L = np.array(K, dtype=np.float64, order="F")
    if factor_in_place(L) and L.diagonal().min() ** 2 > floor * scale:
        return L, np.arange(len(K))
    # LAPACK stops when no pivot exceeds the tolerance
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(K, tol=floor * scale, lower=1)
    order = order.astype(np.intp) - 1
    used, rest = order[:rank], order[rank:]
    L = np.tril(factor[:rank, :rank])
    below = factor[rank:, :rank]
    check_residual(K[rest, rest] - np.einsum("ij,ij->i", below, below), scale, floor)
    return L, used


def measure(gram: Gram, feature_map: FeatureMap, Z: Array | None) -> tuple[Array, Array]:
    """Write the training rows' features into Z, and return diag(ZZᵀ) and the squared norms of the columns."""
    n, width = len(gram), feature_map.n_components
    of_rows, of_columns = np.empty(n), np.zeros(width)
    if gram.there is not None and Z is None:
        backend = backend_of(gram.there)
        norm = backend.xp.linalg.vector_norm
        for rows in row_blocks(gram.there, width):
            block = feature_map(gram.there[rows])
            of_rows[rows] = np.square(backend.fetch(norm(block, dim=1, dtype=backend.xp.float64)))
            of_columns += np.square(backend.fetch(norm(block, dim=0, dtype=backend.xp.float64)))
        return of_rows, of_columns
    for rows in row_slices(n, width // 8):  # `into` shares them out in small pieces
        block = np.empty((rows.stop - rows.start, width), gram.X.dtype) if Z is None else Z[rows]
        if isinstance(feature_map, Nystrom):
            feature_map.into(gram.X[rows], block)
        else:
            block[...] = feature_map(gram.X[rows])
        of_rows[rows] = np.einsum("ij,ij->i", block, block, dtype=np.float64)
        of_columns += np.einsum("ij,ij->j", block, block, dtype=np.float64)
    return of_rows, of_columns
