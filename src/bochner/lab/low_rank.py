"""Variants of the Nyström method: ensembles, the modified Nyström method, sketches, MEKA.

Each takes the kernel matrix, a sampling scheme of landmarks and a number of components, and returns a feature map with
ZZᵀ ≈ K - shift I, and the shift, which is zero for all but `Modified(shift=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh, solve_triangular, svd
from scipy.optimize import nnls

from bochner.backends import Array
from bochner.backends.memory import empty_columns
from bochner.checks import check_choice, check_count
from bochner.draws.keys import Key
from bochner.features.maps import FeatureMap
from bochner.features.nystrom import Nystrom, nystrom_map, pivoted_cholesky
from bochner.features.variants import NystromVariant
from bochner.landmarks.grams import Gram, check_symmetric, raise_indefinite, row_slices
from bochner.landmarks.laws import EXACT_ROWS, LandmarkLaw, Landmarks
from bochner.landmarks.means import KMeans, assign, metric_scales, scaled
from bochner.sketches import SketchLaw, as_sketch_law


@dataclass(frozen=True)
class StackedNystrom(FeatureMap):
    """The components of several maps side by side, followed by zeros up to n_components."""

    parts: tuple[Nystrom, ...]
    n_components: int

    def __call__(self, X: Array) -> Array:
        Z = empty_columns(X.shape[0], self.n_components, X.dtype)
        start = 0
        for part in self.parts:
            Z[:, start : start + part.rank] = part(X)[:, : part.rank]
            start += part.rank
        Z[:, start:] = 0.0
        return Z


@dataclass(frozen=True)
class Ensemble(NystromVariant):
    """A weighted mean of Nyström approximations, each from its own share of the landmarks (Kumar et al. 2009).

    Parameters
    ----------
    n_experts : int
    weights : {"uniform", "fitted"}
        Equal weights, or the non-negative ones with the least Frobenius error on a block of up to 500 random rows.
    """

    n_experts: int = 4
    weights: str = "uniform"

    def fit(self, gram: Gram, law: LandmarkLaw, n_components: int, key: Key) -> tuple[FeatureMap, float]:
        check_choice("weights", self.weights, ("uniform", "fitted"))
        check_count("n_experts", self.n_experts)
        points = law.sample(gram, n_components, key).points
        order = key.child("experts").generator().permutation(points.shape[0])
        shares = [np.sort(share) for share in np.array_split(order, self.n_experts) if len(share)]
        experts = [nystrom_map(gram, Landmarks(points[share], None), len(share))[0] for share in shares]
        weights = self._weights(gram, experts, key.child("weights"))
        parts = tuple(
            replace(expert, root=(np.sqrt(weight) * expert.root).astype(expert.root.dtype))
            for expert, weight in zip(experts, weights, strict=True)
        )
        return StackedNystrom(parts, n_components), 0.0

    def _weights(self, gram: Gram, experts: list[Nystrom], key: Key) -> Array:
        if self.weights == "uniform" or not experts:
            return np.full(len(experts), 1.0 / max(1, len(experts)))
        rows = key.generator().permutation(len(gram))[:500]
        features = [expert(gram.X[rows]).astype(np.float64) for expert in experts]
        blocks = np.stack([(Z @ Z.T).ravel() for Z in features], axis=1)
        return np.asarray(nnls(blocks, gram.block(rows, rows).ravel())[0])


@dataclass(frozen=True)
class Modified(NystromVariant):
    """The best approximation C U Cᵀ from the columns C of the landmarks, U = C⁺ K C⁺ᵀ (Wang & Zhang 2013).

    Reads all of K once and keeps n_samples × n_components numbers. Unlike a projection, it may exceed K.

    Parameters
    ----------
    shift : bool
        Approximate K - delta I instead, where delta is the mean of the remaining eigenvalues (Wang et al. 2014). Ridge
        regression with K has the penalty alpha + delta on the features.
    """

    shift: bool = False

    @property
    def shifts(self) -> bool:
        return self.shift

    def fit(self, gram: Gram, law: LandmarkLaw, n_components: int, key: Key) -> tuple[FeatureMap, float]:
        points = law.sample(gram, n_components, key).points
        L, order = pivoted_cholesky(gram.among(points), gram.floor)
        if not len(L):
            return Nystrom(gram.kernel, points[order], np.zeros((0, 0), gram.X.dtype), n_components), 0.0
        landmarks, root = points[order], solve_triangular(L, np.eye(len(L)), lower=True).T
        n, everything = len(gram), slice(0, len(gram))
        C = np.concatenate([gram.against(rows, landmarks) for rows in gram.row_blocks(len(L))])
        Q, basis = orthonormal(C @ root, gram.floor)
        M = np.zeros((Q.shape[1], Q.shape[1]))
        for rows in gram.row_blocks(n):
            M += Q[rows].T @ (gram.block(rows, everything) @ Q)
        rest = float(gram.diagonal().sum() - np.trace(M))
        delta = max(0.0, rest / (n - len(M))) if self.shift and n > len(M) else 0.0
        link = positive_root(0.5 * (M + M.T) - delta * np.eye(len(M)))
        root = (root @ basis @ link).astype(gram.X.dtype)
        return Nystrom(gram.kernel, landmarks, root, n_components), delta


@dataclass(frozen=True)
class Sketched(NystromVariant):
    """K Sᵀ (S K Sᵀ)⁺ S K for any sketch S; reads all of K, and keeps all rows for `transform`.

    Parameters
    ----------
    law : str or SketchLaw
        "sparse_sign", "gaussian", "srht", … ; see `bochner.sketches`.
    """

    law: str | SketchLaw = "sparse_sign"

    chooses_landmarks = False

    def fit(self, gram: Gram, law: LandmarkLaw, n_components: int, key: Key) -> tuple[FeatureMap, float]:
        n = len(gram)
        sketch = as_sketch_law(self.law)
        if type(sketch).resolve is not SketchLaw.resolve:  # its probabilities come from K itself
            if n > EXACT_ROWS:
                raise ValueError(
                    f"{sketch!r} needs all of K at once, and {n} rows are more than {EXACT_ROWS}; use "
                    "Sketched('sparse_sign'), or landmarks='recursive_leverage' with variant='projection'."
                )
            sketch = sketch.resolve(gram.block(slice(0, n), slice(0, n)), key.child("probabilities"))
        S = sketch.sample(n, n_components, key)
        Y = np.concatenate([S(gram.block(rows, slice(0, n))) for rows in gram.row_blocks(n)])  # K Sᵀ
        core = S @ Y
        check_symmetric(core, gram.floor)
        values, vectors = eigh(0.5 * (core + core.T))
        largest = max(values[-1], 0.0)
        if values[0] < -np.sqrt(gram.floor) * max(largest, np.abs(values).max()):
            raise_indefinite(f"its sketch has the eigenvalue {values[0]:.3g} (largest {values[-1]:.3g})")
        keep = np.flatnonzero(values > gram.floor * largest)[::-1]
        vectors = vectors * _signs(vectors)
        root = S.adjoint((vectors[:, keep] / np.sqrt(values[keep])).T).T
        root = np.ascontiguousarray(root, dtype=gram.X.dtype)
        return Nystrom(gram.kernel, gram.points(np.arange(n)), root, n_components), 0.0


@dataclass(frozen=True)
class Clustered(FeatureMap):
    """Features of a row from the landmarks of its own cluster, linked to all others.

    Attributes
    ----------
    centres : ndarray of shape (n_clusters, n_features)
        In units of `scales`.
    scales : ndarray
    parts : tuple of Nystrom
        One basis for each cluster.
    links : tuple of ndarray of shape (rank of the part, n_components)
    """

    centres: Array
    scales: Array
    parts: tuple[Nystrom, ...]
    links: tuple[Array, ...]
    n_components: int

    def labels(self, X: Array) -> Array:
        """Return the cluster of every row."""
        return assign(scaled(X, self.scales), self.centres.astype(X.dtype, copy=False))

    def __call__(self, X: Array) -> Array:
        Z = empty_columns(X.shape[0], self.n_components, X.dtype)
        labels = self.labels(X)
        for label, (part, link) in enumerate(zip(self.parts, self.links, strict=True)):
            members = np.flatnonzero(labels == label)
            for block in row_slices(len(members), self.n_components):
                rows = members[block]
                Z[rows] = part(X[rows]) @ link.astype(X.dtype, copy=False)
        return Z


@dataclass(frozen=True)
class MEKA(NystromVariant):
    """Memory-efficient kernel approximation (Si, Hsieh & Dhillon 2014), clipped to be positive semi-definite.

    Every cluster of rows has a basis from its own landmarks; blocks between clusters are fitted in these bases. A
    feature costs kernel values with one cluster's landmarks instead of all, so there are n_clusters times as many for
    the same number of kernel values.

    Kept for comparison: with as many components, "projection" is more accurate and faster to fit. Relative Frobenius
    error and CPU time of 256 components on 2,000 rows (RBF, median length scale, five seeds): letter 0.0005 in 41 ms
    against 0.0074 in 198 ms, usps 0.0039 in 76 ms against 0.0181 in 138 ms; with half the length scale 0.0194 against
    0.0805, and 0.0495 against 0.0986.

    Parameters
    ----------
    n_clusters : int
    n_rows : int
        Blocks between clusters are fitted on that many random rows of each (but at least four for each landmark).
    """

    n_clusters: int = 5
    n_rows: int = 200

    def fit(self, gram: Gram, law: LandmarkLaw, n_components: int, key: Key) -> tuple[FeatureMap, float]:
        check_count("n_clusters", self.n_clusters)
        scales = metric_scales(gram)
        centres = KMeans(max_iter=20, n_rows=20_000).sample(gram, min(self.n_clusters, n_components), key).points
        centres = np.unique(np.asarray(scaled(centres, scales)), axis=0)
        empty = Clustered(centres, scales, (), (), n_components)
        labels = empty.labels(gram.X)
        used, labels = np.unique(labels, return_inverse=True)  # clusters that have rows
        ranks = [len(share) for share in np.array_split(np.arange(n_components), len(used))]
        parts, samples, inverses, spectra = [], [], [], []
        for label in range(len(used)):
            members, rank = np.flatnonzero(labels == label), ranks[label]
            part, values = self._basis(Gram(gram.X[members], gram.kernel), law, rank, key.child(label))
            rows = key.child("rows").child(label).generator().permutation(len(members))
            rows = members[np.sort(rows[: max(self.n_rows, 4 * rank)])]
            parts.append(part)
            samples.append(rows)
            inverses.append(np.linalg.pinv(part(gram.X[rows].astype(np.float64))))
            spectra.append(values)
        edges = np.cumsum([0, *(part.rank for part in parts)])
        M = np.zeros((edges[-1], edges[-1]))
        for s, rows in enumerate(samples):
            here = slice(edges[s], edges[s + 1])
            M[here, here] = np.diag(spectra[s])
            for t in range(s):
                there = slice(edges[t], edges[t + 1])
                M[here, there] = inverses[s] @ gram.block(rows, samples[t]) @ inverses[t].T
                M[there, here] = M[here, there].T
        link = np.zeros((len(M), n_components), gram.X.dtype)
        link[:, : len(M)] = positive_root(M)[:, :n_components]
        links = tuple(link[edges[s] : edges[s + 1]] for s in range(len(parts)))
        return Clustered(centres[used], scales, tuple(parts), links, n_components), 0.0

    @staticmethod
    def _basis(gram: Gram, law: LandmarkLaw, rank: int, key: Key) -> tuple[Nystrom, Array]:
        """Return orthonormal columns on the rows of one cluster, as a map, and its approximation's eigenvalues."""
        points = law.sample(gram, rank, key).points
        L, order = pivoted_cholesky(gram.among(points), gram.floor)
        root = solve_triangular(L, np.eye(len(L)), lower=True).T if len(L) else np.zeros((0, 0))
        C = np.concatenate([gram.against(rows, points[order]) for rows in gram.row_blocks(max(1, len(L)))])
        Z = C @ root
        _, basis = orthonormal(Z, gram.floor)
        values = 1.0 / np.square(basis).sum(axis=0)  # the basis is V / singular values of Z
        return Nystrom(gram.kernel, points[order], root @ basis, basis.shape[1]), values


def orthonormal(Z: Array, floor: float) -> tuple[Array, Array]:
    """Return Q with orthonormal columns and B with Q = Z B, without directions that are rounding errors."""
    Q, R = np.linalg.qr(Z)
    U, values, Vt = svd(R)
    keep = values > np.sqrt(floor) * values.max(initial=0.0)
    V = Vt[keep].T
    signs = _signs(V)
    return Q @ (U[:, : len(keep)][:, keep] * signs), V * signs / values[keep]


def positive_root(M: Array) -> Array:
    """Return R with RRᵀ the positive semi-definite matrix nearest to a symmetric M, largest columns first."""
    values, vectors = eigh(M) if len(M) else (np.zeros(0), np.zeros((0, 0)))
    return np.asarray((vectors * _signs(vectors) * np.sqrt(np.maximum(values, 0.0)))[:, ::-1])


def _signs(V: Array) -> Array:
    """Return signs that make the largest entry of every column positive, so that rounding cannot flip a feature."""
    return np.where(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])] < 0.0, -1.0, 1.0) if V.size else np.ones(0)


NYSTROM_VARIANTS: dict[str, NystromVariant] = {
    "ensemble": Ensemble(),
    "modified": Modified(),
    "shifted": Modified(shift=True),
    "sketched": Sketched(),
    "meka": MEKA(),
}
