"""Reports, certificates and summaries read well in a terminal and in a notebook."""

import re

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor

import bochner
from bochner import RBF, GaussianProcessRegressor, KernelClassifier, KernelRidge, TabularRegressor
from bochner.certificates import Certificate, Effort
from bochner.displays import Summary
from bochner.linalg import Report, randomized_svd
from laws import ESTIMATORS, TABLES

X = np.random.default_rng(0).normal(size=(60, 3))
CERTIFICATE = Certificate("error <of> K", 2.5, (2.4, 2.6), 0.95, "random entries", Effort(10**6, 2000, 0.1))
SHOWN = {
    "certificate": lambda: CERTIFICATE,
    "report": lambda: KernelRidge(n_components=16, random_state=0).fit(X, X[:, 0]).report_,
    "classifier's report": lambda: KernelClassifier(n_components=16, random_state=0).fit(X, X[:, 0] > 0).report_,
    "report of estimates": lambda: randomized_svd(X, 2, random_state=0).report,
    "table's report": lambda: TabularRegressor(max_seconds=0.2, random_state=0).fit(X, X[:, 0]).report_,
    "summary": lambda: Summary("headline & more", {"a<b": "1 > 0"}),
}


@pytest.mark.parametrize("name", SHOWN)
def test_text_and_html_say_the_same(name):
    shown = SHOWN[name]()
    headline, *lines = repr(shown).splitlines()
    assert lines
    assert all(line.startswith("  ") and ": " in line for line in lines)
    html = shown._repr_html_()
    assert html.count("<tr>") == len(lines)
    plain = html.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&#x27;", "'")
    assert headline in plain
    for line in lines:
        name, fact = line[2:].split(": ", 1)
        assert f">{name}</th>" in plain
        assert f">{fact}</td>" in plain


def test_nothing_of_the_user_is_html():
    assert "<of>" in repr(CERTIFICATE)
    assert "<of>" not in CERTIFICATE._repr_html_()


def test_a_report_says_what_happened():
    report = Report("cg", iterations=7, converged=False, residual=1e-3, notes=("one", "two"))
    assert repr(report) == "Report: cg, not converged\n  iterations: 7\n  residual: 0.001\n  notes: one; two"


MODELS = [model for model in (*ESTIMATORS, *TABLES) if hasattr(model, "summary")]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_model_has_a_summary(model):
    """It names what was chosen and how long it took, and says nothing about parameters that the model has not."""
    y = (X[:, 0] > 0).astype(int) if is_classifier(model) else X[:, 0] if is_regressor(model) else None
    fitted = clone(model).fit(np.abs(X), y)
    text = repr(fitted.summary())
    assert text.startswith(f"{type(model).__name__}, fitted to ")
    assert "\n  fit: " in text
    assert 0.0 < fitted.fit_seconds_ < 600.0
    if hasattr(fitted, "n_components_"):
        assert f"{fitted.n_components_:,} components" in text
    assert "nan" not in text


def test_a_summary_tells_what_was_given_from_what_was_chosen():
    y = np.sin(X[:, 0])
    given = repr(KernelRidge(RBF(2.0), 32, alpha=0.5, random_state=0).fit(X, y).summary())
    assert "kernel: RBF(2.0)" in given
    assert "32 components, as given" in given
    assert "alpha: 0.5, as given" in given
    model = KernelRidge(random_state=0).fit(X, y)
    chosen = repr(model.summary())
    assert "chosen by 'loo'" in chosen
    assert not re.search(r"[1-9]\d*\.\d{4}", chosen)  # four digits of each number are read
    few = GaussianProcessRegressor(RBF(50.0), 60, features="nystrom", random_state=0).fit(X, y)
    assert f"{few.n_components_} components of the 60 given" in repr(few.summary())
    assert few.n_components_ < 60
    assert f"certainty: {model.certificate_!s}" in chosen
    assert "leave-one-out error, which chose alpha: " in chosen
    process = repr(GaussianProcessRegressor(noise_variance=0.1, random_state=0).fit(X, y).summary())
    assert "noise variance: 0.1, as given" in process
    assert "amplitude: " in process
    assert "of most evidence" in process


def test_estimators_print_as_they_are_written():
    for text in (
        "KernelRidge(alpha=0.1, kernel=RBF(3.0) + 0.5 * Matern(1.0), n_components=64)",
        "FourierFeatures(kernel=RBF(1.0) * Laplacian('median'), n_components=8, rows='iid')",
        "KernelClassifier(features=NystromFeatures(kernel=Matern(2.0, nu=2.5)))",
        "GaussianProcessRegressor()",
        "KernelPCA(kernel=RBF(1.0).on([0, 1]))",
    ):
        assert repr(eval(text, {name: getattr(bochner, name) for name in dir(bochner)})) == text


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_every_estimator_prints_on_one_line(model):
    assert repr(model).startswith(f"{type(model).__name__}(")
    assert repr(clone(model)) == repr(model)


def test_a_summary_of_nothing_is_refused():
    with pytest.raises(Exception, match="not fitted"):
        KernelRidge().summary()
