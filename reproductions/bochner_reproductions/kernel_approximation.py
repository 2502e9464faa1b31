"""Six datasets, three panels: random and quasi-random Fourier features, random and k-means landmarks, RMFM and CRFM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from bochner import datasets
from bochner.estimators.dot_products import MaclaurinFeatures, TensorSketchFeatures
from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.projections import CompactFeatures
from bochner.kernels.dot_products import Polynomial
from bochner.kernels.stationary import RBF
from bochner_reproductions.findings import Claim, Findings, Row, linear_in, mean, standard_error, values

COLUMNS = (32, 64, 128, 256, 512)
CONSTANT, LINEAR = "constant matrix", "linear kernel"
ROUNDING = 1e-10  # as many landmarks as rows leave nothing but rounding
COMPARISONS = {"Fourier features": ("QRFF", "RFF"), "landmarks": ("k-means", "random"), "(x·y)²": ("CRFM", "RMFM")}
POLYNOMIAL = Polynomial(2, gamma=1.0, coef0=0.0)


@dataclass(frozen=True)
class _Set:
    published: str
    name: str
    rows: int
    note: str = ""
    real: str = ""  # taken instead where it is at hand


SETS = (
    _Set("flow cytometry", "flow_fsom", 1000, "stands for the unnamed cytometry set; arcsinh(x/150)"),
    _Set("cov", "insurance", 1000, "not at hand: insurance stands for it, many small-integer columns", "covtype"),
    _Set("ijcnn", "ijcnn1", 1000),
    _Set("letter", "letter", 1000),
    _Set("timit", "pol", 1000, "not redistributable: pol stands for it"),
    _Set("usps", "usps", 400),
)


def unit_cube(X: Any) -> Any:
    """Columns scaled to [0, 1]; constant ones to 0."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


def _rows(which: _Set, n: int) -> tuple[str, Any]:
    """The label and the rows, in the unit cube; the digits where the real data is not here."""
    if datasets.folder() is None or which.name not in datasets.available():
        return f"{which.published} (not here: digits)", unit_cube(load_digits().data[:n])
    if which.real in datasets.available():
        which = _Set(which.real, which.real, which.rows)
    X = np.asarray(datasets.load(which.name).X, dtype=np.float64)
    X = X[np.random.default_rng(0).choice(len(X), min(n, len(X)), replace=False)]
    X = np.arcsinh(X / 150) if which.name == "flow_fsom" else X
    same = which.name.startswith(which.published)
    return which.published if same else f"{which.published}: {which.name}", unit_cube(X)


def _methods(rbf: RBF) -> dict[str, dict[str, Callable[[int, int], Any]]]:
    """Panel → method → transformer of (components, seed); the third of each panel is what bochner does by default."""

    def maclaurin(m: int, s: int) -> Any:
        return MaclaurinFeatures(POLYNOMIAL, m, allocation="geometric", random_state=s)

    return {
        "Fourier features": {
            "RFF": lambda m, s: FourierFeatures(rbf, m, rows="iid", random_state=s),
            "QRFF": lambda m, s: FourierFeatures(rbf, m, rows="quasi", random_state=s),
            "bochner's default": lambda m, s: FourierFeatures(rbf, m, random_state=s),
        },
        "landmarks": {
            "random": lambda m, s: NystromFeatures(rbf, m, landmarks="uniform", random_state=s),
            "k-means": lambda m, s: NystromFeatures(rbf, m, landmarks="kmeans", random_state=s),
            "bochner's default": lambda m, s: NystromFeatures(rbf, m, random_state=s),
        },
        "(x·y)²": {
            "RMFM": maclaurin,
            "CRFM": lambda m, s: CompactFeatures(maclaurin(m, s), m, random_state=s),
            "bochner's default": lambda m, s: TensorSketchFeatures(POLYNOMIAL, m, random_state=s),
        },
    }


def _measure(sets: tuple[_Set, ...], columns: tuple[int, ...], runs: int, limit: int | None) -> list[dict[str, Any]]:
    """A row for every dataset, method, number of components and run."""
    rows: list[dict[str, Any]] = []
    for which in sets:
        label, X = _rows(which, limit or which.rows)
        rbf = RBF("mean").resolve(X)
        for panel, methods in _methods(rbf).items():
            K = POLYNOMIAL(X) if panel == "(x·y)²" else rbf(X)
            norm = np.linalg.norm(K)
            baselines = {CONSTANT: float(np.linalg.norm(K - K.mean()) / norm)}
            baselines[LINEAR] = float(np.linalg.norm(K - linear_in(X @ X.T, K)) / norm)
            for method, make in methods.items():
                for m in columns:
                    for seed in range(runs):
                        Z = make(m, seed).fit_transform(X)
                        error = float(np.linalg.norm(Z @ Z.T - K) / norm)
                        found = {"data": label, "panel": panel, "method": method, "components": m, "run": seed}
                        rows.append({**found, "error": error, **baselines})
    return rows


def kernel_approximation(quick: bool) -> Findings:
    """Relative Frobenius errors of every method, dataset and number of components."""
    runs, columns, sets = (2, COLUMNS[:2], SETS[-1:]) if quick else (20, COLUMNS, SETS)
    return findings(_measure(sets, columns, runs, 150 if quick else None))


def findings(rows: list[Row]) -> Findings:
    """The page of such measurements."""
    columns, runs = sorted({row["components"] for row in rows}), len({row["run"] for row in rows})
    labels = list(dict.fromkeys(r["data"] for r in rows))
    panels = {panel: list(methods) for panel, methods in _methods(RBF(1.0)).items()}

    def errors(label: str, panel: str, method: str) -> Any:
        """(columns, runs)."""
        return values(rows, "error", data=label, panel=panel, method=method).reshape(len(columns), runs)

    def draw(figure: Any) -> None:
        axes = figure.subplots(len(labels), 3, squeeze=False, sharex=True)
        for line, label in zip(axes, labels, strict=True):
            for axis, (panel, methods) in zip(line, panels.items(), strict=True):
                for method in methods:
                    found = errors(label, panel, method)
                    (curve,) = axis.loglog(columns, found.mean(axis=1), label=method)
                    low, high = np.quantile(found, [0.05, 0.95], axis=1)
                    axis.fill_between(columns, low, high, alpha=0.18, color=curve.get_color(), linewidth=0)
                axis.set_title(f"{label}, {panel}", fontsize=8)
                axis.set_xticks(columns, [str(m) for m in columns])
                axis.minorticks_off()
                if panel == "landmarks":  # as many landmarks as rows leave rounding
                    axis.set_ylim(bottom=max(1e-5, 0.5 * min(r["error"] for r in rows if r["data"] == label)))
        for axis in axes[0]:
            axis.legend()
        for axis in axes[-1]:
            axis.set_xlabel("components")
        for line in axes:
            line[0].set_ylabel("relative error")

    summary = [
        {
            "data": k,
            "components": columns[-1],
            **{f"{m} ({p})": float(errors(k, p, m)[-1].mean()) for p in panels for m in panels[p]},
            **{
                f"{name} ({p})": mean(rows, name, data=k, panel=p)
                for p in ("Fourier features", "(x·y)²")
                for name in (CONSTANT, LINEAR)
            },
        }
        for k in labels
    ]
    stand_ins = "; ".join(f"{s.published}: {s.note}" for s in SETS if s.note)
    return Findings(
        title="Six datasets, three pairs of methods",
        source="a report on kernel approximation, six datasets with three panels each",
        question=f"Relative Frobenius error of the kernel matrix against the number of components, {runs} runs (line: "
        "mean; band: 90 % of them). Data in the unit cube, Gaussian length scale the mean distance to the mean, CRFM "
        "is projected down from up to four times as many components.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=summary,
        size=(10.0, 2.3 * max(2, len(labels))),
        notes=f"Components are counted alike for all methods (a frequency gives two). Stand-ins: {stand_ins} "
        "([all such datasets](index.md#datasets-that-are-not-at-hand)).",
    )


def compared(rows: list[Row], panel: str, better: str, worse: str) -> tuple[int, int, int]:
    """In how many cases (dataset and number of components) one method wins, loses and is not told apart.

    It wins where the mean of the differences over runs is better by three standard errors. Cases in which both leave
    only rounding do not count.
    """
    won = lost = open_ = 0
    for data in dict.fromkeys(row["data"] for row in rows):
        for m in sorted({row["components"] for row in rows}):
            where = {"data": data, "panel": panel, "components": m}
            found = values(rows, "error", method=better, **where), values(rows, "error", method=worse, **where)
            gap = found[1] - found[0]
            if max(found[0].mean(), found[1].mean()) < ROUNDING:
                continue
            z = float(gap.mean() / max(standard_error(gap), np.finfo(float).tiny))
            won, lost, open_ = won + (z > 3.0), lost + (z < -3.0), open_ + (abs(z) <= 3.0)
    return won, lost, open_


def claims(rows: list[Row]) -> list[Claim]:
    """A method beats another "always", or almost, if it wins nine cases in ten and loses none.

    A case is a dataset and a number of components; it is won if the mean of the differences over runs is better by
    three standard errors.
    """
    said = {"Fourier features": "almost always", "landmarks": "always", "(x·y)²": "always"}
    verdicts = []
    for panel, (better, worse) in COMPARISONS.items():
        won, lost, open_ = compared(rows, panel, better, worse)
        cases = won + lost + open_
        default = compared(rows, panel, "bochner's default", better)
        holds: bool | None = bool(won >= 0.9 * cases)
        if lost:
            holds = False
        elif not holds and won + open_ >= 0.9 * cases:
            holds = None
        verdicts.append(
            Claim(
                f"{better} beats {worse}",
                said[panel],
                f"wins {won} of {cases} cases, loses {lost}, {open_} within three standard errors",
                holds,
                ("" if holds else "a loss is enough. " if lost else "cases that are not told apart may still be won. ")
                + f"bochner's default wins against {better} in {default[0]} of {sum(default)} cases and loses in "
                f"{default[1]}.",
            )
        )
    return verdicts
