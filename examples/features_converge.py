"""The kernel matrix appears as features are added.

Each panel is ZZᵀ for 60 points, sorted from left to right, next to the exact kernel matrix. The error falls like one
over the square root of the number of components, as theory says.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import RBF, FourierFeatures

x = np.sort(np.random.default_rng(0).uniform(0, 10, 60))[:, None]
K = RBF(1.0)(x)
sizes = (4, 32, 256, 2048)
errors = []
figure, axes = plt.subplots(1, 5, figsize=(10, 2.4), layout="constrained")
for axis, m in zip(axes, sizes, strict=False):
    Z = FourierFeatures(RBF(1.0), m, rows="iid", random_state=0).fit_transform(x)
    errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
    axis.imshow(Z @ Z.T, vmin=-1, vmax=1, cmap="RdBu")
    axis.set_title(f"{m} components\nerror {errors[-1]:.0%}", fontsize=9)
    print(f"{m:5d} components: relative error {errors[-1]:.3f}")
axes[-1].imshow(K, vmin=-1, vmax=1, cmap="RdBu")
axes[-1].set_title("exact\n", fontsize=9)
for axis in axes:
    axis.set(xticks=[], yticks=[])
plt.show()
