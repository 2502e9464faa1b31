"""scikit-learn's own tests, as they are installed, with our classes in the place of its own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Collection
from unittest import mock

import pytest

from peers import adapters
from peers.left_out import NOT_RUN

# test module of scikit-learn -> where it imports from, and what
MODULES = {
    "sklearn.tests.test_kernel_approximation": (
        "sklearn.kernel_approximation",
        ("AdditiveChi2Sampler", "Nystroem", "PolynomialCountSketch", "RBFSampler"),
    ),
    "sklearn.tests.test_kernel_ridge": ("sklearn.kernel_ridge", ("KernelRidge",)),
    "sklearn.decomposition.tests.test_kernel_pca": ("sklearn.decomposition", ("KernelPCA",)),
    "sklearn.tests.test_random_projection": (
        "sklearn.random_projection",
        ("GaussianRandomProjection", "SparseRandomProjection"),
    ),
    "sklearn.gaussian_process.tests.test_gpr": ("sklearn.gaussian_process", ("GaussianProcessRegressor",)),
    "sklearn.utils.tests.test_extmath": ("sklearn.utils.extmath", ("randomized_svd",)),
}


def peer_tests(name, prefix="test_"):
    """The tests of a module of scikit-learn's, made anew so that names in its lists and decorators are ours too."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"this scikit-learn is installed without {name}", allow_module_level=True)
    source, names = MODULES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        original = importlib.import_module(name)  # whatever it imports is imported before names change
        spec = importlib.util.spec_from_file_location(f"peers_of_{name.replace('.', '_')}", original.__file__)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        with mock.patch.multiple(source, **{each: getattr(adapters, each) for each in names}):
            spec.loader.exec_module(module)
    tests = {test: value for test, value in vars(module).items() if test.startswith(prefix) and callable(value)}
    tests = {test: value for test, value in tests.items() if test not in NOT_RUN.get(name, ())}
    for test in tests.values():
        marks = getattr(test, "pytestmark", [])
        # what scikit-learn expects to fail is on our list, or holds
        test.pytestmark = [_listed(mark) for mark in marks if mark.name != "xfail"]
    return {"PEER": name, **tests}


def _listed(mark):
    """A mark whose parameters are a list: pytest deprecates generators."""
    if mark.name != "parametrize" or isinstance(mark.args[1], Collection):
        return mark
    return pytest.mark.parametrize(mark.args[0], list(mark.args[1]), **mark.kwargs).mark
