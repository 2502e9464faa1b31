"""Model files against joblib pickles: bytes on disk and time to load, for every class; and the ONNX graphs' sizes.

    python benchmarks/bench_files.py            # prints a Markdown table (about a minute on two cores)
    python benchmarks/bench_files.py --write    # and writes docs/files.md
    python benchmarks/bench_files.py --quick    # fewer columns: a few seconds

Models learn 1,024 columns from 4,000 × 64 rows of float32; times are CPU seconds, the best of
seven, file in the page cache.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
import warnings
from copy import copy
from pathlib import Path

import joblib
import numpy as np

import bochner
from bochner import RBF, Linear, Polynomial
from bochner.persistence.deployment import for_predictions

DEPLOYED = ("KernelRidge", "KernelClassifier", "KernelKMeans", "ProjectedMixture")  # of which less is needed
DOCS = Path(__file__).parents[1] / "docs" / "files.md"


def models(m):
    """Name → (unfitted estimator, training rows are a slice of the data)."""
    seed = {"random_state": 0}
    return {
        "FourierFeatures, orthogonal": bochner.FourierFeatures("rbf", m, rows="orthogonal", **seed),
        "FourierFeatures, structured": bochner.FourierFeatures("rbf", m, rows="structured", **seed),
        "FourierFeatures, fastfood": bochner.FourierFeatures("rbf", m, rows="fastfood", **seed),
        "NystromFeatures": bochner.NystromFeatures("rbf", m, landmarks="uniform", **seed),
        "MaclaurinFeatures": bochner.MaclaurinFeatures(Polynomial(2), m, **seed),
        "TensorSketchFeatures": bochner.TensorSketchFeatures(Polynomial(3), m, **seed),
        "KitchenSinkFeatures": bochner.KitchenSinkFeatures("relu", m, rows="structured", **seed),
        "KernelFeatures": bochner.KernelFeatures(RBF("median") * Linear() + RBF("median"), n_components=m, **seed),
        "MonomialFeatures": bochner.MonomialFeatures(Polynomial(2)),
        "CompactFeatures": bochner.CompactFeatures(n_components=m // 4, **seed),
        "RandomBinningFeatures": bochner.RandomBinningFeatures(4 * m, n_grids=128, **seed),
        "AdditiveChi2Features": bochner.AdditiveChi2Features(n_components=m, **seed),
        "LearnedFeatures": bochner.LearnedFeatures(n_components=32, max_iter=5, **seed),
        "RandomProjection": bochner.RandomProjection(32, **seed),
        "KernelRidge, structured": bochner.KernelRidge(
            features=bochner.FourierFeatures("rbf", m, rows="structured", **seed), alpha=1.0
        ),
        "KernelRidge, Nyström": bochner.KernelRidge(RBF(4.0), m, features="nystrom", alpha=1.0, **seed),
        "KernelClassifier": bochner.KernelClassifier(RBF(4.0), m, alpha=1.0, **seed),
        "GaussianProcessRegressor": bochner.GaussianProcessRegressor(RBF(4.0), m // 2, noise_variance=0.1, **seed),
        "KernelPCA": bochner.KernelPCA(8, kernel=RBF(4.0), n_feature_components=m // 2, **seed),
        "KernelKMeans": bochner.KernelKMeans(8, kernel=RBF(4.0), n_components=m // 2, n_init=1, max_iter=5, **seed),
        "ProjectedMixture": bochner.ProjectedMixture(8, n_init=1, **seed),
        "TabularRegressor": bochner.TabularRegressor(n_members=1, max_seconds=5.0, **seed),
    }


def best_of(function, repeats=7):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def size(n):
    return f"{n / 1e6:.2f} MB" if n >= 1e6 else f"{n / 1e3:.1f} kB"


def content(model, sums=False, predict_only=False, weights=None):
    """What a file has of a model, for joblib; coefficients have all digits there."""
    made = for_predictions(model) if predict_only else copy(model)
    if hasattr(made, "statistics_") and not sums:
        made.statistics_ = copy(made.statistics_)
        made.statistics_.gram = None
    return made


def measure(name, model, X, folder, **options):
    """One row of the table."""
    paths = {kind: folder / f"model.{kind}" for kind in ("safetensors", "joblib", "onnx")}
    bochner.save(model, paths["safetensors"], **options)
    again = bochner.load(paths["safetensors"])
    joblib.dump(content(model, **options), paths["joblib"])
    method = "predict" if hasattr(model, "predict") else "transform"
    a, b = (getattr(one, method)(X[:50]) for one in (model, again))
    same = (a != b).nnz == 0 if hasattr(a, "nnz") else np.array_equal(a, b)
    assert same or "weights" in options, name
    ours = best_of(lambda: bochner.load(paths["safetensors"]))
    theirs = best_of(lambda: joblib.load(paths["joblib"]))
    try:
        bochner.export_onnx(model, paths["onnx"])
        graph = size(paths["onnx"].stat().st_size)
    except (ImportError, ValueError):  # no onnx here, or no graph of this model
        graph = "–"
    sizes = [paths[kind].stat().st_size for kind in ("safetensors", "joblib")]
    cells = [
        name,
        size(sizes[0]),
        size(sizes[1]),
        f"{sizes[0] / sizes[1]:.2f}",
        f"{1e3 * ours:.1f} ms",
        f"{1e3 * theirs:.1f} ms",
        graph,
    ]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    m, n, d = (128, 500, 64) if options.quick else (1024, 4000, 64)
    X = np.random.default_rng(0).uniform(0.0, 1.0, size=(n, d)).astype(np.float32)
    y = X[:, 0] + np.sin(5.0 * X[:, 1])
    labels = (4.0 * X[:, 0]).astype(int)
    lines = [
        "| model | file | joblib | ratio | load | joblib load | ONNX graph |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    print(*lines, sep="\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, model in models(m).items():
            model.fit(X, labels if isinstance(model, bochner.KernelClassifier) else y)
            lines.append(measure(title, model, X, folder))
            print(lines[-1], flush=True)
            if title.startswith(DEPLOYED):
                lines.append(measure(f"{title}, predict_only", model, X, folder, predict_only=True))
                print(lines[-1], flush=True)
            if title in ("KernelRidge, structured", "KernelClassifier"):
                half = {"predict_only": True, "weights": "float16"}
                lines.append(measure(f"{title}, predict_only, float16", model, X, folder, **half))
                print(lines[-1], flush=True)
            if hasattr(model, "statistics_"):
                lines.append(measure(f"{title}, with its sums", model, X, folder, sums=True))
                print(lines[-1], flush=True)
        frequencies, width = (4096, 512) if options.quick else (65536, 8192)
        wide = np.random.default_rng(0).normal(size=(2, width)).astype(np.float32)
        for law in ("structured", "fastfood"):
            model = bochner.FourierFeatures(RBF(100.0), 2 * frequencies, rows=law, random_state=0).fit(wide)
            title = f"FourierFeatures, {law}, {frequencies:,} frequencies in {width:,} dimensions"
            lines.append(measure(title, model, wide, folder))
            print(lines[-1], flush=True)
    if options.write:
        machine = {"machine": platform.machine(), "load": os.getloadavg()[0], "cores": os.cpu_count()}
        DOCS.write_text(PAGE.format(m=m, n=n, d=d, table="\n".join(lines), **machine))


PAGE = """# Sizes of model files

Bytes on disk and time to load of `bochner.save` / `bochner.load` against `joblib.dump` / `joblib.load`, and the size of
the graph that `bochner.export_onnx` writes. Models of {m} components (Gaussian processes, KernelPCA and
KernelKMeans: half of them) from {n:,} × {d} rows of float32, on {machine} with a load
average of {load:.1f} on {cores} cores; files in the page cache, CPU seconds, best of seven.
`python benchmarks/bench_files.py --write` makes this page.

{table}

- Signs are stored as bits, indices in the smallest integer type, triangular matrices without
  their zeros, and equal arrays once. A structured map takes four bytes and three bits for each frequency.
- Random numbers are stored and not drawn again from their seed: NumPy promises the same stream for the same seed within
  one version only, and a file must give the same predictions in the next one.
- `load` reads the file once, checks a checksum of everything and looks at every index before compiled code does;
  `joblib.load` runs any code that is in the file.
- With `sums=True` a file has the sums that `partial_fit` and `merge` add to, m² / 2 numbers of float64. joblib's files
  are of models with the same content; as fitted, models have their sums in them.
- With `predict_only=True` a model with Nyström features has landmarks and their weights, and clusterings have no labels
  of the training rows. A table's model is exact: all rows of its leaves are landmarks.
"""


if __name__ == "__main__":
    main()
