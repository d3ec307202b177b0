from __future__ import annotations

from typing import Any

import pytest

from actorflow.errors import ConfigError, FaultNeverFired
from actorflow.sim.engine import faults
from actorflow.sim.engine.choice import FAULTS, HOST_FAULTS, LINK_FAULTS, Asked, Choices
from actorflow.sim.engine.faults import FaultCounts, FaultInjector, Faults
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import Seeded

SURVEY = (
    Asked("main", 9, 16, ()),
    Asked("a>b", 3, 16, LINK_FAULTS),
    Asked("host b", 3, 0, HOST_FAULTS),
    Asked("b>a", 2, 16, LINK_FAULTS),
)


@pytest.mark.parametrize(
    ("drawn", "place"),
    [
        (("drop", 0, 0), "a>b#1 drop"),
        (("drop", 1, 1), "b>a#2 drop"),
        (("split", 2, 5), "a>b#3 split"),
        (("crash", 0, 2), "host b#3 crash"),
        (("pause", 255, 255), "host b#1 pause"),
    ],
)
def test_a_drawn_harm_has_its_place_among_those_of_its_kind(drawn: tuple[str, int, int], place: str) -> None:
    assert str(Faults((drawn,)).plan(SURVEY)) == place


def test_of_two_harms_for_one_place_the_first_counts() -> None:
    assert str(Faults((("drop", 0, 0), ("clog", 0, 0))).plan(SURVEY)) == "a>b#1 drop"


@pytest.mark.parametrize(("kind", "reaches"), [("drop", "is sent over a link"), ("crash", "reaches a host")])
def test_a_harm_without_any_place_fails_at_once(kind: str, reaches: str) -> None:
    with pytest.raises(
        FaultNeverFired, match=f"'{kind}' was requested and can never fire: no message {reaches}"
    ):
        Faults(((kind, 0, 0),)).plan(SURVEY[:1])


@pytest.mark.parametrize(
    ("harm", "text"), [(("dorp", 0, 0), "unknown fault 'dorp'"), (("drop", 0, -1), "counted from 0")]
)
def test_a_harm_that_means_nothing_is_refused(harm: tuple[str, int, int], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Faults((harm,))


@pytest.mark.parametrize(
    ("harms", "text"),
    [
        ("crash", r"(?s)faults are a tuple of \(kind, a, b\), got 'crash'.*sim\.faults\(crash=1\)"),
        (("crash", 0, 0), r"a fault is \(kind, a, b\), got 'crash'"),
        ((("crash", "x", 0),), "counted from 0, got"),
        ((("skew", 0, 0),), r"'skew' is done by hand and not drawn"),
        ((("drop", 0, 0),) * 9, "a run has at most 8 faults, got 9"),
    ],
)
def test_what_are_no_harms_is_refused(harms: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Faults(harms)


def test_harms_lie_over_what_a_schedule_says() -> None:
    choices = Choices(FaultInjector(Seeded(1, p=1.0).scheduler(()), Plan("a>b#2 drop")))
    point = choices.point("a>b", names=LINK_FAULTS)

    values = [choices.choose(point) for _ in range(3)]

    assert [value > 0 for value in values] == [True, False, True]
    assert point.text(values[1]) == "drop"


def test_a_plan_under_harms_still_says_its_own() -> None:
    harmed = FaultInjector(Plan("a>b#1 +3").scheduler(), Plan("a>b#2 drop; x>y#1 drop"))
    choices = Choices(harmed)
    point = choices.point("a>b", names=LINK_FAULTS)

    texts = [point.text(choices.choose(point)) for _ in range(2)]

    assert texts == ["+3", "drop"]
    assert [str(deviation) for deviation in harmed.unused] == ["x>y#1 drop"]


def test_a_tally_names_every_kind_that_was_requested_and_never_fired() -> None:
    tally = FaultCounts()
    tally.requested.update(split=2, crash=1, slow=1)
    tally.fired.update(crash=1)

    with pytest.raises(FaultNeverFired) as raised:
        tally.check()

    assert "'slow' (1 requested, 0 fired), 'split' (2 requested, 0 fired)" in str(raised.value)
    assert "crash" not in str(raised.value)


def test_of_two_messages_to_be_held_both_must_come() -> None:
    tally = FaultCounts()
    tally.requested["hold"] = 2
    tally.fired["hold"] = 1

    with pytest.raises(FaultNeverFired, match=r"'hold' \(2 requested, 1 fired\)"):
        tally.check()


def test_a_tally_shows_what_fired() -> None:
    tally = FaultCounts()
    quiet = repr(tally)
    tally.fired.update(split=2, crash=1, slow=0)

    assert (quiet, repr(tally)) == ("no fault", "crash 1, split 2")
    tally.check()


def test_the_table_of_harms_names_all_that_can_be_drawn() -> None:
    table = (faults.__doc__ or "").split("only by hand")[0]

    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(FAULTS)
