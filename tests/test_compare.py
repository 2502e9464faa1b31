"""compare: what it measures is what it says, on any data, and it says what it cannot do."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_diabetes, load_iris
from sklearn.kernel_approximation import RBFSampler

import bochner
from bochner import RBF, AdditiveChi2, ArcCosine, FourierFeatures, KernelRidge, Laplacian, Matern, Polynomial
from bochner.comparison import compare as experiment
from bochner.comparison import references
from bochner.comparison.candidates import MAPS, as_candidates, default_maps
from bochner.comparison.charts import spread
from bochner.comparison.compare import conclude, paired, pareto, show_bytes, show_seconds, show_share, summarise
from bochner.comparison.references import BASELINES, Reference, _as_gram, _best_alpha, draw_rows, exact_losses, task_of
from bochner.draws.keys import Key

FEW = {"n_components": [16, 32], "n_runs": 2, "n_reference": 120}


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def comparison(diabetes):
    X, y = diabetes
    return experiment.run_comparison(X, y, maps=["RBFSampler", "fourier:orthogonal", "nystrom:auto"], **FEW)


def test_errors_are_those_of_the_matrices(diabetes):
    X, _ = diabetes
    frame = bochner.compare(X, maps=["fourier:iid", "nystrom:uniform"], n_components=[20], n_runs=2, n_reference=100)
    rows = draw_rows(X, None, 100, Key.from_random_state(0))
    kernel = RBF("median").resolve(rows.X, Key(0))
    K = kernel(rows.X)
    for _, run in frame.iterrows():
        Z = MAPS[run["map"]].make(kernel, 20, int(run["run"])).fit(rows.X).transform(rows.X)
        E = K - Z @ Z.T
        assert run["frobenius"] == pytest.approx(np.linalg.norm(E) / np.linalg.norm(K), rel=1e-4)
        assert run["spectral"] == pytest.approx(np.linalg.norm(E, 2) / np.linalg.norm(K, 2), rel=2e-3)


@pytest.mark.parametrize("n", [5, 63, 64, 65, 300])
@pytest.mark.parametrize("block_bytes", [1 << 10, 1 << 25])
def test_reference_by_blocks(n, block_bytes, monkeypatch):
    monkeypatch.setattr("bochner.comparison.references._BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(n)
    X, Z = rng.normal(size=(n, 3)), rng.normal(size=(n, 7)) / 3
    reference = Reference(RBF(1.5), X)
    K = RBF(1.5)(X)
    np.testing.assert_array_equal(reference.K, K)
    for size in (1.0, 1e-2, 1e-8):  # the last is seen in float64 alone
        near = np.linalg.cholesky(K + size * np.diag(np.linspace(0.1, 1.0, n)))
        frobenius, spectral = reference.errors(near)
        E = K - near @ near.T
        assert frobenius == pytest.approx(np.linalg.norm(E) / np.linalg.norm(K), rel=1e-4)
        assert spectral == pytest.approx(np.linalg.norm(E, 2) / np.linalg.norm(K, 2), rel=2e-3)
    E = K - Z @ Z.T
    expected = np.linalg.norm(E) / np.linalg.norm(K), np.linalg.norm(E, 2) / np.linalg.norm(K, 2)
    assert reference.errors(Z) == pytest.approx(expected, rel=2e-3)
    assert max(reference.errors(np.linalg.cholesky(K + 1e-12 * np.eye(n)))) < 1e-9


def test_exact_kernel_is_exact_kernel_ridge(diabetes):
    X, y = diabetes
    rows = draw_rows(X, y, 200, Key(1))
    kernel = RBF("median").resolve(rows.X)
    reference = Reference(kernel, rows.X)
    losses, _ = exact_losses(reference, kernel(rows.X_test, rows.X), rows, Key(1))
    # the same penalty, found by leaving rows out for real on a grid around the one chosen
    alpha = _best_alpha(_as_gram(reference.K), rows.Y)
    predicted = bochner.exact_kernel_ridge(kernel, rows.X, rows.Y, rows.X_test, alpha)
    assert rows.error(losses) == pytest.approx(rows.error(rows.losses(predicted)), rel=1e-6)


def test_the_penalty_leaves_one_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 2))
    y = np.sin(2 * X[:, :1]) + 0.2 * rng.normal(size=(25, 1)) + 5.0
    K = RBF(1.0)(X)

    def left_out(alpha):
        errors = []
        for i in range(25):
            keep = np.arange(25) != i
            f = bochner.exact_kernel_ridge(RBF(1.0), X[keep], y[keep], X[[i]], alpha)
            errors.append((f - y[i]) ** 2)
        return np.mean(errors)

    chosen = _best_alpha(_as_gram(K), y)
    grid = np.linalg.eigvalsh(K)[-1] * np.logspace(-9, 0, 28)
    losses = [left_out(alpha) for alpha in grid]
    assert left_out(chosen) == pytest.approx(min(losses), rel=1e-6)


SMOOTH = [RBF(4.0), RBF(20.0), Matern(4.0, nu=2.5), bochner.Cauchy(4.0), Polynomial(3, gamma=0.1), bochner.Linear()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", SMOOTH, ids=repr)
def test_the_exact_kernel_learns_targets_without_noise(kernel, dtype, monkeypatch):
    """The best penalty is tiny, and below what rounding leaves in the eigenvalues of a kernel matrix of float32."""
    monkeypatch.setattr(references, "_ALPHA_ROWS", 100)  # fewer rows choose the penalty than it is used for
    X = np.random.default_rng(0).normal(size=(1250, 10)).astype(dtype)
    rows = draw_rows(X, X[:, 0], 1000, Key(0))
    losses, _ = exact_losses(Reference(kernel, rows.X), kernel(rows.X_test, rows.X), rows, Key(0))
    assert rows.error(losses) < 0.1 * np.std(rows.y_test)


@pytest.mark.parametrize("few", [True, False])
def test_the_exact_kernel_is_left_out_where_it_takes_longest(few, diabetes, monkeypatch):
    X, y = diabetes
    solved = []
    monkeypatch.setattr(references, "_QUICK", 0.0)
    monkeypatch.setattr(references, "exact_losses", lambda *args: solved.append(len(args[0].K)) or exact_losses(*args))
    sizes = [4] if few else [16, 32, 64]
    found = experiment.run_comparison(X, y, maps=["fourier:iid"], n_components=sizes, n_runs=2, n_reference=60)
    work = sum(references.map_work(60, n) for n in sizes * 2)
    assert (work < references.exact_work(60)) == few
    assert solved == ([] if few else [60])
    assert ("exact kernel" in found.frame["map"].tolist()) != few
    assert found.frame["map"].tolist()[-2:] == ["linear model", "constant"]
    assert len(found.frame.attrs["notes"]) == few
    if few:
        assert "exact kernel was left out: solving for 60 rows" in found.frame.attrs["notes"][0]
        assert "exact kernel" not in conclude(found).paragraph


def test_the_first_draw_of_a_map_chooses_the_penalty_of_all(diabetes, monkeypatch):
    X, y = diabetes
    asked = []

    def watched(Z, Z_test, rows, alpha):
        losses, seconds, used = references.linear_losses(Z, Z_test, rows, alpha)
        asked.append((Z.shape[1], alpha, used))
        return losses, seconds, used

    monkeypatch.setattr(experiment, "linear_losses", watched)
    experiment.run_comparison(X, y, maps=["fourier:iid"], n_components=[4, 16], n_runs=3, n_reference=60)
    for size in (4, 16):
        (first, chosen), *others = [(alpha, used) for columns, alpha, used in asked if columns == size]
        assert first is None
        assert others == [(chosen, chosen)] * 2


def test_few_rows_always_have_an_exact_kernel():
    """Of as many rows as there are by default beside the default maps; of more only beside more than a few maps."""
    assert references.exact_work(2000) < references._QUICK < references.exact_work(40_000)
    assert references.exact_work(4000) < sum(references.map_work(4000, m) for m in experiment.SIZES)
    assert references.exact_work(40_000) > 20 * references.map_work(40_000, 128)


@pytest.mark.parametrize(
    ("n_rows", "sizes"), [(60, [24]), (200, [64]), (1500, [64, 128, 256, 512]), (5000, [64, 128, 256, 512, 1024])]
)
def test_maps_have_at_most_half_as_many_columns_as_rows(n_rows, sizes, monkeypatch):
    measured = []

    def measure(candidate, kernel, n, seed, rows, reference, penalties):
        measured.append(n)
        return {"map": candidate.name, "columns": n, "losses": np.zeros(len(rows.y_test))}

    monkeypatch.setattr(experiment, "_measure", measure)
    monkeypatch.setattr(references, "exact_losses", lambda *args: (np.zeros(len(args[2].y_test)), 0.0))
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    frame = bochner.compare(X, X[:, 0], kernel=RBF(1.0), maps=["fourier:iid", "Nystroem"])
    assert sorted(measured) == sorted(2 * 5 * sizes)
    assert frame.attrs["n_components"] == sizes


def test_complex_features_are_shown_by_their_real_kernel(diabetes):
    maps = {"complex": FourierFeatures(form="complex")}
    found = experiment.run_comparison(diabetes[0], maps=maps, n_components=[32], n_runs=1, n_reference=80)
    exact, shown = found.picture("complex", 32)
    Z = found.transformer("complex", 32).fit_transform(found.X)
    assert sorted(np.diagonal(shown)) == pytest.approx(sorted(np.diagonal((Z @ Z.conj().T).real)))
    assert found.frame["frobenius"][0] == pytest.approx(np.linalg.norm(shown - exact) / np.linalg.norm(exact))


def test_test_error_is_ridge_on_the_features(comparison, diabetes):
    X, y = diabetes
    rows = draw_rows(X, y, FEW["n_reference"], Key.from_random_state(0))
    run = comparison.frame[comparison.frame["map"] == "fourier:orthogonal"].iloc[0]
    features = comparison.transformer("fourier:orthogonal", int(run["columns"]))
    model = KernelRidge(features=features, alpha="loo").fit(rows.X, rows.Y[:, 0])
    assert run["error"] == pytest.approx(
        np.sqrt(np.mean((model.predict(rows.X_test) - rows.y_test[:, 0]) ** 2)), rel=1e-6
    )


def test_one_row_a_run_and_the_baselines(comparison):
    frame = comparison.frame
    assert list(frame.columns) == list(experiment.COLUMNS)
    maps = frame[~frame["map"].isin(BASELINES)]
    assert len(maps) == 3 * 2 * 2
    assert frame["map"].tail(3).tolist() == ["exact kernel", "linear model", "constant"]
    base = frame.set_index("map")["error"]
    assert base["exact kernel"] < base["constant"]
    assert (maps["frobenius"] > 0).all()
    assert (maps[["fit_seconds", "transform_seconds", "model_seconds", "bytes"]] > 0).all().all()
    assert frame.attrs["n_reference"] == 120
    assert frame.attrs["task"] == "regression"
    assert not frame.isna().drop(columns=["frobenius", "spectral"]).any().any()


def test_the_same_seed_is_the_same_table_and_another_is_not(diabetes):
    X, y = diabetes
    options = {"maps": ["fourier:iid", "Nystroem"], "n_components": 16, "n_runs": 1, "n_reference": 100}
    numbers = ["frobenius", "spectral", "error", "bytes"]
    first, again, other = (bochner.compare(X, y, random_state=seed, **options)[numbers] for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert (first["frobenius"].iloc[:2] != other["frobenius"].iloc[:2]).all()


def test_labels_are_classified():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    frame = bochner.compare(X, names[y], maps=["fourier:auto"], n_components=[32], n_runs=1)
    error = frame.set_index("map")["error"]
    assert frame.attrs["task"] == "classification"
    assert error["exact kernel"] <= 0.2
    assert error["constant"] >= 0.5
    two = bochner.compare(X[:100], y[:100], maps=["fourier:auto"], n_components=[32], n_runs=1)
    assert two.set_index("map")["error"]["exact kernel"] <= 0.05


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.array(["a", "b"]), "classification"),
        (np.array([True, False]), "classification"),
        (np.arange(20) % 3, "classification"),
        (np.arange(200), "regression"),
        (np.arange(20.0) % 3, "regression"),
        (np.zeros((4, 2), int), "regression"),
    ],
)
def test_what_a_target_is(y, task):
    assert task_of(y) == task


KERNELS = [
    RBF("median"),
    RBF([1.0, 2.0, 3.0]),
    Matern("median", nu=1.5),
    Laplacian("median"),
    bochner.Cauchy("median"),
    Polynomial(2),
    bochner.Linear(),
    bochner.ExponentialDot(),
    ArcCosine(1),
    AdditiveChi2(),
    RBF(1.0) + 0.5 * bochner.Linear(),
    RBF(1.0) * Matern(2.0),
    bochner.Custom(lambda A, B: np.exp(-((A[:, None] - B[None]) ** 2).sum(-1))),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_the_default_maps_know_their_kernel(kernel):
    X = np.abs(np.random.default_rng(0).normal(size=(80, 3)))
    frame = bochner.compare(X, kernel=kernel, n_components=[40], n_runs=1)
    assert frame["map"].tolist() == default_maps(bochner.as_kernel(kernel).resolve(X))
    assert (frame["frobenius"] < 1.5).all()
    assert any(name.startswith("nystrom") for name in frame["map"])


def test_every_name_is_a_map():
    with pytest.raises(ValueError, match=r"did you mean 'fourier:orthogonal'"):
        as_candidates(["fourier:orthogonl"], RBF(1.0))
    for name in MAPS:
        assert as_candidates(name, RBF(1.0))[0].name == name
    assert as_candidates("fourier", RBF(1.0))[0].name == "fourier:auto"


class Doubled(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.hstack([X, X])


def test_transformers_of_ones_own(diabetes):
    X, y = diabetes
    mine = {"mine": FourierFeatures(RBF(0.2)), "theirs": RBFSampler(gamma=3.0), "doubled": Doubled()}
    frame = bochner.compare(X, y, maps=mine, n_components=[8, 16], n_runs=1, n_reference=100)
    counts = frame["map"].value_counts()
    assert counts["mine"] == counts["theirs"] == 2
    assert counts["doubled"] == 1
    assert frame.set_index("map")["columns"]["doubled"] == 20
    twice = as_candidates([RBFSampler(), RBFSampler()], RBF(1.0))
    assert [candidate.name for candidate in twice] == ["RBFSampler", "RBFSampler #2"]
    with pytest.raises(ValueError, match="a map is a name or a transformer"):
        bochner.compare(X, maps=[3])
    with pytest.raises(ValueError, match="maps is empty"):
        bochner.compare(X, maps=[])


@pytest.mark.parametrize("kind", ["csr", "float32", "integers", "list", "frame", "memmap"])
def test_data_of_every_kind(kind, diabetes, tmp_path):
    X = np.round(20 * diabetes[0][:60, :4])
    made = {
        "csr": lambda: scipy.sparse.csr_matrix(X),
        "float32": lambda: X.astype(np.float32),
        "integers": lambda: X.astype(np.int64),
        "list": lambda: X.tolist(),
        "frame": lambda: pd.DataFrame(X),
        "memmap": lambda: _memmap(X, tmp_path / "x.npy"),
    }[kind]()
    options = {"kernel": RBF(10.0), "maps": ["fourier:iid", "nystrom:uniform"], "n_components": [16], "n_runs": 1}
    frame, plain = bochner.compare(made, diabetes[1][:60], **options), bochner.compare(X, diabetes[1][:60], **options)
    # single precision leaves about 1e-6 of K, and kernels of low rank nothing but that
    np.testing.assert_allclose(frame["frobenius"], plain["frobenius"], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(frame["error"], plain["error"], rtol=0.05)


def _memmap(X, path):
    np.save(path, X)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones(5), None, "expected a table"),
        (np.ones((1, 2)), None, "at least two rows"),
        (np.array([["a", "b"]] * 20), None, "must be numbers"),
        (np.full((20, 2), np.nan), None, "NaN or infinity"),
        (np.ones((5, 2)), np.arange(5), "at least ten rows"),
        (np.ones((20, 2)), np.arange(19), "one target for each row"),
        (np.ones((20, 2)), np.full(20, np.nan), "targets contain NaN"),
        (np.ones((20, 2)), np.array(["a"] * 20), "nothing to tell apart"),
        (np.ones((20, 2)), np.array(["a", None] * 10, dtype=object), "missing labels"),
    ],
)
def test_bad_data_is_refused_in_words(X, y, message):
    with pytest.raises(ValueError, match=message):
        bochner.compare(X, y, n_components=[4], n_runs=1, maps=["fourier:iid"])


@pytest.mark.parametrize("options", [{"n_components": 0}, {"n_runs": 0}, {"n_reference": 3}, {"kernel": "rbff"}])
def test_bad_options_are_refused(options, diabetes):
    with pytest.raises(ValueError, match=r"must be|unknown kernel"):
        bochner.compare(diabetes[0], **options)


def test_a_map_that_does_not_suit_the_kernel_says_so(diabetes):
    with pytest.raises(ValueError, match=r"RBFSampler does not work on this data with Matern"):
        bochner.compare(diabetes[0], kernel="matern", maps=["RBFSampler"], n_components=[4])


@pytest.mark.parametrize("X", [np.ones((40, 3)), np.repeat(np.eye(3), 20, axis=0)], ids=["constant", "doubled"])
def test_degenerate_rows(X):
    frame = bochner.compare(
        X, kernel=RBF(1.0), maps=["fourier:iid", "nystrom:auto", "nystrom:uniform"], n_components=[8]
    )
    assert np.isfinite(frame["frobenius"]).all()
    assert (frame[frame["map"] == "nystrom:auto"]["frobenius"] < 1e-6).all()


def test_fewer_rows_than_columns(diabetes):
    X, y = diabetes
    frame = bochner.compare(
        X[:30], y[:30], maps=["Nystroem", "nystrom:uniform", "fourier:iid"], n_components=[64], n_runs=1
    )
    columns = frame.set_index("map")["columns"]
    assert columns["Nystroem"] == 24  # scikit-learn has no more landmarks than rows, and the table says so
    assert columns["nystrom:uniform"] == columns["fourier:iid"] == 64


def test_many_rows_are_sampled(monkeypatch):
    X = np.lib.stride_tricks.as_strided(np.arange(8.0), shape=(4_000_000, 4), strides=(0, 8))  # a gigabyte, if copied
    rows = draw_rows(X, np.broadcast_to(0.5, 4_000_000), 50, Key(0))
    assert rows.X.shape == (50, 4)
    assert rows.X_test.shape == (5000, 4)


def test_ctrl_c_returns_what_is_done(diabetes):
    X, y = diabetes
    seen = []

    def progress(done, total, label):
        seen.append((done, total, label))
        if done == 4:
            raise KeyboardInterrupt

    frame = bochner.compare(X, y, maps=["fourier:iid", "RBFSampler"], **FEW, progress=progress)
    assert frame.attrs["interrupted"]
    maps = frame[~frame["map"].isin(BASELINES)]
    assert len(maps) == 3
    assert maps["run"].max() == 0  # the first run of everything comes before the second of anything
    assert seen[0][:2] == (0, 9)
    assert seen[-1][0] == 9


def test_progress_counts_to_the_end(comparison, diabetes):
    seen = []
    bochner.compare(diabetes[0], maps=["fourier:iid"], **FEW, progress=lambda *step: seen.append(step))
    assert [step[0] for step in seen] == [0, 1, 2, 3, 4, 5]
    assert seen[-1] == (5, 5, "done")


# -- what it says --------------------------------------------------------------------------------------------------


def test_the_verdict_is_the_smallest_of_the_nearest_that_tie(comparison):
    verdict = conclude(comparison)
    summary = summarise(comparison.frame)
    maps = summary[~summary["map"].isin(BASELINES)]
    places = comparison.frame.groupby(["map", "columns"], sort=False).indices
    losses = [comparison.losses[places[row["map"], row["columns"]]] for _, row in summary.iterrows()]
    np.testing.assert_allclose([np.sqrt(np.mean(each, axis=1)).mean() for each in losses], summary["error"])
    columns = np.where(summary["map"].isin(BASELINES), -1, summary["columns"])
    tied = maps[paired(losses, columns, int(maps["error"].idxmin())).tied[maps.index]]
    near = tied[tied["frobenius"] <= 1.1 * tied["frobenius"].min()]
    assert verdict.columns == near["columns"].min()
    assert verdict.map in near[near["columns"] == verdict.columns]["map"].tolist()
    assert f"{comparison.about['n_test']} test rows and 2 runs cannot separate" in verdict.paragraph
    ties = f"all {len(maps)}" if len(tied) == len(maps) else f"{len(tied)} of the {len(maps)}"
    assert f"{ties} settings tie" in verdict.paragraph


@pytest.mark.parametrize("targets", [True, False])
def test_times_never_decide(targets, diabetes):
    X, y = diabetes
    found = experiment.run_comparison(X, y if targets else None, **FEW)
    before = conclude(found)
    for seed in range(5):  # a clock that is ten times wrong
        for column in ("fit_seconds", "transform_seconds", "model_seconds"):
            found.frame[column] *= 10.0 ** np.random.default_rng(seed).uniform(-1, 1, len(found.frame))
        after = conclude(found)
        assert (after.map, after.columns) == (before.map, before.columns)


def draws_of_losses(rng, means, n_runs=3, n_test=800, row=0.3, run=0.02, noise=0.3):
    """Losses of methods with the given means: every row has its own difficulty, every draw and every cell noise."""
    difficulty = rng.exponential(size=n_test)
    return [
        mean
        + difficulty
        + row * rng.normal(size=n_test)
        + run * rng.normal(size=(n_runs, 1))
        + noise * rng.normal(size=(n_runs, n_test))
        for mean in means
    ]


@pytest.mark.parametrize("run", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("n_runs", [1, 3])
def test_no_map_as_good_as_the_best_is_called_worse(run, n_runs):
    """In at most 5 % of the comparisons of equal maps, where the draws seen are all there is for one run."""
    rng = np.random.default_rng(0)
    n, columns = 400, np.full(8, 64)
    run = run if n_runs > 1 else 0.0
    wrong = 0
    for _ in range(n):
        losses = draws_of_losses(rng, np.zeros(8), n_runs=n_runs, n_test=120, run=run)
        best = int(np.argmin([each.mean() for each in losses]))
        wrong += not paired(losses, columns, best).tied[int(rng.integers(8))]
    assert wrong / n < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_differences_are_paired():
    """The difficulty of rows, far larger than what tells methods apart, cancels in their differences."""
    losses = draws_of_losses(np.random.default_rng(0), [0.0, 0.2, 0.01])
    found = paired(losses, np.full(3, 64), 0)
    assert found.tied.tolist() == [True, False, True]
    unpaired = np.sqrt(2.0 / 800)  # the standard error of a difference between means over different rows
    assert found.thresholds[1] < 2.0 * unpaired < found.differences[1] + 0.01
    assert paired(losses, np.full(3, 64), 1).better.tolist() == [True, False, True]


def test_equal_losses_tie_and_need_no_spread():
    same = np.ones((2, 30))
    found = paired([same, same, same + 1.0], np.array([8, 8, 16]), 0)
    assert found.tied.tolist() == [True, True, False]
    assert not found.better.any()


def test_what_is_not_drawn_has_no_spread():
    """A baseline of one run is compared with the draws of the others, however many have its number of columns."""
    rng = np.random.default_rng(0)
    drawn = draws_of_losses(rng, [0.0, 0.0], n_runs=3, n_test=4000)
    baseline = drawn[0].mean(axis=0, keepdims=True) + 0.2
    assert paired([*drawn, baseline], np.array([8, 8, -1]), 0).tied.tolist() == [True, True, False]


@pytest.mark.parametrize("name", ["RBFSampler", "fourier:orthogonal", "nystrom:auto"])
def test_the_code_runs_and_is_the_map(comparison, name, diabetes):
    from bochner.comparison.compare import code

    lines = code(comparison, name, 32)
    X, y = diabetes
    scope = {"X": X, "y": y}
    exec(lines, scope)
    expected = comparison.transformer(name, 32).fit_transform(X)
    np.testing.assert_allclose(scope["Z"], expected, atol=1e-4)  # the length scale has six digits
    assert scope["model"].predict(X).shape == y.shape


def test_without_targets_the_verdict_is_about_the_kernel(diabetes):
    found = experiment.run_comparison(diabetes[0], maps=["fourier:iid", "nystrom:auto"], **FEW)
    verdict = conclude(found)
    assert verdict.map == "nystrom:auto"
    assert "Give a target" in verdict.paragraph


def test_a_linear_target_needs_no_kernel():
    X = np.random.default_rng(0).normal(size=(300, 3))
    found = experiment.run_comparison(X, X @ [1.0, 2.0, 3.0], maps=["fourier:iid"], n_components=[32], n_runs=1)
    assert "A linear model is as good" in conclude(found).paragraph
    assert conclude(found).headline == "A linear model is as good as any kernel here"


def test_noise_is_not_learned():
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = np.random.default_rng(1).normal(size=400)
    found = experiment.run_comparison(X, y, maps=["fourier:iid"], n_components=[32], n_runs=1)
    assert "Nothing tried is better than a constant" in conclude(found).paragraph
    assert conclude(found).headline == "Nothing tried is better than a constant"


def test_pareto_front():
    seconds, errors = np.array([1.0, 2.0, 3.0, 2.5, 1.0]), np.array([3.0, 2.0, 1.0, 2.0, 4.0])
    assert pareto(seconds, errors).tolist() == [True, True, True, False, False]


def test_labels_are_spread_apart():
    rng = np.random.default_rng(0)
    for _ in range(20):
        places = np.sort(rng.uniform(0, 100, size=rng.integers(1, 9)))
        moved = np.array(spread(places.tolist(), 10.0, 0.0, 100.0))
        assert (np.diff(moved) >= 10 - 1e-9).all()
        assert moved.min() >= -1e-9
        assert moved.max() <= 100 + 1e-9
    assert spread([5.0, 50.0], 10.0) == [5.0, 50.0]


def test_numbers_for_people():
    assert [show_share(v) for v in (0.0, 0.314, 0.0123, 1.2e-5, 3e-9)] == [
        "0 %",
        "31 %",
        "1.2 %",
        "0.0012 %",
        "3e-07 %",
    ]
    assert [show_seconds(v) for v in (2e-5, 0.0123, 3.456)] == ["20 µs", "12.3 ms", "3.46 s"]
    assert [show_bytes(v) for v in (80, 2048, 3 << 20, 5 << 30)] == ["80 B", "2 KiB", "3 MiB", "5 GiB"]
