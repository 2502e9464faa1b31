"""Rank-one lattices chosen component by component, for the error that frequencies made of them give a kernel.

Point k of a lattice of N = 2^bits points is k z / N modulo one, with an odd integer z_j for each coordinate. Shifted by
one random vector, the points become normal frequencies by w = Φ⁻¹(t). The mean over shifts of the squared error of the
Gaussian kernel is then a sum of products over coordinates, and the best z_j, given those before, comes from a
convolution by FFT (Nuyens & Cools 2006): O(N log N) for each coordinate. In van der Corput order the first 2^m points
are a lattice too, and z_j is that whose largest error over all m, relative to the least at that m, is smallest (Cools,
Kuo & Nuyens 2006). Folding the shifted points, t ↦ 1 - |2t - 1|, would halve errors within a length scale and make them
larger than those of independent points beyond.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from bochner.backends import Array

BITS = 14  # a lattice has 2^14 points
_FIRST = 5  # prefixes of fewer than 2^5 points do not influence the choice
# Gauss-Legendre nodes moved towards the ends of an interval, where Φ⁻¹ is singular
_x, _w = np.polynomial.legendre.leggauss(24)
_x, _w = 0.5 * (_x + 1.0), 0.5 * _w
_NODES, _WEIGHTS = _x**3 * (10.0 - 15.0 * _x + 6.0 * _x**2), _w * 30.0 * (_x * (1.0 - _x)) ** 2


def correlations(bits: int, variance: float) -> Array:
    """Return means over the shift of exp(-variance (w ∓ w')² / 2), (2, 2^bits), at the distances k / 2^bits."""
    n = 1 << bits
    distances = np.arange(n // 2 + 1) / n
    out = np.zeros((2, n))
    for low, width in ((0.0 * distances, 1.0 - distances), (1.0 - distances, distances)):  # w' is infinite in between
        t = low[:, None] + width[:, None] * _NODES
        a, b = (ndtri(np.clip(s % 1.0, 1e-300, 1.0 - 1e-16)) for s in (t, t + distances[:, None]))
        for row, c in zip(out, (a - b, a + b), strict=True):
            row[: len(distances)] += width * (np.exp(-0.5 * variance * c * c) @ _WEIGHTS)
    out[:, n // 2 + 1 :] = out[:, n // 2 - 1 : 0 : -1]
    return out


@lru_cache(maxsize=8)
def generator(dimension: int, bits: int = BITS) -> Array:
    """Return the vector z, (dimension,), for differences x - y with N(0, 2/dimension) coordinates in length scales.

    Examples
    --------
    >>> from bochner.draws.lattices import generator
    >>> generator(3, bits=8)
    array([  1,  45, 157])
    """
    n, quarter, variance = 1 << bits, 1 << (bits - 2), 2.0 / dimension
    theta = correlations(bits, variance)
    powers = np.ones(quarter, np.int64)  # ±5^i are the odd numbers modulo 2^bits, and -z has the same error as z
    for i in range(1, quarter):
        powers[i] = powers[i - 1] * 5 % n
    # for the lattice of 2^a points: places of its odd multiples 5^i in the largest lattice, and theta's transform there
    places = {a: (powers[: 1 << a >> 2] % (1 << a)) << (bits - a) for a in range(2, bits + 1)}
    transforms = {a: np.fft.rfft(theta[:, place]) for a, place in places.items()}
    products, z = np.ones((2, n)), np.empty(dimension, np.int64)
    for j in range(dimension):
        # Σ_k products θ(k z / n) for z = 5^i: k = 0 and n/2 first, then one lattice after another
        sums = np.full(quarter, (products[:, [0, n // 2]] * theta[:, [0, n // 2]]).sum())
        worst = np.zeros(quarter)
        for a, place in places.items():
            spectrum = (transforms[a] * np.fft.rfft(2.0 * products[:, place]).conj()).sum(axis=0)
            sums += np.tile(np.fft.irfft(spectrum, len(place)), quarter // len(place))
            if j > 0 and a >= min(_FIRST, bits):  # for one coordinate all z are equal
                errors = 0.5 * sums / (1 << a) - (1.0 + 2.0 * variance) ** (-0.5 * (j + 1))
                errors = np.maximum(errors, 1e-12)  # smaller errors are errors of the quadrature
                worst = np.maximum(worst, errors / errors.min())
        z[j] = powers[np.argmin(worst)]
        products *= theta[:, np.arange(n) * z[j] % n]
    z.flags.writeable = False
    return z


def lattice_points(indices: Array, shift: Array) -> Array:
    """Return points (n, dimension) of the shifted lattice, by their places in van der Corput order."""
    index = np.asarray(indices, np.int64) % (1 << BITS)
    reverse = np.zeros_like(index)
    for bit in range(BITS):
        reverse |= ((index >> bit) & 1) << (BITS - 1 - bit)
    return np.asarray(((reverse[:, None] * generator(len(shift)) % (1 << BITS)) / (1 << BITS) + shift) % 1.0)
