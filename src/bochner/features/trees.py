"""The feature map of any kernel: walk the tree of sums and products, and build the map of each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
from numpy.typing import DTypeLike

from bochner.backends import Array
from bochner.draws.keys import Key
from bochner.features.compositions import ConvolvedMap, ProductMap, RestrictedMap, ScaledMap, StackedMap, invariant_map
from bochner.features.fourier import choose_rows, draw_frequencies, fourier_map, histogram_map
from bochner.features.kitchen_sinks import ACTIVATIONS, KitchenSink, threshold_map
from bochner.features.maclaurin import divide, is_series, optimal_map, series_of, squared_radius
from bochner.features.maps import FeatureMap
from bochner.features.tensor_sketch import TensorSketch, tensor_sketch, trace_shares
from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Restricted, Sum
from bochner.kernels.dot_products import AdditiveChi2, ArcCosine, Polynomial, Sobolev
from bochner.kernels.invariant import CyclicInvariant
from bochner.kernels.stationary import RBF
from bochner.sampling import name_of, stratified
from bochner.sketches import CountSketch

_WIDER = 2  # components of a factor's map over components of the sketch of their product
_ARC_COSINE = {0: "step", 1: "relu", 2: "squared_relu"}


@dataclass(frozen=True)
class Node:
    """The map of one node of a kernel tree, and the reason for it."""

    kernel: Kernel
    feature_map: FeatureMap
    reason: str
    parts: tuple[Node, ...] = field(default=())

    def __str__(self) -> str:
        size = self.feature_map.n_components
        lines = [f"{self.kernel!r}: {size} component{'s' if size > 1 else ''}, {self.reason}"]
        for i, part in enumerate(self.parts):
            last = i == len(self.parts) - 1
            first, *others = str(part).split("\n")
            lines.append(("└─ " if last else "├─ ") + first)
            lines += [("   " if last else "│  ") + line for line in others]
        return "\n".join(lines)


Builder = Callable[[Kernel, int, Key], Node]


def kernel_map(
    kernel: Kernel, sample: Array, n_components: int, key: Key, dtype: DTypeLike, *, division: str = "trace"
) -> Node:
    """Build the map of a resolved kernel.

    Traces, norms and variances are estimated from the rows of `sample`. `division` ("trace" or "equal") divides the
    components between the terms of a sum.
    """

    def build(kernel: Kernel, n_components: int, key: Key, sample: Array = sample) -> Node:
        return kernel_map(kernel, sample, n_components, key, dtype, division=division)

    n_features = sample.shape[1]
    basic = _basic_map(kernel, sample, n_components, key, dtype)
    if basic is not None:
        return basic
    match kernel:
        case Multiple():
            part = build(kernel.kernel, n_components, key)
            factor = float(np.sqrt(kernel.factor))
            return replace(part, kernel=kernel, feature_map=ScaledMap(part.feature_map, factor))
        case Restricted():
            columns = kernel.indices(n_features)
            part = build(kernel.kernel, n_components, key, sample[:, columns])
            reason = f"the map below, of {len(columns)} of {n_features} features"
            return Node(kernel, RestrictedMap(part.feature_map, columns), reason, (part,))
        case Sum():
            return _sum(kernel, sample, n_components, key, division, build)
        case Product() | Power():
            return _product(kernel, n_components, key, build)
        case CyclicInvariant():
            part = build(kernel.kernel, n_components, key)
            mean = invariant_map(part.feature_map, kernel.axes(n_features))
            how = "by FFT" if isinstance(mean, ConvolvedMap) else "part by part"
            return Node(kernel, mean, f"the map below averaged over all cyclic shifts, {how}", (part,))
    raise ValueError(
        f"no feature map independent of the data is known for {kernel!r}; use NystromFeatures, which needs only the "
        "values of the kernel."
    )


def _basic_map(kernel: Kernel, sample: Array, n_components: int, key: Key, dtype: DTypeLike) -> Node | None:
    """Build the map of a kernel that needs no maps of its parts; None for other kernels."""
    n_features = sample.shape[1]
    if kernel.stationary:
        law = choose_rows(kernel, n_features, n_components)
        found = fourier_map(kernel, law, n_features, n_components, "pairs", key, dtype)
        return Node(kernel, found, f"Fourier features with {name_of(law)} frequencies: a function of x - y")
    if isinstance(kernel, Polynomial):
        sketch = _polynomial_sketch(kernel, sample, n_components, key)
        how = "all of it" if sketch.direction is None else "exact along the mean row, the rest"
        return Node(kernel, sketch, f"TensorSketch, {how} sketched: a polynomial in x·y")
    if is_series(kernel):
        a = series_of(kernel, n_features, squared_radius(sample))
        powers = optimal_map(a, sample, n_components, key, dtype)
        return Node(kernel, powers, _maclaurin_reason(powers.degrees, n_features))
    match kernel:
        case ArcCosine():
            law = choose_rows(RBF(1.0), n_features, n_components)
            name = _ARC_COSINE[int(kernel.order)]
            rows = draw_frequencies(RBF(1.0), law, n_features, n_components, key, dtype)
            layer = KitchenSink(rows, np.zeros(n_components), name, ACTIVATIONS[name][1])
            return Node(kernel, layer, f"kitchen sinks: {name} units of {name_of(law)} normal projections")
        case AdditiveChi2():
            chi2 = histogram_map(sample, n_components, key)
            return Node(kernel, chi2, "random Fourier features of log x, coordinates in proportion to their size")
        case Sobolev():
            steps = threshold_map(sample, n_components, key)
            return Node(kernel, steps, "random thresholds: whether a row is above one in every coordinate")
    return None


def _polynomial_sketch(kernel: Polynomial, sample: Array, n_components: int, key: Key) -> TensorSketch:
    n_features = sample.shape[1]
    kernel.profile(np.zeros(1), n_features)  # checks the parameters
    degree, coef0 = int(kernel.degree), float(kernel.coef0)
    gamma = 1.0 / n_features if kernel.gamma is None else float(kernel.gamma)
    offset = float(np.sqrt(coef0 / gamma))
    mean = np.asarray(sample.mean(axis=0), np.float64).ravel()
    direction = np.append(mean, offset) if offset > 0 else mean
    shares = trace_shares(degree, sample, direction, offset) if direction.any() else None
    return tensor_sketch(
        degree,
        gamma,
        coef0,
        n_features,
        n_components,
        key,
        tree=degree >= 6,
        direction=direction if direction.any() else None,
        shares=shares,
    )


def _maclaurin_reason(degrees: Array, n_features: int) -> str:
    counts = np.bincount(degrees)
    spent = ", ".join(f"{count} of degree {degree}" for degree, count in enumerate(counts) if count)
    if len(counts) == 2 and counts[0] == 0 and counts[1] >= n_features:
        return "the data itself: exact"
    return f"Maclaurin features, {spent}: a power series in x·y"


def _sum(kernel: Sum, sample: Array, n_components: int, key: Key, division: str, build: Builder) -> Node:
    """Stack the terms of a sum; terms of one kind are combined first."""
    terms = _grouped(_flattened(kernel, Sum), Sum)
    if division == "trace":
        shares = np.array([float(np.mean(term.diagonal(sample), dtype=float)) for term in terms])
        why = "in proportion to the terms' traces"
    else:
        shares, why = np.ones(len(terms)), "equally"
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(terms), 1.0 / len(terms))
    if n_components >= len(terms):
        counts = divide(n_components, shares, np.ones(len(terms), int))
        factors = np.ones(len(terms))
    else:  # fewer components than terms: draw terms, which represent the others
        shares = 0.5 * shares + 0.5 / len(terms)
        u = stratified(n_components, (np.sqrt(5.0) - 1.0) / 2.0, key.child("terms"))
        drawn = np.minimum(np.searchsorted(np.cumsum(shares), u), len(terms) - 1)
        counts = np.bincount(drawn, minlength=len(terms))
        factors = np.sqrt(counts / (n_components * shares))
        why = "to terms drawn at random: there are fewer components than terms"
    parts, maps = [], []
    for i, (term, count, factor) in enumerate(zip(terms, counts, factors, strict=True)):
        if count:
            part = build(term, int(count), key.child(i))
            parts.append(part)
            maps.append(part.feature_map if factor == 1.0 else ScaledMap(part.feature_map, float(factor)))
    return Node(kernel, StackedMap(tuple(maps)), f"stacked, divided {why}", tuple(parts))


def _product(kernel: Product | Power, n_components: int, key: Key, build: Builder) -> Node:
    """Sketch the outer product of the factors' maps; factors of one kind are combined first."""
    factors = _grouped(_flattened(kernel, Product), Product)
    if len(factors) == 1:
        return replace(build(factors[0], n_components, key), kernel=kernel)
    parts = [build(factor, _WIDER * n_components, key.child(i)) for i, factor in enumerate(factors)]
    sketches = [
        CountSketch().sample(part.feature_map.n_components, n_components, key.child("sketch").child(i))
        for i, part in enumerate(parts)
    ]
    product = ProductMap(tuple(part.feature_map for part in parts), tuple(sketches))
    return Node(kernel, product, "a TensorSketch of the outer product of the maps below", tuple(parts))


def _flattened(kernel: Kernel, kind: type) -> list[Kernel]:
    """List the terms of a sum of sums, or the factors of a product of products and powers."""
    if isinstance(kernel, kind):
        return _flattened(kernel.left, kind) + _flattened(kernel.right, kind)
    if kind is Product and isinstance(kernel, Power):
        return _flattened(kernel.kernel, kind) * int(kernel.exponent)
    return [kernel]


def _grouped(kernels: list[Kernel], kind: type) -> list[Kernel]:
    """Combine stationary kernels into one and kernels of x·y into another; keep the others."""
    stationary = [k for k in kernels if k.stationary]
    series = [k for k in kernels if not k.stationary and is_series(k)]
    others = [k for k in kernels if not k.stationary and not is_series(k)]
    return [reduce(kind, group) for group in (stationary, series) if group] + others
