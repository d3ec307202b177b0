"""Ours against what TensorFlow came to: the recorded cases, without TensorFlow. `record` renews them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import actorflow as af
from tests.conformance import page
from tests.conformance.__main__ import compared
from tests.conformance.case import Case, cases
from tests.conformance.ours import Ours, outcome
from tests.conformance.recording import KEPT, difference, encoded, read, written

LEAST = 180
WITH_BODIES = {"arrays", "branches", "gradients", "loops", "mapping"}
VERBS = ("while_loop", "cond", "case", "switch_case", "map_fn", "scan", "fold")
VERSION, RECORDED = read()


def wrong_in(case: Case) -> str | None:
    """How ours differs from what it should come to; None when it does not."""
    wanted = encoded(case.instead) if case.because else RECORDED[case.name]
    return difference(wanted, outcome(case))


def check(name: str) -> None:
    assert wrong_in(cases()[name]) is None


@pytest.mark.parametrize("name", cases())
def test_ours_comes_to_what_tensorflow_came_to(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", [n for n in cases() if n.partition(":")[0] in WITH_BODIES])
def test_bodies_that_run_as_nodes_come_to_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in VERBS:
        monkeypatch.setattr(af, verb, partial(getattr(af, verb), lower=True))

    check(name)


def test_every_case_has_both_sides_and_is_recorded() -> None:
    """Else `python -m tests.conformance record` was forgotten."""
    assert [name for name, case in cases().items() if case.theirs is None or case.ours is None] == []
    assert set(RECORDED) == set(cases())
    assert len(cases()) >= LEAST
    assert VERSION.startswith("2.21.")


def test_cases_that_say_why_they_differ_do_differ() -> None:
    differing = [case for case in cases().values() if case.because]

    assert [
        case.name for case in differing if not difference(RECORDED[case.name], encoded(case.instead))
    ] == []
    assert all("\n" not in case.because and len(case.because) <= 110 for case in differing)


def test_the_page_is_that_of_the_cases() -> None:
    """Else `python -m tests.conformance page` was forgotten."""
    assert page.PAGE.read_text() == page.text()


def test_the_record_stays_small_and_reads_a_case_a_line() -> None:
    lines = KEPT.read_text().splitlines()

    assert KEPT.stat().st_size <= 64 * 1024
    assert len(lines) == len(RECORDED) + 2
    assert written(VERSION, RECORDED) == KEPT.read_text()


def test_another_outcome_is_a_difference() -> None:
    case = cases()["loops: counts and adds up"]

    async def another(s: Ours) -> object:
        return [np.int32(10), np.int32(46)]

    assert wrong_in(replace(case, ours=another)) == "[1] is 46, not 45"


@pytest.mark.parametrize(
    ("wanted", "found", "told"),
    [
        (np.float32(1.0), np.float32(1.000001), None),
        (np.float32(1.0), np.float32(1.001), "the whole is 1.001, not 1"),
        (np.float32(1.0), np.float64(1.0), "the whole is of float64, not float32"),
        ([np.ones((2, 2))], [np.ones((2, 3))], "[0][0] has 3 entries, not 2: [1, 1, 1]"),
        (np.zeros((0, 2)), np.zeros((0, 3)), "[1] is 3, not 2"),
        (np.bool_(True), np.bool_(False), "the whole is False, not True"),
        (1, True, "the whole is True, not 1"),
        ("cancelled", "invalid", "the whole is invalid, not cancelled"),
        ("invalid", [np.int32(3)], "the whole is [{'int32': 3}], not invalid"),
        (np.array([b"a"], object), np.array([b"b"], object), "[0] is b, not a"),
    ],
)
def test_how_outcomes_differ(wanted: object, found: object, told: str | None) -> None:
    assert difference(encoded(wanted), encoded(found)) == told


def test_comparing_tells_what_is_new_gone_or_other() -> None:
    name = "loops: counts and adds up"
    asked = {**RECORDED, name: "invalid", "new": 1}
    del asked["loops: no variables"]

    assert compared(VERSION, RECORDED) == []
    assert compared("9.9", asked) == [
        "new: is not kept",
        "loops: no variables: is kept, and no case any more",
        f"{name}: the whole is invalid, not [{{'int32': 10}}, {{'int32': 45}}]",
        f"kept is what TensorFlow {VERSION} came to, this is 9.9",
    ]
