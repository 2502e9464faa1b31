"""Handwritten digits: the error falls with the number of landmarks.

Landmarks and a squared loss: one pass over the images and one linear system.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from bochner import KernelClassifier

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32) / 16
linear = LogisticRegression(max_iter=2000).fit(X[:1200], y[:1200])
print(f"logistic regression: {1 - linear.score(X[1200:], y[1200:]):.1%} wrong")
sizes, errors = (25, 50, 100, 200, 400), []
for m in sizes:
    model = KernelClassifier("rbf", m, features="nystrom", loss="squared", metric="isotropic", random_state=0)
    errors.append(1 - model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]))
    print(f"{m:4d} landmarks: {errors[-1]:.1%} wrong")
wrong = np.flatnonzero(model.predict(X[1200:]) != y[1200:])[:8]
figure = plt.figure(figsize=(8, 3.6), layout="constrained")
curve, pictures = figure.subfigures(1, 2, width_ratios=(1.3, 1))
axis = curve.subplots()
axis.semilogx(sizes, [100 * error for error in errors], "o-", base=2)
axis.axhline(100 * (1 - linear.score(X[1200:], y[1200:])), color="0.6", linestyle="--")
axis.annotate(
    "logistic regression", (sizes[0], 100 * (1 - linear.score(X[1200:], y[1200:]))), (0, 4), textcoords="offset points"
)
axis.set(xlabel="landmarks", ylabel="wrong, per cent", xticks=sizes, xticklabels=sizes)
for place, row in zip(pictures.subplots(2, 4).flat, wrong, strict=False):
    place.imshow(X[1200 + row].reshape(8, 8), cmap="gray_r")
    place.set_title(f"{y[1200 + row]}, said {model.predict(X[[1200 + row]])[0]}", fontsize=8)
    place.axis("off")
pictures.suptitle("the mistakes", fontsize=10)
plt.show()
