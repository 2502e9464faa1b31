"""Forms of Nyström features against dense oracles."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bochner import (
    RBF,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    Linear,
    NystromFeatures,
)
from bochner.draws.keys import Key
from bochner.features.variants import as_nystrom_variant
from bochner.lab.low_rank import MEKA, NYSTROM_VARIANTS, Ensemble, Modified, Sketched, positive_root
from bochner.landmarks import grams
from bochner.sketches import SKETCH_LAWS, as_sketch_law

KERNEL = RBF(1.2)
ROWS = np.arange(0, 60, 5)  # landmarks


def rows(n=60, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.fixture(params=NYSTROM_VARIANTS)
def variant(request):
    return request.param


def test_fit_transform_is_fit_then_transform(variant, monkeypatch):
    X = rows()
    features = NystromFeatures(KERNEL, 12, variant=variant, random_state=0)
    Z = features.fit_transform(X)
    assert Z.shape == (60, 12)
    monkeypatch.setattr(grams, "_BLOCK_BYTES", 8 * 12 * 7)
    np.testing.assert_allclose(clone(features).fit(X).transform(X), Z, atol=1e-8)
    np.testing.assert_allclose(features.trace_error_, 1.0 - np.square(Z).sum() / 60.0, atol=1e-10)
    assert features.effective_rank_ == 12 or variant == "meka"  # which clips


def test_float32_and_sparse(variant):
    X = rows() * (rows(seed=1) > -0.5)
    features = NystromFeatures(KERNEL, 12, variant=variant, landmarks="auto" if variant == "sketched" else "rpcholesky")
    features.set_params(random_state=0)
    Z = features.fit_transform(X)
    Z32 = clone(features).fit_transform(X.astype(np.float32))
    assert Z32.dtype == np.float32
    np.testing.assert_allclose(Z32 @ Z32.T, Z @ Z.T, atol=2e-3)
    sparse = clone(features).fit_transform(scipy.sparse.csr_matrix(X))
    np.testing.assert_allclose(sparse @ sparse.T, Z @ Z.T, atol=1e-6)


def test_degenerate_data(variant):
    for kernel, X in ((KERNEL, np.ones((9, 2))), (Linear(), np.zeros((9, 2))), (KERNEL, rows(1)), (KERNEL, rows(5))):
        features = NystromFeatures(kernel, 7, variant=variant, random_state=0)
        Z = features.fit_transform(X)
        assert Z.shape == (len(X), 7)
        if not (variant == "ensemble" and len(X) == 5):  # an expert has a share of the rows only
            np.testing.assert_allclose(Z @ Z.T + features.shift_ * np.eye(len(X)), kernel(X), atol=1e-8)


def test_modified_is_the_best_of_its_columns():
    X = rows()
    K = KERNEL(X)
    Z = NystromFeatures(KERNEL, 12, landmarks=ROWS, variant="modified").fit_transform(X)
    pinv = np.linalg.pinv(K[:, ROWS])
    best = K[:, ROWS] @ pinv @ K @ pinv.T @ K[ROWS]
    np.testing.assert_allclose(Z @ Z.T, best, atol=1e-9)
    plain = NystromFeatures(KERNEL, 12, landmarks=ROWS).fit_transform(X)
    assert np.linalg.norm(K - Z @ Z.T) < np.linalg.norm(K - plain @ plain.T)


def test_spectral_shift_formula():
    F = rows(60, 12, seed=4)
    K = F @ F.T + 0.5 * np.eye(60)  # a flat tail, which is what the shift is for
    features = NystromFeatures("precomputed", 12, landmarks=ROWS, variant="shifted")
    Z = features.fit_transform(K)
    C = K[:, ROWS]
    pinv = np.linalg.pinv(C)
    delta = (np.trace(K) - np.trace(pinv @ K @ C)) / (60 - 12)
    U = pinv @ K @ pinv.T - delta * np.linalg.inv(C.T @ C)
    assert features.shift_ == pytest.approx(delta, rel=1e-9)
    np.testing.assert_allclose(Z @ Z.T, C @ U @ C.T, atol=1e-9)
    plain = NystromFeatures("precomputed", 12, landmarks=ROWS, variant="modified").fit_transform(K)
    error = np.linalg.norm(K - Z @ Z.T - delta * np.eye(60))
    assert error < np.linalg.norm(K - plain @ plain.T)


# -- the shift in models ----------------------------------------------------------------------------------------------


SHIFTED = NystromFeatures(KERNEL, 12, landmarks=ROWS, variant="shifted")


def shifted_problem():
    """Rows, targets, new rows, their features, and the shift of the kernel matrix ZZᵀ + delta I."""
    X, X_new = rows(), rows(9, seed=1)
    y = np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(2).normal(size=60)
    features = clone(SHIFTED).fit(X)
    assert features.shift_ > 0.01
    return X, y, X_new, features.transform(X), features.transform(X_new), features.shift_


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("solver", ["cholesky", "eigen", "cg"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_regression_adds_the_shift_to_its_penalty(alpha, solver, fit_intercept, weighted):
    """The dense solution with ZZᵀ + delta I, whose products with new rows are those of the features."""
    X, y, X_new, Z, Z_new, delta = shifted_problem()
    w = np.random.default_rng(3).uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    system = np.zeros((61, 61))
    system[:60, :60] = Z @ Z.T + (alpha + delta) * np.diag(1.0 / w)
    system[:60, 60] = system[60, :60] = float(fit_intercept)
    system[60, 60] = float(not fit_intercept)
    dual = np.linalg.solve(system, np.append(y, 0.0))
    expected = Z_new @ Z.T @ dual[:60] + dual[60]
    for features in (SHIFTED, make_pipeline(FunctionTransformer(), SHIFTED)):
        model = KernelRidge(features=features, alpha=alpha, solver=solver, fit_intercept=fit_intercept)
        model.fit(X, y, w if weighted else None)
        np.testing.assert_allclose(model.predict(X_new), expected, atol=1e-6)
        assert model.alpha_ == pytest.approx(alpha + delta)
    signs = KernelClassifier(features=SHIFTED, alpha=alpha, loss="squared", fit_intercept=fit_intercept).fit(X, y > 0)
    assert signs.alpha_ == pytest.approx(alpha + delta)


@pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence", [1e-6, 0.1, 10.0]])
def test_the_shift_is_the_least_penalty_of_a_path(alpha):
    X, y, *_, delta = shifted_problem()
    model = KernelRidge(features=SHIFTED, alpha=alpha, random_state=0).fit(X, y)
    path = model.alpha_path_
    assert path["alpha"].min() >= delta
    # of leave-one-out errors a larger one is taken where one row alone decides
    least = path["alpha"][np.argmin(path["criterion"])]
    assert model.alpha_ >= least if alpha == "loo" else model.alpha_ == least
    assert any("shift" in note for note in model.report_.notes)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_gaussian_processes_add_the_shift_to_their_noise(fit_intercept):
    """The dense posterior of the prior 1.7 (ZZᵀ + delta I)."""
    X, y, X_new, Z, Z_new, delta = shifted_problem()
    level = 1e6 * float(fit_intercept)
    K = 1.7 * (Z @ Z.T + delta * np.eye(60)) + level + 0.02 * np.eye(60)
    cross = 1.7 * Z_new @ Z.T + level
    covariance = 1.7 * (Z_new @ Z_new.T + delta * np.eye(9)) + level - cross @ np.linalg.solve(K, cross.T)
    options = {"noise_variance": 0.02, "amplitude": 1.7, "fit_intercept": fit_intercept, "random_state": 0}
    model = GaussianProcessRegressor(features=SHIFTED, **options).fit(X, y)
    mean, found = model.predict(X_new, return_cov=True)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, y), atol=1e-4)
    np.testing.assert_allclose(found, covariance, atol=1e-4)
    np.testing.assert_allclose(model.predict(X_new, return_std=True)[1] ** 2, np.diagonal(found), atol=1e-9)
    if not fit_intercept:
        evidence = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2.0 * np.pi * K)[1])
        np.testing.assert_allclose(model.log_marginal_likelihood(), evidence, rtol=1e-9)
    with pytest.raises(ValueError, match="white noise"):
        model.sample_functions(1)
    best = GaussianProcessRegressor(features=SHIFTED, fit_intercept=fit_intercept).fit(X, y)
    for factor in (0.7, 1.4):
        given = {"noise_variance": factor * best.noise_variance_, "amplitude": best.amplitude_}
        other = GaussianProcessRegressor(features=SHIFTED, fit_intercept=fit_intercept, **given).fit(X, y)
        assert other.log_marginal_likelihood() <= best.log_marginal_likelihood() + 1e-3


@pytest.mark.parametrize(
    "model",
    [KernelPCA(2), KernelKMeans(2), KernelClassifier(alpha=0.1), KernelClassifier(alpha=0.1, loss="squared_hinge")],
)
def test_models_without_a_place_for_the_shift_refuse_it(model):
    X, y, *_ = shifted_problem()
    with pytest.raises(ValueError, match=f"{type(model).__name__} does not support .* variant='modified'"):
        model.set_params(features=SHIFTED).fit(X, y > 0)
    model.set_params(features=clone(SHIFTED).set_params(variant="modified")).fit(X, y > 0)


@pytest.mark.parametrize(
    "features",
    [make_union(SHIFTED, FunctionTransformer()), make_pipeline(SHIFTED, StandardScaler())],
    ids=["union", "pipeline"],
)
def test_a_hidden_shift_is_refused(features):
    X, y, *_ = shifted_problem()
    with pytest.raises(ValueError, match="last step of a pipeline"):
        KernelRidge(features=features, alpha=1.0).fit(X, y)


@pytest.mark.parametrize("n_experts", [1, 3])
def test_uniform_ensemble_is_a_mean_of_projections(n_experts):
    X = rows()
    K = KERNEL(X)
    features = NystromFeatures(KERNEL, 12, landmarks=ROWS, variant=Ensemble(n_experts), random_state=0)
    Z = features.fit_transform(X)
    mean = np.zeros_like(K)
    for part in features.feature_map_.parts:
        S = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in part.landmarks]
        assert len(S) == 12 // n_experts
        mean += K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S]) / n_experts
    np.testing.assert_allclose(Z @ Z.T, mean, atol=1e-10)
    assert np.linalg.eigvalsh(K - Z @ Z.T)[0] > -1e-12


def test_fitted_weights_are_no_worse():
    X = rows(200)
    K = KERNEL(X)
    errors = {}
    for weights in ("uniform", "fitted"):
        Z = NystromFeatures(KERNEL, 20, variant=Ensemble(4, weights), random_state=0).fit_transform(X)
        errors[weights] = np.linalg.norm(K - Z @ Z.T)
    assert errors["fitted"] <= errors["uniform"]  # all rows are in the block they are fitted on


@pytest.mark.parametrize("name", SKETCH_LAWS)
def test_sketched_formula(name):
    X, new = rows(), rows(5, seed=2)
    K = KERNEL(X)
    features = NystromFeatures(KERNEL, 12, variant=Sketched(name), random_state=0).fit(X)
    key = Key(0).child("landmarks")
    S = as_sketch_law(name).resolve(K, key.child("probabilities")).sample(60, 12, key).to_dense()
    core = np.linalg.pinv(S @ K @ S.T, rcond=1e-11, hermitian=True)
    Z, W = features.transform(X), features.transform(new)
    np.testing.assert_allclose(Z @ Z.T, K @ S.T @ core @ S @ K, atol=1e-6)
    np.testing.assert_allclose(W @ Z.T, KERNEL(new, X) @ S.T @ core @ S @ K, atol=1e-6)
    assert np.linalg.eigvalsh(K - Z @ Z.T)[0] > -1e-6


def test_meka_formula():
    """With every row in the fits, blocks between clusters are projections and the whole is clipped in their bases."""
    X = rows(80)
    K = KERNEL(X)
    features = NystromFeatures(KERNEL, 40, variant=MEKA(4, n_rows=80), landmarks="uniform", random_state=0)
    Z = features.fit_transform(X)
    fitted = features.feature_map_
    labels = fitted.labels(X)
    W = np.zeros((80, sum(part.rank for part in fitted.parts)))
    start = 0
    for label, part in enumerate(fitted.parts):
        own = labels == label
        W[own, start : start + part.rank] = part(X[own])
        start += part.rank
    np.testing.assert_allclose(W.T @ W, np.eye(W.shape[1]), atol=1e-6)
    M = W.T @ K @ W
    for label, part in enumerate(fitted.parts):
        own = labels == label
        S = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in part.landmarks]
        block = K[np.ix_(own, S)] @ np.linalg.solve(K[np.ix_(S, S)], K[np.ix_(S, own)])
        columns = np.flatnonzero(W[own].any(axis=0))
        M[np.ix_(columns, columns)] = W[np.ix_(own, columns)].T @ block @ W[np.ix_(own, columns)]
    root = positive_root(M)
    np.testing.assert_allclose(Z @ Z.T, W @ root @ root.T @ W.T, atol=1e-6)


def test_meka_is_exact_with_every_row_and_needs_vectors():
    X = rows(20)
    Z = NystromFeatures(RBF(0.5), 60, variant=MEKA(3), landmarks="rpcholesky", random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, RBF(0.5)(X), atol=1e-7)
    with pytest.raises(ValueError, match="precomputed"):
        NystromFeatures("precomputed", 3, variant="meka").fit(np.eye(5))


@pytest.mark.parametrize("variant", sorted(set(NYSTROM_VARIANTS) - {"meka"}))
def test_precomputed(variant):
    X = rows()
    landmarks = "auto" if variant == "sketched" else ROWS
    by_kernel = NystromFeatures(KERNEL, 12, landmarks=landmarks, variant=variant, random_state=0).fit(X)
    by_matrix = NystromFeatures("precomputed", 12, landmarks=landmarks, variant=variant, random_state=0).fit(KERNEL(X))
    new = rows(4, seed=3)
    A, B = by_kernel.transform(new), by_matrix.transform(KERNEL(new, X))
    np.testing.assert_allclose(B @ B.T, A @ A.T, atol=1e-8)


def test_indefinite_matrices_are_named():
    A = rows(30, 30)
    for variant in ("sketched", "modified", "ensemble"):
        with pytest.raises(ValueError, match="positive semi-definite"):
            NystromFeatures("precomputed", 25, variant=variant, random_state=0).fit(A + A.T + 3.0 * np.eye(30))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"variant": "other"}, "variant must be one of"),
        ({"variant": "sketched", "landmarks": "uniform"}, "no landmarks"),
        ({"variant": "modified", "tol": 0.1}, "tol goes with"),
        ({"variant": Ensemble(0)}, "n_experts"),
        ({"variant": Ensemble(weights="best")}, "weights must be"),
        ({"variant": MEKA(0)}, "n_clusters"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        NystromFeatures(n_components=5, **params).fit(rows())


def test_forms_by_name():
    assert as_nystrom_variant("projection") is None
    assert as_nystrom_variant("shifted") == Modified(shift=True)
