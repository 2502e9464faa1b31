"""Which landmarks? Error against columns for every law on real data; speed and memory against scikit-learn.

``python benchmarks/bench_landmarks.py errors`` measures, for usps, letter, kin40k and protein (4,000 random rows,
standardised; RBF, median length scale), the relative Frobenius error of every law over uniform's (which is
scikit-learn's Nystroem), and at 200 columns the spectral and trace errors too, and writes docs/landmarks.md. The kernel
matrix is evaluated once a dataset. ``quick`` as an argument does 200 columns and few seeds, and writes nothing.

``python benchmarks/bench_landmarks.py pivots`` settles randomly pivoted Cholesky at 200 columns with many draws: pivots
chosen from pools, and drawn, over uniform; and the accelerated form against one pivot at a time, which must have the
same law. Names of datasets after `errors` or `pivots` do these only; the rest of the page stays.

``python benchmarks/bench_landmarks.py speed`` times `fit_transform` of 30,000 × 16 float32 rows with 1,000 landmarks
against scikit-learn side by side, and measures the peak memory of each in a process of its own.

``python benchmarks/bench_landmarks.py rows`` shows what the number of rows that "refined" looks at buys.

`errors`, `pivots` and `rows` need BOCHNER_DATA. On two quiet cores: errors 6 minutes, pivots 4, speed 1, rows 2.
"""

import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.kernel_approximation import Nystroem

from bochner import RBF, NystromFeatures, as_kernel
from bochner.draws.keys import Key
from bochner.features.nystrom import nystrom_map
from bochner.landmarks import LANDMARK_LAWS, Gram, KMeans, MiniBatchKMeans, RPCholesky, laws

DATASETS = ("usps", "letter", "kin40k", "protein")
COLUMNS = (50, 100, 200, 400)
FIGURES = ("uniform", "refined", "rpcholesky", "kmeans")  # what is claimed of them is claimed at 200 columns
PAGE = Path(__file__).parent.parent / "docs" / "landmarks.md"


def load(name, n_rows, standardise=True, seed=0):
    with np.load(Path(os.environ["BOCHNER_DATA"]) / f"{name}.npz") as file:
        X = file["X"].astype(float)
    X = X[np.random.default_rng(seed).permutation(len(X))[:n_rows]]
    if standardise:
        scale = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return X


class Problem:
    """4,000 rows of a dataset and their kernel matrix, evaluated once."""

    def __init__(self, name):
        X = load(name, 4000)
        kernel = as_kernel("rbf").resolve(X, 0)
        self.K = kernel(X)
        self.rows, self.matrix = Gram(X, kernel), Gram(self.K, None)
        self.size = np.linalg.norm(self.K)

    def features(self, law, n_columns, seed):
        """Z of a law, as `NystromFeatures.fit_transform` makes it; laws of rows read K instead of evaluating it."""
        gram = self.rows if isinstance(law, KMeans | MiniBatchKMeans) else self.matrix
        drawn = law.sample(gram, n_columns, Key(seed).child("landmarks"))
        return nystrom_map(gram, drawn, n_columns)[0](gram.X) if drawn.factor is None else drawn.factor

    def frobenius(self, Z):
        """Relative Frobenius error, from the blocks on and above the diagonal."""
        total, step = 0.0, 500
        for start in range(0, len(Z), step):
            left = self.K[start : start + step, start:] - Z[start : start + step] @ Z[start:].T
            total += 2.0 * np.vdot(left, left) - np.linalg.norm(left[:, :step]) ** 2
        return np.sqrt(total) / self.size

    def spectral(self, Z):
        """Largest eigenvalue of what is left of K (which has no negative ones), over that of K, to a per cent."""
        left = LinearOperator(self.K.shape, matvec=lambda v: self.K @ v - Z @ (Z.T @ v), dtype=float)
        start = np.random.default_rng(0).normal(size=len(Z))
        return eigsh(left, k=1, v0=start, tol=1e-2, return_eigenvectors=False)[0] / self.eigenvalues[0]

    def trace(self, Z):
        return 1.0 - np.linalg.norm(Z) ** 2 / np.trace(self.K)

    def decompose(self):
        """Eigenvalues, largest first; exact leverage scores of every draw come from the same decomposition."""
        pair = scipy.linalg.eigh(self.K, driver="evd", check_finite=False)
        laws.eigh = lambda K: pair
        self.eigenvalues = np.maximum(pair[0][::-1], 0.0)


def mean(values):
    """Mean and its standard error; a law without randomness has one value."""
    return np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0


def ratio(values, base):
    """Ratio of two means, and its standard error."""
    (a, da), (b, db) = mean(values), mean(base)
    return a / b, a / b * np.hypot(da / a, db / b)


def verdict(what, measured, limit, holds):
    print(f"{what}: {measured}; limit {limit}: {'holds' if holds else 'does not hold'}", flush=True)


def place_of(title):
    """Where a section of the page is."""
    return re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def section(title, lines):
    """Replace one section of the page, or append it."""
    page = (
        PAGE.read_text()
        if PAGE.exists()
        else "# Sampling schemes of landmarks: error against the number of components\n"
    )
    text, old = "\n".join([f"## {title}", "", *lines, ""]), place_of(title)
    page = old.sub(lambda _: text + "\n", page) if old.search(page) else page.rstrip("\n") + "\n\n" + text
    PAGE.write_text(page.rstrip("\n") + "\n")


def written(title, line, column):
    """A ratio and its standard error from a table of the page; None where it has not been measured."""
    text = place_of(title).search(PAGE.read_text() if PAGE.exists() else "")
    rows = [
        row.split("|")[1:-1] for row in (text.group().splitlines() if text else ()) if row.startswith(f"| {line} |")
    ]
    return tuple(float(part) for part in rows[0][column].split("±")) if rows else None


def errors(datasets=DATASETS, columns=COLUMNS, n_seeds=5, n_figure_seeds=30):
    found = {}  # law -> dataset -> ratio and standard error at 200 columns
    for name in datasets:
        problem = Problem(name)
        problem.decompose()
        tails = np.sqrt(np.cumsum(problem.eigenvalues[::-1] ** 2)[::-1]) / problem.size
        table = [
            "| scheme | " + " | ".join(f"{m} components" for m in columns) + " | spectral, 200 | trace, 200 |",
            "|---|" + "---|" * (len(columns) + 2),
        ]
        base = {}
        for law_name, law in LANDMARK_LAWS.items():
            cells = []
            for m in columns:
                n_draws = n_figure_seeds if m == 200 and law_name in FIGURES else n_seeds
                n_draws = 1 if law == RPCholesky("greedy") else 20 if law_name == "uniform" and m != 200 else n_draws
                values = {"frobenius": [], "spectral": [], "trace": []}
                for seed in range(n_draws):
                    Z = problem.features(law, m, seed)
                    values["frobenius"].append(problem.frobenius(Z))
                    if m == 200 and seed < n_seeds:
                        values["spectral"].append(problem.spectral(Z))
                        values["trace"].append(problem.trace(Z))
                if law_name == "uniform":
                    base[m] = values
                    cells.append("{:.2e} ± {:.0e}".format(*mean(values["frobenius"])))
                else:
                    cells.append("{:.3f} ± {:.3f}".format(*ratio(values["frobenius"], base[m]["frobenius"])))
                if m == 200:
                    found.setdefault(law_name, {})[name] = ratio(values["frobenius"], base[m]["frobenius"])
                    kept = values
            for kind in ("spectral", "trace"):
                if law_name == "uniform":
                    cells.append("{:.2e} ± {:.0e}".format(*mean(kept[kind])))
                else:
                    cells.append("{:.3f} ± {:.3f}".format(*ratio(kept[kind], base[200][kind])))
            table.append(f"| {law_name} | " + " | ".join(cells) + " |")
            print(f"{name:8s} {table[-1]}", flush=True)
        best = [f"{tails[m] / np.mean(base[m]['frobenius']):.3f}" for m in columns]
        left = problem.eigenvalues[200:]
        best.append(f"{left[0] / problem.eigenvalues[0] / np.mean(base[200]['spectral']):.3f}")
        best.append(f"{left.sum() / problem.eigenvalues.sum() / np.mean(base[200]['trace']):.3f}")
        table.append("| *best of this rank* | " + " | ".join(best) + " |")
        print(f"{name:8s} {table[-1]}", flush=True)
        if columns == COLUMNS:
            about = (
                f"{datetime.date.today()}: 4,000 rows, {problem.rows.X.shape[1]} features, standardised; RBF at the "
                "median distance. The first line is the relative Frobenius error of uniform landmarks (scikit-learn's "
                f"Nystroem); the other lines are divided by it, ± standard error: {n_seeds} draws, {n_figure_seeds} "
                f"for {', '.join(FIGURES)} at 200 components, 20 for uniform elsewhere."
            )
            won, _ = found["kmeans"][name]
            answer = "confirmed" if won < 1.0 else "refuted"
            said = f"k-means beats random here: {answer} ({won:.2f} × at 200 components)."
            section(name, [about, "", *table, "", said])
    if columns == COLUMNS:  # with what earlier runs have written
        for law_name in found:
            cells = {
                name: written(name, law_name, 1 + columns.index(200)) for name in DATASETS if law_name != "uniform"
            }
            found[law_name] = {name: cell for name, cell in cells.items() if cell}
    print("\nrelative Frobenius error at 200 columns over uniform's, on at least three of the four datasets:")
    for law_name, limit in (("refined", 0.6), ("rpcholesky", 0.85)):
        title = "the default (refined)" if law_name == "refined" else law_name
        figures(title, found[law_name], limit)
    for name, (won, error) in found["kmeans"].items():
        print(f"k-means beats random, {name}: {won:.3f} ± {error:.3f}: {'confirmed' if won < 1 else 'refuted'}")


def figures(title, ratios, limit):
    text = ", ".join(f"{name} {r:.3f} ± {e:.3f}" for name, (r, e) in ratios.items())
    count = sum(r <= limit for r, _ in ratios.values())
    verdict(title, f"{text}, {count} of {len(ratios)} at most {limit}", f"{limit} on 3 of 4", count >= 3)


PIVOTS = "Randomly pivoted Cholesky, many draws"


def pivots(datasets=DATASETS, n_draws=60, n_simple=30):
    """Randomly pivoted Cholesky at 200 columns, settled: over uniform, and accelerated against simple."""
    lines = [
        f'{datetime.date.today()}: 200 components, {n_draws} draws, relative to uniform. "Drawn" draws every pivot at '
        'random (the accelerated algorithm); "pooled", the default, chooses three of four pivots from pools of '
        "candidates. z compares the mean trace errors of the accelerated algorithm with those of drawing one pivot at "
        f"a time ({n_simple} draws), which has the same distribution.",
        "",
        "| dataset | pooled: Frobenius | drawn: Frobenius | pooled: trace | drawn: trace | z |",
        "|---|---|---|---|---|---|",
    ]
    rows, found, gaps = {}, {}, []
    for name in datasets:
        problem, values = Problem(name), {}
        laws = {"uniform": LANDMARK_LAWS["uniform"]} | {m: RPCholesky(m) for m in ("pooled", "accelerated", "simple")}
        for key, law in laws.items():
            Zs = (problem.features(law, 200, seed) for seed in range(n_simple if key == "simple" else n_draws))
            values[key] = np.array([(problem.frobenius(Z), problem.trace(Z)) for Z in Zs]).T
        ratios = [
            ratio(values[key][kind], values["uniform"][kind]) for kind in (0, 1) for key in ("pooled", "accelerated")
        ]
        (a, da), (b, db) = mean(values["accelerated"][1]), mean(values["simple"][1])
        gaps.append((a - b) / np.hypot(da, db))
        rows[name] = f"| {name} | " + " | ".join("{:.4f} ± {:.4f}".format(*r) for r in ratios) + f" | {gaps[-1]:.1f} |"
        print(rows[name], flush=True)
    page = place_of(PIVOTS).search(PAGE.read_text() if PAGE.exists() else "")
    for name in DATASETS:  # with what earlier runs have written
        old = re.search(rf"^\| {name} \|.*$", page.group() if page else "", re.MULTILINE)
        lines += [rows[name]] if name in rows else [old.group()] if old else []
    section(PIVOTS, lines)
    for title, column in (("pooled", 1), ("drawn", 2)):
        cells = {name: written(PIVOTS, name, column) for name in DATASETS}
        found = {name: cell for name, cell in cells.items() if cell}
        figures(f"rpcholesky over uniform, {title}, Frobenius, 200 columns", found, 0.85)
    text = ", ".join(f"{z:.1f}" for z in gaps)
    verdict("accelerated against simple, mean trace error", f"z = {text}", "4", max(map(abs, gaps)) < 4)


def contestants():
    return {
        "scikit-learn": Nystroem(gamma=1.0 / 32.0, n_components=1000, random_state=0),
        **{
            law: NystromFeatures(RBF(4.0), 1000, landmarks=law, random_state=0)
            for law in ("uniform", "rpcholesky", "refined")
        },
    }


def rows():
    return np.random.default_rng(0).normal(size=(30_000, 16)).astype(np.float32)


def speed(repetitions=3):
    X = rows()
    least, peaks = {}, {}
    for _ in range(repetitions):
        for name, model in contestants().items():
            time.sleep(0.5)  # until the threads of BLAS sleep, which spin after the work of the one before
            start = time.perf_counter()
            model.fit_transform(X)
            least[name] = min(least.get(name, np.inf), time.perf_counter() - start)
    print(f"fit_transform, {X.shape[0]} × {X.shape[1]} float32, 1000 landmarks; output {X.shape[0] * 4e3 / 1e6:.0f} MB")
    print(
        f"{'':14s}{'seconds':>9s}{'over uniform':>14s}{'scikit-learn over it':>22s}{'peak MB':>9s}"
        f"{'beyond output':>15s}"
    )
    for name, seconds in least.items():
        code = [sys.executable, __file__, "memory", name]
        peak = float(subprocess.run(code, capture_output=True, text=True, check=True).stdout)
        beyond = peak - X.shape[0] * 4e3 / 1e6
        print(
            f"{name:14s}{seconds:9.2f}{seconds / least['uniform']:14.2f}{least['scikit-learn'] / seconds:22.2f}"
            f"{peak:9.0f}{beyond:15.0f}",
            flush=True,
        )
        peaks[name] = beyond
    gain, cost = least["scikit-learn"] / least["uniform"], least["rpcholesky"] / least["uniform"]
    verdict("uniform, times faster than scikit-learn", f"{gain:.2f}", "2", gain >= 2)
    verdict("uniform, MB beyond its output", f"{peaks['uniform']:.0f}", "200", peaks["uniform"] <= 200)
    verdict("rpcholesky over uniform's time", f"{cost:.2f}", "6", cost <= 6)


def memory(name):
    """Peak resident megabytes of one fit_transform, beyond what the process held before it."""
    X, model = rows(), contestants()[name]
    model.set_params(n_components=8).fit_transform(X[:64])  # every library is loaded
    before = resident("VmRSS")
    model.set_params(n_components=1000).fit_transform(X)
    print(resident("VmHWM") - before)


def resident(what):
    """Megabytes from the kernel's account of this process; ru_maxrss would begin with the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6


def sample_sizes(n_columns=200):
    for name in DATASETS:
        X = load(name, 10**6, True).astype(np.float32)
        kernel = as_kernel("rbf").resolve(X, 0)
        laws = {"uniform": "uniform", "rpcholesky": "rpcholesky"}
        laws |= {f"refined, {n} rows": KMeans("rpcholesky", 2, n) for n in (4000, 10_000, 20_000)}
        for title, law in laws.items():
            seconds, traces = [], []
            for seed in range(3):
                features = NystromFeatures(kernel, n_columns, landmarks=law, random_state=seed)
                start = time.perf_counter()
                features.fit_transform(X)
                seconds.append(time.perf_counter() - start)
                traces.append(features.trace_error_)
            print(
                f"{name:8s} {len(X):6d} rows  {title:20s} trace error {np.mean(traces):.2e}  {min(seconds):6.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    what = sys.argv[1:] or ["errors", "pivots", "speed", "rows"]
    if what[0] == "memory":
        memory(what[1])
    datasets = tuple(name for name in DATASETS if name in what) or DATASETS
    if "errors" in what:
        errors(datasets, (200,), 3, 5) if "quick" in what else errors(datasets)
    if "pivots" in what:
        pivots(datasets)
    if "speed" in what:
        speed()
    if "rows" in what:
        sample_sizes()
