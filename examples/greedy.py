"""Greedy against random frequencies: the error after T waves, and the line C/√T that bounds both.

The target is a known mixture of waves, f(x) = Σ a_j cos(w_j·x + b_j), so that C = Σ|a_j| is known and the theorems of
Jones (greedy) and Rahimi & Recht (random) speak about it. Random kitchen sinks draw T frequencies and solve one linear
system; the greedy fits search for each frequency. Root mean square errors on new points, mean over seeds.
Writes greedy.png beside the numbers when matplotlib is installed and a folder is given.

    python examples/greedy.py [--seeds 5] [--figure FOLDER]
"""

import argparse
import time
from pathlib import Path

import numpy as np

from bochner import RBF, greedy_kitchen_sinks, kitchen_sinks

TERMS = (1, 2, 4, 8, 16, 32, 64)


def target(seed, d=3, n_waves=200):
    rng = np.random.default_rng(seed)
    W, b = rng.normal(size=(n_waves, d)), rng.uniform(0, 2 * np.pi, n_waves)
    a = rng.normal(size=n_waves) / n_waves
    return (lambda X: np.cos(X @ W.T + b) @ a), float(np.abs(a).sum())


def rms(prediction, truth):
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


def run(seed):
    rng = np.random.default_rng(100 + seed)
    f, C = target(seed)
    X, X_test = rng.normal(size=(1500, 3)), rng.normal(size=(1500, 3))
    y, truth = f(X), f(X_test)
    kernel = RBF(1.0)  # its spectrum is the law the waves were drawn from
    errors, seconds = {}, {}
    start = time.perf_counter()
    errors["random"] = [
        rms(kitchen_sinks(X, y, X_test, 2 * T, 1e-4, kernel=kernel, random_state=seed), truth) for T in TERMS
    ]
    seconds["random"] = time.perf_counter() - start
    for method in ("jones", "omp"):
        start = time.perf_counter()
        fits = [greedy_kitchen_sinks(X, y, T, method=method, kernel=kernel, random_state=seed) for T in TERMS]
        seconds[method] = time.perf_counter() - start
        errors[method] = [rms(fit.predict(X_test), truth) for fit in fits]
    errors["C/√T"] = [C / np.sqrt(T) for T in TERMS]
    return errors, seconds


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--figure", type=Path, default=None, help="folder for greedy.png")
    options = parser.parse_args(arguments)
    runs = [run(seed) for seed in range(options.seeds)]
    means = {name: np.mean([errors[name] for errors, _ in runs], axis=0) for name in runs[0][0]}
    print("waves T  " + "".join(f"{T:>9d}" for T in TERMS) + "   slope   seconds")
    for name, values in means.items():
        slope = np.polyfit(np.log(TERMS[2:]), np.log(values[2:]), 1)[0]
        cost = f"{np.mean([s[name] for _, s in runs]):8.2f}" if name in runs[0][1] else ""
        print(f"{name:8s} " + "".join(f"{value:9.4f}" for value in values) + f"   {slope:5.2f}  {cost}")
    if options.figure is not None:
        draw(means, options.figure)
    return means


def draw(means, folder):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, values in means.items():
        axes.loglog(TERMS, values, "k--" if name == "C/√T" else "o-", label=name)
    axes.set_xlabel("waves T")
    axes.set_ylabel("root mean square error on new points")
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(folder / "greedy.png", dpi=120)
    print(f"figure: {folder / 'greedy.png'}")


if __name__ == "__main__":
    main()
