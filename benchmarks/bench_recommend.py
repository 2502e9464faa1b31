"""Does `recommend` say what `fit` does? Components and processor time side by side, within a factor of two.

For every dataset: the components that `recommend` predicts and those that `fit` chooses with ``n_components="auto"``;
the seconds predicted for fitting the model that is recommended and those it takes; and what `recommend` itself and that
`fit` took. Processor time of one thread, because other work on the machine does not count in it. Real rows where
BOCHNER_DATA names a folder of them, else mixtures.

Run ``OMP_NUM_THREADS=1 python benchmarks/bench_recommend.py [quick] [data=A,B,…]``. Three minutes on a quiet core,
quick half a minute: fewer datasets, 5,000 rows of each.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner import KernelRidge, datasets, recommend

REAL = {"elevators": 18, "california": 8, "cpu": 21, "bike_hour": 12, "wine": 11, "protein": 9, "kegg_undirected": 27}
QUICK_ROWS = 5_000


def rows_of(name, most=None):
    """Standardised rows in random order, and targets."""
    rng = np.random.default_rng(0)
    if name in datasets.available():
        data = datasets.load(name)
        X, y = np.asarray(data.X), data.y
        y = np.unique(y, return_inverse=True)[1] if y.dtype.kind not in "f" else y
    else:
        centres = 3.0 * rng.normal(size=(10, REAL.get(name, 12)))
        X = centres[rng.integers(0, 10, 20_000)] + rng.normal(size=(20_000, centres.shape[1]))
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=len(X))
    order = rng.permutation(len(y))[:most]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X[order].astype(np.float32), np.asarray(y, dtype=np.float64)[order]


def timed(work):
    start = time.process_time()
    out = work()
    return out, time.process_time() - start


def main(names=tuple(REAL), most=None):
    ratios = []
    print("                              components                  seconds of that fit          seconds of")
    print("data                  n    d  recommend    fit  ratio     predicted  taken  ratio     recommend    fit")
    for name in names:
        X, y = rows_of(name, most)
        advice, own = timed(lambda: recommend(X, y))  # noqa: B023
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model, searching = timed(lambda: KernelRidge(n_jobs=1, random_state=1).fit(X, y))  # noqa: B023
        again = advice.model(1).set_params(n_jobs=1)
        taken = min(timed(lambda: again.fit(X, y))[1] for _ in range(2))  # noqa: B023
        ratios.append((advice.n_components / model.n_components_, advice.seconds / taken))
        print(
            f"{name:16s} {len(X):6d} {X.shape[1]:4d}  {advice.n_components:9d} {model.n_components_:6d} "
            f"{ratios[-1][0]:6.2f}     {advice.seconds:9.2f} {taken:6.2f} {ratios[-1][1]:6.2f}     {own:9.2f} "
            f"{searching:6.2f}",
            flush=True,
        )
    for what, found in zip(("components", "seconds"), np.transpose(ratios), strict=True):
        inside = np.mean((found >= 0.5) & (found <= 2.0))
        print(f"{what} within a factor 2: {100 * inside:.0f} % of {len(found)} datasets")


if __name__ == "__main__":
    chosen = [a.removeprefix("data=").split(",") for a in sys.argv[1:] if a.startswith("data=")]
    quick = "quick" in sys.argv[1:]
    main(tuple(chosen[0]) if chosen else tuple(REAL)[: 3 if quick else None], QUICK_ROWS if quick else None)
