"""Labels of any type as targets ±1: the classes of a source, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bochner.backends import Array, reading
from bochner.checks import check_choice
from bochner.data.folds import Fold
from bochner.data.sources import ArraySource, Block, MappedSource, Source, joined, positive
from bochner.draws.keys import Key

_RARE = 10  # a class is rare with fewer rows than an equal share divided by this


@dataclass(frozen=True)
class Labels:
    """The classes in order and the weights of their rows; calling it on a block turns labels into signs.

    Signs are (n, k), 1 in the column of the row's class and -1 elsewhere; (n, 1) for two classes, 1 for the second.
    """

    classes: Array
    weights: Array

    @property
    def n_scores(self) -> int:
        """Return the number of columns of the signs."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def codes(self, y: ArrayLike) -> Array:
        """Return the index of the class of each label."""
        y = labels_of(y)
        try:
            codes = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
            known = self.classes[codes] == y
        except TypeError:  # labels that cannot be compared with the known classes
            codes, known = np.zeros(len(y), int), np.zeros(len(y), bool)
        if not np.all(known):
            unknown = y[~np.broadcast_to(known, len(y))].tolist()[0]
            raise ValueError(f"the label {unknown!r} is none of the classes {self.classes.tolist()}.")
        return codes

    def __call__(self, block: Block) -> Block:
        block = positive(block)  # labels that only rows of weight zero have are not classes
        codes = self.codes(block.y)
        signs = 2.0 * (codes[:, None] == np.arange(len(self.classes))) - 1.0
        weight = block.weight
        if (self.weights != 1.0).any():
            weight = self.weights[codes] * (1.0 if weight is None else weight)
        return replace(block, y=signs[:, 1:] if self.n_scores == 1 else signs, weight=weight)


def labels_of(y: ArrayLike) -> Array:
    """Return labels (n,) of any type, or raise an error if some are missing."""
    with reading("y"):
        labels: Array = column_or_1d(np.asarray(y), warn=True)
    try:
        missing: Array = labels != labels if labels.dtype.kind in "fcO" else np.zeros(len(labels), bool)
    except TypeError:  # pandas' NA is neither equal to itself nor different
        missing = np.ones(len(labels), bool)
    if labels.dtype == object:
        missing = missing | np.array([label is None for label in labels], bool)
    if np.any(missing):
        raise ValueError("y contains missing labels (NaN or None); remove those rows.")
    with np.errstate(invalid="ignore"):  # it casts numbers beyond 2^63 to integers
        check_classification_targets(labels)
    return labels


def unique_labels(y: Array) -> Array:
    """Return the classes in order."""
    try:
        return np.unique(y)
    except TypeError:
        raise ValueError("the labels are of types that cannot be ordered; make them all strings or numbers.") from None


class LabelFold(Fold):
    """The classes in order, and the weights of their rows."""

    def zero(self) -> list[Array]:
        return [np.empty(0), np.empty(0)]

    def add(self, total: list[Array], Z: Array, block: Block, row: int) -> list[Array]:
        y = labels_of(block.y)
        here = unique_labels(y)
        return self.merge(total, [here, np.bincount(np.searchsorted(here, y), block.weight, len(here))])

    def merge(self, total: list[Array], other: list[Array]) -> list[Array]:
        if not len(total[0]) or not len(other[0]):
            return total if len(total[0]) else other
        classes = unique_labels(np.concatenate([total[0], other[0]]))
        sums = np.zeros(len(classes))
        for found, weights in (total, other):
            sums[np.searchsorted(classes, found)] += weights
        return [classes, sums]


def find_labels(source: Source, class_weight: str | Mapping[Any, float] | None) -> Labels:
    """Find the classes of a source and their weights, in one pass over the labels of a stream."""
    # labels of rows in memory are read all at once
    rows = source.n_samples if isinstance(source, ArraySource) else None
    classes, totals = source.fold(LabelFold(), rows=rows)
    classes, totals = classes[totals > 0], totals[totals > 0]  # rows of weight zero are ignored
    if len(classes) < 2:
        raise ValueError(f"a classifier needs two classes or more; the rows have one class: {classes.tolist()}.")
    return Labels(classes, class_weights(class_weight, classes, totals))


def codes_of(signs: Array) -> Array:
    """Return the index of the class of each row of signs (n, k)."""
    return np.asarray(signs.argmax(axis=1) if signs.shape[1] > 1 else (signs[:, 0] > 0).astype(int))


Drawn = tuple[int, Array, Block]  # the number of rows of a class, and some of them with their random numbers


@dataclass(frozen=True)
class ClassRowsFold(Fold):
    """Count the rows of positive weight of every class, and draw some rows of some classes at random."""

    classes: Array  # classes to draw from
    n_rows: int  # rows to draw from each of them
    key: Key

    def zero(self) -> dict[int, Drawn]:
        return {}

    def add(self, total: dict[int, Drawn], Z: Array, block: Block, row: int) -> dict[int, Drawn]:
        numbers, filled = self.key.uniforms(row, len(block)), block.weights > 0
        codes = np.where(filled, codes_of(block.y), -1)
        for code in np.unique(codes[filled]):
            rows = np.flatnonzero(codes == code)
            drawn = rows if code in self.classes else rows[:0]
            self.merge(total, {int(code): (len(rows), numbers[drawn], block[drawn])})
        return total

    def merge(self, total: dict[int, Drawn], other: dict[int, Drawn]) -> dict[int, Drawn]:
        for code, (count, numbers, block) in other.items():
            if code in total:
                count, numbers = count + total[code][0], np.concatenate([total[code][1], numbers])
                block = joined([total[code][2], block])
            first = np.sort(np.argsort(numbers)[: self.n_rows])
            total[code] = count, numbers[first], block[first]
        return total


class SignSource(MappedSource):
    """The rows of a source with signs as targets, from which rows are sampled by class.

    Classes with fewer rows in a plain sample than a tenth of an equal share get that many, if they have them; this
    takes a pass. Weights make up for it, so that sums over the sample remain unbiased up to a factor. The factor is
    such that the slopes of a constant model vary as much as over a plain sample: a penalty chosen with the sample has
    the meaning that it has for all rows.
    """

    def __init__(self, source: Source, labels: Labels) -> None:
        super().__init__(source.mapped(labels))
        self.n_classes = len(labels.classes)

    @property
    def remote(self) -> bool:  # type: ignore[override]
        """Return True if the rows are on other machines."""
        return self.source.remote

    def place(self, array: Array) -> Array:
        """Move an array of this process to where a pass of `fold` has its features."""
        return self.source.place(array)

    def fold(self, *arguments: Any, **options: Any) -> Any:
        """Run a fold in one pass, where the rows are."""
        return self.source.fold(*arguments, **options)

    def sample(self, n: int, key: Key) -> Block:
        """Draw about n rows, and more of rare classes."""
        block = self.source.sample(n, key)
        codes, least = codes_of(block.y), max(1, n // (_RARE * self.n_classes))
        rare = np.flatnonzero(np.bincount(codes, minlength=self.n_classes) < least)
        if not len(rare) or len(block) == self.n_samples:
            return block
        found = self.fold(ClassRowsFold(rare, least, key.child("rare")))
        common = block[np.flatnonzero(~np.isin(codes, rare))]
        block = joined([part for part in (common, *(found[code][2] for code in rare)) if len(part)])
        codes, counts = codes_of(block.y), np.array([found[code][0] for code in range(self.n_classes)], float)
        chance = np.bincount(codes) / counts
        chance[~np.isin(np.arange(self.n_classes), rare)] = len(common) / max(1.0, np.delete(counts, rare).sum())
        shares, weight = counts / counts.sum(), 1.0 / chance[codes]
        slopes = (1.0 - 2.0 * shares + shares @ shares)[codes]  # squared slopes of a constant model
        weight *= (slopes @ weight) / (slopes @ weight**2)
        return replace(block, weight=block.weights * weight)


def given_labels(classes: ArrayLike, class_weight: str | Mapping[Any, float] | None) -> Labels:
    """Check the classes given to `partial_fit`: all that will occur."""
    classes = unique_labels(labels_of(classes))
    if len(classes) < 2:
        raise ValueError(f"a classifier needs two classes or more, got {classes.tolist()}.")
    return Labels(classes, class_weights(class_weight, classes, np.ones(len(classes))))


def class_weights(class_weight: str | Mapping[Any, float] | None, classes: Array, totals: Array) -> Array:
    """Return the weight of a row of each class, from the option `class_weight` and the classes' total weights."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ("balanced",))
        return np.divide(totals.sum() / len(classes), totals, out=np.zeros(len(classes)), where=totals > 0)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict of classes; got {class_weight!r}.")
    weights = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], dtype=float)
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"class_weight must give classes of {classes.tolist()} weights ≥ 0; got {class_weight!r}.")
    if np.count_nonzero(weights) < 2:
        raise ValueError(f"a classifier needs two classes or more of positive weight; got {class_weight!r}.")
    return weights
