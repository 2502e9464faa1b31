"""20 newsgroups projected to 0.3 %, 1 % and 10 % of its dimensions: how far distances move, there and by PCA."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from scipy.stats import chi2
from sklearn.decomposition import TruncatedSVD

from bochner import datasets
from bochner.estimators.projections import RandomProjection
from bochner_reproductions.findings import (
    Claim,
    Findings,
    Row,
    both,
    markdown,
    mean,
    plus_minus,
    standard_error,
    values,
    within,
)

SHARES = ("0.3%", "1.0%", "10.0%")
LOW, HIGH, INSIDE = "99 % of pairs from", "to", "pairs inside"
PEERS = ("truncated SVD", "random projection")
REAL = "20 newsgroups"


def posts(quick: bool) -> Iterator[tuple[str, Any]]:
    """Counts of words, a row a post: the real ones where they are at hand, and synthetic ones of 100,000 words."""
    n_terms = 10_000 if quick else 100_000
    if datasets.folder() is not None and "news20_counts" in datasets.available():
        X = datasets.load("news20_counts").X
        X = X[X.getnnz(axis=1) > 0]
        kept = np.random.default_rng(0).permutation(X.shape[0])[: 200 if quick else 4000]
        yield REAL, X[np.sort(kept)]
    yield f"synthetic, {n_terms:,} terms", zipf_posts(200 if quick else 1000, n_terms)


def zipf_posts(n: int, n_terms: int) -> Any:
    """Posts of about 125 different words, the j-th word drawn in proportion to 1/j."""
    rng = np.random.default_rng(0)
    p = 1.0 / np.arange(1, n_terms + 1)
    lengths = rng.poisson(200, n) + 1
    terms = rng.choice(n_terms, lengths.sum(), p=p / p.sum())
    places = np.repeat(np.arange(n), lengths), terms
    X = scipy.sparse.coo_array((np.ones(len(terms), np.float32), places), shape=(n, n_terms)).tocsr()
    X.sum_duplicates()
    return X


def _squared(X: Any, pairs: Any) -> Any:
    D = X[pairs[0]] - X[pairs[1]]
    return np.asarray(D.multiply(D).sum(axis=1)).ravel() if scipy.sparse.issparse(D) else np.einsum("ij,ij->i", D, D)


def jl_newsgroups(quick: bool) -> Findings:
    """Ratios of squared distances after and before, and their interval by the χ² distribution; PCA for comparison."""
    runs = 2 if quick else 10
    rows: list[Row] = []
    peers: list[Row] = []
    shown: dict[str, Any] = {}
    sizes = {}
    for data, X in posts(quick):
        sizes[data] = X.shape
        pairs = np.random.default_rng(1).integers(0, X.shape[0], (2, 2000 if quick else 20_000))
        pairs = pairs[:, _squared(X, pairs) > 0]
        before = _squared(X, pairs)
        constant = float(np.sqrt(np.mean((before.mean() / before - 1) ** 2)))  # every distance replaced by their mean
        for share in SHARES:
            k = max(1, round(float(share.rstrip("%")) / 100 * X.shape[1]))
            low, high = chi2.ppf([0.005, 0.995], k) / k
            for run in range(runs):
                projection = RandomProjection(k, dense_output=True, random_state=run)
                ratio = _squared(projection.fit_transform(X), pairs) / before
                shown.setdefault(data, {}).setdefault(share, (k, ratio, low, high))
                bottom, top = np.quantile(ratio, [0.005, 0.995])
                rows.append(
                    {"data": data, "components": k, "share": share, "run": run, "mean ratio": float(ratio.mean())}
                    | {LOW: float(bottom), HIGH: float(top), "χ² from": float(low), "χ² to": float(high)}
                    | {INSIDE: float(np.mean((ratio >= low) & (ratio <= high)))}
                    | {"rms": float(np.sqrt(np.mean((ratio - 1) ** 2))), "rms of the mean distance": constant}
                )
        for k in (10, 100):
            for name, make in (("truncated SVD", TruncatedSVD), ("random projection", RandomProjection)):
                options = {} if make is TruncatedSVD else {"dense_output": True}
                for run in range(min(5, runs)):
                    start = time.process_time()
                    Z = make(k, random_state=run, **options).fit_transform(X)
                    seconds = time.process_time() - start
                    moved = _squared(Z, pairs) / before
                    found = {"mean ratio": float(moved.mean()), "rms": float(np.sqrt(np.mean((moved - 1) ** 2)))}
                    peers.append({"data": data, "method": name, "components": k, "CPU seconds": seconds} | found)

    def draw(figure: Any) -> None:
        axes = figure.subplots(len(shown), 3, squeeze=False)
        for line, (data, panels) in zip(axes, shown.items(), strict=True):
            for axis, (share, (k, ratio, low, high)) in zip(line, panels.items(), strict=True):
                width = 2.5 * (high - 1)
                axis.hist(ratio, bins=60, range=(1 - width, 1 + width), density=True)
                for edge in (low, high):
                    axis.axvline(edge, color="#d1582c", linestyle="--", linewidth=1)
                axis.set(title=f"{data}, {share}: {k:,}", xlabel="squared distance, after / before", yticks=[])

    names = ("mean ratio", LOW, HIGH, "χ² from", "χ² to", "rms", "rms of the mean distance")
    summary = [
        {"data": data, "share": share, **{n: mean(rows, n, data=data, share=share) for n in names}}
        | {INSIDE: plus_minus(values(rows, INSIDE, data=data, share=share), 4)}
        for data in shown
        for share in SHARES
    ]
    table = [
        {"data": data, "method": method, "components": k}
        | {
            n: plus_minus(values(peers, n, data=data, method=method, components=k), 3)
            for n in ("CPU seconds", "mean ratio", "rms")
        }
        for data in shown
        for k in (10, 100)
        for method in ("truncated SVD", "random projection")
    ]
    what = "; ".join(f"{data}: {shape[0]:,} posts of {shape[1]:,} terms" for data, shape in sizes.items())
    return Findings(
        title="Distances between newsgroup posts after random projection",
        source="the 20 newsgroups figure of a lecture on the Johnson–Lindenstrauss lemma",
        question=f"{what}. Squared distances of up to 20,000 random pairs after a projection by sparse signs, over "
        "those before; dashed: where the χ² distribution of a Gaussian projection puts 99 % of them; "
        f"{runs} draws (the figure shows one). The synthetic posts have the 100,000 terms of the published figure, "
        "the j-th of which is drawn in proportion to 1/j; the copy of the real ones has 31,121.",
        rows=rows + peers,
        claims=claims(rows + peers),
        draw=draw,
        summary=summary,
        size=(10.0, 3.0 * max(1, len(shown))),
        notes="Principal components against a random projection with as many components, mean ± standard error of "
        f"{min(5, runs)} runs:\n\n{markdown(table)}\n\nWhat principal components drop is lost from every distance; a "
        "projection keeps all of them to the same relative error. “rms of the mean distance” is that of a constant: of "
        "replacing every squared distance by their mean.",
    )


def claims(rows: list[Row]) -> list[Claim]:
    """Distances survive if 99 % of them are within 15 %, with a third of the error of one distance for all.

    The χ² distribution describes them if between 97 % and 99.9 % of the ratios are in its 99 % interval. Principal
    components are a waste of time if as many random ones are nearer, and faster. All pairs of a draw share it, so that
    standard errors are those over draws.
    """
    verdicts = []
    for data in dict.fromkeys(row["data"] for row in rows):

        def column(name: str, share: str, data: str = data) -> Any:
            return values(rows, name, data=data, share=share)

        share = SHARES[-1]
        rms, constant = column("rms", share), column("rms of the mean distance", share)[0]
        verdicts.append(
            Claim(
                f"{data}: distances survive with 10 % as many components",
                "by eye",
                f"99 % within {plus_minus(column(LOW, share))} … {plus_minus(column(HIGH, share))}, rms error "
                f"{plus_minus(rms, 3)}; of a constant {constant:.2f}",
                both(
                    within(column(LOW, share), 0.85, 1.0),
                    within(column(HIGH, share), 1.0, 1.15),
                    within(rms, high=constant / 3),
                ),
            )
        )
        inside = {share: column(INSIDE, share) for share in SHARES}
        verdicts.append(
            Claim(
                f"{data}: the χ² distribution describes them",
                "99 % inside",
                ", ".join(f"{100 * x.mean():.1f} ± {100 * standard_error(x):.1f} %" for x in inside.values())
                + " inside",
                both(*(within(x, 0.97, 0.999) for x in inside.values())),
            )
        )
        svd, projected = (values(rows, "rms", data=data, method=m, components=100) for m in PEERS)
        times = [values(rows, "CPU seconds", data=data, method=m, components=100) for m in PEERS]
        verdicts.append(
            Claim(
                f"{data}: principal components are a waste of time",
                "a question",
                f"rms error {plus_minus(svd)} with 100 of them in {times[0].mean():.2g} s, {plus_minus(projected)} "
                f"with as many random ones in {times[1].mean():.2g} s",
                both(within(np.log(projected / svd), high=0.0), within(np.log(times[1] / times[0]), high=0.0)),
            )
        )
    return verdicts
