"""Every reproduction runs at its reduced size, writes its four files, and says what its numbers say."""

import csv
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("typer")

import bochner_reproductions
from bochner.cli.app import run as command
from bochner.kernels.stationary import RBF
from bochner_reproductions import REPRODUCTIONS, Claim, Findings, findings_of, reproduce
from bochner_reproductions.findings import both, linear_in, markdown, quantile_between, seldom, within


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_a_reproduction_writes_its_files(name, tmp_path):
    paths = reproduce(name, quick=True, folder=tmp_path)
    assert [path.suffix for path in paths] == [".png", ".svg", ".csv", ".md"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in paths[1].read_text()
    page = paths[3].read_text()
    assert page.startswith("# ")
    assert f"({name}.png)" in page
    assert "Reduced size" in page
    claims = import_module(f"bochner_reproductions.{name.replace('-', '_')}").claims
    assert " ".join(claims.__doc__.split()) in page  # what the verdicts ask for
    with paths[2].open() as file:
        rows = list(csv.reader(file))
    assert all(len(row) == len(rows[0]) for row in rows)


def test_findings_are_the_same_twice():
    first, second = (findings_of("gram-convergence", quick=True) for _ in range(2))
    assert first.rows == second.rows


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="kernel-trick"):
        reproduce("fastfood")


def test_a_markdown_table_has_every_column():
    assert markdown([{"a": 1.23456, "b": "x"}, {"c": 2}]).splitlines() == [
        "| a | b | c |",
        "|---|---|---|",
        "| 1.235 | x |  |",
        "|  |  | 2 |",
    ]


def test_claims_that_no_chance_can_turn_hold():
    claims = findings_of("kernel-trick", quick=True).claims
    assert all(isinstance(claim, Claim) and claim.holds for claim in claims)


def fake(title, holds):
    def draw(figure):
        figure.subplots().plot([0, 1])

    claims = [Claim(f"claim {i}", "1", "2", value) for i, value in enumerate(holds)]
    return Findings(title, "nowhere", "what", [{"a": 1.0}], claims, draw)


def test_all_pages_in_one_run_and_what_changed(tmp_path, monkeypatch, capsys):
    pages = {"first": fake("First", [True, None]), "second": fake("Second", [False])}
    monkeypatch.setattr(bochner_reproductions, "REPRODUCTIONS", dict.fromkeys(pages, "a fake"))
    monkeypatch.setattr(bochner_reproductions, "findings_of", lambda name, quick: pages[name])
    assert command(["reproduce", "--all", "-o", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0].rpartition("/")[2] for line in lines[:2]] == ["first.md", "second.md"]
    assert all("s of CPU" in line for line in lines)
    assert lines[2].startswith("no verdicts changed")
    pages["first"] = fake("First", [True, False])
    pages["second"] = fake("Second", [True, True])
    assert command(["reproduce", "--all", "-o", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("3 verdicts changed")
    assert [line.strip() for line in lines[3:]] == [
        "first: claim 1: cannot be decided here → does not hold",
        "second: claim 0: does not hold → holds",
        "second: claim 1: not there → holds",
    ]
    assert command(["reproduce", "--all", "-o", str(tmp_path)]) == 0
    assert "no verdicts changed" in capsys.readouterr().out


def test_every_page_of_the_documentation_has_its_verdicts():
    """Pages are read as they are written: a verdict for each claim, in one of the three words."""
    folder = Path(__file__).parents[1] / "docs" / "reproductions"
    for name in REPRODUCTIONS:
        found = bochner_reproductions.verdicts(folder / f"{name}.md")
        assert found, name
        assert set(found.values()) <= {"holds", "does not hold", "cannot be decided here"}, name
        reasons = (folder / f"{name}.md").read_text()
        assert all(f"- {claim}: " in reasons for claim, verdict in found.items() if verdict != "holds"), name


def test_a_verdict_that_does_not_hold_says_why():
    whys = [Claim("a", "1", "2", holds).why for holds in (True, False, None)]
    assert whys[0] == ""
    assert "beyond" in whys[1]
    assert "errors" in whys[2]
    assert Claim("a", "1", "2", None, "too few").why == "too few"


# -- verdicts that can fail: each criterion with results that meet it and results that must not ---------------------


def verdicts(module, rows):
    return [claim.holds for claim in module.claims(rows)]


def jitter(n=3, width=0.001):
    """Factors near one whose mean is one: runs that agree."""
    return 1.0 + width * (np.arange(n) - (n - 1) / 2)


def points(slopes=(-0.5, -1.0), z=(9.0, 9.0, 9.0), width=0.001):
    """Results of `qmc_points` with given exponents of random and Sobol' points, and z-scores of the three sequences."""
    sizes, rows = (64, 256, 1024, 4096), []
    for name, exponent in zip(("random", "Sobol'"), slopes, strict=True):
        rows += [
            {"figure": "discrepancy", "points": name, "d": 2, "n": n, "run": run, "value": n ** (exponent * share)}
            for n in sizes
            for run, share in enumerate(jitter(3, width))
        ]
    for name, score in zip(("Sobol'", "Halton", "lattice"), z, strict=True):
        rows += [{"figure": "kernel error", "points": name, "d": d, "n": n, "z": score} for d in (2, 64) for n in sizes]
    return rows


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True, True, True]),
        ({"slopes": (-0.8, -1.0)}, [False, True, True]),
        ({"slopes": (-0.3, -1.0)}, [False, True, True]),
        ({"slopes": (-0.5, -0.5)}, [True, False, True]),
        ({"slopes": (-0.5, -2.0)}, [True, False, True]),
        ({"width": 0.4}, [None, None, True]),  # draws that do not agree
        ({"z": (9.0, 9.0, 0.0)}, [True, True, None]),
        ({"z": (9.0, 9.0, -9.0)}, [True, True, False]),
    ],
)
def test_verdicts_about_points_can_fail(change, expected):
    assert verdicts(import_module("bochner_reproductions.qmc_points"), points(**change)) == expected


TRICK = import_module("bochner_reproductions.kernel_trick")


@pytest.mark.parametrize(
    ("line", "plane", "kernel", "difference", "expected"),
    [
        (0.5, 0.99, 0.99, 1e-13, [True, True, True, True]),
        (0.95, 0.99, 0.99, 1e-13, [False, True, True, True]),
        (0.5, 0.6, 0.6, 1e-13, [True, False, True, True]),
        (0.5, 0.99, 0.8, 1e-13, [True, True, False, True]),
        (0.5, 0.9, 0.99, 1e-13, [True, False, False, True]),  # the kernel is better
        (0.7, 0.97, 0.99, 1e-13, [None, None, None, True]),  # within the errors of the draws
        (0.5, 0.99, 0.99, 1e-3, [True, True, True, False]),
    ],
)
def test_verdicts_about_the_kernel_trick_can_fail(line, plane, kernel, difference, expected):
    names = (TRICK.LINE, TRICK.PLANE, TRICK.KERNEL, TRICK.TRICK)
    rows = [
        {"classifier": n, "accuracy": a + shift * (n != TRICK.KERNEL), "difference": difference if shift else 0.0}
        for n, a in zip(names, (line, plane, kernel, kernel), strict=True)
        for shift in (-0.002, 0.0, 0.002)
    ]
    assert verdicts(TRICK, rows) == expected


GREEDY = import_module("bochner_reproductions.greedy_vs_random")


def greedy(shares=(0.5, 0.5, 0.5), mean=1.0, omp=0.01, slowdown=9.0):
    """Results of `greedy_vs_random`: shares of C/√T for Jones, Frank-Wolfe and random, and the error of the mean."""
    rows = []
    for T in (4, 64):
        errors = dict(zip(("jones", "frank_wolfe", "random"), shares, strict=True))
        found = {m: share * T**-0.5 for m, share in errors.items()} | {"constant": mean, "omp": omp}
        for m, error in found.items():
            time = slowdown if m == "omp" else 1.0
            rows += [{"method": m, "frequencies": T, "error": error + 1e-4 * r, "seconds": time} for r in (0, 1, 2)]
    return rows


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True, True, True]),
        ({"shares": (1.2, 0.5, 0.5)}, [False, True, True]),
        ({"shares": (0.5, 1.2, 0.5)}, [False, True, True]),
        ({"shares": (0.5, 0.5, 4.0)}, [True, False, True]),
        ({"mean": 0.01}, [None, None, True]),  # a bound that predicting the mean meets
        ({"mean": 0.3}, [True, None, True]),  # 3.4 times as large, it is met by the mean
        ({"omp": 0.2}, [True, True, False]),
        ({"slowdown": 0.5}, [True, True, False]),
    ],
)
def test_verdicts_about_greedy_fits_can_fail(change, expected):
    assert verdicts(GREEDY, greedy(**change)) == expected


MIXTURES = import_module("bochner_reproductions.mog")


@pytest.mark.parametrize(
    ("axes", "gaps", "expected"),
    [
        ((50.0, 3.0), (0.3, 0.2), [True, True, True, True, True, True, True]),
        ((50.0, 40.0), (0.3, 0.2), [False, True, True, True, True, True, True]),
        ((50.0, 25.0), (0.3, 0.2), [None, True, True, True, True, True, True]),
        ((50.0, 3.0), (-0.3, 0.2), [True, False, False, False, True, True, True]),
        ((50.0, 3.0), (0.05, 0.2), [True, True, False, False, True, True, True]),  # a regularised baseline does it too
        ((50.0, 3.0), (0.3, 0.0), [True, True, True, True, None, False, False]),
    ],
)
def test_verdicts_about_mixtures_can_fail(axes, gaps, expected):
    rows = [
        {
            "rows": r,
            "method": m,
            "separation": 2.0,
            MIXTURES.AXES: axis * (1.0 + 0.01 * run * share),
            MIXTURES.INDEX: 0.5 + share * gap + 0.01 * run * share,
            MIXTURES.LIKELIHOOD: 0.5 + share * gap + 0.01 * run * share,
        }
        for r, gap in zip(("n < d²", "n ≫ d²"), gaps, strict=True)
        for m, axis, share in zip(("plain", "projected"), axes, (0.0, 1.0), strict=True)
        for run in (-1, 0, 1)
    ]
    tied = {"method": "tied", "separation": 2.0, MIXTURES.AXES: 50.0, MIXTURES.INDEX: 0.6, MIXTURES.LIKELIHOOD: 0.6}
    rows += [
        {"rows": r, **tied} | {"method": m}
        for r in ("n < d²", "n ≫ d²")
        for m in ("tied", "diagonal", "one Gaussian")
        for _ in range(3)
    ]
    assert verdicts(MIXTURES, rows) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([0.5, 0.51, 0.49], True),
        ([1.5, 1.51, 1.49], False),
        ([-1.5, -1.51, -1.49], False),
        ([0.9, 1.1, 1.0], None),
        ([0.5], None),
    ],
)
def test_three_standard_errors_decide(found, expected):
    assert within(found, -1.0, 1.0) is expected
    assert both(True, within(found, -1.0, 1.0)) is expected
    assert both(None, False, within(found, -1.0, 1.0)) is False


def test_limits_of_a_quantile_hold_it():
    """Of a thousand samples some three miss; of twenty draws no limit above the 95 % quantile is known."""
    rng = np.random.default_rng(0)
    found = np.array([quantile_between(rng.uniform(size=200), 0.95) for _ in range(1000)])
    missed = int(np.sum((found[:, 0] > 0.95) | (found[:, 1] < 0.95)))
    assert missed <= 12  # the chance of more is 3e-5
    assert np.ptp(found, axis=1).mean() < 0.12
    assert quantile_between(rng.uniform(size=20), 0.95)[1] == np.inf


def test_shares_are_compared_with_chance():
    assert seldom(0, 30, 0.05)
    assert seldom(5, 30, 0.05)
    assert not seldom(8, 30, 0.05)


def test_the_linear_baseline_is_the_best_line():
    products = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(linear_in(products, 2.0 - 3.0 * products), 2.0 - 3.0 * products, atol=1e-12)
    residuals = products**2 - linear_in(products, products**2)
    np.testing.assert_allclose([residuals.sum(), (residuals * products).sum()], 0.0, atol=1e-10)


ONE_VARIABLE = import_module("bochner_reproductions.kernel_losses")


@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, True), ({"Gaussian kernel": 0.3}, False), ({"constant": 0.05}, False), ({"distance to exact": 0.2}, False)],
)
def test_verdicts_about_losses_can_fail(change, expected):
    found = {"Gaussian kernel": 0.05, "linear": 0.4, "constant": 0.4, "distance to exact": 1e-5} | change
    rows = [
        {"task": task, "run": run} | {name: value * share for name, value in found.items()}
        for task in ONE_VARIABLE.TASKS
        for run, share in enumerate(jitter())
    ]
    assert verdicts(ONE_VARIABLE, rows) == [expected] * 4


GRAM = import_module("bochner_reproductions.gram_convergence")


@pytest.mark.parametrize(
    ("exponent", "size", "expected"),
    [
        (-0.5, 1.0, [True, True]),
        (-0.7, 1.0, [False, False]),
        (-0.3, 1.0, [False, False]),
        (-0.5, 1.3, [True, False]),
        (-0.5, 0.7, [True, False]),
    ],
)
def test_verdicts_about_the_kernel_matrix_can_fail(exponent, size, expected):
    rows = [
        {"rows": "iid", "frequencies": T, "run": run, GRAM.ERROR: size * share * T**exponent}
        | {"from the variance": T**-0.5}
        for T in (1, 16, 256)
        for run, share in enumerate(jitter())
    ]
    assert verdicts(GRAM, rows) == expected


POSTERIOR = import_module("bochner_reproductions.gp_posterior")


@pytest.mark.parametrize(
    ("mean", "spread", "biases", "expected"),
    [
        (0.05, 0.02, (-0.7, 0.0), [True, True]),
        (0.3, 0.02, (-0.7, 0.0), [False, True]),
        (0.05, 0.2, (-0.7, 0.0), [False, True]),
        (0.05, 0.02, (0.7, 0.0), [True, False]),  # too large
        (0.05, 0.02, (-0.7, -0.5), [True, False]),
        (0.05, 0.02, (0.0, 0.0), [True, False]),
    ],
)
def test_verdicts_about_posteriors_can_fail(mean, spread, biases, expected):
    def row(m, near, std, bias, run=0):
        exact = {"std of the exact posterior near the data": 0.2}
        return {
            "components": m,
            "run": run,
            POSTERIOR.NEAR: near,
            POSTERIOR.NEAR_STD: std,
            POSTERIOR.BIAS: bias,
        } | exact

    rows = [row("constant", 0.7, 0.5, 0.0), row("linear", 0.6, 0.5, 0.0)]
    for run, share in enumerate(jitter()):
        rows.append(row(3, 0.6 * share, 0.2 * share, biases[0] * share, run))
        rows.append(row(200, mean * share, spread * share, biases[1] * share, run))
    assert verdicts(POSTERIOR, rows) == expected


NEWS = import_module("bochner_reproductions.jl_newsgroups")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True, True, True]),
        ({"low": 0.5}, [False, True, True]),
        ({"high": 1.5}, [False, True, True]),
        ({"rms": 0.3}, [False, True, True]),  # no better than one distance for all
        ({"inside": 0.9}, [True, False, True]),
        ({"inside": 1.0}, [True, False, True]),  # nothing outside of 99 % is no χ² distribution either
        ({"peer": 0.05}, [True, True, False]),
        ({"seconds": 0.001}, [True, True, False]),
        ({"seconds": 0.1}, [True, True, None]),
    ],
)
def test_verdicts_about_projected_posts_can_fail(change, expected):
    found = {"low": 0.93, "high": 1.06, "rms": 0.02, "inside": 0.99, "peer": 0.5, "seconds": 1.0} | change
    rows = [
        {"data": "posts", "share": share, NEWS.LOW: found["low"] * r, NEWS.HIGH: found["high"] * r}
        | {NEWS.INSIDE: found["inside"] * (1.0 if found["inside"] == 1.0 else r)}
        | {"rms": found["rms"] * r, "rms of the mean distance": 0.4}
        for share in NEWS.SHARES
        for r in jitter()
    ]
    for method, error, seconds in (
        ("truncated SVD", found["peer"], found["seconds"]),
        ("random projection", 0.14, 0.1),
    ):
        peer = {"data": "posts", "method": method, "components": 100, "CPU seconds": seconds}
        times = jitter() if method == "random projection" else jitter()[::-1]
        rows += [peer | {"rms": error * r, "CPU seconds": seconds * t} for r, t in zip(jitter(), times, strict=True)]
    assert verdicts(NEWS, rows) == expected


APPROXIMATION = import_module("bochner_reproductions.kernel_approximation")


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((0.5,) * 10, True),
        ((0.5,) * 9 + (2.0,), False),  # a single loss
        ((2.0,) * 10, False),
        ((0.5,) * 8 + (1.0,) * 2, None),
        ((1.0,) * 10, None),
    ],
)
def test_verdicts_about_approximations_can_fail(ratios, expected):
    def rows(panel, better, worse):
        for case, ratio in enumerate(ratios):
            for run, noise in enumerate((-0.01, 0.02, -0.01)):
                common = {"data": f"set {case}", "panel": panel, "components": 32, "run": run}
                yield common | {"method": better, "error": 0.1 * ratio + noise * 0.1}
                yield common | {"method": worse, "error": 0.1}
                yield common | {"method": "bochner's default", "error": 0.01}

    found = [row for panel, pair in APPROXIMATION.COMPARISONS.items() for row in rows(panel, *pair)]
    assert verdicts(APPROXIMATION, found) == [expected] * 3


def test_errors_that_are_rounding_do_not_count():
    rows = [
        {"data": "usps", "panel": "landmarks", "components": 512, "run": run, "method": method, "error": error}
        for run in range(3)
        for method, error in (("k-means", 1e-15), ("random", 2e-15))
    ]
    assert APPROXIMATION.compared(rows, "landmarks", "k-means", "random") == (0, 0, 0)


SPECTRA = import_module("bochner_reproductions.rff_vs_nystrom")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True, True, True, True]),
        ({"landmarks": -0.6}, [False, True, False, True]),
        ({"fourier": -1.5}, [True, False, True, True]),
        ({"fourier": 0.0}, [True, False, True, True]),
        ({"slow": 4.0}, [True, True, True, False]),
        ({"slow": 0.25}, [True, True, True, False]),
        ({"line": 1e-9}, [True, True, None, None]),  # a straight line is nearer than either
    ],
)
def test_verdicts_about_the_eigengap_can_fail(change, expected):
    found = {"landmarks": -3.0, "fourier": -0.5, "slow": 1.5, "line": 0.9} | change
    rows = []
    for run, share in enumerate(jitter()):
        for m in (64, 128, 256):
            errors = {
                ("eigengap", "fourier"): share * m ** found["fourier"],
                ("eigengap", "nystrom"): share * m ** found["landmarks"],
                ("slow decay", "fourier"): 0.3,
                ("slow decay", "nystrom"): 0.3 * share / found["slow"],
            }
            if found["fourier"] == -1.5:
                errors[("eigengap", "nystrom")] /= 100.0
            for (spectrum, features), error in errors.items():
                where = {"spectrum": spectrum, "features": features, "components": m, "run": run}
                rows.append(where | {SPECTRA.DISTANCE: error})
        for spectrum in SPECTRA.SPECTRA:
            for features in ("constant", "linear"):
                where = {"spectrum": spectrum, "features": features, "components": 0, "run": run}
                rows.append(where | {SPECTRA.DISTANCE: found["line"] * (1.0 if found["fourier"] else 2.0)})
    assert verdicts(SPECTRA, rows) == expected


SPEED = import_module("bochner_reproductions.speed")


@pytest.mark.parametrize(
    ("one", "many", "expected"),
    [
        (jitter(5) * 24.0, jitter(5) * 20.0, [True, True]),
        (jitter(5) * 24.0, jitter(5) * 5.0, [True, False]),
        (jitter(5) * 10.0, jitter(5) * 5.0, [False, False]),
        (jitter(5) * 48.0, jitter(5) * 90.0, [False, False]),  # far more than published is another result too
        (jitter(5, 0.4) * 17.0, jitter(5) * 20.0, [None, True]),  # rounds that do not agree
    ],
)
def test_verdicts_about_speed_can_fail(one, many, expected):
    rows = [
        {"features": 1024, "frequencies": 16384, "law": "fastfood", "rows at a time": batch, "factor": factor}
        | {"published factor": 24, "dense ms a row": 2.0}
        for batch, factors in ((1, one), (256, many))
        for factor in factors
    ]
    assert verdicts(SPEED, rows) == expected


COMPLEXITY = import_module("bochner_reproductions.complexity")


@pytest.mark.parametrize(("exponent", "expected"), [(2.0, True), (2.2, True), (1.5, False), (2.5, False), (1.0, False)])
def test_verdicts_about_exponents_can_fail(exponent, expected):
    rows = [
        {
            "method": "fit",
            "varied": "m",
            "value": m,
            "run": run,
            "seconds": share * m**exponent,
            "expected exponent": 2.0,
        }
        for run, share in enumerate(jitter())
        for m in (500, 1000, 2000)
    ]
    assert verdicts(COMPLEXITY, rows) == [expected]


TABLE = import_module("bochner_reproductions.regression_table")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True, True]),
        ({"RKS": 1.2}, [False, False]),
        ({"RKS": 0.8}, [True, True]),
        ({"Fastfood Matérn": 1.2}, [False, False]),
        ({"Exact Matérn": 0.8}, [False, False]),
        ({"linear": 1.0}, [None]),  # nothing was learned
        ({"constant": 0.9}, [None]),
    ],
)
def test_verdicts_about_the_regression_table_can_fail(change, expected):
    errors = dict.fromkeys(TABLE.METHODS, 1.0) | {"constant": 3.0, "linear": 2.0} | change
    shares = zip(errors.items(), (0.0, 0.001, -0.001) * 3, strict=True)
    rows = [
        {"data": "wine", "method": method, "run": run, "RMSE": error * (1.0 + sign * shift)}
        for (method, error), shift in shares
        for run, sign in enumerate((-1, 0, 1))
    ]
    assert verdicts(TABLE, rows) == expected


def test_the_exact_baseline_is_tuned_by_leaving_rows_out():
    """The closed form is the error of fits to all rows but one, and a bad first length scale is left."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(40, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=40)
    y -= y.mean()
    error, alpha = TABLE.left_out(RBF(0.8)(X), y)
    by_hand = []
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        dual = np.linalg.solve(RBF(0.8)(X[rest]) + alpha * np.eye(39), y[rest])
        by_hand.append(y[i] - RBF(0.8)(X[i : i + 1], X[rest]) @ dual)
    assert error == pytest.approx(np.mean(np.square(by_hand)), rel=1e-6)
    kernel, _ = TABLE.tuned_exact(RBF(2.5), X, y)
    assert TABLE.left_out(kernel(X), y)[0] < TABLE.left_out(RBF(2.5)(X), y)[0]


BOUNDS = import_module("bochner_reproductions.bounds")


@pytest.mark.parametrize(
    ("promised", "above", "expected"),
    [
        (0.2, 0, [True, True]),
        (0.2, 4, [True, True]),
        (0.2, 30, [False, True]),
        (0.9, 0, [True, False]),
        (0.301, 0, [True, None]),  # the quantile is known to a tenth
        (0.299, 0, [True, None]),
        (1.1, 0, [None, None]),  # as large as the error of the zero kernel: it says nothing
    ],
)
def test_verdicts_about_bounds_can_fail(promised, above, expected):
    row = {"bound": "a theorem", "promised": promised, "looseness": promised / 0.1, "draws": 100, "draws above": above}
    row |= {"looseness from": promised / 0.11, "to": promised / 0.09}
    assert verdicts(BOUNDS, [row]) == expected
