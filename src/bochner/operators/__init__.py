"""Linear maps x ↦ Wx, what a sampling scheme draws: small, frozen, deterministic.

Every map keeps its numbers in the smallest form that defines it (signs as int8, lengths as float32) and is used
for both float32 and float64 data, so both see the same frequencies. `to_dense` is written from the
definition, not from the fast path: the tests compare the two.
"""

from bochner.operators.compositions import Chained, Scaled, Selected, Stacked, Summed
from bochner.operators.maps import Centred, Dense, DenseGram, LinearMap, PSDOperator, Signs, next_power_of_two
from bochner.operators.structured import (
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
from bochner.operators.transforms import fwht

__all__ = [
    "Centred",
    "Chained",
    "CirculantBlocks",
    "Dense",
    "DenseGram",
    "FFTBlocks",
    "FastfoodBlocks",
    "HadamardBlocks",
    "LinearMap",
    "PSDOperator",
    "PickedRows",
    "Scaled",
    "Selected",
    "Signs",
    "SparseRows",
    "Stacked",
    "SubsampledBlocks",
    "SubsampledCosine",
    "SubsampledHadamard",
    "Summed",
    "fwht",
    "next_power_of_two",
]


def __dir__() -> list[str]:
    return sorted(__all__)
