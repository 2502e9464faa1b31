"""What learning the frequencies gains over drawing them, at equal columns.

A ridge model (or logistic regression) on 64 columns: random Fourier features against `LearnedFeatures`, dense and
circulant, after more and more iterations of L-BFGS. The error is on validation rows that neither has seen, and the
penalty of each is the best of a few on them. Real data through BOCHNER_DATA; without it one synthetic set.
"""

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from bochner import FourierFeatures, LearnedFeatures, datasets

ITERATIONS = (3, 10, 30, 100)


def synthetic():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 10))
    return X, np.sin(2 * X[:, 0] + X[:, 1]) + 0.5 * np.cos(X[:, 2] - X[:, 3]) + 0.1 * rng.normal(size=len(X))


def sets(rows):
    yield "synthetic", *synthetic()
    if datasets.folder() is None:
        print("BOCHNER_DATA is not set: no real data")
        return
    for name in ("kin40k", "protein", "cpu", "usps"):
        data = datasets.load(name)
        index = np.random.default_rng(0).permutation(data.X.shape[0])[:rows]
        yield name, data.X[index].astype(float), data.y[index]


def split(X, y):
    n = 2 * len(X) // 3
    mean, scale = X[:n].mean(axis=0), X[:n].std(axis=0)
    X = (X - mean) / np.where(scale > 0, scale, 1.0)
    if y.dtype.kind == "f":
        y = (y - y[:n].mean()) / y[:n].std()
    return X[:n], y[:n], X[n:], y[n:]


def error(features, X, y, X_new, y_new):
    """Relative mean square error of numbers, share of wrong classes."""
    Z, Z_new = features.transform(X), features.transform(X_new)
    if y.dtype.kind == "f":
        fits = [Ridge(alpha).fit(Z, y).predict(Z_new) for alpha in (1e-3, 1e-2, 1e-1, 1.0)]
        return min(np.mean((fit - y_new) ** 2) / np.var(y_new) for fit in fits)
    return min(1.0 - LogisticRegression(C=C, max_iter=300).fit(Z, y).score(Z_new, y_new) for C in (1.0, 30.0))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--rows", type=int, default=3000)
    options = parser.parse_args()
    D = options.columns
    print(f"{D} columns; validation error, and its ratio to that of random frequencies")
    for name, X, y in sets(options.rows):
        data = split(X, y)
        random = np.mean([error(FourierFeatures("rbf", D, random_state=s).fit(data[0]), *data) for s in range(3)])
        wide = error(FourierFeatures("rbf", 8 * D, random_state=0).fit(data[0]), *data)
        print(f"\n{name}, {X.shape[1]} features: random {random:.4f}; random with {8 * D} columns {wide:.4f}")
        for circulant in (False, True):
            line = f"  learned{', circulant' if circulant else '':11s}"
            for max_iter in ITERATIONS:
                start = time.perf_counter()
                features = LearnedFeatures("rbf", D, circulant=circulant, max_iter=max_iter, random_state=0)
                value = error(features.fit(*data[:2]), *data)
                line += f"   {max_iter:3d} its {value:.4f} ({value / random:.2f}, {time.perf_counter() - start:.0f} s)"
            print(line)


if __name__ == "__main__":
    main()
