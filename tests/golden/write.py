"""Small models of every class, written to this folder: files that later versions must keep loading.

``python tests/golden/write.py`` writes those that are missing. Until the first release a change of the format may
delete files and write them anew; after it, run this only to add files.
"""

from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.base import is_classifier

import bochner
from bochner import RBF, Linear, Matern, Polynomial
from bochner.sampling import ROW_LAWS
from bochner.sketches import SKETCH_LAWS

HERE = Path(__file__).parent
N_FEATURES = 3
OUTPUTS = ("transform", "predict", "predict_proba", "decision_function")


def models():
    """Name → unfitted estimator."""
    seed = {"random_state": 0}
    plain = {
        "AdditiveChi2Features": bochner.AdditiveChi2Features(n_components=7, **seed),
        "AdditiveChi2Features-samples": bochner.AdditiveChi2Features(),
        "CompactFeatures": bochner.CompactFeatures(n_components=4, **seed),
        "GaussianProcessRegressor": bochner.GaussianProcessRegressor(RBF(1.0), 8, **seed),
        "KernelClassifier": bochner.KernelClassifier(RBF(1.0), 8, alpha=0.1, **seed),
        "KernelClassifier-squared": bochner.KernelClassifier(RBF(1.0), 8, alpha=0.1, loss="squared", **seed),
        "KernelFeatures": bochner.KernelFeatures(RBF(1.0) * Linear() + Matern(1.0).on([0]), n_components=9, **seed),
        "KernelKMeans": bochner.KernelKMeans(3, kernel=RBF(0.5), n_components=8, **seed),
        "KernelPCA": bochner.KernelPCA(2, kernel=RBF(0.5), n_feature_components=8, **seed),
        "KernelRidge": bochner.KernelRidge(RBF(0.5), 8, **seed),
        "KernelRidge-nystrom": bochner.KernelRidge("laplacian", 8, features="nystrom", alpha=0.1, **seed),
        "KitchenSinkFeatures": bochner.KitchenSinkFeatures(n_components=6, **seed),
        "LearnedFeatures": bochner.LearnedFeatures(n_components=5, max_iter=3, **seed),
        "LearnedFeatures-circulant": bochner.LearnedFeatures(n_components=5, max_iter=3, circulant=True, **seed),
        "MaclaurinFeatures": bochner.MaclaurinFeatures(Polynomial(2), n_components=8, **seed),
        "MonomialFeatures": bochner.MonomialFeatures(Polynomial(3)),
        "NystromFeatures": bochner.NystromFeatures("matern32", 6, **seed),
        "NystromFeatures-meka": bochner.NystromFeatures("rbf", 6, variant="meka", **seed),
        "NystromFeatures-ensemble": bochner.NystromFeatures("rbf", 6, variant="ensemble", **seed),
        "RandomBinningFeatures": bochner.RandomBinningFeatures(16, n_grids=5, **seed),
        "TabularClassifier": bochner.TabularClassifier(max_seconds=0.5, leaf_size=20, **seed),
        "TabularRegressor": bochner.TabularRegressor("exponential", max_seconds=0.5, leaf_size=20, **seed),
        "TensorSketchFeatures": bochner.TensorSketchFeatures(n_components=8, **seed),
        "TensorSketchFeatures-srht": bochner.TensorSketchFeatures(
            n_components=9, factors="complex_srht", direction=None, **seed
        ),
    }
    for law in ROW_LAWS:
        plain[f"FourierFeatures-{law}"] = bochner.FourierFeatures(RBF([0.5, 1.0, 2.0]), 9, rows=law, **seed)
    for form in ("offset", "complex"):
        plain[f"FourierFeatures-{form}"] = bochner.FourierFeatures(Matern(1.0), 6, form=form, **seed)
    for law in SKETCH_LAWS:
        plain[f"RandomProjection-{law}"] = bochner.RandomProjection(2, law=law, dense_output=True, **seed)
    return plain


def training_rows():
    """Rows, numbers and labels."""
    X = np.random.default_rng(0).uniform(0.1, 1.0, size=(40, N_FEATURES))
    return X, X[:, 0] + np.sin(3.0 * X[:, 1]), np.where(X[:, 0] > 0.6, "high", np.where(X[:, 1] > 0.5, "mid", "low"))


def new_rows():
    """Rows to predict, in both precisions."""
    X = np.random.default_rng(1).uniform(0.1, 1.0, size=(5, N_FEATURES))
    return {"float64": X, "float32": X.astype(np.float32)}


def outputs(model):
    """Name of the method and dtype → array."""
    found = {}
    for dtype, X in new_rows().items():
        for name in OUTPUTS:
            if hasattr(model, name):
                value = getattr(model, name)(X)
                found[f"{name}-{dtype}"] = value.toarray() if scipy.sparse.issparse(value) else np.asarray(value)
    return found


def main():
    """Write what is missing."""
    X, y, labels = training_rows()
    for name, model in models().items():
        path = HERE / f"{name}.safetensors"
        if not path.exists():
            model.fit(X, labels if is_classifier(model) else y)
            bochner.save(model, path, sums=True)
            np.savez_compressed(HERE / f"{name}.npz", **outputs(model))


if __name__ == "__main__":
    main()
