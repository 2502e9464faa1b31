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
sqrt(‖K‖ / T). Run ``python benchmarks/bench_sqrt_claim.py [quick] [write]``; `write` puts table and figure into docs/.
"""

import datetime
import math
import sys
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist, squareform

from bochner import RBF, FourierFeatures
from bochner.certificates import kernel_error

SIZES = (200, 400, 800, 1600, 3200)
DRAWS = 5
D = 5
DOCS = Path(__file__).parent.parent / "docs"
# regime → the power of n that error / √n should grow with
REGIMES = {
    "fixed scale, T = √n": 0.25,
    "fixed scale, T = √n ln n": 0.25,
    "‖K‖ = 2√n, T = √n ln n": 0.0,
    "fixed scale, T = ‖K‖ ln n / 4": 0.0,
}


def largest_eigenvalue(K):
    v = np.ones(len(K), K.dtype)
    for _ in range(30):
        v = K @ v
        v /= np.linalg.norm(v)
    return float(v @ K @ v)


def scale_for(norm, X):
    """The length scale at which the largest eigenvalue of K is `norm`, to a thousandth, by bisection."""
    squares = squareform(pdist(X, "sqeuclidean").astype(np.float32))
    low, high = 0.05, 5.0
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        found = largest_eigenvalue(np.exp(squares / np.float32(-2.0 * middle**2)))
        low, high = (middle, high) if found < norm else (low, middle)
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
    norm = largest_eigenvalue(fixed(X))
    choices = (
        (fixed, root, norm),
        (fixed, math.ceil(root * math.log(n)), norm),
        (shrinking, math.ceil(root * math.log(n)), 2.0 * math.sqrt(n)),
        (fixed, math.ceil(norm * math.log(n) / 4.0), norm),
    )
    return dict(zip(REGIMES, choices, strict=True))


def main(quick=False, write=False):
    rng = np.random.default_rng(0)
    rows, lines = {}, []
    print(f"{'regime':32s} {'n':>5s} {'‖K‖':>7s} {'T':>5s} {'error':>8s} {'error/√n':>9s} {'√(‖K‖/T)':>9s}")
    for n in SIZES[:3] if quick else SIZES:
        X = rng.normal(size=(n, D))
        for name, (kernel, T, norm) in regimes(X).items():
            error = measured(kernel, X, T)
            rows.setdefault(name, []).append((n, error / math.sqrt(n), math.sqrt(norm / T)))
            lines.append((name, n, norm, T, error, error / math.sqrt(n), math.sqrt(norm / T)))
            print(
                f"{name:32s} {n:5d} {norm:7.1f} {T:5d} {error:8.1f} {error / math.sqrt(n):9.2f} "
                f"{math.sqrt(norm / T):9.2f}",
                flush=True,
            )
    print("\ngrowth of error / √n with n, as a power (0: the claim holds; 1/4: it fails as Bernstein says)")
    powers = {}
    for name, found in rows.items():
        n, ratio, _ = np.array(found).T
        powers[name] = float(np.polyfit(np.log(n), np.log(ratio), 1)[0])
        near = abs(powers[name] - REGIMES[name]) <= 0.15
        claim = f"{powers[name]:+.2f}, predicted {REGIMES[name]:+.2f} ± 0.15: {'holds' if near else 'does not hold'}"
        print(f"{name}: power {claim}")
    if write:
        draw(rows, DOCS / "sqrt_claim.png")
        document(lines, powers)


def document(lines, powers):
    today = datetime.date.today().isoformat()
    table = [
        f"| {name} | {n} | {norm:.1f} | {T} | {error:.1f} | {ratio:.2f} | {predicted:.2f} |"
        for name, n, norm, T, error, ratio, predicted in sorted(lines, key=lambda line: list(REGIMES).index(line[0]))
    ]
    grown = "\n".join(f"| {name} | {power:+.2f} | {REGIMES[name]:+.2f} |" for name, power in powers.items())
    text = PAGE.format(today=today, grown=grown, table="\n".join(table))
    (DOCS / "sqrt_claim.md").write_text(text, encoding="utf-8")
    print(f"wrote {DOCS / 'sqrt_claim.md'}")


PAGE = """# Do √n frequencies suffice?

It has been claimed that T ≈ √n random frequencies, up to a logarithm, approximate the n × n Gram matrix to within √n in
spectral norm, because one frequency's error is of the order of 1 / √T and matrix concentration does the rest. That is
true for some sequences of problems and false for the one most people have in mind.

![error over √n against n](sqrt_claim.png)

## What the theorem says

The matrix Bernstein inequality gives, for T independent cosine and sine pairs,

    ‖ZZᵀ − K‖ ≲ √(n ‖K‖ ln n / T) + n ln n / T.

Both terms are below √n when T is of the order of ‖K‖ ln n **and** of √n ln n. The first condition is the one that is
forgotten: ‖K‖, the largest eigenvalue of the Gram matrix, is at least the mean of its row sums.

* **It fails** for rows from a fixed distribution and a fixed length scale, as when more rows of the same data come in.
  Every row then has a fixed share of the others as neighbours, ‖K‖ grows like n, and with T = √n ln n the error over √n
  grows like √(‖K‖ / T), about n^(1/4): without bound.
* **It holds** where ‖K‖ = O(√n): a length scale that shrinks as rows come in, so that a row keeps about √n neighbours.
* **What would be needed** at a fixed length scale is T = ‖K‖ ln n, which grows like n: no saving over the rows.

For the relative error it is different: ‖ZZᵀ − K‖ / ‖K‖ ≈ √(n ln n / (T ‖K‖)), and where ‖K‖ is a share of n a number of
frequencies that does not grow with n is enough. And ridge regression needs neither: the number of components it needs
follows from the effective dimension (`bochner.theory.RidgeBound`; `KernelRidge(n_components="auto")` measures it).

## Measured

Growth of error / √n with n, as a power of n ({today}; `benchmarks/bench_sqrt_claim.py write`; normal rows in five
dimensions, RBF kernel of length scale 1 unless it shrinks, mean of five draws):

| regime | measured power | predicted |
|---|---|---|
{grown}

| regime | n | ‖K‖ | T | error | error / √n | √(‖K‖ / T) |
|---|---|---|---|---|---|---|
{table}
"""


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
    for axis, ticks in ((axes.xaxis, SIZES), (axes.yaxis, (0.3, 0.4, 0.6, 1.0, 1.5, 2.0))):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_ticks([], minor=True)
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
    main(quick="quick" in sys.argv[1:], write="write" in sys.argv[1:])
