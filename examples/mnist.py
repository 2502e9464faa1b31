"""Handwritten digits: MNIST where BOCHNER_DATA has it, scikit-learn's small digits where not.

Landmarks and a squared loss: one pass over the images, one linear system. Prints error and seconds as columns grow.

Run ``python examples/mnist.py [COLUMNS …]``.
"""

import sys
import time

import numpy as np
from sklearn.datasets import load_digits

from bochner import KernelClassifier, datasets


def images():
    if datasets.folder() is not None and "mnist" in datasets.available():
        data = datasets.load("mnist")
        return "MNIST", data.X / np.float32(255), data.y, data.n_train
    X, y = load_digits(return_X_y=True)
    return "digits", X.astype(np.float32) / 16, y, 1200


def main(columns=(512, 1024, 2048), limit=None):
    name, X, y, n_train = images()
    train, test = slice(0, min(n_train, limit or n_train)), slice(n_train, None)
    print(f"{name}: {train.stop:,} images to learn from, {len(X) - n_train:,} to test on")
    errors = []
    for m in columns:
        start = time.perf_counter()
        model = KernelClassifier(n_components=m, features="nystrom", loss="squared", random_state=0)
        model.fit(X[train], y[train])
        seconds = time.perf_counter() - start
        errors.append(1 - model.score(X[test], y[test]))
        print(f"  {m:6d} columns: {errors[-1]:.2%} wrong, {seconds:.1f} s")
    return errors


if __name__ == "__main__":
    main(*[tuple(map(int, sys.argv[1:]))] if sys.argv[1:] else ())
