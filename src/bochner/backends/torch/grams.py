"""Gram matrices of float32 features on a GPU, by exact products of small integers.

Rows are rounded to multiples q of a unit for each column, and q is written with digits of seven or eight bits, such as
q = 2^7 a + b. Of two digits of seven bits the sum has eight bits too, and aᵀb + bᵀa = (a + b)ᵀ(a + b) - aᵀa - bᵀb
takes one product instead of two. Only the lower half of products is computed. Sums of up to 65,536 products of digits
are integers of 32 bits: nothing is rounded but the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bochner.backends.torch.memory import Tensor
from bochner.backends.torch.operations import gram

_SCHEMES = ((2, 7), (2, 8), (3, 7))  # numbers of digits and their bits: three, four and six products
_MOST_ROWS = 65_536  # rows multiplied before the product is added up in float64
_PANEL = 2048  # columns of a product
_FEWEST_ROWS, _FEWEST_COLUMNS = 256, 512  # sizes below which float64 products are as fast
_MULTIPLE = 32  # rows and columns are padded to multiples: torch multiplies integers by eights, and more than 16 rows

# (Z (n, m), units (m,), n_digits, bits): Z rounded to multiples of the units in place, and the digits of those,
# (n_digits, m', n') int8, the most significant first, padded with zeros to multiples of 32
Split = Callable[[Tensor, Tensor, int, int], Tensor]
# (a (m', n'), b, units (m,) float64, factor, out (m, m)): adds factor times aᵀb + bᵀa, or aᵀa if b is a, in these units
# to the lower triangle
Multiply = Callable[[Tensor, Tensor, Tensor, float, Tensor], None]


@dataclass(frozen=True)
class Digits:
    """Rows as digits of integers: see `backends.FixedPoint`."""

    digits: Tensor  # (k, m', n')
    bits: int
    units: Tensor  # (m,), float32
    noise: float
    multiply: Multiply

    def gram(self, out: Tensor) -> None:
        """Add ZᵀZ to the lower triangle of `out`."""
        units = self.units.double()
        weights = [float(1 << self.bits * place) for place in reversed(range(len(self.digits)))]
        for i, (a, weight) in enumerate(zip(self.digits, weights, strict=True)):
            # of seven bits, without the squares that products of sums contain
            factor = weight if self.bits == 8 else 2.0 * weight - sum(weights)
            self.multiply(a, a, units, weight * factor, out)
            for b, other in zip(self.digits[:i], weights[:i], strict=True):
                left, right = (a, b) if self.bits == 8 else [a + b] * 2
                self.multiply(left, right, units, weight * other, out)


def multiply(a: Tensor, b: Tensor, units: Tensor, factor: float, out: Tensor) -> None:
    """Multiply digits, as `Multiply` specifies, a panel of columns at a time."""
    m = len(out)
    for j in range(0, m, _PANEL):
        columns = slice(j, j + _PANEL)
        product = torch._int_mm(a[j:], b[columns].T)
        if a is not b:
            product += torch._int_mm(b[j:], a[columns].T)
        out[j:, columns].addcmul_(product[: m - j, : m - j] * (factor * units[j:, None]), units[None, columns])


def split(Z: Tensor, units: Tensor, n_digits: int, bits: int) -> Tensor:
    """Split rows into digits, as `Split` specifies, by torch's operations, a few rows at a time."""
    n, m = Z.shape
    digits = Z.new_zeros((n_digits, _padded(m), _padded(n)), dtype=torch.int8)
    for start in range(0, n, step := 4096):
        rows = slice(start, start + step)
        q = (Z[rows] / units).round_()
        Z[rows] = q * units
        for place in range(n_digits):
            weight = float(1 << bits * (n_digits - 1 - place))
            digit = (q / weight + 0.5).floor_() if place < n_digits - 1 else q
            digits[place, :m, start : start + len(q)] = digit.T
            q = q - weight * digit
    return digits


def _padded(n: int) -> int:
    return -(-n // _MULTIPLE) * _MULTIPLE


def fixed_point(
    Z: Tensor, seen: int, budget: float, split: Split = split, multiply: Multiply = multiply
) -> Digits | None:
    """Round rows to 14, 16 or 21 bits of the largest entry of a column: the fewest that the budget allows, or 21."""
    n, m = Z.shape
    if Z.dtype != torch.float32 or not _FEWEST_ROWS <= n <= _MOST_ROWS or m < _FEWEST_COLUMNS:
        return None
    low, high = torch.aminmax(Z, dim=0)
    largest = torch.maximum(high, -low)
    for n_digits, bits in _SCHEMES:
        units = _units(largest, n_digits, bits)
        variance = float(units.double().square().mean()) / 12.0
        if variance <= budget:
            break
    return Digits(split(Z, units, n_digits, bits), bits, units, n * variance, multiply)


def _units(largest: Tensor, n_digits: int, bits: int) -> Tensor:
    """Return the smallest units of three bits whose integers fit the digits; multiples are float32 numbers."""
    limit = sum(((1 << bits - 1) - 1) << bits * place for place in range(n_digits))
    mantissa, exponent = torch.frexp(largest.double() / limit)
    units = torch.ldexp((8.0 * mantissa).ceil_() / 8.0, exponent).float()
    return units.clamp_min_(torch.finfo(torch.float32).tiny)


def integer_gram(Z: Tensor, out: Tensor, split: Split = split, multiply: Multiply = multiply) -> None:
    """Add ZᵀZ of float32 features from rows rounded to 21 bits, and of others in float64."""
    for start in range(0, len(Z), _MOST_ROWS):
        rows = Z[start : start + _MOST_ROWS]
        found = fixed_point(rows.clone(), 0, 0.0, split, multiply) if rows.dtype == torch.float32 else None
        if found is None:
            gram(rows, out)
        else:
            found.gram(out)
