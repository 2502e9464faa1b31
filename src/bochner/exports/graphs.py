"""ONNX graphs written as formulas: a `Tensor` is a name in a graph, and its operators add nodes.

Linear maps are here too; structured ones stay as small in the file as in memory.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import helper, numpy_helper

from bochner.backends import Array
from bochner.draws.compositions import Chained, Scaled, Selected, Stacked, Summed
from bochner.draws.linear_maps import Dense, Signs, next_power_of_two
from bochner.draws.structured import (
    CirculantBlocks,
    FastfoodBlocks,
    FFTBlocks,
    HadamardBlocks,
    PickedRows,
    SparseRows,
    SubsampledBlocks,
    SubsampledCosine,
    SubsampledHadamard,
)

OPSET = 18  # version of ONNX with bitwise operations, and reductions with axes as an input
_IR_VERSION = 9
_FACTOR = 64  # columns of the largest Hadamard matrix that is written out
_MANY = 64  # entries from which on a constant is stored in a shorter type
FLOAT, DOUBLE, INT = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


class Graph:
    """Nodes and constants, equal constants once."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[bytes, tuple[str, onnx.TensorProto]] = {}
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def constant(self, value: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
        """Add a constant; numbers that a shorter type holds are stored in fewer bytes, strings as strings."""
        array = np.array(value, dtype=dtype, order="C", ndmin=0)
        if array.dtype == DOUBLE and array.size >= _MANY:
            for kind in (np.int8, FLOAT):
                with np.errstate(over="ignore", invalid="ignore"):
                    short = array.astype(kind)
                if np.array_equal(short, array):
                    return self.constant(short).astype(DOUBLE)
        if array.dtype.kind in "UO":
            array = array.astype(str).astype(object)
            key = repr((array.shape, array.tolist())).encode()
        else:
            key = array.dtype.str.encode() + repr(array.shape).encode() + array.tobytes()
        if key not in self.constants:
            name = self._name()
            self.constants[key] = (name, numpy_helper.from_array(array, name))
        return Tensor(self, self.constants[key][0], array.dtype)

    def node(self, op: str, inputs: list[Tensor], dtype: DTypeLike, **attributes: Any) -> Tensor:
        """Add a node with one result."""
        name = self._name()
        self.nodes.append(helper.make_node(op, [tensor.name for tensor in inputs], [name], name, **attributes))
        return Tensor(self, name, np.dtype(dtype))

    def input(self, name: str, n_columns: int) -> Tensor:
        """Add the input X: float32, converted to float64, since phases and products lose digits in float32."""
        self.inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n_samples", n_columns])]
        return Tensor(self, name, FLOAT).astype(DOUBLE)

    def model(self, outputs: dict[str, tuple[Tensor, tuple[int, ...]]], description: str) -> onnx.ModelProto:
        """Return the finished model, checked; outputs have their shapes except for the first axis."""
        results = []
        for name, (tensor, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [tensor.name], [name], name))
            kind = onnx.TensorProto.STRING if tensor.dtype == object else helper.np_dtype_to_tensor_dtype(tensor.dtype)
            results.append(helper.make_tensor_value_info(name, kind, ["n_samples", *shape]))
        tensors = [tensor for _, tensor in self.constants.values()]
        if sum(tensor.ByteSize() for tensor in tensors) >= 1 << 31:
            raise ValueError(
                "the model has more than 2 GB of numbers, which one ONNX file cannot hold; use bochner.save."
            )
        graph = helper.make_graph(self.nodes, "bochner", self.inputs, results, tensors)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="bochner")
        model.doc_string = description
        onnx.checker.check_model(model)
        return model


class Tensor:
    """A value in a graph: arithmetic adds nodes. float32 and float64 together give float64."""

    __array_ufunc__ = None  # so that a NumPy array plus a tensor calls the tensor's __radd__

    def __init__(self, graph: Graph, name: str, dtype: DTypeLike) -> None:
        self.graph = graph
        self.name = name
        self.dtype = np.dtype(dtype)

    def _with(self, op: str, other: Operand, swapped: bool = False) -> Tensor:
        if not isinstance(other, Tensor):
            other = self.graph.constant(other, self.dtype)
        dtype = np.promote_types(self.dtype, other.dtype)
        pair = [self.astype(dtype), other.astype(dtype)]
        return self.graph.node(op, pair[::-1] if swapped else pair, dtype)

    def __add__(self, other: Operand) -> Tensor:
        return self._with("Add", other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Tensor:
        return self._with("Sub", other)

    def __rsub__(self, other: Operand) -> Tensor:
        return self._with("Sub", other, swapped=True)

    def __mul__(self, other: Operand) -> Tensor:
        return self._with("Mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Tensor:
        return self._with("Div", other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return self._with("Div", other, swapped=True)

    def __matmul__(self, other: Operand) -> Tensor:
        # of two matrices; into MatMul onnxruntime takes factors before and behind it, rounded to float32
        return self._with("Gemm", other)

    def stacked_product(self, other: Operand) -> Tensor:
        """Multiply a stack of matrices; no scalar factor may come directly before or after the product."""
        return self._with("MatMul", other)

    def __pow__(self, exponent: float) -> Tensor:
        return self._with("Pow", exponent)

    def __neg__(self) -> Tensor:
        return self.apply("Neg")

    def maximum(self, other: Operand) -> Tensor:
        return self._with("Max", other)

    def minimum(self, other: Operand) -> Tensor:
        return self._with("Min", other)

    def modulo(self, other: Operand) -> Tensor:
        """Return the remainder, which is not negative."""
        return self._with("Mod", other)

    def greater(self, other: float) -> Tensor:
        return self.graph.node("Greater", [self, self.graph.constant(other, self.dtype)], np.bool_)

    def equal(self, other: int) -> Tensor:
        return self.graph.node("Equal", [self, self.graph.constant(other, self.dtype)], np.bool_)

    def where(self, yes: Operand, no: Operand, dtype: DTypeLike) -> Tensor:
        """Select entries of one tensor if a condition holds, and of another otherwise."""
        pair = [v.astype(dtype) if isinstance(v, Tensor) else self.graph.constant(v, dtype) for v in (yes, no)]
        return self.graph.node("Where", [self, *pair], dtype)

    def apply(self, op: str) -> Tensor:
        """Apply a function to each entry, by its name in ONNX: "Cos", "Exp", …."""
        return self.graph.node(op, [self], self.dtype)

    def astype(self, dtype: DTypeLike) -> Tensor:
        if self.dtype == dtype:
            return self
        return self.graph.node("Cast", [self], dtype, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def gather(self, indices: Operand, axis: int = 1) -> Tensor:

        if not isinstance(indices, Tensor):
            array = np.asarray(indices)
            indices = self.graph.constant(array, np.int32 if array.size > 16 else INT)
        return self.graph.node("Gather", [self, indices], self.dtype, axis=axis)

    def columns(self, start: int, stop: int) -> Tensor:

        bounds = [self.graph.constant([v], INT) for v in (start, stop, 1)]
        return self.graph.node("Slice", [self, *bounds], self.dtype)

    def reshape(self, *shape: int) -> Tensor:
        """Reshape; -1 stands for the axis that follows from the others."""
        return self.graph.node("Reshape", [self, self.graph.constant(shape, INT)], self.dtype)

    def transpose(self, *axes: int) -> Tensor:

        return self.graph.node("Transpose", [self], self.dtype, perm=list(axes))

    def pad(self, n_columns: int, value: float = 0.0) -> Tensor:
        """Append columns of one value to an (n, d) tensor."""
        if n_columns == 0:
            return self
        pads = self.graph.constant([0, 0, 0, n_columns], INT)
        return self.graph.node("Pad", [self, pads, self.graph.constant(value, self.dtype)], self.dtype)

    def reduce(self, op: str, axis: int, keepdims: bool = False) -> Tensor:
        """Reduce over an axis: "Sum", "Mean", "Prod"."""
        axes = self.graph.constant([axis], INT)
        return self.graph.node(f"Reduce{op}", [self, axes], self.dtype, keepdims=int(keepdims))

    def extreme(self, op: str) -> Tensor:
        """Return the position of the largest or smallest entry of a row: "ArgMax", "ArgMin"."""
        return self.graph.node(op, [self], INT, axis=1, keepdims=0)


Operand: TypeAlias = Tensor | ArrayLike


def half_turns(phases: Tensor) -> Tensor:
    """Reduce float64 phases to half a turn and convert them to float32: large phases lose no digits."""
    turns = (phases * (0.5 / np.pi)).apply("Round")
    # beyond 1e15 a phase has no digits left: any finite number will do
    return (phases - turns * (2.0 * np.pi)).maximum(-4.0).minimum(4.0).astype(FLOAT)


def concat(parts: list[Tensor], axis: int = 1) -> Tensor:
    """Concatenate tensors."""
    if len(parts) == 1:
        return parts[0]
    dtype = np.result_type(*[part.dtype for part in parts])
    return parts[0].graph.node("Concat", [part.astype(dtype) for part in parts], dtype, axis=axis)


def interleave(even: Tensor, odd: Tensor, n_columns: int) -> Tensor:
    """Interleave the columns of two (n, n_columns) tensors: e₀ o₀ e₁ o₁ …."""
    return concat([even.reshape(-1, n_columns, 1), odd.reshape(-1, n_columns, 1)], axis=2).reshape(-1, 2 * n_columns)


def hadamard(V: Tensor, p: int) -> Tensor:
    """Compute unnormalised Walsh-Hadamard transforms of rows (…, p), as (n, p).

    A step multiplies the fastest index and moves it to the front; after all steps every index is back in its place.
    """
    assert p == next_power_of_two(p)
    left = p
    while left > 1:
        size = min(_FACTOR, left)
        left //= size
        H = np.ones((1, 1), np.float32)
        while len(H) < size:
            H = np.block([[H, H], [H, -H]])
        V = V.reshape(-1, p // size, size).stacked_product(H).transpose(0, 2, 1)
    return V.reshape(-1, p)


def fourier(real: Tensor, n: int, imaginary: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute discrete Fourier transforms of rows (…, n) in float64: float32 loses digits unless n is 2^q."""
    parts = [part.astype(DOUBLE).reshape(-1, n, 1) for part in (real, imaginary) if part is not None]
    Z = real.graph.node("DFT", [concat(parts, axis=2)], DOUBLE, axis=1, onesided=0, inverse=0)
    return tuple(Z.gather(np.array(i), axis=2) for i in (0, 1))  # type: ignore[return-value]


def real_inverse_fourier(real: Tensor, imaginary: Tensor, n: int) -> Tensor:
    """Return the real parts of inverse transforms: forward transforms of conjugates, divided by n."""
    return fourier(real, n, -imaginary)[0] / float(n)


def cosine(V: Tensor, d: int) -> Tensor:
    """Compute orthonormal cosine transforms (type II) of rows (…, d), by Fourier transforms (Makhoul 1980)."""
    order = np.concatenate([np.arange(0, d, 2), np.arange(1, d, 2)[::-1]])
    real, imaginary = fourier(V.reshape(-1, d).gather(order), d)
    k = np.arange(d)
    size = np.sqrt(np.where(k == 0, 1.0, 2.0) / d)
    angle = np.pi * k / (2 * d)
    return real * (size * np.cos(angle)) + imaginary * (size * np.sin(angle))


@singledispatch
def linear(map_: object, X: Tensor) -> Tensor:
    """Multiply by a linear map: X Wᵀ, (n, n_features) → (n, n_rows)."""
    raise ValueError(f"{type(map_).__name__} cannot be written as an ONNX graph.")


@linear.register
def _(map_: Dense, X: Tensor) -> Tensor:
    return X @ map_.matrix.T


@linear.register
def _(map_: Signs, X: Tensor) -> Tensor:
    return (X @ map_.signs.T) * map_.lengths


@linear.register
def _(map_: Scaled, X: Tensor) -> Tensor:
    return linear(map_.inner, X * np.asarray(map_.columns))


@linear.register
def _(map_: Selected, X: Tensor) -> Tensor:
    return linear(map_.inner, X.gather(map_.columns))


@linear.register
def _(map_: Stacked, X: Tensor) -> Tensor:
    return concat([linear(part, X) for part in map_.parts])


@linear.register
def _(map_: Chained, X: Tensor) -> Tensor:
    return linear(map_.outer, linear(map_.inner, X))


@linear.register
def _(map_: Summed, X: Tensor) -> Tensor:
    total = linear(map_.parts[0], X)
    for part in map_.parts[1:]:
        total = total + linear(part, X)
    return total


def _flipped(X: Tensor, signs: Array, n_features: int) -> Tensor:
    """Pad X and multiply it by the signs of every block: (n, blocks, p)."""
    p = signs.shape[1]
    return X.pad(p - n_features).reshape(-1, 1, p) * signs


def _gathered(V: Tensor, indices: Array, p: int) -> Tensor:
    """Gather coordinates indices (blocks, k) of every block of V (n · blocks, p): (n, blocks · k)."""
    blocks = len(indices)
    flat = indices.astype(np.int64) + p * np.arange(blocks)[:, None]
    return V.reshape(-1, blocks * p).gather(flat.ravel())


def _finished(V: Tensor, width: int, lengths: Array) -> Tensor:
    """Join the rows of all blocks, cut them to the number of lengths, and multiply by the lengths."""
    V = V.reshape(-1, width)
    return (V if width == len(lengths) else V.columns(0, len(lengths))) * lengths


@linear.register
def _(map_: HadamardBlocks, X: Tensor) -> Tensor:
    blocks, _, p = map_.signs.shape
    V = hadamard(_flipped(X * p**-1.5, map_.signs[:, 2], map_.n_features), p)
    for i in (1, 0):
        V = hadamard(V.reshape(-1, blocks, p) * map_.signs[:, i], p)
    return _finished(V, blocks * p, map_.lengths)


@linear.register
def _(map_: FastfoodBlocks, X: Tensor) -> Tensor:
    blocks, p = map_.signs.shape
    V = hadamard(_flipped(X, map_.signs, map_.n_features), p)
    V = _gathered(V, map_.permutations, p) * map_.gains.ravel()
    return _finished(hadamard(V.reshape(-1, blocks, p), p), blocks * p, map_.lengths)


@linear.register
def _(map_: SubsampledBlocks, X: Tensor) -> Tensor:
    blocks, p = map_.signs.shape
    k, rows = map_.picks.shape[1], map_.matrices.shape[1]
    V = _gathered(hadamard(_flipped(X, map_.signs, map_.n_features), p), map_.picks, p)
    V = V.reshape(-1, blocks, k).transpose(1, 0, 2).stacked_product(map_.matrices.transpose(0, 2, 1))
    return _finished(V.transpose(1, 0, 2), blocks * rows, map_.lengths)


@linear.register
def _(map_: FFTBlocks, X: Tensor) -> Tensor:
    blocks, d = map_.signs.shape
    V = _gathered(cosine(_flipped(X, map_.signs, d), d), map_.permutations, d)
    gains = map_.gains.ravel()
    real, imaginary = fourier(V * gains.real, d, V * gains.imag)
    V = concat([part.reshape(-1, blocks, d) for part in (real, imaginary)], axis=2)
    return _finished(V, 2 * blocks * d, map_.lengths)


@linear.register
def _(map_: CirculantBlocks, X: Tensor) -> Tensor:
    blocks, d = map_.signs.shape
    spectrum = np.fft.fft(map_.generators.astype(np.float64)).conj()
    real, imaginary = (part.reshape(-1, blocks, d) for part in fourier(_flipped(X, map_.signs, d), d))
    a, b = spectrum.real, spectrum.imag
    V = real_inverse_fourier(real * a - imaginary * b, real * b + imaginary * a, d)
    return _finished(V, blocks * d, map_.lengths)


@linear.register
def _(map_: SparseRows, X: Tensor) -> Tensor:
    # the entries of each row side by side, filled up with zeros: (rows, most)
    n_rows, n_columns = map_.shape
    counts = np.bincount(map_.indices, minlength=n_rows)
    most = max(1, int(counts.max(initial=0)))
    order = np.argsort(map_.indices, kind="stable")
    columns = np.repeat(np.arange(n_columns), np.diff(map_.indptr))[order]
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    picks, signs = np.zeros((n_rows, most), np.int64), np.zeros((n_rows, most), np.int8)
    picks[map_.indices[order], place] = columns
    signs[map_.indices[order], place] = map_.signs[order]
    return (X.gather(picks) * signs).reduce("Sum", 2) * map_.lengths


@linear.register
def _(map_: PickedRows, X: Tensor) -> Tensor:
    return X.gather(map_.picks) * map_.lengths


@linear.register
def _(map_: SubsampledHadamard, X: Tensor) -> Tensor:
    p = map_.signs.shape[1]
    V = hadamard(_flipped(X, map_.signs, map_.n_features), p)
    return _picked(V, map_.picks, map_.signs.shape) * map_.lengths


@linear.register
def _(map_: SubsampledCosine, X: Tensor) -> Tensor:
    d = map_.n_features
    V = cosine(_flipped(X, map_.signs, d), d)
    return _picked(V, map_.picks, map_.signs.shape) * (map_.lengths * np.sqrt(d))


def _picked(V: Tensor, picks: Array, shape: tuple[int, ...]) -> Tensor:
    """Pick coordinate picks[i] of block i // width as row i."""
    blocks, width = shape
    return V.reshape(-1, blocks * width).gather(picks + width * (np.arange(len(picks)) // width))
