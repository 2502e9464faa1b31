"""What a variant of the Nyström method is; the variants themselves are in `bochner.lab.low_rank`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module

from bochner.draws.keys import Key
from bochner.features.maps import FeatureMap
from bochner.landmarks.grams import Gram
from bochner.landmarks.laws import LandmarkLaw


class NystromVariant(ABC):
    """How columns of K become features: a value of ``NystromFeatures(variant=…)``."""

    chooses_landmarks: bool = True  # by a sampling scheme

    @property
    def shifts(self) -> bool:
        """Return whether the features approximate K - shift I with a shift that may be positive."""
        return False

    @abstractmethod
    def fit(self, gram: Gram, law: LandmarkLaw, n_components: int, key: Key) -> tuple[FeatureMap, float]:
        """Return a map to n_components features, and the shift with K ≈ ZZᵀ + shift I."""


def as_nystrom_variant(variant: object) -> NystromVariant | None:
    """Return a variant for its name or itself; None stands for the plain projection.

    Examples
    --------
    >>> from bochner.features.variants import as_nystrom_variant
    >>> as_nystrom_variant("shifted")
    Modified(shift=True)
    """
    if isinstance(variant, NystromVariant):
        return variant
    if isinstance(variant, str) and variant == "projection":
        return None
    # methods of the literature are imported when one is asked for
    known: dict[str, NystromVariant] = import_module("bochner.lab.low_rank").NYSTROM_VARIANTS
    if isinstance(variant, str) and variant in known:
        return known[variant]
    names = ", ".join(map(repr, ("projection", *known)))
    raise ValueError(f"variant must be one of {names}, or a Nyström variant; got {variant!r}.")
