"""Every reproduction runs at its reduced size, writes its four files, and says what its numbers say."""

import csv
from importlib import import_module

import pytest

pytest.importorskip("matplotlib")

from bochner_reproductions import REPRODUCTIONS, Claim, findings_of, reproduce
from bochner_reproductions.findings import markdown


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


# -- verdicts that can fail: each criterion with results that meet it and results that must not ---------------------


def verdicts(module, rows):
    return [claim.holds for claim in module.claims(rows)]


def points(slopes=(-0.5, -1.0), z=(9.0, 9.0, 9.0)):
    """Results of `qmc_points` with given exponents of random and Sobol' points, and z-scores of the three sequences."""
    sizes, rows = (64, 256, 1024, 4096), []
    for name, exponent in zip(("random", "Sobol'"), slopes, strict=True):
        rows += [{"figure": "discrepancy", "points": name, "d": 2, "n": n, "value": n**exponent} for n in sizes]
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
        ({"z": (9.0, 9.0, 0.0)}, [True, True, False]),
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
        (0.5, 0.99, 0.99, 1e-3, [True, True, True, False]),
    ],
)
def test_verdicts_about_the_kernel_trick_can_fail(line, plane, kernel, difference, expected):
    names = (TRICK.LINE, TRICK.PLANE, TRICK.KERNEL, TRICK.TRICK)
    rows = [{"classifier": n, "accuracy": a} for n, a in zip(names, (line, plane, kernel, kernel), strict=True)]
    rows[-1]["difference"] = difference
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
        ((50.0, 3.0), (0.3, 0.2), [True, True, True]),
        ((50.0, 40.0), (0.3, 0.2), [False, True, True]),
        ((50.0, 3.0), (-0.3, 0.2), [True, False, True]),
        ((50.0, 3.0), (0.3, 0.0), [True, True, None]),
    ],
)
def test_verdicts_about_mixtures_can_fail(axes, gaps, expected):
    rows = [
        {
            "rows": r,
            "method": m,
            "separation": 2.0,
            MIXTURES.AXES: axis,
            MIXTURES.INDEX: 0.5 + share * gap + 0.01 * run * share,
        }
        for r, gap in zip(("n < d²", "n ≫ d²"), gaps, strict=True)
        for m, axis, share in zip(("plain", "projected"), axes, (0.0, 1.0), strict=True)
        for run in (-1, 0, 1)
    ]
    assert verdicts(MIXTURES, rows) == expected
