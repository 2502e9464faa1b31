"""Where landmarks lie.

Nyström features are kernel values to some rows of the data, the landmarks. Drawn uniformly they crowd where the data
are dense; chosen by random pivots ("rpcholesky") they cover the data, and leave less of the kernel's trace.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import RBF, NystromFeatures

rng = np.random.default_rng(0)
centres = np.array([[0.0, 0.0], [6.0, 1.0], [2.0, 5.0]])
X = np.vstack([centre + rng.normal(size=(n, 2)) * 0.6 for centre, n in zip(centres, (1500, 60, 40), strict=True)])
left = {}
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
for axis, name in zip(axes, ("uniform", "rpcholesky"), strict=True):
    features = NystromFeatures(RBF(1.0), 25, landmarks=name, random_state=0).fit(X)
    left[name] = features.trace_error_
    axis.scatter(*X.T, s=3, color="0.8")
    axis.scatter(*features.landmarks_.T, s=30, color="C3")
    axis.set(title=f'"{name}": {left[name]:.1%} of the trace is left', xticks=[], yticks=[])
    print(f"{name:11s} 25 landmarks leave {left[name]:.2%} of the trace")
plt.show()
