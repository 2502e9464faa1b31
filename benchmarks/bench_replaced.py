"""Methods of the first versions, stated again here, beside what replaced them: error, seconds or bytes, in one figure.

    python benchmarks/bench_replaced.py            # prints the tables (about three minutes on one core)
    python benchmarks/bench_replaced.py --write    # and writes docs/replaced.md and docs/replaced.png
    python benchmarks/bench_replaced.py --quick    # small sizes, some seconds

Both sides of a comparison run in one process, one after the other; times are CPU seconds of one thread, the best of
several. Real data (usps, letter) through BOCHNER_DATA; without it scikit-learn's digits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from scipy.optimize import nnls
from scipy.special import gamma, j0, jv, ndtri
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import bochner
from bochner import RBF, FourierFeatures, KernelRidge, NystromFeatures, datasets, greedy_kitchen_sinks
from bochner.comparison.charts import save_figure
from bochner.draws.keys import Key
from bochner.draws.radii import find_radii
from bochner.persistence import containers
from bochner.persistence.deployment import for_predictions
from bochner.ridge.statistics import unpack_upper
from bochner.sampling import Quasi

DOCS = Path(__file__).parents[1] / "docs"


def cpu_seconds(function, repeats=3):
    """The least CPU time of some calls, and what the last one returned."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        found = function()
        times.append(time.process_time() - start)
    return min(times), found


def rows_of(name, n):
    """Rows of a dataset, each column in [0, 1]; the digits where it is not at hand."""
    here = datasets.folder() is not None and name in datasets.available()
    X = np.asarray(datasets.load(name).X, float) if here else load_digits().data
    X = X[np.random.default_rng(0).permutation(len(X))[:n]]
    X = X[:, np.ptp(X, axis=0) > 0]
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


# ---------------------------------------------------------------------------------------------------------------------
# Distributions of frequencies of kernels that are given as functions


def fixed_mixture(profile):
    """Radial, before: a mixture of Gaussians on grids that do not look at the profile; refused beyond 1e-3."""
    r, s = np.append(0.0, np.geomspace(1e-4, 1e3, 400)), np.geomspace(1e-4, 1e5, 301)
    A = np.exp(-0.5 * np.outer(r, s) ** 2)
    target = profile(r)
    weights, _ = nnls(np.vstack([A, 1e-5 * np.eye(len(s))]), np.append(target, np.zeros(len(s))), maxiter=30_000)
    weights /= weights.sum()
    if np.abs(A @ weights - target).max() > 1e-3:
        return None
    return lambda x: np.exp(-0.5 * np.outer(x, s) ** 2) @ weights


def fixed_transform(profile):
    """Of one coordinate, before: an FFT over distances up to 210; refused if 1e-3 of the mass is negative."""
    n, step = 1 << 20, 4e-4
    half = profile(step * np.arange(n // 2 + 1))
    density = np.fft.rfft(np.concatenate([half, half[-2:0:-1]])).real * step / np.pi
    spacing = 2.0 * np.pi / (n * step)
    if -density[density < 0].sum() * spacing > 1e-3:
        return None
    mass = np.maximum(density, 0.0) * spacing
    mass[0] /= 2.0
    cumulative = np.cumsum(mass) / mass.sum()
    lengths = np.interp(MIDDLES, cumulative, (np.arange(len(mass)) + 0.5) * spacing)
    return lambda x: np.array([np.cos(t * lengths).mean() for t in x])


MIDDLES = (np.arange(40_000) + 0.5) / 40_000
RESOLVED = 1e-6  # smaller errors are not told apart with so many quantiles


def by_dimension(profile, d):
    """Now: adaptive quadrature in the profile's own scale, in the dimension of the data."""
    law = find_radii.__wrapped__(profile, d).law
    if law is None:
        return None
    lengths = law(MIDDLES)

    def kernel(distances):
        out = []
        for t in distances:
            x = np.maximum(t * lengths, 1e-9)
            wave = np.cos(x) if d == 1 else gamma(d / 2) * (2.0 / x) ** (d / 2 - 1) * jv(d / 2 - 1, x)
            out.append(wave.mean())
        return np.array(out)

    return kernel


def spherical(r):
    return np.where(r < 1.0, 1.0 - 1.5 * r + 0.5 * r**3, 0.0)


def wendland(r):
    return np.maximum(1.0 - r, 0.0) ** 4 * (4.0 * r + 1.0)


# name: profile, dimension, whether it was a kernel of one coordinate, its own scale
PROFILES = {
    "exp(-r/500), d = 1": (lambda r: np.exp(-r / 500.0), 1, True, 500.0),
    "exp(-r²/(2·300²)), d = 1": (lambda r: np.exp(-0.5 * (r / 300.0) ** 2), 1, True, 300.0),
    "1/(1 + r²), d = 2": (lambda r: 1.0 / (1.0 + r * r), 2, False, 1.0),
    "1/(1 + (r/500)²), d = 2": (lambda r: 1.0 / (1.0 + (r / 500.0) ** 2), 2, False, 500.0),
    "J₀(r), d = 2": (j0, 2, False, 2.0),
    "spherical, d = 3": (spherical, 3, False, 0.5),
    "Wendland, d = 3": (wendland, 3, False, 0.3),
}


def spectra(quick):
    table = []
    for name, (profile, d, separable, scale) in list(PROFILES.items())[: 2 if quick else None]:
        distances = scale * np.linspace(0.02, 4.0, 60)
        line = {"kernel": name}
        for side, make in {
            "before": lambda p=profile, s=separable: (fixed_transform if s else fixed_mixture)(p),
            "now": lambda p=profile, n=d: by_dimension(p, n),
        }.items():
            seconds, kernel = cpu_seconds(make, 1)
            error = np.nan if kernel is None else float(np.abs(kernel(distances) - profile(distances)).max())
            line |= {side: error, f"{side}, s": seconds}
        table.append(line)
    return table


# ---------------------------------------------------------------------------------------------------------------------
# Lattices


def korobov(dimension, n, shift):
    """Before: multiples of powers of one number modulo 2^24, chosen for 16 dimensions and smooth periodic functions."""
    bits = 24
    index, reverse = np.arange(n, dtype=np.uint64), np.zeros(n, np.uint64)
    for bit in range(bits):
        reverse |= ((index >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bits - 1 - bit)
    z = np.array([pow(4_402_409, j, 1 << bits) for j in range(dimension)], np.uint64)
    points = ((reverse[:, None] * z % np.uint64(1 << bits)) / (1 << bits) + shift) % 1.0
    return ndtri(np.clip(points, 2.0**-53, 1.0 - 2.0**-53))


def lattices(quick):
    """Normal differences, for which the present lattice is built, and those of rows of real data."""
    n, draws = (64, 4) if quick else (1024, 20)
    table = []
    for d in (2, 8) if quick else (2, 4, 8, 16, 32, 64, 128, 256, 512):
        D = np.random.default_rng(d).normal(size=(200, d)) * np.sqrt(2.0 / d)  # of about a length scale
        table.append({"differences": "normal", "d": d} | _lattice_errors(D, n, draws))
    for data in ("letter",) if quick else ("letter", "pol", "insurance", "a9a", "usps"):
        X = rows_of(data, 400)
        D = X[:200] - X[200:]
        D /= np.sqrt(np.median((D**2).sum(axis=1)))
        table.append({"differences": data, "d": D.shape[1]} | _lattice_errors(D, n, draws))
    return table


def _lattice_errors(D, n, draws):
    rng, d = np.random.default_rng(0), D.shape[1]
    exact = np.exp(-0.5 * (D**2).sum(axis=1))

    def error(W):
        return float(np.mean((np.cos(D @ W.T).mean(axis=1) - exact) ** 2))

    squares = {
        "random": np.mean([error(rng.normal(size=(n, d))) for _ in range(draws)]),
        "before": np.mean([error(korobov(d, n, rng.random(d))) for _ in range(draws)]),
        "now": np.mean([error(Quasi("lattice").sample(d, n, Key(s)).matrix) for s in range(draws)]),
    }
    return {side: float(np.sqrt(squares[side] / squares["random"])) for side in ("before", "now")}


# ---------------------------------------------------------------------------------------------------------------------
# Kept for comparison: KPW and MEKA


def historical(quick):
    table = []
    n = 200 if quick else 2000
    for data in ("usps", "letter"):
        X = rows_of(data, n)
        kernel = RBF("median").resolve(X)
        K = kernel(X)
        for m in (64,) if quick else (64, 128, 256, 512, 1024):
            sides = {
                "KPW rows": lambda s, m=m, k=kernel: FourierFeatures(k, m, rows="kpw", random_state=s),
                "structured rows": lambda s, m=m, k=kernel: FourierFeatures(k, m, rows="structured", random_state=s),
            }
            if m <= 512:
                sides |= {
                    "MEKA": lambda s, m=m, k=kernel: NystromFeatures(k, m, variant="meka", random_state=s),
                    "Nyström": lambda s, m=m, k=kernel: NystromFeatures(k, m, random_state=s),
                }
            for method, make in sides.items():
                errors, times = [], []
                for seed in range(1 if quick else 3):
                    start = time.process_time()
                    Z = make(seed).fit_transform(X)
                    times.append(time.process_time() - start)
                    errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
                found = {"data": data, "method": method, "components": m}
                table.append(found | {"error": float(np.mean(errors)), "seconds": min(times)})
    return table


# ---------------------------------------------------------------------------------------------------------------------
# Greedy fits


def greedy(quick):
    """Ten targets that are sums of the same 60 cosines: one fit after another, as it was, and one fit of all."""
    rng = np.random.default_rng(0)
    n, terms = (200, (2, 4)) if quick else (1000, (4, 8, 16, 32))
    W, A = rng.normal(size=(60, 3)), rng.normal(size=(60, 10))
    A /= np.abs(A).sum(axis=0)
    X, X_new = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    Y, truth = np.cos(X @ W.T) @ A, np.cos(X_new @ W.T) @ A
    size = float(np.sqrt(np.mean(truth**2)))
    table = []
    for T in terms:
        # T frequencies for each of ten targets, or 2 T for all of them
        before, one = cpu_seconds(
            lambda T=T: [greedy_kitchen_sinks(X, y, T, random_state=0).predict(X_new) for y in Y.T], 1
        )
        now, together = cpu_seconds(lambda T=T: greedy_kitchen_sinks(X, Y, 2 * T, random_state=0).predict(X_new), 1)
        for side, seconds, found, count in (
            ("one target at a time", before, np.column_stack(one), 10 * T),
            ("all targets", now, together, 2 * T),
        ):
            error = float(np.sqrt(np.mean((found - truth) ** 2))) / size
            table.append({"fit": side, "frequencies": count, "error": error, "seconds": seconds})
    return table


# ---------------------------------------------------------------------------------------------------------------------
# Mixtures of Gaussians


def ellipsoids(n, d, k, seed, separation):
    """Rows and labels of k Gaussians whose axes are from 1 to 30 long, centres `separation` radii apart."""
    rng = np.random.default_rng(seed)
    lengths = np.geomspace(1.0, 30.0, d)
    centres = rng.normal(size=(k, d)) * separation * np.linalg.norm(lengths) / np.sqrt(2 * d)
    labels = rng.integers(0, k, n)
    axes = [np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(k)]
    return np.array([centres[c] + axes[c] @ (rng.normal(size=d) * lengths) for c in labels]), labels


def one_projection(X, k, seed):
    """Labels as they were found: one projection, one start, and the clusters of that."""
    dimensions = min(X.shape[1], int(np.ceil(4.0 * np.log(k))) + 2)
    Z = bochner.RandomProjection(dimensions, law="gaussian", random_state=seed).fit_transform(X)
    return GaussianMixture(k, init_params="random_from_data", reg_covar=1e-3, random_state=seed).fit_predict(Z)


def mixtures(quick):
    """Clusters found, as the adjusted Rand index, and seconds, over seeds; with diagonal covariances for comparison."""
    settings, seeds = ([(200, 30, 3)], 2) if quick else ([(600, 100, 5), (4000, 20, 5)], 10)
    methods = {
        "before": one_projection,
        "now": lambda X, k, seed: bochner.ProjectedMixture(k, random_state=seed).fit_predict(X),
        "diagonal": lambda X, k, seed: GaussianMixture(
            k, covariance_type="diag", init_params="random_from_data", n_init=5, random_state=seed
        ).fit_predict(X),
    }
    table = []
    for n, d, k in settings:
        for separation in (1.0, 2.0, 3.0):
            row = {"rows": n, "d": d, "separation": separation}
            for name, method in methods.items():
                found, seconds = [], []
                for seed in range(seeds):
                    X, labels = ellipsoids(n, d, k, seed, separation)
                    spent, predicted = cpu_seconds(lambda X=X, s=seed, m=method, k=k: m(X, k, s), 1)
                    found.append(adjusted_rand_score(labels, predicted))
                    seconds.append(spent)
                row |= {name: float(np.mean(found)), f"{name} ±": float(np.std(found, ddof=1) / np.sqrt(seeds))}
                row[f"{name}, s"] = float(np.mean(seconds))
            table.append(row)
    return table


# ---------------------------------------------------------------------------------------------------------------------
# Files


def unpacked(values, m):
    """A triangle row by row, as it was."""
    out, start = np.zeros((m, m), values.dtype), 0
    for i, row in enumerate(out):
        row[i:] = values[start : start + m - i]
        start += m - i
    return out


def files(quick):
    m = 128 if quick else 1024
    X = np.random.default_rng(0).uniform(size=(4 * m, 64)).astype(np.float32)
    y = X[:, 0] + np.sin(5.0 * X[:, 1])
    fastfood = FourierFeatures(RBF(4.0), m, rows="fastfood", random_state=0)
    models = {
        "KernelRidge, Fastfood, to deploy": KernelRidge(features=fastfood, alpha=1.0).fit(X, y),
        "KernelRidge, Nyström": KernelRidge(RBF(4.0), m, features="nystrom", alpha=1.0, random_state=0).fit(X, y),
        "NystromFeatures": NystromFeatures(RBF(4.0), m, landmarks="uniform", random_state=0).fit(X),
    }
    models["KernelRidge, Nyström, to deploy"] = models["KernelRidge, Nyström"]
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            model_file, with_sums, peer = (Path(folder) / ending for ending in ("model", "sums", "joblib"))
            deployed = name.endswith("deploy")
            bochner.save(model, model_file, predict_only=deployed)
            bochner.save(model, with_sums, sums=True)
            joblib.dump(for_predictions(model, fold=deployed), peer)  # what predictions need, for joblib too
            load, _ = cpu_seconds(lambda f=model_file: bochner.load(f), 30)
            theirs, _ = cpu_seconds(lambda f=peer: joblib.load(f), 30)
            # what loading took before: the sums too, BLAKE2b of every byte, and triangles row by row
            former, _ = cpu_seconds(lambda f=with_sums: bochner.load(f), 30)
            text, tensors = containers.read(with_sums)
            former += cpu_seconds(lambda t=text, x=tensors: containers._old_digest(t, x.items()), 30)[0]
            former -= cpu_seconds(lambda t=text, x=tensors: containers.digest(t, x.items()), 30)[0]
            for dtype in [np.float64] * name.startswith("KernelRidge") + [np.float32] * ("Nys" in name):
                triangle = np.zeros(m * (m + 1) // 2, dtype)
                former += cpu_seconds(lambda t=triangle: unpacked(t, m), 30)[0]
                former -= cpu_seconds(lambda t=triangle: unpack_upper(t, m), 30)[0]
            row = {"model": name, "bytes before": with_sums.stat().st_size, "bytes now": model_file.stat().st_size}
            row |= {"joblib bytes": peer.stat().st_size}
            row |= {"load before, ms": 1e3 * former}
            table.append(row | {"load now, ms": 1e3 * load, "joblib load, ms": 1e3 * theirs})
    return table


def markdown(table):
    names = list(table[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in table:
        cells = [row[name] for name in names]
        cells = ["refused" if c != c else f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_on(figure, found):
    axes = figure.subplots(2, 4).ravel()
    before, now, other = "#b0413e", "#2a6f97", "#8a98a5"

    axis, table = axes[0], found["spectra"]
    for i, row in enumerate(table):
        for side, colour in (("before", before), ("now", now)):
            refused = row[side] != row[side]
            axis.plot(2.0 if refused else max(row[side], RESOLVED), i, "x" if refused else "o", color=colour)
    axis.set_xscale("log")
    axis.axvline(1e-3, color="#8a98a5", linestyle=":")
    axis.set_yticks(range(len(table)), [row["kernel"] for row in table], fontsize=6)
    axis.invert_yaxis()
    axis.set(xlabel="largest error (× : refused)", title="kernels given by a function")

    axis, table = axes[1], [row for row in found["lattices"] if row["differences"] == "normal"]
    real = [row for row in found["lattices"] if row["differences"] != "normal"]
    axis.plot([row["d"] for row in real], [row["before"] for row in real], "x", color=before)
    axis.plot([row["d"] for row in real], [row["now"] for row in real], "x", color=now, label="now, real data")
    d = [row["d"] for row in table]
    axis.semilogx(d, [row["before"] for row in table], "o-", color=before, label="before")
    axis.semilogx(d, [row["now"] for row in table], "o-", color=now, label="now")
    axis.axhline(1.0, color="#8a98a5", linestyle=":")
    axis.set_xticks(d, [str(value) for value in d])
    axis.set(
        xlabel="dimensions", ylabel="error / that of random points", title="lattices, 1,024 points", ylim=(0, None)
    )
    axis.legend()

    for axis, pair in ((axes[2], ("KPW rows", "structured rows")), (axes[3], ("MEKA", "Nyström"))):
        for method, colour in zip(pair, (before, now), strict=True):
            for data, style in (("usps", "-"), ("letter", "--")):
                rows = [r for r in found["historical"] if r["method"] == method and r["data"] == data]
                seconds, errors = [r["seconds"] for r in rows], [r["error"] for r in rows]
                axis.loglog(seconds, errors, "o" + style, color=colour, label=f"{method}, {data}")
        axis.set(xlabel="CPU seconds, 2,000 rows", ylabel="relative error", title=f"{pair[0]}: for comparison only")
        axis.legend(fontsize=6)

    axis = axes[4]
    for side, colour in (("one target at a time", before), ("all targets", now)):
        rows = [r for r in found["greedy"] if r["fit"] == side]
        axis.loglog([r["seconds"] for r in rows], [r["error"] for r in rows], "o-", color=colour, label=side)
    axis.set(xlabel="CPU seconds", ylabel="relative error, new rows", title="greedy fits of ten targets")
    axis.legend()

    axis = axes[5]
    for n, style in zip(dict.fromkeys(row["rows"] for row in found["mixtures"]), ("-", "--"), strict=False):
        rows = [row for row in found["mixtures"] if row["rows"] == n]
        for side, colour in (("before", before), ("now", now), ("diagonal", other)):
            heights, errors = [row[side] for row in rows], [2 * row[f"{side} ±"] for row in rows]
            label = f"{side}, {n:,} × {rows[0]['d']}"
            axis.errorbar([1, 2, 3], heights, errors, fmt="o" + style, color=colour, label=label, capsize=2)
    axis.set(xlabel="separation, in radii", ylabel="adjusted Rand index", title="mixtures by projection")
    axis.legend(fontsize=6)

    table = found["files"]
    for axis, what, unit in ((axes[6], "bytes", ""), (axes[7], "load", ", ms")):
        for i, row in enumerate(table):
            peer = row["joblib bytes" if what == "bytes" else "joblib load, ms"]
            for name, value, colour in (
                ("before", row[f"{what} before{unit}"], before),
                ("now", row[f"{what} now{unit}"], now),
                ("joblib, now", peer, other),
            ):
                axis.plot(value, i, "o", color=colour, label=None if i else name)
        axis.set_xscale("log")
        axis.set_yticks(range(len(table)), [row["model"].replace(", ", ",\n") for row in table], fontsize=6)
        axis.set_ylim(len(table) - 0.4, -0.6)
        axis.legend(fontsize=6)
    axes[6].set(xlabel="bytes", title="model files, 1,024 components")
    axes[7].set(xlabel="CPU milliseconds to load", title="model files, 1,024 components")


PAGE = """# What was replaced

Methods of the first versions beside what there is now, both run on the same data in one process; CPU seconds of one
thread. `python benchmarks/bench_replaced.py --write` makes this page; the former methods are stated again in the
script.

![Former methods beside present ones](replaced.png)

## Kernels given by a function

The largest error of the kernel that the frequencies found belong to, up to four length scales. Before, distances were
taken from a fixed range; a kernel that is positive definite in the dimension of the data only was refused. Now the
range is the function's own, quadrature is adaptive, and the error is estimated and kept below 0.001. Present errors are
those of 40,000 quantiles, which do not resolve errors below some 1e-6.

{spectra}

## Lattices

Root mean square error of the Gaussian kernel at differences of about a length scale, 1,024 frequencies, over that of
random ones (20 draws), and at differences of rows of real data. Before: a Korobov lattice. Now: built component by
component for normal differences.

{lattices}

## KPW and MEKA

Both are there for comparison with what was published, not for use: at equal time structured rows and landmarks have
smaller errors. Relative Frobenius error of the Gaussian kernel matrix of 2,000 rows, three draws.

{historical}

## Greedy fits

Ten targets that share their frequencies, orthogonal matching pursuit; relative error on new rows. Before, a fit had one
target.

{greedy}

## Mixtures of Gaussians by projection

Five ellipsoids with axes from 1 to 30, in fewer rows than the numbers of a covariance and in many: clusters found
(adjusted Rand index, mean ± standard error of ten seeds) and CPU seconds. Before: one projection and one start, in a
script. Now: `ProjectedMixture`, the best of five by the likelihood in all dimensions. EM with diagonal covariances in
all dimensions, the best of five starts, is there for comparison.

{mixtures}

## Model files

Bytes with the sums, as every file had them, and without; the time to load such a file with the former checksum and
the former way to unpack triangles in their places, the time to load what is written now, and joblib's for the same
content. "To deploy" is `save(predict_only=True)`.

{files}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {}
    for part in (spectra, lattices, historical, greedy, mixtures, files):
        start = time.process_time()
        found[part.__name__] = part(options.quick)
        print(
            f"\n{part.__name__} ({time.process_time() - start:.1f} CPU s)\n{markdown(found[part.__name__])}", flush=True
        )
    if options.write:
        save_figure(lambda figure: draw_on(figure, found), (17.0, 7.4), DOCS / "replaced.png")
        (DOCS / "replaced.md").write_text(PAGE.format(**{name: markdown(table) for name, table in found.items()}))


if __name__ == "__main__":
    main()
