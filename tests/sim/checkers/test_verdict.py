from __future__ import annotations

import pytest

from actorflow.errors import SimulationError, Undecided, Violation
from actorflow.sim.checkers import Verdict
from actorflow.sim.checkers.verdict import listed


def test_ok_is_what_is_asked_and_a_verdict_itself_is_no_truth() -> None:
    for ok in (True, False, None):
        with pytest.raises(TypeError, match=r"ask for \.ok or call \.check\(\), got 'found'"):
            bool(Verdict("judge", ok, "found"))


def test_check_returns_a_pass_and_raises_what_explains_the_rest() -> None:
    passed = Verdict("judge", True, "found")

    assert passed.check() is passed
    assert str(passed) == "judge: ok, found"
    with pytest.raises(Violation, match=r"judge: violated, found\nmore"):
        Verdict("judge", False, "found", "more").check()
    with pytest.raises(Undecided, match=r"judge: unknown, found"):
        Verdict("judge", None, "found").check()


def test_both_failures_are_assertions_and_ours() -> None:
    for kind in (Violation, Undecided):
        assert issubclass(kind, AssertionError)
        assert issubclass(kind, SimulationError)


def test_findings_are_wrapped_and_counted() -> None:
    lines = listed(["word " * 40, *"abcdef"]).split("\n")

    assert all(len(line) <= 100 for line in lines)
    assert lines[-5:] == ["  a", "  b", "  c", "  d", "  ... and 2 more"]
