"""The feature maps that a comparison knows by name, ours and scikit-learn's."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin, clone

from bochner.estimators.dot_products import MaclaurinFeatures, TensorSketchFeatures
from bochner.estimators.fourier import AdditiveChi2Features, FourierFeatures, RandomBinningFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.projections import CompactFeatures
from bochner.estimators.trees import KernelFeatures
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import Custom
from bochner.kernels.dot_products import AdditiveChi2, DotProductKernel, Linear, Polynomial
from bochner.kernels.stationary import RBF, Laplacian, RadialKernel
from bochner.landmarks.registry import LANDMARK_LAWS
from bochner.sampling import ROW_LAWS

Maker = Callable[[Kernel, int, int], TransformerMixin]


@dataclass(frozen=True)
class Candidate:
    """Named map; `make(kernel, n_components, seed)` returns an unfitted transformer.

    A transformer without `n_components` has `columns` "fixed" and is measured once in each run.
    """

    name: str
    make: Maker
    fixed: bool = False
    peer: bool = False  # scikit-learn's


def scalar_scale(kernel: Kernel) -> float | None:
    """Return the length scale of a kernel that has one for all columns; None for other kernels."""
    scale = np.ravel(getattr(kernel, "length_scale", []))
    return float(scale[0]) if scale.size and np.all(scale == scale[0]) else None


def _rbf_sampler(kernel: Kernel, n: int, seed: int) -> TransformerMixin:
    scale = scalar_scale(kernel)
    if not isinstance(kernel, RBF) or scale is None:
        raise ValueError(f"RBFSampler knows the RBF kernel with one length scale only, not {kernel!r}.")
    from sklearn.kernel_approximation import RBFSampler

    return RBFSampler(gamma=0.5 / scale**2, n_components=n, random_state=seed)


def _nystroem(kernel: Kernel, n: int, seed: int) -> TransformerMixin:
    scale = scalar_scale(kernel)
    if isinstance(kernel, RBF) and scale is not None:
        named: dict[str, object] = {"kernel": "rbf", "gamma": 0.5 / scale**2}
    elif isinstance(kernel, Laplacian) and scale is not None:
        named = {"kernel": "laplacian", "gamma": 1.0 / scale}
    elif isinstance(kernel, Polynomial):
        named = {"kernel": "polynomial", "degree": kernel.degree, "gamma": kernel.gamma, "coef0": kernel.coef0}
    elif isinstance(kernel, Linear):
        named = {"kernel": "linear"}
    else:
        raise ValueError(
            f"scikit-learn has no name for {kernel!r}, and Nystroem would call it once for each pair of rows."
        )
    from sklearn.kernel_approximation import Nystroem

    return Nystroem(n_components=n, random_state=seed, **named)


def _count_sketch(kernel: Kernel, n: int, seed: int) -> TransformerMixin:
    if not isinstance(kernel, Polynomial):
        raise ValueError(f"PolynomialCountSketch knows polynomial kernels only, not {kernel!r}.")
    if kernel.gamma is None:
        raise ValueError("PolynomialCountSketch needs a number as gamma; None means 1 / n_features.")
    from sklearn.kernel_approximation import PolynomialCountSketch

    return PolynomialCountSketch(
        gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0, n_components=n, random_state=seed
    )


def _binning(kernel: Kernel, n: int, seed: int) -> TransformerMixin:
    if not isinstance(kernel, Laplacian):
        raise ValueError(f"random binning knows the Laplacian kernel only, not {kernel!r}.")
    # cells that share a component cost 1/n_components of variance, grids 1/n_grids: this balances the two
    return RandomBinningFeatures(n, n_grids=max(1, n // 4), length_scale=kernel.length_scale, random_state=seed)


def _chi2(kernel: Kernel, n: int, seed: int) -> TransformerMixin:
    if not isinstance(kernel, AdditiveChi2):
        raise ValueError(f"AdditiveChi2Features knows the additive χ² kernel only, not {kernel!r}.")
    return AdditiveChi2Features(n_components=n, random_state=seed)


def _fourier(rows: str) -> Maker:
    return lambda kernel, n, seed: FourierFeatures(kernel, n, rows=rows, random_state=seed)


def _nystrom(landmarks: str) -> Maker:
    return lambda kernel, n, seed: NystromFeatures(kernel, n, landmarks=landmarks, random_state=seed)


def _compact(kernel: Kernel, n: int, seed: int) -> TransformerMixin:
    return CompactFeatures(KernelFeatures(kernel), n, random_state=seed)


MAPS: dict[str, Candidate] = {
    candidate.name: candidate
    for candidate in (
        Candidate("RBFSampler", _rbf_sampler, peer=True),
        Candidate("Nystroem", _nystroem, peer=True),
        Candidate("PolynomialCountSketch", _count_sketch, peer=True),
        *(Candidate(f"fourier:{rows}", _fourier(rows)) for rows in ("auto", *ROW_LAWS)),
        *(Candidate(f"nystrom:{law}", _nystrom(law)) for law in ("auto", *LANDMARK_LAWS)),
        Candidate("kernel", lambda kernel, n, seed: KernelFeatures(kernel, n, random_state=seed)),
        Candidate("maclaurin", lambda kernel, n, seed: MaclaurinFeatures(kernel, n, random_state=seed)),
        Candidate("tensor-sketch", lambda kernel, n, seed: TensorSketchFeatures(kernel, n, random_state=seed)),
        Candidate("compact", _compact),
        Candidate("binning", _binning),
        Candidate("chi2", _chi2),
    )
}


def default_maps(kernel: Kernel) -> list[str]:
    """Return the names of the maps that are compared by default: those that support the kernel."""
    nystrom = ["nystrom:auto", "nystrom:uniform"]
    if isinstance(kernel, RadialKernel):
        laws = [f"fourier:{rows}" for rows in ("iid", "quasi", "orthogonal", "structured", "fastfood")]
        peers = ["RBFSampler", "Nystroem"] if isinstance(kernel, RBF) and scalar_scale(kernel) is not None else []
        return [*peers, *laws, *nystrom]
    if isinstance(kernel, Laplacian):
        peers = ["Nystroem"] if scalar_scale(kernel) is not None else []
        return [*peers, "fourier:iid", "fourier:quasi", "binning", *nystrom]
    if isinstance(kernel, Polynomial):
        return ["PolynomialCountSketch", "Nystroem", "maclaurin", "tensor-sketch", "compact", *nystrom]
    if isinstance(kernel, Linear):
        return ["Nystroem", "kernel", *nystrom]
    if isinstance(kernel, AdditiveChi2):
        return ["chi2", *nystrom]
    if kernel.stationary:
        return ["fourier:iid", "fourier:quasi", "kernel", *nystrom]
    if isinstance(kernel, DotProductKernel):
        return ["maclaurin", "kernel", "compact", *nystrom]
    return nystrom if isinstance(kernel, Custom) else ["kernel", *nystrom]


def as_candidates(maps: Any, kernel: Kernel) -> list[Candidate]:
    """Make candidates from names, transformers, a list of either, or a dict; None for those that suit the kernel."""
    if maps is None:
        return [MAPS[name] for name in default_maps(kernel)]
    if isinstance(maps, Mapping):
        items: Iterable[tuple[str | None, str | TransformerMixin]] = maps.items()
    else:
        items = ((None, item) for item in ([maps] if isinstance(maps, str) or hasattr(maps, "fit") else maps))
    found: list[Candidate] = []
    for name, item in items:
        candidate = _as_candidate(name, item)
        same = sum(other.name.split(" #")[0] == candidate.name for other in found)
        if same:
            candidate = Candidate(f"{candidate.name} #{same + 1}", candidate.make, candidate.fixed, candidate.peer)
        found.append(candidate)
    if not found:
        raise ValueError("maps is empty: name at least one, or give None for those that suit the kernel.")
    return found


def _as_candidate(name: str | None, item: str | TransformerMixin) -> Candidate:
    if isinstance(item, str):
        key = {"fourier": "fourier:auto", "nystrom": "nystrom:auto"}.get(item, item)
        if key not in MAPS:
            near = difflib.get_close_matches(key, MAPS, n=3, cutoff=0.4)
            hint = f"did you mean {', '.join(map(repr, near))}? " if near else ""
            raise ValueError(f"unknown map {item!r}; {hint}The names are {', '.join(MAPS)}.")
        return MAPS[key] if name is None else Candidate(name, MAPS[key].make, peer=MAPS[key].peer)
    if not (hasattr(item, "fit") and hasattr(item, "transform") and hasattr(item, "get_params")):
        raise ValueError(f"a map is a name or a transformer with fit and transform; got {item!r}.")
    parameters = item.get_params(deep=False)
    given = {"n_components", "random_state"} & set(parameters)

    def make(kernel: Kernel, n: int, seed: int) -> TransformerMixin:
        del kernel  # a transformer has its own
        values = {"n_components": n, "random_state": seed}
        return clone(item).set_params(**{key: values[key] for key in given})

    peer = type(item).__module__.startswith("sklearn.")
    return Candidate(name or type(item).__name__, make, fixed="n_components" not in given, peer=peer)
