"""A kernel that does not mind shifts.

Periodic signals of two shapes, each at a random position. The Gaussian kernel sees two shifted copies as strangers;
averaged over all shifts, it learns the shapes from a few examples.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import RBF, CyclicInvariant, KernelClassifier, NystromFeatures

rng = np.random.default_rng(0)
t = np.arange(24)
shapes = np.array([np.exp(-(((t - 8) / 2.0) ** 2)), np.where(abs(t - 8) < 4, 0.5 - abs(t - 8) / 8, 0.0) * 1.7])
labels = rng.integers(0, 2, 300)
signals = np.array([np.roll(shapes[label], rng.integers(24)) for label in labels]) + 0.05 * rng.normal(size=(300, 24))
scores = {}
for name, kernel in {"Gaussian": RBF(1.0), "averaged over shifts": CyclicInvariant(RBF(1.0))}.items():
    features = NystromFeatures(kernel, 40, random_state=0)
    model = KernelClassifier(features=features, loss="squared", random_state=0).fit(signals[:60], labels[:60])
    scores[name] = model.score(signals[60:], labels[60:])
    print(f"{name}: {scores[name]:.0%} right after 60 signals")
figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", width_ratios=(1, 1, 0.8))
for axis, label in zip(axes, (0, 1), strict=False):
    axis.plot(t, signals[labels == label][:6].T, linewidth=1)
    axis.set(title=f"shape {label}", xlabel="position", yticks=[])
axes[2].bar(list(scores), [100 * score for score in scores.values()], color=["0.7", "C0"])
axes[2].set(ylabel="right, per cent", ylim=(0, 100))
plt.show()
