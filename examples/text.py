"""Word pairs without counting them: a polynomial kernel on sparse text through TensorSketch.

Posts about two subjects, told apart by which words come together, not by the words alone: a linear model sees
nothing, a kernel of degree two sees the pairs, and TensorSketch gives it in O(nonzeros) a row without ever forming
the d² pairs. With BOCHNER_DATA set, 20 newsgroups is classified as well.

Run ``python examples/text.py``.
"""

import time

import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import normalize

from bochner import Polynomial, TensorSketchFeatures, datasets


def pair_posts(n, n_terms=4000, seed=0):
    """Rows of 20 words and two of eight marks; the subject is whether the two marks are of the same half."""
    rng = np.random.default_rng(seed)
    words = rng.integers(8, n_terms, (n, 20))
    marks = np.column_stack([rng.integers(0, 4, n), rng.integers(4, 8, n)])
    y = (marks[:, 0] < 2) == (marks[:, 1] < 6)
    places = np.repeat(np.arange(n), 22), np.hstack([words, marks]).ravel()
    values = np.tile(np.r_[np.full(20, 0.3), np.full(2, 1.0)], n)
    return scipy.sparse.csr_matrix((values, places), shape=(n, n_terms)), y


def main(n_rows=6000, n_components=2048, newsgroups=True):
    X, y = pair_posts(n_rows)
    half = n_rows // 2
    features = TensorSketchFeatures(Polynomial(2, gamma=1.0, coef0=0.1), n_components, random_state=0).fit(X[:half])
    Z = features.transform(X)
    linear = LogisticRegression(max_iter=500).fit(X[:half], y[:half]).score(X[half:], y[half:])
    pairs = RidgeClassifier(1.0).fit(Z[:half], y[:half]).score(Z[half:], y[half:])
    print(f"pairs of words: linear {linear:.0%}, TensorSketch with {n_components} columns {pairs:.0%}")
    if newsgroups and datasets.folder() is not None and "news20_counts" in datasets.available():
        data = datasets.load("news20_counts")
        X, y, n = normalize(data.X.log1p()).astype(np.float32), data.y, data.n_train
        start = time.perf_counter()
        features = TensorSketchFeatures(Polynomial(2, gamma=1.0, coef0=1.0), 4096, random_state=0)
        model = RidgeClassifier(1.0, solver="cholesky").fit(features.fit_transform(X[:n]), y[:n])
        score = model.score(features.transform(X[n:]), y[n:])
        print(f"20 newsgroups: {score:.1%} right, 4096 columns, {time.perf_counter() - start:.0f} s")
    return linear, pairs


if __name__ == "__main__":
    main()
