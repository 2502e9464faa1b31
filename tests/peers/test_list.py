"""The lists of tests that are left out name tests that there are."""

import importlib

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

from peers.conftest import matches
from peers.left_out import LEFT_OUT, NOT_RUN, SINCE
from peers.loading import MODULES

ENTRIES = [(module, entry) for named in (LEFT_OUT, NOT_RUN) for module, entries in named.items() for entry in entries]


def test_modules_are_those_with_tests():
    assert set(LEFT_OUT) == set(MODULES)


@pytest.mark.parametrize(("module", "entry"), ENTRIES)
def test_what_is_left_out_exists(module, entry, request):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"this scikit-learn is installed without {module}")
    name = entry.partition("[")[0]
    if parse_version(SINCE.get(name, "0")) > parse_version(sklearn.__version__):
        pytest.skip(f"scikit-learn {sklearn.__version__} has no {name} yet")
    assert hasattr(importlib.import_module(module), name), f"scikit-learn has no {name} any more"
    # doctests have no module
    cases = [i for i in request.session.items if getattr(getattr(i, "module", None), "PEER", None) == module]
    cases = [item for item in cases if item.originalname == name]
    if cases and not request.config.option.keyword:
        assert any(matches(entry, item) for item in cases), f"{name} has no such case any more"
