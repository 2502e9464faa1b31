"""Gram matrices of float32 features on the tensor cores of a GPU, by products of half-precision parts."""

from __future__ import annotations

import torch

from bochner.backends.torch.memory import Tensor
from bochner.backends.torch.operations import gram

_GRAM_ROWS = 4096  # multiplied on the tensor cores before the product is added up in float64
_GRAM_PANEL = 4096


def half_precision_gram(Z: Tensor, out: Tensor) -> None:
    """ZᵀZ of float32 features by products of half-precision parts: Z = (H + L) diag(units), 11 bits in H and in L.

    HᵀH goes to float64 every 4,096 rows; HᵀL, 2^-12 of it, stays float32; LᵀL is left out. Tensor cores truncate sums
    rather than round them, which makes HᵀH smaller by some 1e-5 as a whole: it is scaled to the diagonal, which is
    summed in float64. With that an entry errs by at most some 4e-6 sqrt(G_ii G_jj) (measured), mostly in proportion to
    itself, which a ridge regression does not feel.
    """
    n, m = Z.shape
    if Z.dtype != torch.float32 or n < 16 or m < 16:
        gram(Z, out)
        return
    units = torch.exp2(torch.frexp(Z.abs().amax(0))[1].to(torch.float32))
    same = bool(units.min() == units.max())
    unit = float(units[0]) if same else 1.0
    cross = torch.zeros((m, m), dtype=torch.float32, device=Z.device)
    before = out.diagonal().clone()
    for start in range(0, n, _GRAM_ROWS):
        rows = Z[start : start + _GRAM_ROWS]
        scaled = rows * (1.0 / unit) if same else rows / units
        H = scaled.to(torch.float16)
        L = torch.sub(scaled, H, out=scaled).to(torch.float16)
        torch.addmm(cross, H.T, L, out_dtype=torch.float32, out=cross)
        exact = _squares(H[:, :_GRAM_PANEL])
        shrinkage = 1.0
        for j in range(0, m, _GRAM_PANEL):
            columns = slice(j, j + _GRAM_PANEL)
            product = torch.mm(H[:, j:].T, H[:, columns], out_dtype=torch.float32)
            if j == 0:
                shrinkage = float(exact.sum() / product.diagonal().sum(dtype=torch.float64).clamp_min(1e-300))
            if not same:
                product *= units[j:, None]
                product *= units[columns]
            out[j:, columns].add_(product, alpha=shrinkage * unit * unit)
    for j in range(0, m, _GRAM_PANEL):  # tiles of cross + crossᵀ on and below the diagonal
        columns = slice(j, j + _GRAM_PANEL)
        both = cross[j:, columns] + cross[columns, j:].T
        if not same:
            both *= units[j:, None]
            both *= units[columns]
        out[j:, columns].add_(both, alpha=unit * unit)
    out.diagonal().copy_(before + _squares(Z))


def _squares(Z: Tensor) -> Tensor:
    """Sums of squares of columns, in float64."""
    total = torch.zeros(Z.shape[1], dtype=torch.float64, device=Z.device)
    for start in range(0, len(Z), _GRAM_ROWS):
        total += torch.linalg.vector_norm(Z[start : start + _GRAM_ROWS], dim=0, dtype=torch.float64).square()
    return total
