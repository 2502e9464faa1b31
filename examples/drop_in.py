"""Change one line: scikit-learn's RBFSampler in a pipeline, and what FourierFeatures does in its place.

Run ``python examples/drop_in.py``.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from bochner import RBF, FourierFeatures

LENGTH_SCALE = 25.0


def main(n_components=256, n_seeds=5):
    X, y = load_digits(return_X_y=True)
    scores = {"RBFSampler": [], "FourierFeatures": []}
    for seed in range(n_seeds):
        theirs = RBFSampler(gamma=0.5 / LENGTH_SCALE**2, n_components=n_components, random_state=seed)
        ours = FourierFeatures(RBF(LENGTH_SCALE), n_components, random_state=seed)  # the one line
        for name, features in (("RBFSampler", theirs), ("FourierFeatures", ours)):
            scores[name].append(cross_val_score(make_pipeline(features, RidgeClassifier()), X, y, cv=5).mean())
    print(f"digits, {n_components} columns, five-fold accuracy over {n_seeds} draws")
    for name, values in scores.items():
        print(f"  {name:16s} {np.mean(values):.4f}")
    return {name: float(np.mean(values)) for name, values in scores.items()}


if __name__ == "__main__":
    main()
