"""Which law of frequencies suits handwritten digits? A table in the terminal and the picture of the README.

Every way of drawing frequencies against scikit-learn's RBFSampler on the 1,797 digits that scikit-learn ships:
relative error of the approximated kernel matrix, and the speed of transforming 20,000 of them.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler

from bochner import RBF, FourierFeatures

COLUMNS = (64, 128, 256, 512, 1024, 2048)
LAWS = ("orthogonal", "structured", "quasi", "iid", "circulant", "fastfood", "fastfood_fft", "kpw")
LABELS = {"structured": "structured (Hadamard)", "quasi": "quasi (Sobol')", "iid": "iid (Rahimi–Recht)"}
N_SEEDS = 5


def relative_error(Z, K):
    return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


def seconds(transform, X):
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        transform(X)
        best = min(best, time.perf_counter() - start)
    return best


def candidates(kernel):
    """name -> maker of an unfitted transformer with that many columns and that seed."""
    gamma = 0.5 / kernel.length_scale**2
    makers = {"RBFSampler": lambda n, seed: RBFSampler(gamma=gamma, n_components=n, random_state=seed)}
    for law in LAWS:
        makers[law] = lambda n, seed, law=law: FourierFeatures(kernel, n, rows=law, random_state=seed)
    return makers


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--picture", type=Path, default=Path("demo-output/rows.png"))
    options = parser.parse_args(arguments)
    X = load_digits().data.astype(np.float32)
    kernel = RBF("median").resolve(X)
    K = kernel(X)
    many = np.tile(X, (12, 1))[:20_000]
    print(f"{len(X)} digits of {X.shape[1]} pixels, RBF kernel, length scale {kernel.length_scale:.1f}\n")
    curves, rows = {}, []
    for name, make in candidates(kernel).items():
        curves[name] = [
            np.mean([relative_error(make(n, seed).fit_transform(X), K) for seed in range(options.seeds)])
            for n in COLUMNS
        ]
        rows.append((name, curves[name][-2], seconds(make(1024, 0).fit(X).transform, many)))
        print(f"  {name} done", flush=True)
    peer_error, peer_time = next((error, t) for name, error, t in rows if name == "RBFSampler")
    print(f"\n{'rows, 1024 columns':24s} {'kernel error':>12s} {'of RBFSampler':>14s} {'speed-up':>9s}")
    for name, error, t in sorted(rows, key=lambda row: row[1]):
        print(f"{LABELS.get(name, name):24s} {error:12.4f} {error / peer_error:13.0%} {peer_time / t:8.1f}×")
    auto = FourierFeatures(kernel, 1024, random_state=0).fit(X).rows_
    print(f'\nrows="auto" would take {auto!r} here.')
    print(f"The picture is in {draw(curves, options.picture)}")
    return curves


def draw(curves, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
    strong = {"RBFSampler": "black", "orthogonal": "C0", "structured": "C1", "quasi": "C2"}
    for name, curve in sorted(curves.items(), key=lambda item: item[1][-1], reverse=True):
        axes.loglog(
            COLUMNS,
            curve,
            "o-",
            label=LABELS.get(name, name),
            color=strong.get(name, "0.75"),
            linewidth=2.2 if name in strong else 1.0,
            zorder=3 if name in strong else 1,
        )
        if name not in strong:
            axes.annotate(
                name, (COLUMNS[-1], curve[-1]), xytext=(6, -3), textcoords="offset points", fontsize=7, color="0.5"
            )
    axes.set_xticks(COLUMNS, [str(n) for n in COLUMNS])
    axes.minorticks_off()
    axes.set_xlabel("columns")
    axes.set_ylabel("relative error of the kernel matrix")
    axes.set_title("Digits: the same columns, drawn better")
    handles, labels = axes.get_legend_handles_labels()
    named = [
        (h, lab)
        for h, lab, name in zip(handles, labels, sorted(curves, key=lambda k: -curves[k][-1]), strict=True)
        if name in strong
    ]
    axes.legend(*zip(*named, strict=True), frameon=False, loc="lower left")
    axes.grid(alpha=0.2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    main()
