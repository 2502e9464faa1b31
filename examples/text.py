"""Pairs of words, without counting them.

Posts about two subjects, told apart by which words come together and not by the words alone. A linear model sees
nothing. A polynomial kernel of degree two sees all pairs, and TensorSketch gives its features in O(nonzeros) a row
without ever forming the pairs.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from bochner import Polynomial, TensorSketchFeatures

rng, n, n_terms = np.random.default_rng(0), 3000, 4000
words = rng.integers(8, n_terms, (n, 20))
marks = np.column_stack([rng.integers(0, 4, n), rng.integers(4, 8, n)])
y = (marks[:, 0] < 2) == (marks[:, 1] < 6)  # the subject: are both marks of the same half?
values = np.tile(np.r_[np.full(20, 0.3), np.full(2, 1.0)], n)
X = scipy.sparse.csr_matrix((values, (np.repeat(np.arange(n), 22), np.hstack([words, marks]).ravel())), (n, n_terms))

half = n // 2
linear = LogisticRegression(max_iter=500).fit(X[:half], y[:half]).score(X[half:], y[half:])
print(f"linear model: {linear:.0%} right")
sizes, scores = (64, 128, 256, 512, 1024, 2048), []
for m in sizes:
    Z = TensorSketchFeatures(Polynomial(2, gamma=1.0, coef0=0.1), m, random_state=0).fit_transform(X)
    scores.append(RidgeClassifier(1.0).fit(Z[:half], y[:half]).score(Z[half:], y[half:]))
    print(f"TensorSketch, {m:4d} components: {scores[-1]:.0%}")
plt.semilogx(sizes, [100 * score for score in scores], "o-", base=2, label="TensorSketch")
plt.axhline(100 * linear, color="0.6", linestyle="--", label="linear model")
plt.xticks(sizes, sizes)
plt.xlabel(f"components, for {n_terms:,} words and {n_terms**2 // 2:,} pairs")
plt.ylabel("right, per cent")
plt.legend(frameon=False)
plt.show()
