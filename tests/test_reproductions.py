"""Every reproduction runs at its reduced size, writes its four files, and says what its numbers say."""

import csv

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
