"""Do sqrt(n) frequencies suffice? Where the claim holds, where it fails, and what decides.

The claim: matrix concentration gives a spectral error ‖ZZᵀ - K‖ of sqrt(n) from about sqrt(n) frequencies (up to a
logarithm), because the error of one pair is about 1 / sqrt(T). What the matrix Bernstein inequality says is

    ‖ZZᵀ - K‖  ≲  sqrt(n ‖K‖ log n / T) + n log n / T,

so that an error of sqrt(n) needs T of the order of ‖K‖ log n *and* of sqrt(n) log n. With T = sqrt(n) log n it holds
exactly where ‖K‖ = O(sqrt n):

* rows from a fixed law, a fixed length scale: ‖K‖ is a share of n, and error / sqrt(n) grows without bound, like
  sqrt(‖K‖ / T) ~ n^(1/4): the claim fails.
* a length scale that shrinks so that ‖K‖ = 2 sqrt(n), as when every row has about sqrt(n) neighbours: error / sqrt(n)
  stays where it is: the claim holds.
* the fixed length scale with T = ‖K‖ log n / 4 frequencies: the error is back at sqrt(n), at the price of a number of
  frequencies that grows like n.

The table has the measured error (a certificate's value, mean of several draws) over sqrt(n), and the prediction
sqrt(‖K‖ / T). Run ``python benchmarks/bench_sqrt_claim.py [figure.png]``; with a file name it draws the figure.
"""

import math
import sys

import numpy as np

from bochner import RBF, FourierFeatures
from bochner.certificates import kernel_error

SIZES = (200, 400, 800, 1600, 3200)
DRAWS = 5
D = 5


def largest_eigenvalue(kernel, X):
    v = np.ones(len(X))
    K = kernel(X)
    for _ in range(50):
        v = K @ v
        v /= np.linalg.norm(v)
    return float(v @ K @ v)


def scale_for(norm, X):
    """The length scale at which the largest eigenvalue of K is `norm`, by bisection."""
    low, high = 1e-2, 10.0
    for _ in range(25):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if largest_eigenvalue(RBF(middle), X) < norm else (low, middle)
    return high


def measured(kernel, X, T):
    errors = []
    for seed in range(DRAWS):
        features = FourierFeatures(kernel, 2 * T, rows="iid", random_state=seed).fit(X)
        errors.append(kernel_error(features, X, norm="spectral", max_entries=1 << 24, random_state=seed).value)
    return float(np.mean(errors))


def regimes(X):
    n = len(X)
    fixed, shrinking = RBF(1.0), RBF(scale_for(2.0 * math.sqrt(n), X))
    root = math.ceil(math.sqrt(n))
    norm = largest_eigenvalue(fixed, X)
    return {
        "fixed scale, T = √n": (fixed, root, norm),
        "fixed scale, T = √n ln n": (fixed, math.ceil(root * math.log(n)), norm),
        "‖K‖ = 2√n, T = √n ln n": (shrinking, math.ceil(root * math.log(n)), 2.0 * math.sqrt(n)),
        "fixed scale, T = ‖K‖ ln n / 4": (fixed, math.ceil(norm * math.log(n) / 4.0), norm),
    }


def main(figure=None):
    rng = np.random.default_rng(0)
    rows = {}
    print(f"{'regime':32s} {'n':>5s} {'‖K‖':>7s} {'T':>5s} {'error':>8s} {'error/√n':>9s} {'√(‖K‖/T)':>9s}")
    for n in SIZES:
        X = rng.normal(size=(n, D))
        for name, (kernel, T, norm) in regimes(X).items():
            error = measured(kernel, X, T)
            rows.setdefault(name, []).append((n, error / math.sqrt(n), math.sqrt(norm / T)))
            print(
                f"{name:32s} {n:5d} {norm:7.1f} {T:5d} {error:8.1f} {error / math.sqrt(n):9.2f} "
                f"{math.sqrt(norm / T):9.2f}",
                flush=True,
            )
    print("\ngrowth of error / √n with n, as a power (0: the claim holds; 1/4: it fails as Bernstein says)")
    for name, found in rows.items():
        n, ratio, _ = np.array(found).T
        print(f"  {name:32s} {np.polyfit(np.log(n), np.log(ratio), 1)[0]:+.2f}")
    if figure:
        draw(rows, figure)


def draw(rows, figure):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    for name, found in rows.items():
        n, ratio, predicted = np.array(found).T
        (line,) = axes.loglog(n, ratio, "o-", label=name)
        axes.loglog(n, predicted, "--", color=line.get_color(), alpha=0.5)
    axes.axhline(1.0, color="black", lw=0.8)
    axes.set_xlabel("rows n")
    axes.set_ylabel("‖ZZᵀ − K‖ / √n")
    axes.set_title("√n frequencies give an error of √n only where ‖K‖ is of the order of √n")
    axes.legend(fontsize=9)
    axes.text(
        0.99,
        0.01,
        "dashed: √(‖K‖ / T); black: the claim",
        transform=axes.transAxes,
        ha="right",
        va="bottom",
        fontsize=8,
    )
    fig.savefig(figure, dpi=150)
    print(f"wrote {figure}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
