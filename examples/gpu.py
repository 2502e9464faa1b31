"""On a GPU: tensors in, tensors out, the same features.

The same seed gives the same features on every device, up to rounding. Without a CUDA device these lines run with torch
on the processor.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from bochner import RBF, FourierFeatures, KernelRidge

device = "cuda" if torch.cuda.is_available() else "cpu"
rng = np.random.default_rng(0)
X = rng.normal(size=(5_000, 20)).astype(np.float32)
y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
features = FourierFeatures(RBF(4.0), 512, random_state=0).fit(X[:1000])
Z = features.transform(torch.from_numpy(X[:1000]).to(device))  # a tensor, on the same device
gap = Z.cpu().numpy() - features.transform(X[:1000])
print(f"{tuple(Z.shape)} features, largest difference to NumPy's {abs(gap).max():.0e}")
model = KernelRidge(RBF(4.0), 512, alpha=0.1, device=device, random_state=0).fit(X, y)  # X stays on the host
print(f"kernel ridge on the device: R² {model.score(X, y):.3f}")
plt.figure(figsize=(6, 3.2), layout="constrained")
plt.hist(gap.ravel() * 1e7, bins=60)
plt.xlabel("difference of features × 10⁷")
plt.ylabel("entries")
plt.title(f"tensors on {device} against NumPy")
plt.show()
