"""Every example of the gallery runs as it is, draws a picture, and its numbers say what its text says, for any seed."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("bochner_site", ROOT / ".ci/site.py")
site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)

NEEDS = {"million_rows": "pyarrow", "cluster": "distributed", "gpu": "torch", "tables_and_boosting": "pandas"}
# name -> what holds of its variables, for any seed: limits are four standard errors or more from what is expected.
CLAIMS = {
    "certificates": lambda v: v["chosen"].n_components_ < v["promised"] and all(v["values"][:-1] > v["values"][1:]),
    "cluster": lambda v: v["same"],
    "co2": lambda v: v["error"] < 1.0 and v["covered"] > 0.8,  # the season has an amplitude of 2.8; 47 months, 95 %
    "digits": lambda v: (
        v["errors"][-1] < 1 - v["linear"].score(v["X"][1200:], v["y"][1200:]) and v["errors"][-1] < 0.06
    ),
    "drop_in": lambda v: (  # a mean over sizes and draws has a standard error of 0.004; 450 test rows, 0.007
        np.mean([v["scores"]["FourierFeatures", m] - v["scores"]["RBFSampler", m] for m in v["sizes"]]) > -0.01
        and v["scores"]["FourierFeatures", 512] > 0.95
    ),
    "features_converge": lambda v: v["errors"] == sorted(v["errors"], reverse=True) and v["errors"][-1] < 0.15,
    "gaussian_process": lambda v: (  # 75 rows and some ten parameters: 0.2 (1 ± 1 / √130)
        abs(v["model"].noise_variance_ ** 0.5 / 0.2 - 1) < 4.5 / 130**0.5 and v["std"][0] > 3 * v["std"][1]
    ),
    "gpu": lambda v: abs(v["gap"]).max() < 2e-6,
    "invariant_kernel": lambda v: v["scores"]["averaged over shifts"] > max(0.95, v["scores"]["Gaussian"]),
    "kernel_pca": lambda v: min(v["alike"]) > 0.99,
    "kernel_ridge": lambda v: v["errors"]["KernelRidge()"] < 0.7 * v["errors"]["boosting"],
    "kernel_trick": lambda v: v["scores"]["50 Fourier features"] > 0.97 > 0.7 > v["scores"]["the two columns"],
    "landmarks": lambda v: v["left"]["rpcholesky"] < v["left"]["uniform"],
    "learned_metric": lambda v: (
        v["errors"]["diagonal"] < 0.5 * v["errors"]["isotropic"] and set(v["importances"].argsort()[-3:]) == {1, 4, 7}
    ),
    "low_rank": lambda v: all(
        1.1 * best > svd and svd <= cx
        for best, svd, cx in zip(v["errors"]["best"], v["errors"]["randomized_svd"], v["errors"]["cx"], strict=True)
    ),
    "million_rows": lambda v: v["errors"] == sorted(v["errors"], reverse=True) and v["errors"][-1] < 0.2,
    "sampling_schemes": lambda v: v["curves"]["structured"][-2] < 0.35 * v["curves"]["RBFSampler"][-2],
    "structured_speed": lambda v: v["megabytes"]["structured", 4096] < 0.01 * v["megabytes"]["iid", 4096],
    "tables_and_boosting": lambda v: (
        v["errors"]["TabularRegressor"] < v["errors"]["boosting"]
        and abs(v["covered"] - 0.9) < 4.5 * (0.09 / 300 + 0.09 / 600) ** 0.5  # rows tested, rows left out
    ),
    "text": lambda v: v["linear"] < 0.5 + 4.5 * 0.5 / 1500**0.5 < 0.95 < v["scores"][-1],  # a coin
    "two_samples": lambda v: v["p_values"][-1] < 0.01,
}


def test_the_gallery_shows_every_example():
    names = {path.stem for path in site.EXAMPLES}
    assert names == set(CLAIMS)
    shown = [name for group in site.GROUPS.values() for name in group]
    assert sorted(shown) == sorted(names)


def needed(path):
    pytest.importorskip("matplotlib")
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])


@pytest.mark.parametrize("path", site.EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    needed(path)
    said, pictures, names = site.run_example(path, tmp_path)
    assert said
    assert pictures
    assert all(picture.stat().st_size > 5_000 for picture in pictures)
    assert CLAIMS[path.stem](names)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("path", site.EXAMPLES, ids=lambda path: path.stem)
def test_claims_hold_for_other_seeds(path, seed, tmp_path):
    """Other data and other draws: what an example says does not depend on its seed."""
    needed(path)
    source = re.sub(r"random_state=0\b", f"random_state={seed}", path.read_text("utf-8"))
    source = re.sub(r"default_rng\([01]\)", f"default_rng({100 + seed})", source)
    source = re.sub(r"seed in range\((\d)\)", rf"seed in range({10 * seed}, {10 * seed} + \1)", source)
    (tmp_path / path.name).write_text(source, "utf-8")
    assert CLAIMS[path.stem](site.run_example(tmp_path / path.name, tmp_path)[2])


def test_pages_of_the_gallery(tmp_path):
    """Title, text, picture, code and output of an example come on its page; without its package a page says so."""
    example = site.Example(ROOT / "examples/kernel_trick.py")
    page = site.gallery_page(example, "100 % right", [tmp_path / "kernel_trick.png"])
    assert page.startswith("# The kernel trick, without the kernel matrix\n\nTwo rings")
    assert "![The kernel trick, without the kernel matrix](kernel_trick.png)" in page
    assert "```text\n100 % right\n```" in page
    assert '"""' not in page
    assert "it needs torch" in site.gallery_page(example, None, [], "it needs torch")
