"""Randomised linear algebra against NumPy and scikit-learn, side by side in one run.

``python benchmarks/bench_linalg.py [lstsq] [risk] [svd] [bound] [ridge] [kernel] [newton] [precondition]``
(no argument: all of them). `newton` reads a9a from the folder named in BOCHNER_DATA and is skipped without it.
"""

import sys
import time
import warnings

import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.utils.extmath import randomized_svd as theirs
from threadpoolctl import threadpool_limits

from bochner import RBF, datasets, linalg
from bochner.draws.keys import Key
from bochner.sketches import as_sketch_law
from bochner.theory import LowRankBound


def timed(function, repetitions=3):
    best, result = np.inf, None
    for _ in range(repetitions):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def verdict(what, measured, limit, holds):
    print(f"{what}: {measured}; limit {limit}: {'holds' if holds else 'does not hold'}", flush=True)


def timed_twice(function):
    """Best wall-clock and CPU seconds of two runs, and the result; on a busy machine CPU is the fairer of the two."""
    walls, cpus, result = [], [], None
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        result = function()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus), result


def backward_error(A, b, x, singular_values, Vt):
    """Karlson and Waldén's: the smallest relative change of A that makes x exact, within sqrt(2)."""
    r = b - A @ x
    theta = np.linalg.norm(r) / np.linalg.norm(x)
    damped = (Vt @ (A.T @ r)) / np.sqrt(singular_values**2 + theta**2)
    return np.linalg.norm(damped) / np.linalg.norm(x) / np.linalg.norm(singular_values)


def tall(n, d, condition, seed=0):
    """A = U diag(s) Vᵀ made without a QR of n rows: Gaussian columns made orthonormal by their Gram matrix."""
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((n, d))
    for _ in range(2):
        G = np.linalg.solve(np.linalg.cholesky(G.T @ G), G.T).T
    V = np.linalg.qr(rng.standard_normal((d, d)))[0]
    s = np.logspace(0, -np.log10(condition), d)
    A = np.ascontiguousarray((G * s) @ V.T)
    x, r = rng.standard_normal(d), rng.standard_normal(n)
    r -= G @ (G.T @ r)
    return A, A @ (x / np.linalg.norm(x)) + 1e-3 * r / np.linalg.norm(r), s, V.T


def bench_lstsq(n=200_000, d=500, condition=1e8):
    print(f"\nleast squares, {n:,} × {d}, condition {condition:.0e}, residual 1e-3")
    A, b, s, Vt = tall(n, d, condition)
    rows = [("numpy.linalg.lstsq", *timed_twice(lambda: np.linalg.lstsq(A, b, rcond=None)[0]), "")]
    for method in ("iterative", "precondition", "sketch"):
        *times, result = timed_twice(lambda m=method: linalg.lstsq(A, b, method=m, random_state=0))
        rows.append((f"lstsq(method='{method}')", *times, result.x, f"{result.report.iterations} iterations"))
    base, base_error = rows[0], backward_error(A, b, rows[0][3], s, Vt)
    print(f"{'':28} {'seconds':>8} {'×':>6} {'CPU s':>7} {'×':>6} {'backward error':>15} {'over NumPy':>11}")
    for name, wall, cpu, x, note in rows:
        error = backward_error(A, b, x, s, Vt)
        times = f"{wall:8.2f} {base[1] / wall:6.1f} {cpu:7.2f} {base[2] / cpu:6.1f}"
        print(f"{name:28} {times} {error:15.1e} {error / base_error:11.2g}  {note}")
        if "iterative" in name:
            gain, loss = base[1] / wall, error / base_error
    verdict("lstsq(method='iterative'), times faster than NumPy (wall clock)", f"{gain:.2f}", "2", gain >= 2)
    verdict("its backward error over NumPy's", f"{loss:.2f}", "10", loss <= 10)


def bench_risk(n=1000, d=20, n_draws=1000):
    print(f"\nsketch and solve, {n} × {d}, Gaussian sketch, {n_draws} draws: excess against d / (m - d - 1)")
    A, b, _, _ = tall(n, d, 1e3)
    best = np.linalg.lstsq(A, b, rcond=None)[0]
    optimum = np.linalg.norm(A @ best - b) ** 2
    print(f"{'m':>5} {'measured':>9} {'exact':>9} {'z':>6}   sparse_sign   srht")
    largest = 0.0
    for m in (30, 40, 80, 200):
        excess = {}
        for law in ("gaussian", "sparse_sign", "srht"):
            draws = [
                linalg.lstsq(A, b, method="sketch", law=law, sketch_size=m, random_state=seed).x
                for seed in range(n_draws if law == "gaussian" else 200)
            ]
            excess[law] = np.array([np.linalg.norm(A @ (x - best)) ** 2 / optimum for x in draws])
        e, truth = excess["gaussian"], d / (m - d - 1)
        z = (e.mean() - truth) / (e.std() / np.sqrt(len(e)))
        largest = max(largest, abs(z))
        others = "   ".join(f"{excess[law].mean():8.4f}" for law in ("sparse_sign", "srht"))
        print(f"{m:5d} {e.mean():9.4f} {truth:9.4f} {z:6.2f}   {others}")
    verdict("sketch and solve against d / (m - d - 1), largest |z|", f"{largest:.2f}", "4", largest <= 4)


def bench_svd(m=4000, n=2000, rank=50, budget=45.0):
    print(f"\nrandomized SVD, {m} × {n}, singular values j^(-1/2), rank {rank}: excess over the best error, seconds")
    rng = np.random.default_rng(0)
    s = np.arange(1.0, n + 1.0) ** -0.5
    with threadpool_limits(1):
        U = np.linalg.qr(rng.standard_normal((m, n)))[0]
        V = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A = np.ascontiguousarray((U * s) @ V.T)
    best = np.linalg.norm(s[rank:])

    def excess(U, sv, Vt):
        # ‖A - U S Vt‖² = ‖A‖² - 2 tr(...) + ‖S‖², without forming the difference
        cross = np.einsum("ij,ij->", U * sv, A @ Vt.T)
        return np.sqrt(max(0.0, (s**2).sum() - 2 * cross + (sv**2).sum())) / best - 1.0

    def both(q, seed):
        return {
            "scikit-learn": lambda: theirs(A, rank, n_iter=q, random_state=seed),
            "randomized_svd": lambda: linalg.randomized_svd(A, rank, n_iter=q, random_state=seed),
        }

    peers = [("scikit-learn", q) for q in (0, 1, 2, 4, 7)]
    runs = peers + [("randomized_svd", q) for q in range(6)]
    errors = {}  # mean of some draws, and its standard error
    for name, q in runs:
        with threadpool_limits(1):
            draws = [excess(*both(q, seed)[name]()) for seed in range(5)]
        errors[name, q] = np.mean(draws), np.std(draws, ddof=1) / np.sqrt(len(draws))
    for threads in (1, 2):
        seconds = dict.fromkeys(runs, np.inf)
        with threadpool_limits(threads):
            end = time.perf_counter() + budget
            while time.perf_counter() < end:  # in turn, so that both meet the same machine
                for name, q in runs:
                    start = time.perf_counter()
                    both(q, 0)[name]()
                    seconds[name, q] = min(seconds[name, q], time.perf_counter() - start)
        print(f"{f'BLAS threads: {threads}':28} {'seconds':>8} {'excess':>9}")
        for name, q in runs:
            print(f"{f'{name}, n_iter={q}':28} {seconds[name, q]:8.3f} {errors[name, q][0]:9.2e}")
        for _, q in peers:
            allowed, (error, spread) = seconds["scikit-learn", q], errors["scikit-learn", q]
            within = [(*errors[run], run[1]) for run in set(runs) - set(peers) if seconds[run] <= allowed]
            mine, more, steps = min(within, default=(np.inf, 0.0, None))
            text = f"{mine:.2e} (n_iter={steps}) against {error:.2e}"
            what = f"{threads} threads, in the {allowed:.3f} s of scikit-learn's n_iter={q}"
            # without iterations both have the same law
            verdict(what, text, "its error, 3 standard errors", mine <= error + 3.0 * np.hypot(spread, more))
        (allowed, taken), (error, mine) = ((d["scikit-learn", 7], d["randomized_svd", 3]) for d in (seconds, errors))
        text = f"{mine[0]:.1e} in {taken:.2f} s against {error[0]:.1e} in {allowed:.2f} s"
        holds = mine <= error and taken <= allowed
        verdict(f"{threads} threads, both with their defaults", text, "its error and time", holds)
    result = linalg.randomized_svd(A, rank, random_state=0)
    error, estimate = np.linalg.norm(A - result.to_dense()), result.report.estimates["error"]
    print(f"error {error:.6f}, reported {estimate.value:.6f}, bound {estimate.high:.6f}")


def bench_bound(n_draws=200):
    print(f"\nrange finder, 300 × 200, no iteration, {n_draws} draws: E‖A - QQᵀA‖² against its bound")
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((k, 200)))[0] for k in (300, 200))
    print(f"{'decay':>6} {'m':>4} {'measured':>10} {'bound':>10} {'ratio':>6}   best of rank m")
    ratios = []
    for decay in (0.5, 1.0, 2.0):
        s = np.arange(1.0, 201.0) ** -decay
        A = (U * s) @ V.T
        for m in (10, 40):
            Qs = (linalg.range_finder(A, m, oversampling=0, random_state=r).Q for r in range(n_draws))
            mean = np.mean([np.linalg.norm(A - Q @ (Q.T @ A)) ** 2 for Q in Qs])
            bound = LowRankBound(singular_values=s).error(m)
            ratios.append(mean / bound)
            print(f"{decay:6.1f} {m:4d} {mean:10.4g} {bound:10.4g} {bound / mean:6.2f}   {(s[m:] ** 2).sum():.4g}")
    verdict(f"mean error of {n_draws} draws over its bound, largest", f"{max(ratios):.3f}", "1", max(ratios) <= 1)


def bench_ridge(n=4000, d=200, n_draws=20):
    rng = np.random.default_rng(0)
    s = 100.0 / np.arange(1.0, d + 1.0) ** 1.5
    U, V = (np.linalg.qr(rng.standard_normal((k, d)))[0] for k in (n, d))
    A = (U * s) @ V.T
    b, alpha = A @ rng.standard_normal(d) + rng.standard_normal(n), 1.0
    d_e = (s**2 / (s**2 + alpha)).sum()

    def objective(x):
        return np.linalg.norm(A @ x - b) ** 2 + alpha * np.linalg.norm(x) ** 2

    best = objective(np.linalg.solve(A.T @ A + alpha * np.eye(d), A.T @ b))
    print(f"\nridge by a partial sketch, {n} × {d}, effective dimension {d_e:.1f}: relative excess, times m / d_e")
    print(
        f"{'m':>5} {'m/d_e':>6} {'gaussian':>9} {'× m/d_e':>8} {'sparse_sign':>12} {'× m/d_e':>8} {'full sketch':>12}"
    )
    constants = []
    for m in (25, 50, 100, 200, 400, 800):
        cells = []
        for law in ("gaussian", "sparse_sign"):
            draws = [
                objective(linalg.ridge(A, b, alpha, method="partial_sketch", law=law, sketch_size=m, random_state=r).x)
                for r in range(n_draws)
            ]
            cells += [np.mean(draws) / best - 1.0, (np.mean(draws) / best - 1.0) * m / d_e]
        full = "-"
        if m > d + 1:
            draws = [
                objective(linalg.ridge(A, b, alpha, method="full_sketch", sketch_size=m, random_state=r).x)
                for r in range(n_draws)
            ]
            full = f"{np.mean(draws) / best - 1.0:.4f}"
        print(f"{m:5d} {m / d_e:6.1f} {cells[0]:9.4f} {cells[1]:8.2f} {cells[2]:12.4f} {cells[3]:8.2f} {full:>12}")
        constants += [cells[1], cells[3]]
    text = f"between {min(constants):.2f} and {max(constants):.2f}"
    verdict("partial sketch: excess times m / d_e, m = 25 … 800", text, "1.5", max(constants) <= 1.5)


def bench_kernel(n=1000, m=60, alpha=0.5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    K, y = RBF(0.7)(X), np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)

    def objective(a):
        return np.linalg.norm(K @ a - y) ** 2 + alpha * a @ (K @ a)

    exact = objective(np.linalg.solve(K + alpha * np.eye(n), y))
    print(f"\nsketched kernel ridge, n = {n}, m = {m}: ‖Ka - y‖² + alpha aᵀKa, full kernel ridge ({exact:.1f}) = 1")
    print(f"{'law':12} {'right':>8} {'left':>8} {'a power of K lost':>18}")
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # K = root rootᵀ
    worst, printed = 0.0, np.inf
    for law in ("gaussian", "sparse_sign", "srht", "uniform"):
        right, left = (
            linalg.sketched_kernel_ridge(K, y, alpha, side=side, law=law, sketch_size=m, random_state=0).x
            for side in ("right", "left")
        )
        S = as_sketch_law(law).sample(n, m, Key(0)).to_dense()
        z = np.linalg.lstsq(S @ K @ S.T + alpha * S @ S.T, S @ K @ y, rcond=1e-12)[0]
        cells = [objective(x) / exact for x in (right, left, S.T @ z)]
        print(f"{law:12} {cells[0]:8.3f} {cells[1]:8.3f} {cells[2]:18.1f}")
        # what each should minimise, solved densely: ‖K Sᵀz - y‖² + alpha zᵀSKSᵀz, and ‖S(Ka - y)‖² + alpha aᵀKa
        stacked = np.vstack([K @ S.T, np.sqrt(alpha) * root.T @ S.T])
        least = np.linalg.norm(stacked @ np.linalg.lstsq(stacked, np.append(y, np.zeros(n)))[0] - np.append(y, [0] * n))
        worst = max(worst, objective(right) / least**2 - 1.0)
        stacked, target = np.vstack([S @ root, np.sqrt(alpha) * np.eye(n)]), np.append(S @ y, np.zeros(n))
        least = np.linalg.norm(stacked @ np.linalg.lstsq(stacked, target)[0] - target)
        reached = np.linalg.norm(S @ (K @ left - y)) ** 2 + alpha * left @ (K @ left)
        worst = max(worst, reached / least**2 - 1.0)
        printed = min(printed, cells[2])
    verdict(
        "right and left sketch over the objective each must minimise, less 1", f"{worst:.0e}", "1e-6", worst <= 1e-6
    )
    verdict("the formula that lost a power of K, objective over the exact one", f"{printed:.0f}", "10", printed >= 10)


def bench_newton():
    if "a9a" not in datasets.available():
        print("\nNewton sketch: skipped, BOCHNER_DATA names no folder with a9a.npz")
        return
    data = datasets.load("a9a")
    dense, y = data.X[: data.n_train].astype(np.float64), np.where(data.y[: data.n_train] > 0, 1.0, -1.0)
    for name, A in (("CSR", scipy.sparse.csr_array(dense)), ("dense", dense)):
        print(f"\nlogistic regression on a9a, {A.shape[0]:,} × {A.shape[1]} {name}, alpha 1, no intercept")
        print(f"{'':44} {'iterations':>10} {'seconds':>8} {'gradient norm':>14}")

        def line(label, iterations, seconds, x, note="", A=A):
            norm = np.linalg.norm(A.T @ (-y / (1.0 + np.exp(y * (A @ x)))) + x)
            print(f"{label:44} {iterations:10d} {seconds:8.3f} {norm:14.1e}  {note}", flush=True)
            return seconds, norm

        found = []
        for options in (
            {},
            {"finish": "sketch"},
            {"finish": "sketch", "law": "sparse_sign"},
            {"finish": "sketch", "sketch_size": 2000},
        ):
            seconds, result = timed(
                lambda A=A, o=options: linalg.newton_sketch("log_loss", A, y, 1.0, tol=1e-13, random_state=0, **o)
            )
            label = "newton_sketch(" + ", ".join(f"{k}={v!r}" for k, v in options.items()) + ")"
            found.append(line(label, result.report.iterations, seconds, result.x, "; ".join(result.report.notes)))
        for solver in ("newton-cholesky", "lbfgs"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = LogisticRegression(C=1.0, fit_intercept=False, solver=solver, tol=1e-12, max_iter=2000)
                seconds, _ = timed(lambda A=A, model=model: model.fit(A, y))
            found.append(line(f"scikit-learn {solver}", int(model.n_iter_[0]), seconds, model.coef_[0]))
        (seconds, norm), (cholesky, _), (lbfgs, _) = found[0], found[-2], found[-1]
        verdict(f"newton_sketch, {name}, gradient norm", f"{norm:.1e}", "1e-8", norm <= 1e-8)
        print(f"its time: {seconds / cholesky:.2f} of newton-cholesky's, {seconds / lbfgs:.2f} of lbfgs's")


def bench_precondition(n=3000):
    X = np.random.default_rng(0).standard_normal((n, 4))
    K, y = RBF(1.0)(X), np.sin(X[:, 0])
    print(f"\nconjugate gradients for K + alpha I, n = {n}, RBF: iterations to 1e-8")
    print(f"{'alpha':>8} {'plain':>6} {'Nyström':>8} {'rank':>5} {'d_e':>7}")
    gains = []
    for alpha in (1.0, 1e-2, 1e-4):
        P = linalg.nystrom_preconditioner(K, alpha, random_state=0)
        steps = [
            linalg.conjugate_gradient(lambda V, a=alpha: K @ V + a * V, y, preconditioner=p, max_iter=2000).report
            for p in (None, P)
        ]
        d_e = float(linalg.effective_dimension(K, alpha, kind="kernel"))
        print(f"{alpha:8.0e} {steps[0].iterations:6d} {steps[1].iterations:8d} {P.rank:5d} {d_e:7.1f}")
        gains.append(steps[0].iterations / steps[1].iterations)
    verdict("Nyström preconditioning, times fewer iterations, least", f"{min(gains):.1f}", "1", min(gains) >= 1)


BENCHES = {name.removeprefix("bench_"): value for name, value in list(globals().items()) if name.startswith("bench_")}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or BENCHES:
        BENCHES[chosen]()
