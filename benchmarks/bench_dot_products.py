"""Kernel error at equal columns for a kernel of x·y: published random Maclaurin features, CRAFT, sketches, ours.

Relative Frobenius error of (x·y)² on data scaled to [0, 1], mean and standard error over seeds; ratios below 1 are
better than scikit-learn's PolynomialCountSketch. "oblivious" maps look at no data but the number of columns.
Real data through BOCHNER_DATA; without it synthetic rows of the same shape are used, and said so.
"""

import argparse
import time

import numpy as np
from sklearn.kernel_approximation import PolynomialCountSketch

from bochner import CompactFeatures, KernelFeatures, MaclaurinFeatures, Polynomial, TensorSketchFeatures, datasets


def unit_cube(X):
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


def rows_of(name, n):
    if datasets.folder() is None:
        d = {"usps": 256, "letter": 16}[name]
        print(f"\nBOCHNER_DATA is not set: {name} is replaced by synthetic rows, products of uniforms")
        rng = np.random.default_rng(0)
        return unit_cube(rng.random((n, d)) * rng.random((n, 1)))
    X = datasets.load(name).X
    return unit_cube(X[np.random.default_rng(0).choice(len(X), n, replace=False)].astype(float))


def maps(kernel, degree, D):
    def published(s, columns):
        return MaclaurinFeatures(kernel, columns, allocation="geometric", random_state=s)

    def tensor(s, **params):
        return TensorSketchFeatures(kernel, D, random_state=s, **params)

    peer = "PolynomialCountSketch (scikit-learn)"
    return peer, {
        "Maclaurin, published": lambda s: published(s, D),
        "CRAFT: published, 4 D up, SRHT down": lambda s: CompactFeatures(published(s, D), D, random_state=s),
        peer: lambda s: PolynomialCountSketch(degree=degree, n_components=D, random_state=s),
        "TensorSketch, oblivious": lambda s: tensor(s, direction=None),
        "complex SRHT, oblivious": lambda s: tensor(s, direction=None, factors="complex_srht"),
        "TensorSketch along the ones, oblivious": lambda s: tensor(s, direction="ones"),
        "TensorSketch along the mean (default)": tensor,
        "Maclaurin, optimal": lambda s: MaclaurinFeatures(kernel, D, random_state=s),
        "KernelFeatures": lambda s: KernelFeatures(kernel, D, random_state=s),
    }


def measure(X, K, make, seeds):
    errors, seconds = [], []
    for s in range(seeds):
        start = time.perf_counter()
        Z = make(s).fit_transform(X)
        seconds.append(time.perf_counter() - start)
        errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
    return np.mean(errors), np.std(errors, ddof=1) / np.sqrt(seeds), min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--offset", type=float, default=0.0)
    options = parser.parse_args()
    for name in ("usps", "letter"):
        X = rows_of(name, options.rows)
        kernel = Polynomial(options.degree, gamma=1.0, coef0=options.offset)
        K = kernel(X)
        peer, table = maps(kernel, options.degree, options.columns)
        if options.offset:
            table[peer] = lambda s: PolynomialCountSketch(
                degree=options.degree, coef0=options.offset, n_components=options.columns, random_state=s
            )
        found = {label: measure(X, K, make, options.seeds) for label, make in table.items()}
        print(f"\n{name}, {X.shape[1]} features, {options.columns} columns, {options.seeds} seeds")
        for label, (error, spread, seconds) in found.items():
            ratio = error / found[peer][0]
            print(f"  {label:40s} error {error:.4f} ± {spread:.4f}   ratio {ratio:5.2f}   {1e3 * seconds:7.1f} ms")


if __name__ == "__main__":
    main()
