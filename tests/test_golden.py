"""Files written before keep loading and keep predicting what they did, up to rounding on another machine."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import bochner
from laws import ESTIMATORS, TABLES

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.safetensors"))
specification = importlib.util.spec_from_file_location("golden_write", GOLDEN / "write.py")
write = importlib.util.module_from_spec(specification)
specification.loader.exec_module(write)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_files_keep_loading(path):
    found = write.outputs(bochner.load(path))
    with np.load(path.with_suffix(".npz")) as expected:
        assert set(found) == set(expected.files)
        for name in expected.files:
            if expected[name].dtype.kind in "fc":
                tolerance = 2e-5 if "float32" in name else 1e-9
                np.testing.assert_allclose(found[name], expected[name], rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(found[name], expected[name])


def test_every_estimator_has_a_golden_file():
    classes = {type(estimator).__name__ for estimator in (*ESTIMATORS, *TABLES)}
    assert classes <= {path.stem.split("-")[0] for path in FILES}
    assert {path.stem for path in FILES} >= set(write.models())


def test_golden_files_are_small():
    assert sum(path.stat().st_size for path in GOLDEN.iterdir() if path.is_file()) < 1 << 20
