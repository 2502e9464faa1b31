"""Every public name, given what it does not expect: an answer that is finite, or a refusal that was written for it.

Each argument of a valid call is replaced by things that are none. `make fuzz` tries all of them on all registered
estimators, `make test` some on one of each class.
"""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

import bochner
from bochner import (
    RBF,
    ArcCosine,
    Cauchy,
    Custom,
    CyclicInvariant,
    DotProduct,
    Exponential,
    ExponentialDot,
    FeatureMatrix,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    Laplacian,
    Linear,
    MaclaurinSeries,
    Matern,
    NystromFeatures,
    Polynomial,
    Radial,
    RandomProjection,
    RationalQuadratic,
    Separable,
    as_kernel,
    certificates,
    diagnostics,
    exact_gaussian_process,
    exact_kernel_classifier,
    exact_kernel_ridge,
    exact_mmd,
    greedy_kitchen_sinks,
    kitchen_sinks,
    mmd_test,
    recommend,
)
from bochner.data.arrow import ArrowSource
from bochner.data.sources import ArraySource, BlockSource
from bochner.sketches import as_sketch_law
from hostile import (
    FEW,
    FUZZING,
    HOSTILE,
    answer,
    hostile_rows,
    hostile_targets,
    hostile_weights,
    values_of,
)
from laws import ESTIMATORS, MIXTURES, TABLES

N = 30
X = np.random.default_rng(0).uniform(0.1, 1.0, (N, 3))
Y = np.sin(5.0 * X[:, 0])
LABELS = np.arange(N) % 2
ONE_OF_EACH = list({type(estimator): estimator for estimator in reversed(ESTIMATORS)}.values())[::-1]
TRIED = [*(ESTIMATORS if FUZZING else ONE_OF_EACH), *MIXTURES, *TABLES]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # words may be taken for names of files


def targets(estimator):
    return LABELS if is_classifier(estimator) else Y


def use(model, rows):
    """Everything a model says about rows is finite."""
    for method in ("transform", "predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            values = values_of(getattr(model, method)(rows))
            assert values.dtype.kind != "f" or np.isfinite(values).all(), f"{method} is not finite"
    return True


def fit_and_use(estimator, rows, y, **options):
    return use(clone(estimator).fit(rows, y, **options), rows)


# -- estimators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hostile_rows(X))
def test_rows_that_are_none(name):
    for estimator in TRIED:
        rows, y = hostile_rows(X)[name], targets(estimator)
        n = rows.shape[0] if getattr(rows, "ndim", 0) else N
        y = y if n == N else np.resize(y, n)
        answer(fit_and_use, estimator, rows, y)
        answer(use, clone(estimator).fit(X, targets(estimator)), hostile_rows(X)[name])


@pytest.mark.parametrize("name", hostile_targets(Y))
def test_targets_that_are_none(name):
    for estimator in TRIED:
        answer(fit_and_use, estimator, X, hostile_targets(Y)[name])


@pytest.mark.parametrize("name", hostile_weights(N))
def test_weights_that_are_none(name):
    for estimator in TRIED:
        if has_fit_parameter(estimator, "sample_weight"):
            answer(fit_and_use, estimator, X, targets(estimator), sample_weight=hostile_weights(N)[name])


# what an honest machine would work on for ever
ENDLESS = {("KernelKMeans", "n_init"), ("ProjectedMixture", "n_init"), ("GaussianProcessRegressor", "n_restarts")}


@pytest.mark.parametrize("estimator", TRIED, ids=repr)
def test_parameters_that_are_none(estimator):
    for parameter in estimator.get_params(deep=False):
        if parameter == "checkpoint":
            continue  # any word is the name of a file
        for name, value in (HOSTILE if FUZZING else FEW).items():
            endless = (type(estimator).__name__, parameter) in ENDLESS
            if endless and isinstance(value, int) and value > 1000:
                continue
            model = clone(estimator).set_params(**{parameter: value})
            try:
                answer(fit_and_use, model, X, targets(estimator))
            except BaseException as error:
                error.add_note(f"{parameter}={name}")
                raise


@pytest.mark.parametrize("estimator", [e for e in TRIED if "device" in e.get_params()], ids=repr)
def test_words_and_numbers_that_name_no_device_are_refused_with_and_without_torch(estimator):
    for device in (10**30, 10**12, -1, 3, True, b"cuda", "abacus", "cuda:", "cuda:-1", f"cuda:{10**30}", "meta"):
        with pytest.raises(ValueError, match="device must be None, 'cuda', 'cuda:0', … or 'cpu'; got"):
            clone(estimator).set_params(device=device).fit(X, targets(estimator))


@pytest.mark.parametrize("estimator", ONE_OF_EACH, ids=repr)
@pytest.mark.parametrize(
    "parameter", ["n_components", "n_feature_components", "n_clusters", "n_grids", "max_iter", "block_size"]
)
def test_counts_that_nothing_can_hold_are_refused_at_once(estimator, parameter):
    if parameter in estimator.get_params():
        with pytest.raises(ValueError, match=rf"{parameter} must be at most|n_components=10"):
            clone(estimator).set_params(**{parameter: 10**12}).fit(X, targets(estimator))


# -- features of other libraries -------------------------------------------------------------------------------------


class Foreign(TransformerMixin, BaseEstimator):
    """A transformer of another library, which may give anything."""

    def __init__(self, function=None):
        self.function = function

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.function(np.asarray(X))


WRONG_FEATURES = {
    "one dimension": (lambda X: X[:, 0], "have shape"),
    "three dimensions": (lambda X: X[:, :, None], "have shape"),
    "a row too few": (lambda X: X[:-1] if len(X) > 1 else X, "have shape"),
    "no columns": (lambda X: X[:, :0], "have shape"),
    "None": (lambda X: None, "have shape"),
    "NaN": (lambda X: X * np.nan, "reach nan"),
    "inf": (lambda X: X * np.inf, "reach inf"),
    "1e300": (lambda X: X * 1e300, "reach"),
    "words": (lambda X: np.full(X.shape, "a"), "takes numbers"),
    "complex": (lambda X: X + 1j, "form='pairs' or form='offset'"),
    "more columns later": (lambda X: np.repeat(X, len(X), axis=1), "columns before"),
}
WITH_FEATURES = [model for model in ONE_OF_EACH if "features" in model.get_params() and hasattr(model, "device")]


@pytest.mark.parametrize("model", WITH_FEATURES, ids=repr)
@pytest.mark.parametrize("name", WRONG_FEATURES)
def test_a_model_says_which_features_it_takes(model, name):
    function, message = WRONG_FEATURES[name]
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(features=Foreign(function)).fit(X, targets(model))


@pytest.mark.parametrize("model", [*WITH_FEATURES, bochner.CompactFeatures(n_components=5)], ids=repr)
def test_complex_features_are_for_other_uses_than_models(model):
    complex_ = FourierFeatures(RBF(1.0), 16, form="complex")
    with pytest.raises(ValueError, match="complex, and a model takes real ones"):
        clone(model).set_params(features=complex_).fit(X, targets(model))


# -- functions and methods -------------------------------------------------------------------------------------------

_fourier = FourierFeatures(RBF(1.0), 64, rows="iid", random_state=0).fit(X)
_projection = RandomProjection(2, random_state=0).fit(X)
_ridge = KernelRidge(features=FourierFeatures(RBF(1.0), 64, rows="iid", random_state=0), alpha=0.1).fit(X, Y)
_process = GaussianProcessRegressor(RBF(1.0), 10, random_state=0).fit(X, Y)
_classifier = KernelClassifier(RBF(1.0), 10, alpha=0.1, random_state=0).fit(X, LABELS)
_components = KernelPCA(2, n_feature_components=10, fit_inverse_transform=True, random_state=0).fit(X)
_clusters = KernelKMeans(2, n_components=10, random_state=0).fit(X)
_greedy = greedy_kitchen_sinks(X, Y, 2, random_state=0)
_seed = {"random_state": 0}


def _decay(r):
    return np.exp(-r)


def _kernel(cls):
    return lambda **parameters: cls(**parameters).resolve(X)(X)


def _ridge_of(*source):
    return KernelRidge(RBF(1.0), 8, alpha=0.1, random_state=0).fit(*source).predict(X)


# name, and a name in bochner where it differs: a function and arguments that it takes
CALLS = {
    "kitchen_sinks": (
        kitchen_sinks,
        {"X": X, "y": Y, "X_test": X, "n_components": 8, "noise": 0.1, "kernel": "rbf"} | _seed,
    ),
    "greedy_kitchen_sinks": (
        greedy_kitchen_sinks,
        {"X": X, "y": Y, "n_terms": 2, "method": "omp", "kernel": "rbf", "n_candidates": 4, "refine": True} | _seed,
    ),
    "GreedyFit.predict": (_greedy.predict, {"X": X}),
    "mmd_test": (
        mmd_test,
        {"X": X, "Y": X[:10], "kernel": "rbf", "n_components": 8, "features": "fourier", "method": "permutation"}
        | {"n_permutations": 9}
        | _seed,
    ),
    "exact_mmd": (exact_mmd, {"kernel": RBF(1.0), "X": X, "Y": X[:9]}),
    "exact_kernel_ridge": (
        exact_kernel_ridge,
        {"kernel": "rbf", "X": X, "y": Y, "X_new": X, "alpha": 0.1, "sample_weight": None, "fit_intercept": True},
    ),
    "exact_gaussian_process": (
        exact_gaussian_process,
        {"kernel": "rbf", "X": X, "y": Y, "X_new": X, "noise_variance": 0.1, "amplitude": 1.0},
    ),
    "exact_kernel_classifier": (
        exact_kernel_classifier,
        {"kernel": "rbf", "X": X, "y": LABELS, "X_new": X, "alpha": 0.1, "loss": "log_loss"}
        | {"sample_weight": None, "fit_intercept": True},
    ),
    "recommend": (recommend, {"X": X, "y": Y, "kernel": "rbf", "budget_bytes": 1e8} | _seed),
    "certificates.kernel_error": (
        certificates.kernel_error,
        {"features": _fourier, "X": X, "norm": "frobenius", "kernel": None, "confidence": 0.9} | _seed,
    ),
    "certificates.distance_error": (
        certificates.distance_error,
        {"features": _projection, "X": X, "confidence": 0.9, "max_pairs": 100} | _seed,
    ),
    "certificates.prediction_error": (
        certificates.prediction_error,
        {"model": _ridge, "X": X, "n_blocks": 4, "confidence": 0.9},
    ),
    "FeatureMatrix": (
        lambda features, X: FeatureMatrix(features, X) @ np.ones((64, 1)),
        {"features": _fourier, "X": X},
    ),
    "diagnostics.distance_concentration": (diagnostics.distance_concentration, {"X": X, "max_rows": 10} | _seed),
    "diagnostics.star_discrepancy": (diagnostics.star_discrepancy, {"points": np.full((3, 2), 0.5), "order": 2}),
    "diagnostics.box_discrepancy": (
        diagnostics.box_discrepancy,
        {"frequencies": np.ones((3, 2)), "kernel": RBF(1.0), "box": 1.0},
    ),
    "diagnostics.gram_spectrum": (diagnostics.gram_spectrum, {"X": X, "kernel": "rbf", "max_rows": 10} | _seed),
    "diagnostics.spectrum_decay": (diagnostics.spectrum_decay, {"X": X, "kernel": "rbf", "max_rows": 10} | _seed),
    "diagnostics.leverage_coherence": (
        diagnostics.leverage_coherence,
        {"X": X, "kernel": "rbf", "alpha": 1.0, "max_rows": 10} | _seed,
    ),
    "as_kernel": (lambda kernel: as_kernel(kernel).resolve(X)(X), {"kernel": "rbf"}),
    "as_kernel, gamma": (lambda gamma: as_kernel("rbf", gamma=gamma)(X), {"gamma": 1.0}),
    "as_kernel, length_scale": (lambda scale: as_kernel("rbf", length_scale=scale)(X), {"scale": 1.0}),
    **{
        cls.__name__: (_kernel(cls), {"length_scale": 1.0} | more)
        for cls, more in (
            *((RBF, {}), (Exponential, {}), (Laplacian, {}), (Cauchy, {}), (Matern, {"nu": 1.5})),
            *((RationalQuadratic, {"alpha": 1.0}), (Radial, {"function": _decay}), (Separable, {"function": _decay})),
        )
    },
    "Polynomial": (_kernel(Polynomial), {"degree": 2, "gamma": 1.0, "coef0": 1.0}),
    "ExponentialDot": (_kernel(ExponentialDot), {"gamma": 1.0}),
    "MaclaurinSeries": (_kernel(MaclaurinSeries), {"series": [1.0, 2.0]}),
    "DotProduct": (_kernel(DotProduct), {"function": np.cosh}),
    "ArcCosine": (_kernel(ArcCosine), {"order": 1}),
    "CyclicInvariant": (_kernel(CyclicInvariant), {"kernel": RBF(1.0), "shape": None}),
    "Custom": (_kernel(Custom), {"function": lambda x, y: float(x @ y)}),
    "kernel ** k": (lambda k: (RBF(1.0) ** k)(X), {"k": 2}),
    "kernel.on": (lambda columns: RBF(1.0).on(columns)(X), {"columns": [0]}),
    "kernel.product": (RBF(1.0).product, {"X": X, "Y": X, "V": X}),
    "kernel.resolve": (RBF("median").resolve, {"X": X} | _seed),
    "Linear": (Linear().diagonal, {"X": X}),
    "GaussianProcessRegressor.sample_y": (_process.sample_y, {"X": X, "n_samples": 2} | _seed),
    "GaussianProcessRegressor.sample_functions": (
        lambda **options: _process.sample_functions(**options)(X),
        {"n_samples": 2, "n_components": 64} | _seed,
    ),
    "KernelPCA.inverse_transform": (_components.inverse_transform, {"X": _components.transform(X)}),
    "RandomProjection.inverse_transform": (_projection.inverse_transform, {"X": _projection.transform(X)}),
    "KernelRidge.merge": (lambda other: clone(_ridge).fit(X, Y).merge(other), {"other": _ridge}),
    "KernelRidge.partial_fit": (
        lambda X, y, weight: KernelRidge(RBF(1.0), 8, alpha=0.1).partial_fit(X, y, weight),
        {"X": X, "y": Y, "weight": None},
    ),
    "KernelClassifier.partial_fit": (
        lambda X, y, classes: KernelClassifier(RBF(1.0), 8, loss="squared").partial_fit(X, y, classes=classes),
        {"X": X, "y": LABELS, "classes": [0, 1]},
    ),
    "KernelClassifier, class_weight": (
        lambda weight: KernelClassifier(RBF(1.0), 8, alpha=0.1, class_weight=weight).fit(X, LABELS),
        {"weight": {0: 2.0}},
    ),
    "NystromFeatures, landmarks": (
        lambda landmarks: NystromFeatures(RBF(1.0), 5, landmarks=landmarks).fit_transform(X),
        {"landmarks": X[:4]},
    ),
    "NystromFeatures, precomputed": (lambda K: NystromFeatures("precomputed", 5).fit_transform(K), {"K": RBF(1.0)(X)}),
    "ArraySource": (lambda X, y, weight: _ridge_of(ArraySource(X, y, weight)), {"X": X, "y": Y, "weight": None}),
    "BlockSource": (lambda blocks: _ridge_of(BlockSource(blocks)), {"blocks": [(X, Y)]}),
    "a list of blocks": (lambda X, y: _ridge_of([(np.ones((4, 3)), np.ones(4)), (X, y)]), {"X": X, "y": Y}),
    "ArrowSource": (
        lambda data, target, columns: ArrowSource(data, target, columns).head(),
        {"data": None, "target": "y", "columns": ["a"]},
    ),
    "sketches.as_sketch_law": (as_sketch_law, {"law": "srht"}),
    "fwht": (bochner.fwht, {"X": np.eye(4)}),
    "datasets.load": (bochner.datasets.load, {"name": "digits"}),
}
# public names that are walked as estimators above, are no functions, or are walked by tests of their own
ELSEWHERE = {type(estimator).__name__ for estimator in (*ESTIMATORS, *MIXTURES, *TABLES)} | {
    *("Kernel", "ModelFileError", "Recommendation"),  # classes that are returned, raised or inherited from
    *("AdditiveChi2", "Sobolev", "certificates", "datasets", "diagnostics", "linalg", "sketches", "theory"),
    *("compare", "load", "plot_intervals", "save", "export_onnx"),
}


def test_every_public_name_is_walked():
    assert set(bochner.__all__) <= ELSEWHERE | CALLS.keys()
    for name, thing in [
        (name, getattr(module, name)) for module in (certificates, diagnostics) for name in dir(module)
    ]:
        public = inspect.isfunction(thing) and "X" in inspect.signature(thing).parameters
        taken_from_sums = name in ("leave_one_out_error", "effective_dimension_curve", "grow")
        assert not public or taken_from_sums or any(call.endswith(f".{name}") for call in CALLS), name


@pytest.mark.parametrize("name", CALLS)
def test_arguments_that_are_none(name):
    function, arguments = CALLS[name]
    if name == "ArrowSource":
        arguments = arguments | {"data": pytest.importorskip("pyarrow").table({"a": [1.0, 2.0], "y": [0.0, 1.0]})}
    function(**arguments)
    for argument, valid in arguments.items():
        tried = dict(HOSTILE if FUZZING or not isinstance(valid, np.ndarray) else FEW)
        if isinstance(valid, np.ndarray):
            tried |= hostile_rows(X) if valid.ndim == 2 else hostile_targets(Y)
        for what, value in tried.items():
            try:
                found = answer(function, **{**arguments, argument: value})
            except BaseException as error:
                error.add_note(f"{argument}: {what}")
                raise
            numbers = isinstance(found, np.ndarray) and found.dtype.kind == "f"
            if numbers and "N" not in what and "inf" not in what:  # kernels pass NaN on, as NumPy does
                assert np.isfinite(found).all(), f"{argument}: {what}"


# -- units -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MIXTURES, *TABLES], ids=repr)
def test_who_does_not_mind_a_factor_of_two_minds_none(estimator):
    """Scales that are taken from the rows are so for rows of any size: nothing vanishes, nothing overflows."""
    y = targets(estimator)
    method = (
        "transform"
        if hasattr(estimator, "transform")
        else "decision_function"
        if is_classifier(estimator)
        else "predict"
    )
    for dtype, exponents in ((np.float64, (100, 500, 980, -100, -500, -980)), (np.float32, (60, 100, -60, -100))):

        def found(exponent, dtype=dtype):
            rows = np.ldexp(X.astype(dtype), exponent)
            return values_of(getattr(clone(estimator).fit(rows, y), method)(rows))

        if answer(found, 1) is None or not np.array_equal(found(1), found(0)):
            continue
        size = np.abs(found(0)).max()
        for exponent in exponents:
            # what is tuned ends elsewhere within its tolerance
            np.testing.assert_allclose(found(exponent), found(0), rtol=0, atol=0.1 * size, err_msg=f"2^{exponent}")


@pytest.mark.parametrize(
    "estimator", [e for e in (*ESTIMATORS, *TABLES) if hasattr(e, "predict") and not hasattr(e, "transform")], ids=repr
)
def test_targets_of_any_size_are_learned_or_refused(estimator):
    if is_classifier(estimator):
        return
    expected = clone(estimator).fit(X, Y).predict(X)
    for exponent in (-300, -160, -139, -100, 100, 139, 160, 300):
        unit = 10.0**exponent
        found = answer(lambda unit: clone(estimator).fit(X, unit * Y).predict(X), unit)
        assert (found is None) == (abs(exponent) > 140)
        if found is not None:
            np.testing.assert_allclose(found / unit, expected, rtol=0, atol=0.02)
