"""Fixtures that scikit-learn's tests ask for, and what becomes of the tests that are left out."""

import re
import unittest

import numpy as np
import pytest

from peers import adapters
from peers.left_out import LEFT_OUT


@pytest.fixture
def global_random_seed():
    return 42


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param


def matches(entry, item):
    """Whether an entry of the list is of this test."""
    name, _, cases = entry.partition("[")
    if item.originalname != name:
        return False
    return not cases or re.fullmatch(cases[:-1], item.callspec.id) is not None


def reason_of(item):
    """Why a test is left out, or None."""
    entries = LEFT_OUT.get(getattr(item.module, "PEER", None), {})
    return next((reason for entry, reason in entries.items() if matches(entry, item)), None)


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(getattr(item, "module", None), "PEER"):
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # scikit-learn has warnings of its own


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    before, reason = adapters.uses, reason_of(pyfuncitem)
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        if reason is None or isinstance(error, unittest.SkipTest):
            raise
        return True
    if reason is not None:
        pytest.fail(f"holds now, and is to be taken off the list of tests left out ({reason}).")
    if hasattr(pyfuncitem.module, "PEER") and adapters.uses == before:
        pytest.skip("uses nothing of ours")
    return result
