"""Cost model: floating-point operations and bytes of every map, solver and prediction.

Counts are leading terms with their constants, an addition and a multiplication being one operation each. A
sine, cosine or exponential counts as ``TRANSCENDENTAL`` operations. Transforms cost log₂ of the *padded*
width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from bochner.checks import check_choice, check_count

TRANSCENDENTAL = 20
"""Operations charged for one sine, cosine or exponential: what a vectorised polynomial takes."""


@dataclass(frozen=True)
class Cost:
    """What a computation costs; costs add.

    Parameters
    ----------
    flops : float
        Floating-point operations.
    state_bytes : float
        What is kept afterwards: frequencies, landmarks, factors.
    work_bytes : float
        What the computation writes besides: features, Gram matrices.

    Examples
    --------
    >>> from bochner.theory import Cost
    >>> (Cost(1.0, 2.0, 3.0) + Cost(1.0, 0.0, 0.0)).flops
    2.0
    """

    flops: float
    state_bytes: float
    work_bytes: float

    @property
    def bytes(self) -> float:
        """State and work together."""
        return self.state_bytes + self.work_bytes

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.state_bytes + other.state_bytes, self.work_bytes + other.work_bytes)


@dataclass(frozen=True)
class _Sizes:
    n: int  # samples
    d: int  # features
    m: int  # components
    t: int  # targets
    degree: int
    iterations: int
    size: int  # bytes of a number

    @property
    def frequencies(self) -> int:
        return -(-self.m // 2)

    @property
    def padded(self) -> int:
        return 1 << (self.d - 1).bit_length()

    @property
    def blocks(self) -> int:
        return -(-self.frequencies // self.padded)


# Each entry: (flops, bytes kept, numbers written). Signs take one byte, indices, gains and lengths four, and the
# lengths of sketches eight.
_Count = tuple[float, float, float]


def _trig(s: _Sizes) -> float:
    return float(s.n * s.m * TRANSCENDENTAL)


def _fourier(s: _Sizes) -> _Count:
    return 2.0 * s.n * s.d * s.frequencies + _trig(s), s.size * s.d * s.frequencies, s.n * s.m


def _hadamard(s: _Sizes, transforms: int, multiplications: int, kept: int) -> _Count:
    width = s.padded
    row = s.blocks * width * (transforms * math.log2(width) + multiplications)
    return s.n * row + _trig(s), kept * s.blocks * width + 4 * s.frequencies, s.n * s.m


def _structured(s: _Sizes) -> _Count:
    s = replace(s, d=64 if 2 <= s.d <= 16 else s.d)  # few features are padded
    return _hadamard(s, 3, 4, 3)  # H D1 H D2 H D3, then the lengths


def _fastfood(s: _Sizes) -> _Count:
    return _hadamard(s, 2, 3, 9)  # S H G Pi H B; the permutation moves and does not compute


def _circulant(s: _Sizes) -> _Count:
    # One real FFT of D x and one inverse a block, 2.5 p log2 p each; p/2 complex products of 6.
    fft = 2.5 * s.padded * math.log2(max(s.padded, 2))
    row = s.blocks * (2 * fft + 4 * s.padded)
    return s.n * row + _trig(s), 5 * s.d * -(-s.frequencies // s.d) + 4 * s.frequencies, s.n * s.m


def _fastfood_fft(s: _Sizes) -> _Count:
    # A real cosine transform of d numbers and a complex Fourier transform of d gains: 2d rows a block.
    blocks = -(-s.frequencies // (2 * s.d))
    row = blocks * s.d * (7.5 * math.log2(max(s.d, 2)) + 9)
    return s.n * row + _trig(s), 13 * blocks * s.d + 4 * s.frequencies, s.n * s.m


def _kpw(s: _Sizes) -> _Count:
    k = min(s.padded, max(64, s.padded // 4))  # coordinates kept of a transform
    blocks = -(-s.frequencies // k)
    row = blocks * (s.padded * (1 + math.log2(s.padded)) + 2 * k**2)
    return s.n * row + _trig(s), blocks * (s.padded + 4 * k * (k + 1)) + 4 * s.frequencies, s.n * s.m


def _nystrom(s: _Sizes) -> _Count:
    entries = (s.n + s.m) * s.m * (2.0 * s.d + TRANSCENDENTAL)
    return entries + 9.0 * s.m**3 + 2.0 * s.n * s.m**2, s.size * (s.m * s.d + s.m**2), s.n * s.m


def _maclaurin(s: _Sizes) -> _Count:
    return 2.0 * s.n * s.d * s.m * s.degree, s.size * s.d * s.m * s.degree, s.n * s.m


def _tensor_sketch(s: _Sizes) -> _Count:
    row = s.degree * (2 * s.d + 3 * s.m) + (s.degree + 1) * 2.5 * s.m * math.log2(max(s.m, 2))
    return s.n * row, s.size * 2 * s.degree * s.d, s.n * s.m


def _gaussian_sketch(s: _Sizes) -> _Count:
    return 2.0 * s.n * s.d * s.m, s.size * s.n * s.m, s.m * s.d


def _srht(s: _Sizes) -> _Count:
    width = 1 << (s.n - 1).bit_length()
    return s.d * width * (1 + math.log2(width)), width + 12 * s.m, width * s.d


def _sparse_sign(s: _Sizes) -> _Count:
    k = min(8, s.m)  # non-zeros in each column
    return 2.0 * k * s.n * s.d, 5 * k * s.n + 4 * (s.n + 1) + 8 * s.m, s.m * s.d


def _countsketch(s: _Sizes) -> _Count:
    return 2.0 * s.n * s.d, 5 * s.n + 4 * (s.n + 1) + 8 * s.m, s.m * s.d


def _gram(s: _Sizes) -> float:
    return s.n * s.m * (s.m + 1.0) + 2.0 * s.n * s.m * s.t  # half of ZᵀZ, and ZᵀY


def _cholesky(s: _Sizes) -> _Count:
    return _gram(s) + s.m**3 / 3 + 2.0 * s.m**2 * s.t, s.size * s.m * s.t, s.m**2 + s.m * s.t


def _eigen(s: _Sizes) -> _Count:
    return _gram(s) + 9.0 * s.m**3 + 4.0 * s.m**2 * s.t, s.size * s.m * s.t, 2 * s.m**2 + s.m * s.t


def _conjugate_gradient(s: _Sizes) -> _Count:
    return s.iterations * s.t * (4.0 * s.n * s.m + 10.0 * s.m), s.size * s.m * s.t, 4 * s.m * s.t + s.n * s.t


def _falkon(s: _Sizes) -> _Count:
    entries = 2.0 * s.d + TRANSCENDENTAL
    steps = s.iterations * (s.n * s.m * (entries + 4.0 * s.t) + 4.0 * s.m**2 * s.t)
    return steps + s.m**2 * entries + 5 / 3 * s.m**3, s.size * s.m * (s.d + s.t), s.m**2 + 4 * s.m * s.t


def _exact(s: _Sizes) -> _Count:
    entries = s.n**2 * (2.0 * s.d + TRANSCENDENTAL)
    return entries + s.n**3 / 3 + 2.0 * s.n**2 * s.t, s.size * s.n * (s.d + s.t), s.n**2


def _predict(s: _Sizes) -> _Count:
    return 2.0 * s.n * s.m * s.t, s.size * s.m * s.t, s.n * s.t


def _predict_variance(s: _Sizes) -> _Count:
    return s.n * s.m**2 + 2.0 * s.n * s.m, s.size * s.m**2, s.n * s.m


def _predict_exact(s: _Sizes) -> _Count:
    return s.n * s.m * (2.0 * s.d + TRANSCENDENTAL + 2.0 * s.t), s.size * s.m * (s.d + s.t), s.n * s.t


_COSTS: dict[str, Callable[[_Sizes], _Count]] = {
    "fourier": _fourier,
    "structured": _structured,
    "fastfood": _fastfood,
    "fastfood_fft": _fastfood_fft,
    "circulant": _circulant,
    "kpw": _kpw,
    "nystrom": _nystrom,
    "maclaurin": _maclaurin,
    "tensor_sketch": _tensor_sketch,
    "gaussian_sketch": _gaussian_sketch,
    "srht": _srht,
    "sparse_sign": _sparse_sign,
    "countsketch": _countsketch,
    "cholesky": _cholesky,
    "eigen": _eigen,
    "conjugate_gradient": _conjugate_gradient,
    "falkon": _falkon,
    "exact": _exact,
    "predict": _predict,
    "predict_variance": _predict_variance,
    "predict_exact": _predict_exact,
}
_NO_FEATURES = {"cholesky", "eigen", "conjugate_gradient", "predict", "predict_variance"}
_NO_COMPONENTS = {"exact"}


def cost_estimate(
    step: str,
    *,
    n_samples: int,
    n_features: int | None = None,
    n_components: int | None = None,
    n_targets: int = 1,
    degree: int = 2,
    iterations: int = 20,
    itemsize: int = 8,
) -> Cost:
    r"""Estimate the operations and bytes of one step; add the steps of a method.

    With n samples, d features padded to p = 2^q, m components, T = m/2 frequencies, leading terms are (kept: numbers of
    `itemsize` bytes, unless it says bytes, which are what the draws of the library take):

    =====================================  =============================  ====================
    step                                   flops                          kept
    =====================================  =============================  ====================
    map "fourier"                          2ndT + trigonometry            dT
    map "structured", "fastfood"           3 (2) nT log₂ p                7T; 13T bytes
    map "fastfood_fft", "circulant"        3.75 nT log₂ d;  5nT log₂ p    10.5T; 9T bytes
    map "kpw", k = max(64, p/4)            nT (2k + (p/k) log₂ p)         4kT bytes
    map "nystrom"                          2ndm + 2nm² + 9m³              dm + m²
    map "maclaurin", "tensor_sketch"       2ndmq;  nq(2d + 2.5m log₂ m)   dmq; 2qd
    sketch "gaussian_sketch", "srht"       2ndm;  nd log₂ n               nm; n bytes
    sketch "sparse_sign", "countsketch"    16nd;  2nd                     44n; 9n bytes
    solver "cholesky", "eigen"             nm² + m³/3;  nm² + 9m³         m
    solver "conjugate_gradient"            4nm an iteration               m
    solver "falkon"                        nm (2d + 24) an iteration      dm
    solver "exact"                         2dn² + n³/3                    dn
    "predict", "predict_variance"          2nm;  nm²                      m; m²
    "predict_exact"                        2ndm (m training points)       dm
    =====================================  =============================  ====================

    Parameters
    ----------
    step : str
        A name of the table.
    n_samples : int
        Rows mapped, fitted or predicted.
    n_features : int, optional
        Input dimension; not needed by steps that see features only.
    n_components : int, optional
        Components of the features, rows of a sketch, landmarks, or training points of "predict_exact".
    n_targets : int
        Right-hand sides.
    degree : int
        Degree q of polynomial maps.
    iterations : int
        Of iterative solvers.
    itemsize : int
        Bytes of a number: 4 or 8. Signs, permutations and the like do not depend on it.

    Returns
    -------
    Cost
        flops, state_bytes, work_bytes and their sum, bytes. The whole feature matrix counts as work; a fit in
        blocks holds one block of it.

    Notes
    -----
    Corrections of tables in print: prediction of a mean costs nm, only a variance nm²; the logarithm of a
    fast transform is binary and of the padded width (14, not 4, for d = 10 000); exact fits cost n³ besides
    forming K; normal equations hold m² numbers whatever the map. Looseness: a count, not a bound; times
    follow it within a factor that depends on memory traffic.

    Examples
    --------
    >>> from bochner import theory
    >>> size = dict(n_samples=1, n_features=1024, n_components=32768)
    >>> dense, fast = (theory.cost_estimate(step, **size) for step in ("fourier", "fastfood"))
    >>> dense.state_bytes / fast.state_bytes == 1024 * 8 / 13
    True
    >>> fit = theory.cost_estimate("fourier", n_samples=10**6, n_features=90, n_components=4096)
    >>> fit += theory.cost_estimate("cholesky", n_samples=10**6, n_components=4096)
    >>> f"{fit.flops:.1e}"
    '1.7e+13'
    """
    step = check_choice("step", step, _COSTS)
    sizes = {"n_features": n_features, "n_components": n_components}
    for name, spared in (("n_features", _NO_FEATURES), ("n_components", _NO_COMPONENTS)):
        if sizes[name] is None and step not in spared:
            raise ValueError(f"{name} is needed for the cost of {step!r}, got None. Pass {name}=...")
    counted = _Sizes(
        n=check_count("n_samples", n_samples, most=math.inf),
        d=1 if n_features is None else check_count("n_features", n_features, most=math.inf),
        m=1 if n_components is None else check_count("n_components", n_components, most=math.inf),
        t=check_count("n_targets", n_targets),
        degree=check_count("degree", degree),
        iterations=check_count("iterations", iterations),
        size=check_count("itemsize", itemsize),
    )
    flops, kept, written = _COSTS[step](counted)
    return Cost(float(flops), float(kept), float(written) * counted.size)
