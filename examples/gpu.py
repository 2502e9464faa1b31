"""On a GPU: tensors in, tensors out, the same features as on the CPU; and a model fitted on the device.

Without a CUDA device the same lines run with torch on the CPU.

Run ``python examples/gpu.py`` (needs torch).
"""

import time

import numpy as np
import torch

from bochner import RBF, FourierFeatures, KernelRidge


def main(n_rows=100_000, n_components=2048):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 90)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    features = FourierFeatures(RBF(9.0), n_components, random_state=0).fit(X[:1000])
    Z = features.transform(torch.from_numpy(X[:1000]).to(device))  # a tensor, on the same device
    gap = float(np.abs(Z.cpu().numpy() - features.transform(X[:1000])).max())
    print(f"{device}: features {tuple(Z.shape)}, largest difference to the CPU's {gap:.1e}")
    start = time.perf_counter()
    model = KernelRidge(RBF(9.0), n_components, alpha=1.0, device=device, random_state=0).fit(X, y)
    print(f"kernel ridge on {n_rows:,} rows: {time.perf_counter() - start:.2f} s; the fitted model lives on the host:")
    print(f"  prediction {model.predict(X[:1])[0]:.3f}, truth {y[0]:.3f}")
    return gap


if __name__ == "__main__":
    main()
