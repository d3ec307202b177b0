from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import HistoryError
from actorflow.sim import checkers
from actorflow.sim.history import History, Recorder
from tests.sim.histories import StillClock
from tests.support.strategies import examples


def first_arrived(arrivals: list[list[int]], m: int, one_decides: bool) -> History:
    """Shards take the first m gradients of a step; each decides alone, or one decides for all."""
    recorder = Recorder(StillClock())
    for rank in sorted({rank for order in arrivals for rank in order}):
        recorder.invoke(rank, "propose", rank, key=1).ok()
    for shard, order in enumerate(arrivals):
        chosen = arrivals[0] if one_decides else order
        recorder.invoke(f"shard-{shard}", "decide", key=1).ok(tuple(chosen[:m]))
    return recorder.history()


def test_shards_that_decide_alone_are_caught_and_those_that_follow_one_pass() -> None:
    alone = checkers.agreement(first_arrived([[0, 1, 2], [2, 1, 0]], 2, one_decides=False), m=2)

    assert alone.explain() == (
        "agreement: violated, 1 finding\n"
        "  on 1: client shard-1 (event 9) decided {1, 2}, but client shard-0 (event 7) {0, 1}"
    )
    assert checkers.agreement(first_arrived([[0, 1, 2], [2, 1, 0]], 2, one_decides=True), m=2).ok


def finding(*decisions: tuple[int, ...], m: int | None = None) -> str:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "propose", 0).ok()
    recorder.invoke(1, "propose", 1).info()
    recorder.invoke(2, "propose", 2).fail()
    for client, decision in enumerate(decisions, 10):
        recorder.invoke(client, "decide").ok(decision)
    recorder.invoke(3, "propose", 3).ok()
    return checkers.agreement(recorder.history(), m=m).explain()


def test_what_can_go_wrong_is_told_apart() -> None:
    assert ": ok" in finding((0, 1), (1, 0), m=2)
    assert ": ok" in finding((1,))
    assert "decided 2, which nobody proposed" in finding((0, 2))
    assert "decided 3 before it was proposed" in finding((3,))
    assert "decided {0, 0}, in which an element is twice" in finding((0, 0))
    assert "decided 1 distinct element, must be 2" in finding((0, 0), m=2)


def test_a_decision_that_is_no_set_is_an_error() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "decide").ok(3)

    with pytest.raises(
        HistoryError, match=r"(?s)gives a tuple of elements.*record the decided set as a tuple"
    ):
        checkers.agreement(recorder.history())


def test_a_decision_of_unknown_outcome_binds_nobody() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "propose", 0).ok()
    recorder.invoke(1, "decide").info()
    recorder.invoke(2, "decide").ok((0,))

    assert checkers.agreement(recorder.history()).ok


@given(st.lists(st.permutations(range(4)), min_size=1, max_size=4), st.integers(1, 3), st.data())
@settings(max_examples=examples(100))
def test_one_set_passes_and_another_one_is_caught(
    arrivals: list[list[int]], m: int, data: st.DataObject
) -> None:
    assert checkers.agreement(first_arrived(arrivals, m, one_decides=True), m=m).ok

    alone = checkers.agreement(first_arrived(arrivals, m, one_decides=False), m=m)
    assert alone.ok is (len({frozenset(order[:m]) for order in arrivals}) == 1)
