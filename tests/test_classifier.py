"""Kernel classification against exact kernel machines, scikit-learn's linear models and the meaning of its parts."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

from bochner import RBF, FourierFeatures, KernelClassifier, KernelRidge, NystromFeatures, exact_kernel_classifier
from bochner.checks import ConstantModelWarning
from bochner.data.labels import SignSource, codes_of, find_labels
from bochner.data.sources import ArraySource, Block, BlockSource, MappedSource
from bochner.draws.keys import Key
from bochner.estimators.kernel_spec import KernelSpec
from bochner.features.maps import Identity, LinearAfter
from bochner.newton.losses import LogLoss, as_loss
from bochner.newton.minimize import newton
from bochner.newton.objectives import Problem
from bochner.tuning.penalty_path import PenaltyPath, held_folds

LOSSES = ["log_loss", "squared_hinge"]


def problem(n=240, k=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    level = np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=n)
    y = np.digitize(level, np.quantile(level, np.linspace(0, 1, k + 1)[1:-1]))
    return X, y, rng.integers(0, 3, n).astype(float)


def every_row(weight):
    """Features that reproduce the kernel matrix of the training rows; those of weight zero are none."""
    return Nystroem(kernel="rbf", gamma=0.5 / 1.5**2, n_components=int((weight > 0).sum()), random_state=0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scores_are_those_of_the_exact_machine(loss, k, fit_intercept):
    X, y, weight = problem(k=k)
    model = KernelClassifier(
        features=every_row(weight), loss=loss, alpha=0.3, solver_tol=1e-10, fit_intercept=fit_intercept, random_state=0
    ).fit(X, y, weight)
    options = {"loss": loss, "sample_weight": weight, "fit_intercept": fit_intercept}
    truth = exact_kernel_classifier(RBF(1.5), X, y, X[:50] + 0.1, 0.3, **options)
    np.testing.assert_allclose(model.decision_function(X[:50] + 0.1), truth, atol=2e-4)
    assert model.report_.converged


@pytest.mark.parametrize("k", [2, 4])
def test_linear_models_of_scikit_learn_agree(k):
    X, y, weight = problem(k=k)
    features = FourierFeatures(RBF(1.5), 40, random_state=0)
    Z = features.fit_transform(X)
    log = KernelClassifier(features=features, alpha=0.5, solver_tol=1e-12).fit(X, y, weight)
    truth = LogisticRegression(C=2.0, tol=1e-10, max_iter=5000).fit(Z, y, weight)
    np.testing.assert_allclose(log.predict_proba(X), truth.predict_proba(Z), atol=1e-6)
    np.testing.assert_allclose(log.predict_log_proba(X), np.log(log.predict_proba(X)), atol=1e-12)
    svm = KernelClassifier(features=features, loss="squared_hinge", alpha=0.5, solver_tol=1e-13, fit_intercept=False)
    # ours is half the squared hinge, theirs all of it
    truth = LinearSVC(C=1.0, fit_intercept=False, tol=1e-10, max_iter=100_000, dual=False).fit(Z, y, weight)
    np.testing.assert_allclose(svm.fit(X, y, weight).decision_function(X), truth.decision_function(Z), atol=1e-5)
    ridge = KernelClassifier(features=features, loss="squared", alpha=0.5).fit(X, y, weight)
    truth = RidgeClassifier(alpha=0.5).fit(Z, y, weight)
    np.testing.assert_allclose(ridge.decision_function(X), truth.decision_function(Z), atol=1e-8)


def objective_of(Z, Y, weight, loss, alpha, P):
    """The objective and its gradient, written out."""
    F = Z @ P[:-1] + P[-1]
    slope = loss.slope(F, Y) * weight[:, None]
    value = float(weight @ loss.value(F, Y)) + 0.5 * alpha * float((P[:-1] ** 2).sum())
    return value, np.vstack([Z.T @ slope + alpha * P[:-1], slope.sum(axis=0)])


def least_objective(Z, Y, weight, loss, alpha, fit_intercept):
    """The minimum by scikit-learn's and SciPy's workhorse, converged to the last digits."""
    shape = (Z.shape[1] + 1, Y.shape[1])

    def function(flat):
        value, gradient = objective_of(Z, Y, weight, loss, alpha, flat.reshape(shape))
        gradient[-1] *= fit_intercept
        return value, gradient.ravel()

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
    return minimize(function, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options).fun


def signs_of(y):
    k = y.max() + 1
    signs = 2.0 * np.eye(k)[y] - 1.0
    return signs[:, 1:] if k == 2 else signs


MAPS = {
    "identity": lambda X: Identity(3),
    "fourier": lambda X: FourierFeatures(RBF(1.5), 40, random_state=0).fit(X).feature_map_,
    "nystrom": lambda X: NystromFeatures(RBF(1.5), 40, random_state=0).fit(X).feature_map_,
    "nystrom with zero columns": lambda X: NystromFeatures(RBF(1.5), 40, random_state=0).fit(X[:25]).feature_map_,
}


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "squared", "huber"])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("features", MAPS)
def test_the_minimum_is_reached_in_few_passes(loss, k, fit_intercept, features):
    X, y, weight = problem(n=3000, k=k)
    feature_map, Y, rule = MAPS[features](X), signs_of(y), as_loss(loss)
    Z = feature_map(X)[weight > 0]
    kept = weight > 0
    least = least_objective(Z, Y[kept], weight[kept], rule, 0.3, fit_intercept)
    at = Problem(ArraySource(X, Y, weight), feature_map, rule, 0.3, Y.shape[1], fit_intercept, rows=700)
    for tol, most in ((1e-4, 40), (1e-9, 90)):
        P, report, steps = newton(at, Key(0), tol=tol)
        value, _ = objective_of(Z, Y[kept], weight[kept], rule, 0.3, P)
        assert report.converged
        assert least * (1 - 1e-9) <= value <= least * (1 + tol)
        assert steps < report.iterations <= most
        assert fit_intercept or not P[-1].any()
        held, _, _ = newton(at.kept(), Key(0), tol=tol)  # features made once are the same problem
        np.testing.assert_allclose(objective_of(Z, Y[kept], weight[kept], rule, 0.3, held)[0], value, rtol=1.1 * tol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", MAPS)
def test_a_map_is_a_matrix_after_a_cheaper_map(features, dtype):
    X, _, _ = problem(n=2100)
    X = X.astype(dtype)
    feature_map = MAPS[features](X)
    inner, matrix = feature_map.factored()
    C = np.empty((len(X), inner.n_components), inner.dtype_of(X.dtype))
    inner.into(X, C)
    np.testing.assert_allclose(C, inner(X), rtol=1e-6)
    Z = C if matrix is None else C @ matrix
    np.testing.assert_allclose(Z, feature_map(X), atol=5e-5 if dtype == np.float32 else 1e-9)
    assert (matrix is not None) == features.startswith("nystrom")
    if matrix is not None:
        assert LinearAfter(inner, matrix).factored() == (inner, matrix)
        np.testing.assert_allclose(LinearAfter(inner, matrix)(X), Z)


def test_passes_do_not_grow_with_the_rows():
    """A step is a pass, and a larger sample needs no more steps to the same share of the objective."""
    passes = []
    for n in (4000, 32_000):
        X, y, _ = problem(n=n, k=2)
        feature_map = FourierFeatures(RBF(1.0), 60, random_state=0).fit(X).feature_map_
        at = Problem(ArraySource(X, signs_of(y)), feature_map, as_loss("log_loss"), 1e-3 * n, 1)
        passes.append(newton(at, Key(0))[1].iterations)
    assert max(passes) <= 14


@pytest.mark.parametrize(("n", "k"), [(500, 2), (500, 3), (12_000, 2)])
@pytest.mark.parametrize("features", MAPS)
def test_features_are_held_only_where_they_are_few(features, n, k):
    X, y, _ = problem(n=n, k=k)
    Y = signs_of(y)
    at = Problem(ArraySource(X, Y), MAPS[features](X[:500]), as_loss("log_loss"), 0.1, Y.shape[1])
    # of one score and many rows the features before the root, otherwise those after it
    before = n > 8 * at.fewest_rows
    assert before == (n == 12_000)
    columns = (at.feature_map.factored()[0] if before else at.feature_map).n_components
    columns = min(columns, at.feature_map.n_components)  # whichever fit
    at = replace(at, budget=8 * n * columns - 1)
    assert at.kept() is at
    held = replace(at, budget=8 * n * columns).kept()
    assert (held.feature_map is at.feature_map) == (features == "identity")
    P = np.random.default_rng(0).normal(size=at.shape)
    np.testing.assert_allclose(held.state(P).gradient, at.state(P).gradient, rtol=1e-9, atol=1e-9)


def test_large_features_are_held_in_float32_where_the_tolerance_allows():
    X, y, _ = problem(n=2700)
    feature_map = FourierFeatures(RBF(1.0), 400, random_state=0).fit(X).feature_map_
    exact = Problem(ArraySource(X, signs_of(y)), feature_map, as_loss("log_loss"), 1e-3, 3)
    held = replace(exact, single=True).kept()
    assert held.source.dtype == np.float32
    least = exact.state(newton(exact, Key(0), tol=1e-9)[0]).value
    found = exact.state(newton(held, Key(0), tol=1e-4)[0]).value
    assert least * (1 - 1e-9) <= found <= least * (1 + 1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("features", MAPS)
def test_states_are_values_and_their_derivatives(loss, features):
    X, y, weight = problem(n=200)
    feature_map, Y = MAPS[features](X), signs_of(y)
    at = Problem(ArraySource(X, Y, weight), feature_map, as_loss(loss), 0.2, 3, rows=64)
    P = 0.3 * np.random.default_rng(0).normal(size=at.shape)
    value, gradient = objective_of(feature_map(X), Y, weight, as_loss(loss), 0.2, P)
    state = at.state(P)
    np.testing.assert_allclose(state.value, value, rtol=1e-9)
    np.testing.assert_allclose(state.gradient, gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss", ["log_loss", "huber"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_products_with_all_rows_are_changes_of_the_gradient(loss, fit_intercept):
    X, y, weight = problem(n=90)
    for k, Y in ((1, signs_of(y)[:, :1]), (3, signs_of(y))):
        at = Problem(ArraySource(X, Y, weight), Identity(3), as_loss(loss), 0.2, k, fit_intercept, rows=17)
        rng = np.random.default_rng(0)
        P, V = 0.3 * rng.normal(size=(4, k)), rng.normal(size=(4, k))
        V[-1] *= fit_intercept
        rows, h = at.held(at.state(P), 1000, Key(0)), 1e-5
        change = (at.state(P + h * V).gradient - at.state(P - h * V).gradient) / (2 * h)
        product, bent = rows.product(V)
        np.testing.assert_allclose(product, change, atol=1e-6 * np.abs(change).max())
        assert bent == pytest.approx(np.vdot(V, change), rel=1e-6)
        moved = at.held(at.state(P + V), 1000, Key(0))
        np.testing.assert_allclose(rows.moved(rows.scores(V)).F, moved.F, atol=1e-10)
        # conjugate gradients undo what the Hessian does
        metric = rows.metric(Key(0), apart=k > 1, floor=1.0)
        undone, products = rows.solve(product, metric)
        assert np.vdot(undone - V, rows.product(undone - V)[0]) < 0.3 * bent
        assert products <= 10


def test_the_metric_of_all_rows_is_the_block_of_each_score():
    X, y, weight = problem(n=90)
    for k, Y in ((1, signs_of(y)[:, :1]), (3, signs_of(y))):
        at = Problem(ArraySource(X, Y, weight), Identity(3), as_loss("log_loss"), 0.2, k, rows=17)
        P = 0.3 * np.random.default_rng(0).normal(size=(4, k))
        rows = at.held(at.state(P), 1000, Key(0))
        metric = replace(rows.metric(Key(0), apart=k > 1, floor=1.0), balanced=False)
        for j in range(k):
            for i in range(4):
                step = np.zeros((4, k))
                step[i, j] = 1.0
                product, _ = rows.product(step)
                product[:, np.arange(k) != j] = 0.0
                np.testing.assert_allclose(metric(product), step, atol=1e-5)


def test_the_sketch_decides_the_cost_and_not_the_answer():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(6000, 8))
    y = np.where(Z[:, :1] + 0.5 * rng.normal(size=(6000, 1)) > 0, 1.0, -1.0)
    at = Problem(ArraySource(Z, y), Identity(8), as_loss("log_loss"), 1.0, 1)
    answers = []
    for seed in range(3):
        P, report, _ = newton(at, Key(seed), tol=1e-13)
        assert report.converged
        assert "of 6000 rows" in report.notes[1]
        answers.append(P)
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)
    np.testing.assert_allclose(answers[0], answers[2], atol=1e-6)
    # the sample is an unbiased estimate of the Hessian: the mean of its weight is the total curvature
    state = at.state(answers[0])
    totals = np.zeros(200)
    for seed in range(200):
        rows = at.held(state, 500, Key(100 + seed))
        totals[seed] = rows.weight @ at.loss.curvature(rows.F, rows.Y)[:, 0]
    z = (totals.mean() - state.curvature[0]) / (totals.std(ddof=1) / np.sqrt(len(totals)))
    assert abs(z) < 5.5


@pytest.mark.parametrize("loss", [*LOSSES, "squared"])
@pytest.mark.parametrize(
    "names", [[3, 7, 11], ["a", "bb", "ccc"], [-1.0, 0.0, 2.0], [True, False], np.array(["x", "y"], object)]
)
def test_labels_of_any_type(loss, names):
    X, y, _ = problem(k=len(names))
    names = np.asarray(names)
    model = KernelClassifier(RBF(1.5), 40, loss=loss, alpha=0.1, random_state=0).fit(X, names[y])
    assert (model.classes_ == np.unique(names)).all()
    assert set(model.predict(X)) <= set(names.tolist())
    assert model.score(X, names[y]) > 0.75


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "string", "int64[pyarrow]", "bool[pyarrow]", "category"])
def test_nullable_labels_keep_their_type_and_none_may_be_missing(dtype):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, codes, _ = problem(n=60, k=2)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    plain = {"s": np.array(["a", "b"]), "b": np.array([False, True])}.get(dtype[0], np.array([2**60, 2**60 + 1]))[codes]
    labels = pandas.Series(plain).astype(dtype)
    missing = labels.copy()
    missing[3] = None
    model = KernelClassifier(RBF(1.0), 20, alpha=0.1, random_state=0)
    for given in ((frame, labels), (X, labels), (frame.assign(y=labels), "y"), ([(X, labels)],)):
        model.fit(*given)
        assert model.classes_.tolist() == np.unique(plain).tolist()
        assert [type(label) for label in model.classes_.tolist()] == [type(plain.tolist()[0])] * 2
    assert model.score(X, labels) > 0.8
    for given in ((frame, missing), (X, missing), (frame.assign(y=missing), "y"), ([(X, missing)],)):
        with pytest.raises(ValueError, match=r"missing labels|contains NaN"):
            model.fit(*given)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_list_of_labels_beside_a_frame_is_no_list_of_columns(library):
    """Unless its length is not that of the frame, or all of its strings are columns."""
    DataFrame = pytest.importorskip(library).DataFrame
    X, _, _ = problem(n=60)
    frame, labels = DataFrame({"x": X[:, 0], "z": X[:, 1]}), np.where(X[:, 0] > 0, "pos", "neg").tolist()
    model = KernelClassifier(RBF(1.0), 20, alpha=0.1, random_state=0)
    truth = model.fit(X[:, :2], labels).decision_function(X[:, :2])
    np.testing.assert_array_equal(model.fit(frame, labels).decision_function(frame), truth)
    with pytest.raises(ValueError, match="no column 'pos'"):
        model.fit(frame, ["pos", "neg"])
    two = DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0], "c": [0.0, 2.0]})
    ridge = KernelRidge(RBF(1.0), 4, alpha=0.1, random_state=0).fit(two, ["a", "b"])
    assert ridge.feature_names_in_.tolist() == ["c"]


@pytest.mark.parametrize("loss", [*LOSSES, "squared"])
def test_blocks_frames_sparse_and_weights_are_one_model(loss):
    X, y, weight = problem()
    options = {"loss": loss, "alpha": 0.2, "tol": 1e-12, "random_state": 0}
    whole = KernelClassifier(RBF(1.5), 30, **options).fit(X, y, weight).decision_function(X)
    repeated = np.repeat(np.arange(len(X)), weight.astype(int))

    class Stream:
        def __iter__(self):
            return ((X[i : i + 50], y[i : i + 50], weight[i : i + 50]) for i in range(0, len(X), 50))

    for data in [
        (X[repeated], y[repeated]),
        (scipy.sparse.csr_matrix(X), y, weight),
        (Stream(),),
    ]:
        found = KernelClassifier(RBF(1.5), 30, block_size=64, **options).fit(*data).decision_function(X)
        np.testing.assert_allclose(found, whole, atol=1e-6)
    single = KernelClassifier(RBF(1.5), 30, loss=loss, alpha=0.2, random_state=0).fit(X.astype(np.float32), y, weight)
    scores = single.decision_function(X.astype(np.float32))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, whole, atol=0.05 * np.abs(whole).max())


@pytest.mark.parametrize("loss", [*LOSSES, "squared"])
def test_class_weights_are_row_weights(loss):
    X, y, weight = problem()
    y = np.where(y == 2, 2, 0)
    options = {"loss": loss, "alpha": 0.2, "tol": 1e-12, "random_state": 0}
    given = KernelClassifier(RBF(1.5), 30, class_weight={2: 3.0}, **options).fit(X, y, weight)
    rows = KernelClassifier(RBF(1.5), 30, **options).fit(X, y, weight * np.where(y == 2, 3.0, 1.0))
    np.testing.assert_allclose(given.decision_function(X), rows.decision_function(X), atol=1e-6)
    balanced = KernelClassifier(RBF(1.5), 30, class_weight="balanced", **options).fit(X, y)
    assert balanced.predict(X).tolist().count(2) > 0.25 * len(X)


def test_partial_fit_is_one_pass():
    X, y, _ = problem()
    y = np.array(["a", "b", "c"])[y]
    whole = KernelClassifier(RBF(1.5), 30, loss="squared", alpha="gcv", random_state=0).fit(X, y)
    parts = KernelClassifier(RBF(1.5), 30, loss="squared", alpha="gcv", random_state=0)
    first = y[:100] != "c"
    parts.partial_fit(X[:100][first], y[:100][first], classes=["c", "b", "a"])
    parts.partial_fit(X[:100][~first], y[:100][~first]).partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-8)
    before = parts.decision_function(X)
    with pytest.raises(ValueError, match="'d' is none of the classes"):
        parts.partial_fit(X[:2], ["a", "d"])
    np.testing.assert_array_equal(parts.decision_function(X), before)
    assert not hasattr(KernelClassifier(), "partial_fit")
    with pytest.raises(AttributeError) as caught:
        KernelClassifier().partial_fit(X, y)
    assert "squared" in str(caught.value.__cause__)


def test_probabilities_are_calibrated():
    """Labels drawn from known probabilities: the mean of predicted probabilities in every bin is the share there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2))
    p = 1.0 / (1.0 + np.exp(-3.0 * np.sin(2.0 * X[:, 0]) * X[:, 1]))
    y = rng.random(len(X)) < p
    model = KernelClassifier("rbf", 128, random_state=0).fit(X[:8000], y[:8000])
    found = model.predict_proba(X[8000:])[:, 1]
    # the truth's own log loss is the floor; m = 128 features on 8,000 rows come within 0.02 nats of it
    truth = -np.mean(np.where(y[8000:], np.log(p[8000:]), np.log1p(-p[8000:])))
    ours = -np.mean(np.where(y[8000:], np.log(found), np.log1p(-found)))
    assert ours < truth + 0.02
    for low in np.arange(0.0, 1.0, 0.2):
        rows = (found >= low) & (found < low + 0.2)
        error = y[8000:][rows].mean() - found[rows].mean()
        assert abs(error) < 0.03 + 5.0 * np.sqrt(0.25 / rows.sum())


def test_alpha_is_chosen_by_held_out_loss():
    X, y, _ = problem(n=600)
    auto = KernelClassifier(RBF(1.5), 60, random_state=0).fit(X, y)
    path = auto.alpha_path_
    assert auto.alpha_ == path["alpha"][np.argmin(path["criterion"])]
    grid = KernelClassifier(RBF(1.5), 60, alpha=[1e-5, 0.1, 1e3], random_state=0).fit(X, y)
    assert grid.alpha_ == 0.1
    assert "held-out" in " ".join(grid.report_.notes)
    gcv = KernelClassifier(RBF(1.5), 60, loss="squared", random_state=0).fit(X, y)
    assert len(gcv.alpha_path_["alpha"]) > 5
    grown = KernelClassifier(random_state=0, max_components=512).fit(X, y)
    assert grown.n_components_ >= 32
    assert grown.score(X, y) > 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"alpha": "gcv"}, "for loss='squared'"),
        ({"alpha": -1.0}, "alpha must be a positive"),
        ({"alpha": 0.0}, "alpha must be a positive"),
        ({"tol": 0.0}, "tol must be"),
        ({"solver_tol": 0.0}, "solver_tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"checkpoint": "there"}, "checkpoint needs loss='squared'"),
        ({"class_weight": {9: 1.0}}, "class_weight must give"),
        ({"class_weight": "equal"}, "class_weight must be one of"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, "two classes or more of positive weight"),
        ({"class_weight": {0: 0.0, 2: 0.0}, "loss": "squared"}, "two classes or more of positive weight"),
        ({"n_components": 0}, "n_components must be"),
    ],
)
def test_bad_parameters(options, message):
    X, y, _ = problem(n=40)
    with pytest.raises(ValueError, match=message):
        KernelClassifier(**{"kernel": RBF(1.0), "n_components": 10, **options}).fit(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(40), "two classes"),
        (np.where(np.arange(40) < 3, np.nan, 1.0), "NaN"),
        (np.array([None, "a"] * 20, object), "missing labels|cannot be ordered"),
        (np.array([1, "a"] * 20, object), "cannot be ordered|nknown label type"),
        (np.random.default_rng(0).normal(size=40), "nknown label type"),
    ],
)
def test_bad_labels(y, message):
    X, _, _ = problem(n=40)
    with pytest.raises(ValueError, match=message):
        KernelClassifier(RBF(1.0), 10).fit(X, y)


def test_one_class_after_weights_and_in_streams():
    X, y, _ = problem(n=40)
    with pytest.raises(ValueError, match="two classes"):
        KernelClassifier(RBF(1.0), 10).fit(X, y, (y == 1).astype(float))
    with pytest.raises(ValueError, match="two classes"):
        KernelClassifier(RBF(1.0), 10).fit([(X, np.ones(40)), (X, np.ones(40))])
    with pytest.raises(NotFittedError):
        KernelClassifier().predict(X)
    with pytest.raises(AttributeError) as caught:
        KernelClassifier(RBF(1.0), 10, loss="squared").fit(X, y).predict_proba(X)
    assert "log_loss" in str(caught.value.__cause__)


def test_separable_data_and_hopeless_penalties_end():
    X = np.array([[-1.0], [1.0]] * 20)
    y = X[:, 0] > 0
    model = KernelClassifier(RBF(1.0), 10, alpha=1e-8, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.decision_function(X)).all()
    with pytest.warns(ConvergenceWarning, match="Newton's method stopped after 1 steps"):
        KernelClassifier(RBF(1.0), 10, alpha=1e-8, max_iter=1, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single = KernelClassifier(RBF(1.0), 10, alpha=1e-3, solver_tol=1e-12, random_state=0)
        assert single.fit(X.astype(np.float32), y).score(X, y) == 1.0


@pytest.mark.parametrize("loss", LOSSES)
def test_penalties_near_the_ends_of_floating_point_end(loss):
    """A tiny one separates the rows and ends there; a huge one leaves a constant, although its square underflows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] > np.median(X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny, huge = (
            KernelClassifier(RBF(3.0), 30, loss=loss, alpha=alpha, solver_tol=1e-14, random_state=0).fit(X, y)
            for alpha in (1e-300, 1e300)
        )
    assert tiny.score(X, y) == 1.0
    np.testing.assert_allclose(huge.decision_function(X), 0.0, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("n", "k", "stream", "options"),
    [
        (1000, 2, False, {}),  # in some of the draws, all rows of a rare class are held out
        (1000, 3, False, {}),
        (20_000, 2, False, {}),  # the sample on which alpha is chosen lacks it
        (20_000, 2, True, {}),
        (20_000, 3, True, {}),
        (20_000, 2, False, {"alpha": 1.0}),  # the sample that Newton's method starts on lacks it
    ],
)
def test_rare_classes_have_the_probability_of_their_rows(loss, n, k, stream, options):
    """At the minimum, probabilities of a class add up to its rows, wherever these fall."""
    X = np.random.default_rng(0).normal(size=(n, 3))
    y = np.zeros(n, int)
    y[[3, 5][: k - 1]] = range(1, k)
    data = ([(X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])],) if stream else (X, y)
    for seed in range(6 if n == 1000 else 1):
        model = KernelClassifier(RBF(2.0), 40, loss=loss, random_state=seed, solver_tol=1e-6, **options).fit(*data)
        assert np.isfinite(model.component_weights_).all()
        assert np.isfinite(model.decision_function(X)).all()
        if loss == "log_loss":
            np.testing.assert_allclose(model.predict_proba(X).sum(axis=0)[1:], 1.0, rtol=0.05)


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")  # by scikit-learn 1.6.1 and later
def test_no_row_is_held_out_that_a_class_needs():
    """Thirty classes of one row each leave none to hold out; thirty of two rows keep one each."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    alone = KernelClassifier(RBF(2.0), 20, random_state=0).fit(X[:30], np.arange(30))
    assert "too few rows to hold some out" in " ".join(alone.report_.notes)
    assert KernelClassifier(RBF(2.0), 20, random_state=0).fit(X, np.arange(60) % 30).alpha_path_


def test_folds_hold_out_every_class_in_proportion():
    codes = np.repeat([0, 1, 2], [1, 10, 389])
    folds, n_first = held_folds(codes, 2000, Key(0))
    assert len(folds) == n_first == 5
    assert sorted(np.concatenate(folds)) == list(range(1, 400))  # the only row of a class is always learned
    counts = np.array([np.bincount(codes[fold], minlength=3) for fold in folds])
    assert (counts[:, 1] == 2).all()
    assert np.ptp(counts[:, 2]) <= 1


@pytest.mark.parametrize("n_positive", [5, 300])
def test_samples_by_class_are_unbiased(n_positive):
    """Sums over rows keep their proportions, and a rare class is there with all or many of its rows."""
    rng = np.random.default_rng(0)
    y = (np.arange(40_000) < n_positive).astype(int)
    X = rng.normal(size=(len(y), 2)) + y[:, None]
    sources = ArraySource(X, y), BlockSource([(X[:20_000], y[:20_000]), (X[20_000:], y[20_000:])])
    for source in sources:
        signs = SignSource(source, find_labels(source, None))
        block = signs.sample(2000, Key(1))
        codes = codes_of(block.y)
        assert np.count_nonzero(codes) == min(n_positive, 100)
        share = block.weights[codes == 1].sum() / block.weights.sum()
        np.testing.assert_allclose(share, n_positive / 40_000, rtol=1e-9)
        assert np.ptp(block.weights[codes == 0]) == 0.0
    balanced = ArraySource(X, rng.integers(2, size=len(y)))
    assert SignSource(balanced, find_labels(balanced, None)).sample(2000, Key(1)).weight is None


def rare(n_positive, seed, linear):
    """Rows to learn from and fresh ones; the positives of 20,000 rows have the largest noisy scores."""
    rng = np.random.default_rng(seed)
    n = 20_000
    X = rng.normal(size=(2 * n, 8))
    scores = 3.0 * X[:, 0] + X[:, 1] if linear else X[:, 0] ** 2 + X[:, 1] ** 2
    scores = scores + 0.3 * rng.normal(size=2 * n)
    y = scores > np.sort(scores[:n])[-n_positive - 1]
    return X[:n], y[:n], X[n:], y[n:]


def losses_of(model, y, X_new, y_new):
    """Log losses of fresh rows (n,), of the model and of the class frequencies."""
    codes = np.searchsorted(model.classes_, y_new)
    frequencies = np.bincount(np.searchsorted(model.classes_, y)) / len(y)
    return -model.predict_log_proba(X_new)[np.arange(len(codes)), codes], -np.log(frequencies[codes])


def check_against_frequencies(model, X, y, X_new, y_new):
    """A model without a warning is no worse than the class frequencies by more than chance."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    found, constant = losses_of(model, y, X_new, y_new)
    warned = any(warning.category is ConstantModelWarning for warning in caught)
    error = np.std(found - constant) / np.sqrt(len(found))
    assert warned or found.mean() <= constant.mean() + 3.0 * error
    return found.mean() / constant.mean(), warned


@pytest.mark.parametrize(
    ("n_positive", "linear", "seeds", "most"),
    [
        (10, True, (1, 2), 0.5),
        (50, False, (0,), 0.3),
        pytest.param(10, True, range(3), 0.7, marks=pytest.mark.slow),
        pytest.param(50, False, range(4), 0.4, marks=pytest.mark.slow),
        pytest.param(110, False, range(2), 0.3, marks=pytest.mark.slow),
    ],
)
def test_rare_classes_are_learned(n_positive, linear, seeds, most):
    for seed in seeds:
        model = KernelClassifier(n_components=256, random_state=seed)
        share, warned = check_against_frequencies(model, *rare(n_positive, seed, linear))
        assert share < most
        assert not warned or n_positive == 10  # few enough for chance


@pytest.mark.parametrize(
    ("n", "seeds"),
    [
        (20, range(4)),
        (60, range(4)),
        (333, range(2)),
        *(pytest.param(n, range(6), marks=pytest.mark.slow) for n in (120,)),
    ],
)
def test_small_tables_have_probabilities_that_hold(n, seeds):
    """Log losses of small tables are below those of the class frequencies, in the mean and up to chance in each."""
    shares = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 2000, 4))
        y = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.7 * rng.normal(size=len(X)) > 0.5
        model = KernelClassifier(random_state=seed)
        shares.append(fitted_share(model, X[:n], y[:n], X[n:], y[n:]))
    assert np.max(shares) <= (1.5 if n < 60 else 1.0)
    assert np.mean(shares) <= (1.0 if n < 60 else 0.75)


def fitted_share(model, X, y, X_new, y_new):
    """The log loss of fresh rows, in units of that of the class frequencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantModelWarning)
        model.fit(X, y)
    found, constant = losses_of(model, y, X_new, y_new)
    return found.mean() / constant.mean()


@pytest.mark.parametrize("n", [20, 60, 333])
def test_shuffled_labels_warn(n):
    """Labels without a pattern: two models in three warn at least, and the mean one is close to the frequencies."""
    warned, shares = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n + 2000, 4)), rng.random(n + 2000) < 0.4
        model = KernelClassifier(RBF(2.0), 20, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X[:n], y[:n])
        warned.append(any(warning.category is ConstantModelWarning for warning in caught))
        found, constant = losses_of(model, y[:n], X[n:], y[n:])
        shares.append(found.mean() / constant.mean())
    assert np.mean(warned) >= 2 / 3
    assert np.mean(shares) <= 1.05


def test_few_penalties_find_the_least_held_out_loss():
    """No more than a dozen fits come as near to the least loss as a fine grid, wherever it lies between decades."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = np.digitize(np.sin(3.0 * X[:, 0]) + X[:, 1], [-0.5, 0.5])
    for scale in (1.0, 2.0, 5.0):
        model = KernelClassifier(RBF(0.7), 200, random_state=0).fit(X, y)
        rows = Block(scale * model.feature_map_(X), 2.0 * (y[:, None] == [0, 1, 2]) - 1.0)
        folds, n_first = held_folds(y, 3000, Key(0))
        path = PenaltyPath(rows, folds, n_first, model._problem, LogLoss())
        path.search()
        assert len(path.losses) <= 12
        found = path.least
        for decade in np.arange(-1.0, 1.0, 0.1):
            path.loss_at(path.best * 10.0**decade)
        assert found <= 1.005 * path.least


def test_a_penalty_at_the_end_of_its_range_warns():
    """Rows that only ever smaller penalties separate better: their loss falls down to the smallest one."""
    X = np.array([[-1.0, 0.0], [1.0, 0.0], [-1.0, 0.1], [1.0, 0.1]] * 500)
    y = X[:, 0] > 0

    class Steep(PenaltyPath):
        floor = 0.0

    rows = Block(1e-3 * X, np.where(y, 1.0, -1.0)[:, None])
    folds, n_first = held_folds(codes_of(rows.y), 6000, Key(0))
    model = KernelClassifier(RBF(1.0), 2, random_state=0).fit(X, y)
    path = Steep(rows, folds, n_first, model._problem, LogLoss())
    path.search()
    with pytest.warns(UserWarning, match="is the smallest penalty tried"):
        path.warn()


def test_models_pickle_and_mapped_sources_are_what_they_map():
    X, y, _ = problem(n=60)
    for loss in (*LOSSES, "squared"):
        model = KernelClassifier(RBF(1.0), 10, loss=loss, alpha=0.1, random_state=0).fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    source = ArraySource(X, y)
    same = MappedSource(source, lambda block: block)
    assert [len(b) for b in same.blocks(25, 20)] == [25, 15]
    assert same.n_samples == 60
    assert same.layout() == source.layout()
    np.testing.assert_array_equal(same.sample(5, Key(0)).X, source.sample(5, Key(0)).X)


def test_three_weighted_labels_with_everything_chosen():
    """Weights multiply signs on their way through the tuning, and signs they remain."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
    model = KernelClassifier(loss="squared", random_state=0).fit(X, y, rng.uniform(0.1, 3.0, 300))
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("loss", ["log_loss", "squared"])
def test_the_clock_of_max_seconds_starts_with_fit(loss, monkeypatch):
    """What finding the labels took is not given to the search for components a second time."""
    X, y, _ = problem(n=200)
    clock, given = [0.0], []
    choose = KernelSpec.choose

    def chosen(self, *arguments, **options):
        given.append(self.max_seconds)
        return choose(self, *arguments, **options)

    def found(source, class_weight):
        clock[0] += 40.0
        return find_labels(source, class_weight)

    monkeypatch.setattr(KernelSpec, "choose", chosen)
    monkeypatch.setattr("bochner.estimators.classifier.find_labels", found)
    monkeypatch.setattr("bochner.data.progress.time.perf_counter", lambda: clock[0])
    KernelClassifier(loss=loss, max_seconds=100.0, random_state=0).fit(X, y)
    assert given == [60.0]


@pytest.mark.parametrize(("n", "n_features", "k"), [(1000, 20, 2), (2000, 10, 5)])
def test_linear_tables_are_learned_as_well_as_by_a_linear_model(n, n_features, k):
    """Squares of signs ask for short length scales where log odds are linear; the loss itself does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 5000, n_features))
    y = (X @ rng.normal(size=(n_features, k)) + 0.4 * rng.gumbel(size=(len(X), k))).argmax(axis=1)
    linear = LogisticRegression(max_iter=1000).fit(X[:n], y[:n])
    ours = [KernelClassifier(random_state=seed).fit(X[:n], y[:n]) for seed in range(3)]
    errors, least = [1.0 - model.score(X[n:], y[n:]) for model in ours], 1.0 - linear.score(X[n:], y[n:])
    assert np.mean(errors) <= least + np.sqrt(least * (1.0 - least) / 5000)
    assert min(model.n_components_ for model in ours) > n_features


@pytest.mark.parametrize("n", [60, 400])
def test_labels_that_can_be_separated_have_a_penalty(n):
    """The loss of held-out rows falls forever with the penalty, but nobody knows it below one over their number."""
    X = np.random.default_rng(0).normal(size=(n + 1000, 3))
    labels = X[:, 0] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelClassifier(random_state=0).fit(X[:n], labels[:n])
    p = model.predict_proba(X[n:])[:, 1]
    loss = -np.log(np.where(labels[n:], p, 1.0 - p).clip(1e-300)).mean()
    assert loss < 4.0 * np.log(n) / n


def test_many_classes_none_of_which_is_likely_are_learned():
    """Each of 20 classes has a probability below one half almost everywhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 10))
    level = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 + X[:, 4] + 0.1 * rng.normal(size=len(X))
    y = np.digitize(level, np.quantile(level, np.linspace(0, 1, 21)[1:-1]))
    model = KernelClassifier(RBF(4.0), 300, loss="squared", random_state=0).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > 0.1  # a constant has .05
