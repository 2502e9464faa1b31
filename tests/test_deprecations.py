"""Old names work for one version, warn, and give what they always gave."""

import math
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import bochner
from bochner import features, theory
from bochner.deprecations import old_names, old_parameters
from bochner.features import fourier, low_rank
from bochner.theory._old_names import OLD_NAMES


@pytest.fixture
def module(monkeypatch):
    module = types.ModuleType("shapes")
    module.__getattr__ = old_names("shapes", {"area": ("Square(side).area()", lambda side: side**2)})
    monkeypatch.setitem(sys.modules, "shapes", module)
    return module


def test_an_old_name_warns_where_it_is_used_and_says_what_to_write(module):
    with pytest.warns(FutureWarning, match=r"shapes.area is deprecated.*Write Square\(side\).area\(\) instead") as seen:
        assert module.area(3) == 9
    assert [warning.filename for warning in seen] == [__file__]
    with pytest.warns(FutureWarning, match="shapes.area") as seen:
        from shapes import area
    assert [warning.filename for warning in seen] == [__file__]
    assert area(2) == 4


def test_an_old_parameter_warns_where_it_is_given_and_means_the_new_one():
    @old_parameters(width="side")
    def area(side):
        return side**2

    with pytest.warns(FutureWarning, match=r"width= is deprecated.*Write side= instead") as seen:
        assert area(width=3) == 9
    assert [warning.filename for warning in seen] == [__file__]
    assert area(2) == area(side=2) == 4
    with pytest.raises(TypeError, match="got width, the old name of side, and side too"):
        area(side=1, width=2)


def test_a_name_that_never_was_is_an_attribute_error(module):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not hasattr(module, "volume")
        with pytest.raises(AttributeError, match="module 'shapes' has no attribute 'volume'"):
            _ = module.volume


# What the functions of theory gave before theorems were objects.
DOMAIN = {"n_features": 1, "diameter": 4.0, "second_moment": 1.0}
OLD_CALLS = {
    "all_pairs_error": [((1000, 4096), {"delta": 0.01}, 0.09483662)],
    "all_pairs_frequencies": [((1000, 0.1), {"delta": 0.01}, 3684)],
    "gaussian_sketch_risk": [((20, 10), {}, 1.111111), ((80, 10), {"delta": 1e-6}, 0.8720366)],
    "gaussian_sketch_size": [((0.1, 10), {}, 111), ((0.1, 10), {"delta": 1e-6}, 497)],
    "gaussian_uniform_error": [((1000,), {"delta": 0.05, "n_features": 1, "diameter": 4.0}, 0.1176354)],
    "gaussian_uniform_frequencies": [((0.1,), {"delta": 0.01, "n_features": 1, "diameter": 4.0}, 1574)],
    "greedy_error": [((100,), {"norm": 1.0}, 0.1), ((5,), {"norm": 1.0, "target_norm": 0.5}, 0.3872983)],
    "greedy_terms": [((0.1,), {"norm": 1.0}, 100)],
    "hilbert_mean_error": [((100,), {"delta": 0.01}, 0.4034854)],
    "jl_distortion": [((18846, 300), {}, 0.6198411), ((18846, 1000), {"delta": 0.01, "rule": "exact"}, 0.3159932)],
    "jl_failure": [((1000, 1000, 0.3), {}, 0.0001943068)],
    "jl_min_dim": [
        ((18846, 0.1), {}, 8876),
        ((18846, 0.2), {"delta": None, "rule": "dasgupta-gupta"}, 2272),
        ((18846, 0.5), {"delta": None, "rule": "classical"}, 788),
    ],
    "kitchen_sinks_error": [((400,), {"norm": 2.0, "delta": 0.01}, 0.4034854)],
    "kitchen_sinks_frequencies": [((0.1,), {"norm": 1.0, "delta": 0.01}, 1629)],
    "kitchen_sinks_risk": [((10**6, 10**4), {"norm": 1.0, "delta": 0.01}, 0.05347575)],
    "low_rank_components": [((10, 0.1), {}, 111)],
    "low_rank_error": [((1 / np.arange(1, 101), 20), {}, 0.1799008)],
    "norm_distortion": [((1000,), {"delta": 1e-3}, 0.1481280)],
    "pointwise_error": [((1000,), {"delta": 1e-3, "variance": 0.5}, 0.09239756)],
    "pointwise_failure": [((1000, 0.15), {}, 2.60146e-05)],
    "pointwise_frequencies": [
        ((0.1,), {"delta": 0.01, "form": "offset"}, 4239),
        ((), {"eps": 0.1, "delta": 0.01}, 1060),
    ],
    "ridge_error": [((10_000, 20.0), {"delta": 0.01}, 0.2107337)],
    "ridge_frequencies": [((20.0,), {}, 1937), ((20.0,), {"coherence": 2000.0}, 193639)],
    "spectral_error": [((1600, 40), {"kernel_norm": 150.0}, 403.87396), ((1600, 40), {"delta": 0.01}, 827.95311)],
    "spectral_frequencies": [((1600, 40.0), {"kernel_norm": 150.0}, 2405)],
    "uniform_error": [((1000,), {**DOMAIN, "delta": 0.05, "rule": "rahimi-recht"}, 0.3973798)],
    "uniform_failure": [((2000, 0.3), DOMAIN, 3.276497e-05)],
    "uniform_frequencies": [((0.1,), {**DOMAIN, "delta": 0.01}, 12014)],
}


@pytest.mark.parametrize("name", OLD_CALLS)
def test_the_functions_of_theory_give_what_they_gave(name):
    for args, keywords, value in OLD_CALLS[name]:
        with pytest.warns(FutureWarning, match=rf"bochner.theory.{name} is deprecated.*Write \w+Bound\(.*\)\.\w+\("):
            function = getattr(theory, name)
        found = function(*args, **keywords)
        assert type(found) is type(value)
        assert found == value if isinstance(value, int) else math.isclose(found, value, rel_tol=1e-6)
    with pytest.raises((TypeError, ValueError)):
        function(*args, 1, 2, 3, 4, **keywords)


def test_old_names_are_kept_but_not_shown():
    assert set(OLD_CALLS) == set(OLD_NAMES)
    assert dir(theory) == sorted(theory.__all__)
    assert not set(dir(theory)) & set(OLD_NAMES)
    assert all(hasattr(theory, name) for name in theory.__all__)


# estimator, old parameter, new one, a value; a file of version 0.1 with that value
OLD_PARAMETERS = [
    (bochner.KernelKMeans, "n_columns", "n_components", 8, "KernelKMeans"),
    (bochner.KernelPCA, "n_columns", "n_feature_components", 8, "KernelPCA"),
    (bochner.NystromFeatures, "form", "variant", "ensemble", "NystromFeatures-ensemble"),
]


@pytest.mark.parametrize(("cls", "old", "new", "value", "file"), OLD_PARAMETERS)
def test_estimators_take_their_old_parameters(cls, old, new, value, file):
    with pytest.warns(FutureWarning, match=f"{old}= is deprecated.*Write {new}= instead") as seen:
        made = cls(**{old: value})
    assert [warning.filename for warning in seen] == [__file__]
    with pytest.warns(FutureWarning, match=f"{old}= is deprecated") as seen:
        cls().set_params(**{old: value})
    assert [warning.filename for warning in seen] == [__file__]
    assert made.get_params() == cls(**{new: value}).get_params() == clone(made).get_params()
    assert old not in made.get_params()
    with pytest.warns(FutureWarning, match=rf"{cls.__name__}\.{old} is deprecated.*{cls.__name__}\.{new}"):
        assert getattr(made, old) == value
    with pytest.raises(TypeError, match=f"got {old}, the old name of {new}, and {new} too"):
        cls(**{old: value, new: value})
    # pickles and files of earlier versions
    state = dict(made.__getstate__())
    state[old] = state.pop(new)
    restored = cls.__new__(cls)
    restored.__setstate__(state)
    assert restored.get_params() == made.get_params()
    assert getattr(bochner.load(Path(__file__).parent / "golden" / f"{file}.safetensors"), new) == value


RENAMED = [
    (features, "HistogramWaves", "HistogramFourier"),
    (fourier, "HistogramWaves", "HistogramFourier"),
    (low_rank, "NystromForm", "NystromVariant"),
    (low_rank, "NYSTROM_FORMS", "NYSTROM_VARIANTS"),
    (low_rank, "as_nystrom_form", "as_nystrom_variant"),
]


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_renamed_classes_and_functions(module, old, new):
    with pytest.warns(FutureWarning, match=rf"{module.__name__}\.{old} is deprecated.*Write {new} instead"):
        assert getattr(module, old) is getattr(module, new)
