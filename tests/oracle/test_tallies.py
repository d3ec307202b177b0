"""What the report says, and when it ends with a fault."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle.table import Entry
from tests.oracle.tallies import Tally, report


def entry(name: str, **how: object) -> Entry:
    return Entry(name, "cos", abs, **how)  # type: ignore[arg-type]


def test_all_that_passed_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    tallies = [Tally(entry("cos"), 3, 2, 1), Tally(entry("cosh", composed=True), 4)]

    assert report(tallies, "torch", (2, 7)) == 0

    said = capsys.readouterr().out
    assert "2 ops mapped (1 by one op of ours, 1 as a composition), 7 samples passed (2 with their" in said
    assert "composition: cos" in said


@pytest.mark.parametrize("least", [(3, 7), (2, 8)])
def test_too_few_ops_or_samples_are_a_fault(
    least: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert report([Tally(entry("cos"), 3), Tally(entry("cosh"), 4)], "torch", least) == 1
    assert f"too few: at least {least[0]} ops and {least[1]} samples" in capsys.readouterr().out


def test_a_failure_is_a_fault_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Tally(entry("cos"), 3, failures=["cos sample 4: differs"])], "torch", (0, 0)) == 1
    assert "FAILED cos sample 4: differs" in capsys.readouterr().out


def test_an_op_of_which_all_is_excluded_counts_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    tallies = [Tally(entry("cos"), 3), Tally(entry("cosh"), excluded=Counter({"out=": 2}))]

    assert report(tallies, "torch", (0, 0)) == 1

    said = capsys.readouterr().out
    assert "1 ops mapped" in said
    assert "    2 excluded: out=" in said
    assert "no sample of ['cosh'] is compared" in said


def test_all_that_is_not_compared_is_said() -> None:
    lacking = Counter({"not implemented": 1})
    told = Tally(entry("a", forward_only="a step", rtol=1e-6, because="float32"), 1, lacking=lacking)
    more = Tally(entry("b", first=1, left_out="no info", second_order="a kink"), 1)

    assert told.notes == [
        "1 without a second order: torch says not implemented",
        "within 1e-06: float32",
        "forward only: a step",
    ]
    assert more.notes == ["first 1 outputs only: no info", "no second order: a kink"]
