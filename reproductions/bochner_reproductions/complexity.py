"""Measured exponents of the costs in the published table: naive, low rank, kitchen sinks, Fastfood."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bochner.backends import limit_threads
from bochner.estimators.exact import exact_kernel_ridge
from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.ridge import KernelRidge
from bochner.kernels.stationary import RBF
from bochner_reproductions.findings import Claim, Findings, Row, mean, plus_minus, slope, values, within


def _seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _data(n: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), np.float32)
    return X, X[:, 0] + rng.standard_normal(n)


ALLOWANCE = 0.3  # of an exponent, either way


def complexity(quick: bool) -> Findings:
    """Slopes of log seconds against log size, one size varied at a time."""

    def naive(n: int) -> Callable[[], Any]:
        X, y = _data(n, 10)
        return lambda: exact_kernel_ridge(RBF(3.0), X, y, X[:10], 1.0)

    def ridge(n: int, m: int, features: str) -> Callable[[], Any]:
        X, y = _data(n, 10)
        chosen = (
            FourierFeatures(RBF(3.0), m, rows="iid", random_state=0)
            if features == "fourier"
            else NystromFeatures(RBF(0.3), m, landmarks="uniform", random_state=0)  # short: full rank
        )
        return lambda: KernelRidge(RBF(3.0), m, features=chosen, alpha=1.0, solver="cholesky").fit(X, y)

    def features(rows: str, d: int) -> Callable[[], Any]:
        X, _ = _data(512, d)
        feature_map = FourierFeatures(RBF(d**0.5), 16384, rows=rows, random_state=0).fit(X[:1]).feature_map_
        return lambda: feature_map(X)

    k = 1 if quick else 10  # all sizes but those of d
    rows_, columns, few = (1000 * k, 2000 * k, 4000 * k), (50 * k, 100 * k, 200 * k), 50 * k
    widths = (64, 128, 256) if quick else (512, 1024, 2048, 4096)
    cases: list[tuple[str, str, float, tuple[int, ...], Callable[[int], Callable[[], Any]]]] = [
        ("naive kernel ridge", "n", 3.0, (200 * k, 280 * k, 400 * k), naive),
        ("low rank (Nyström), fit", "n", 1.0, rows_, lambda n: ridge(n, few, "nystrom")),
        ("low rank (Nyström), fit", "m", 2.0, columns, lambda m: ridge(rows_[-1], m, "nystrom")),
        ("kitchen sinks, fit", "n", 1.0, rows_, lambda n: ridge(n, few, "fourier")),
        ("kitchen sinks, fit", "m", 2.0, columns, lambda m: ridge(rows_[-1], m, "fourier")),
        ("kitchen sinks, features", "d", 1.0, widths, lambda d: features("iid", d)),
        ("Fastfood, features", "d", 0.0, widths, lambda d: features("fastfood", d)),
    ]
    rows: list[Row] = []
    with limit_threads(1), threadpool_limits(1, "blas"):
        for method, size, published, tried, make in cases:
            calls = {v: make(v) for v in tried}
            for call in calls.values():
                call()  # not timed: code and memory are fetched
            for run in range(2 if quick else 5):
                for v, call in calls.items():
                    rows.append({"method": method, "varied": size, "value": v, "run": run, "seconds": _seconds(call)})
                    rows[-1]["expected exponent"] = published or slope(tried, np.log(tried))

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 3)
        for axis, size in zip(axes, "nmd", strict=True):
            for method in dict.fromkeys(r["method"] for r in rows):
                sizes = values(rows, "value", method=method, varied=size)
                if len(sizes):
                    found = [mean(rows, "seconds", method=method, varied=size, value=v) for v in np.unique(sizes)]
                    axis.loglog(np.unique(sizes), found, "o-", label=method)
            names = {"n": "rows n", "m": "components m", "d": "features d"}
            axis.set(xlabel=names[size], ylabel="seconds")
            axis.legend()

    return Findings(
        title="Measured exponents",
        source="complexity tables of a lecture on random kitchen sinks and of a report on Nyström approximation",
        question="CPU seconds of one thread against one size at a time, all others fixed, and the slope of the "
        "logarithms. Feature maps write 16,384 components; fits use ten features.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=[
            {"method": method, "in": size, "expected exponent": expected, "measured": plus_minus(found)}
            for method, size, expected, found in exponents(rows)
        ],
        size=(11.0, 3.6),
        notes="The published table leaves out the O(n³) solve of the naive method and the O(m²) memory of the normal "
        "equations, and gives Fastfood's memory as O(m log d); it is O(m).",
    )


def exponents(rows: list[Row]) -> list[tuple[str, str, float, list[float]]]:
    """(method, what was varied, expected exponent, measured ones of each run); log d has an exponent too, near zero."""
    found = []
    for method, size in dict.fromkeys((row["method"], row["varied"]) for row in rows):
        where = {"method": method, "varied": size}
        runs = sorted({row["run"] for row in rows})
        sizes = sorted(set(values(rows, "value", **where).tolist()))
        slopes = [slope(sizes, [mean(rows, "seconds", value=v, run=run, **where) for v in sizes]) for run in runs]
        found.append((method, size, mean(rows, "expected exponent", **where), slopes))
    return found


def claims(rows: list[Row]) -> list[Claim]:
    """The exponent is the expected one within 0.3, either way."""
    words = {3: "cubic", 2: "quadratic", 1: "linear", 0: "logarithmic"}
    verdicts = []
    for method, size, expected, found in exponents(rows):
        holds = within(found, expected - ALLOWANCE, expected + ALLOWANCE)
        why = ""
        if holds is False and np.mean(found) < expected:
            why = "parts that grow more slowly still count at these sizes."
        elif holds is False:
            why = "more memory is touched than the caches hold."
        verdicts.append(
            Claim(
                f"{method}: {words[round(expected)]} in {size}",
                f"{expected:.2f}",
                plus_minus(found),
                holds,
                why,
            )
        )
    return verdicts
