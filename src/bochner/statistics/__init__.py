"""Sums over a stream of rows, from which ridge regression, its path, GCV and evidence follow without the data.

`RidgeStatistics` is a monoid: empty sums, `update` and `merge`. So streams, many machines and resumed fits add up the
same sums. `RidgeSpectrum` is their eigendecomposition: everything about a penalty costs O(m) for each target.
"""

from bochner.statistics.spectrum import RidgeSpectrum, leave_one_out, log_evidence, vertex
from bochner.statistics.sums import RidgeStatistics, float32_error, pack_upper, transforms_well, unpack_upper

__all__ = [
    "RidgeSpectrum",
    "RidgeStatistics",
    "float32_error",
    "leave_one_out",
    "log_evidence",
    "pack_upper",
    "transforms_well",
    "unpack_upper",
    "vertex",
]


def __dir__() -> list[str]:
    return sorted(__all__)
