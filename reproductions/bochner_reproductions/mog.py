"""Expectation-maximisation on eccentric clusters, plain and after a random projection (Dasgupta 2000)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from bochner.lab.projected_mixture import ProjectedMixture
from bochner_reproductions.findings import Claim, Findings, Row, mean, plus_minus, standard_error, values, within

STARTS = 5
INDEX, AXES, LIKELIHOOD = "adjusted Rand index", "eccentricity", "log-likelihood of a new point"


def _clusters(n: int, d: int, k: int, seed: int, separation: float) -> tuple[Any, Any]:
    """Points and labels: k Gaussians whose axes' lengths run from 1 to 30, centres `separation` radii apart."""
    rng = np.random.default_rng(seed)
    lengths = np.geomspace(1.0, 30.0, d)
    centres = rng.normal(size=(k, d)) * separation * np.sqrt(np.sum(lengths**2)) / np.sqrt(2 * d)
    labels = rng.integers(0, k, n)
    X = np.empty((n, d))
    for cluster in range(k):
        axes, _ = np.linalg.qr(rng.normal(size=(d, d)))
        own = labels == cluster
        X[own] = centres[cluster] + (rng.normal(size=(own.sum(), d)) * lengths) @ axes.T
    return X, labels


def _eccentricity(X: Any, labels: Any) -> float:
    """Longest over shortest axis of a cluster, the mean over clusters."""
    values = [np.linalg.svd(X[labels == c] - X[labels == c].mean(axis=0), compute_uv=False) for c in np.unique(labels)]
    return float(np.mean([v[0] / v[-1] for v in values]))


def _baseline(X: Any, k: int, seed: int, kind: str) -> Any:
    """EM in all dimensions, regularised: covariances of all numbers, of a diagonal, or one for all clusters."""
    mixture = GaussianMixture(
        k, covariance_type=kind, init_params="random_from_data", random_state=seed, reg_covar=1e-3, n_init=STARTS
    ).set_params(max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(X)


def _run(n: int, d: int, k: int, separation: float, seed: int) -> list[Row]:
    everything, all_labels = _clusters(2 * n, d, k, seed, separation)
    X, X_new, labels = everything[:n], everything[n:], all_labels[:n]
    rows = []
    for name, make in METHODS.items():
        start = time.process_time()
        mixture = make(X, k, seed)
        seconds = time.process_time() - start
        projected = mixture.projection_.transform(everything) if name == "projected" else everything
        rows.append(
            {"method": name, "separation": separation, "run": seed}
            | {INDEX: float(adjusted_rand_score(labels, mixture.predict(X))), "iterations": int(mixture.n_iter_)}
            | {"CPU seconds": seconds, LIKELIHOOD: float(mixture.score_samples(X_new).mean())}
            | {AXES: _eccentricity(projected, all_labels)}
        )
    return rows


METHODS: dict[str, Callable[[Any, int, int], Any]] = {
    "one Gaussian": lambda X, k, seed: _baseline(X, 1, seed, "full"),
    "plain": lambda X, k, seed: _baseline(X, k, seed, "full"),
    "diagonal": lambda X, k, seed: _baseline(X, k, seed, "diag"),
    "tied": lambda X, k, seed: _baseline(X, k, seed, "tied"),
    "projected": lambda X, k, seed: ProjectedMixture(k, n_init=STARTS, random_state=seed).fit(X),
}


CLUSTERINGS = tuple(name for name in METHODS if name != "one Gaussian")


def mog(quick: bool) -> Findings:
    """Both ways of clustering, where rows are few beside the numbers of a covariance and where they are many."""
    settings = (
        {"n < d²": (300, 40, 3), "n ≫ d²": (800, 10, 3)}
        if quick
        else {"n < d²": (600, 100, 5), "n ≫ d²": (4000, 20, 5)}
    )
    seeds, separations = (2, (2.0,)) if quick else (10, (1.0, 2.0))
    rows: list[Row] = [
        {"rows": name} | row
        for name, (n, d, k) in settings.items()
        for c in separations
        for seed in range(seeds)
        for row in _run(n, d, k, c, seed)
    ]
    columns = [name for name in rows[0] if name not in ("rows", "method", "separation", "run")]

    def found(setting: str, method: str, separation: float, column: str) -> float:
        return mean(rows, column, rows=setting, method=method, separation=separation)

    summary = [
        {"rows": r, "separation": c, "method": m}
        | {INDEX: plus_minus(values(rows, INDEX, rows=r, method=m, separation=c), 3)}
        | {name: found(r, m, c, name) for name in columns if name != INDEX}
        for r in settings
        for c in separations
        for m in METHODS
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for r, line in zip(settings, ("o-", "s--"), strict=True):
            for m, colour in zip(CLUSTERINGS, ("#1f6fb2", "#8a98a5", "#5a9e6f", "#d1582c"), strict=True):
                heights = [found(r, m, c, INDEX) for c in separations]
                errors = [2 * standard_error(values(rows, INDEX, rows=r, method=m, separation=c)) for c in separations]
                left.errorbar(separations, heights, errors, fmt=line, color=colour, label=f"{m}, {r}", capsize=2)
        left.set(xlabel="separation, in radii", ylabel=INDEX, title="clusters found", ylim=(0, 1.05))
        left.legend()
        heights = [found("n < d²", m, 2.0, AXES) for m in ("plain", "projected")]
        right.bar(["all dimensions", "projected"], heights, color=["#1f6fb2", "#d1582c"], width=0.5)
        right.set(title="eccentricity of the clusters", ylabel="longest / shortest axis")

    sizes = "; ".join(f"{name}: {n} points in {d} dimensions, {k} clusters" for name, (n, d, k) in settings.items())
    return Findings(
        title="Random projections and mixtures of Gaussians",
        source="Dasgupta 2000, experiments with random projection",
        question=f"Ellipsoids with axes from 1 to 30 ({sizes}). EM in all dimensions, regularised, with full "
        "covariances (plain), diagonal ones and one for all clusters (tied), against `ProjectedMixture`: EM "
        "after a projection to 4 ln k + 2 dimensions, and one step in all of them. The best of "
        f"{STARTS} starts from points of the data; "
        f"mean ± standard error of {seeds} seeds. One Gaussian for all rows is the baseline: it finds no "
        "cluster.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=summary,
        size=(9.0, 3.6),
        notes="Log-likelihoods are of the mixtures in all dimensions; the eccentricity of clusters is as EM sees them.",
    )


def claims(rows: list[Row]) -> list[Claim]:
    """Two radii apart, one method beats another where the mean difference over seeds is three standard errors above 0.

    Clusters are rounder if their eccentricity is at most half of what it was.
    """

    def column(setting: str, method: str, name: str) -> Any:
        return values(rows, name, rows=setting, method=method, separation=2.0)

    before, after = (column("n < d²", method, AXES) for method in ("plain", "projected"))
    verdicts = [
        Claim(
            "eccentric clusters become rounder, by a factor of two",
            "—",
            f"{plus_minus(before, 1)} → {plus_minus(after, 1)}",
            within(np.log2(before / after), low=1.0),
        ),
    ]
    for setting in ("n < d²", "n ≫ d²"):
        projected = column(setting, "projected", INDEX)
        others = {m: column(setting, m, INDEX) for m in CLUSTERINGS if m != "projected"}
        best = max(others, key=lambda m: others[m].mean())
        for name, what in (("plain", "full covariances"), (best, f"the best of three regularised ones ({best})")):
            gap = projected - others[name]
            holds = within(gap, low=0.0) if np.ptp(gap) else bool(gap[0] > 0) if gap[0] else None
            verdicts.append(
                Claim(
                    f"EM after projection finds more of the clusters than EM with {what}, two radii apart, {setting}",
                    "more",
                    f"Rand index {others[name].mean():.3f} → {projected.mean():.3f}, by {plus_minus(gap, 4)}",
                    holds,
                    "" if holds is not None else "the difference is within three standard errors.",
                )
            )
        density = column(setting, "projected", LIKELIHOOD)
        others = {m: column(setting, m, LIKELIHOOD) for m in METHODS if m != "projected"}
        best = max(others, key=lambda m: others[m].mean())
        verdicts.append(
            Claim(
                f"the density of new rows is higher than that of the best regularised EM, two radii apart, {setting}",
                "—",
                f"log-likelihood of a new point {others[best].mean():.1f} ({best}) → {density.mean():.1f}, by "
                f"{plus_minus(density - others[best])}",
                within(density - others[best], low=0.0),
            )
        )
    return verdicts
