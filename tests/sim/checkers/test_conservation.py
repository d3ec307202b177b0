from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import HistoryError
from actorflow.sim import checkers
from actorflow.sim.history import History, Recorder, Value
from tests.sim.histories import StillClock
from tests.support.strategies import examples


def racing(locked: bool) -> History:
    """Two consumers look at the head and then remove it, in two turns, or in one when it is locked."""
    recorder = Recorder(StillClock())
    elements: deque[Value] = deque()
    for n in range(3):
        recorder.invoke("p", "enqueue", ("p", n)).ok()
        elements.append(("p", n))
    takes = [recorder.invoke(client, "dequeue") for client in ("a", "b")]
    if locked:
        heads = [elements.popleft() for _ in takes]
    else:
        heads = [elements[0] for _ in takes]
        for _ in takes:
            elements.popleft()
    for take, head in zip(takes, heads, strict=True):
        take.ok(head)
    while elements:
        recorder.invoke("a", "dequeue").ok(elements.popleft())
    return recorder.history()


def test_two_consumers_that_look_before_they_take_are_caught_and_locked_ones_pass() -> None:
    verdict = checkers.queue(racing(locked=False))

    assert verdict.explain() == (
        "queue: violated, 2 findings\n"
        "  ('p', 0) was put 1 time and there 2 times: taken by client b at event 9\n"
        "  1 element was put and never taken: ('p', 1)"
    )
    assert checkers.queue(racing(locked=True)).ok


def judged(*events: tuple[Any, ...], left: Sequence[Value] | None = (), ordered: bool = True) -> str:
    recorder = Recorder(StillClock())
    for n, (op, element, *how) in enumerate(events):
        asked = [element] if op == "enqueue" else []
        pending = recorder.invoke("p" if op == "enqueue" else f"c{n}", op, *asked)
        if how:
            getattr(pending, how[0])()
        else:
            pending.ok(None if op == "enqueue" else element)
    return checkers.queue(recorder.history(), left=left, ordered=ordered).explain()


def test_what_can_go_wrong_is_told_apart() -> None:
    assert "7 was never put: taken by client c0 at event 1" in judged(("dequeue", 7))
    assert "before it was put at event 2" in judged(("dequeue", 7), ("enqueue", 7))
    assert "1 element was put and never taken: 7" in judged(("enqueue", 7))
    assert "client 'p'" not in judged(("enqueue", 7), ("dequeue", 7))
    assert "client p put 1 before 2, which was taken first, at event 5" in judged(
        ("enqueue", 1), ("enqueue", 2), ("dequeue", 2), ("dequeue", 1)
    )
    assert "client p put 1 before 2, which is ahead in the queue" in judged(
        ("enqueue", 1), ("enqueue", 2), left=(2, 1)
    )
    assert "client p put 1 before 2, which was taken first" in judged(
        ("enqueue", 1), ("enqueue", 2), ("dequeue", 2), left=(1,)
    )


def test_what_is_allowed_passes() -> None:
    assert ": ok" in judged(("enqueue", 7), left=(7,))
    assert ": ok" in judged(("enqueue", 7), left=None)
    assert ": ok" in judged(("enqueue", 7, "info"))
    assert ": ok" in judged(("enqueue", 7, "info"), ("dequeue", 7))
    assert ": ok" in judged(("enqueue", 7, "fail"))
    assert ": ok" in judged(("enqueue", 7), ("dequeue", None, "info"))
    assert ": ok" in judged(("enqueue", 7), ("dequeue", None, "fail"), left=(7,))
    assert ": ok" in judged(("enqueue", 1), ("enqueue", 2), ("dequeue", 2), ("dequeue", 1), ordered=False)
    assert ": ok" in judged(("enqueue", 1, "info"), ("enqueue", 2), ("dequeue", 2), ("dequeue", 1))
    assert ": ok" in judged(("enqueue", 1), ("enqueue", 1), ("dequeue", 1), ("dequeue", 1), ordered=False)


def test_a_failed_enqueue_must_not_come_out() -> None:
    assert "7 was never put" in judged(("enqueue", 7, "fail"), ("dequeue", 7))


def test_overlapping_takes_may_end_in_any_order() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke("p", "enqueue", 1).ok()
    recorder.invoke("p", "enqueue", 2).ok()
    first, second = recorder.invoke("a", "dequeue"), recorder.invoke("b", "dequeue")
    second.ok(2)
    first.ok(1)

    assert checkers.queue(recorder.history()).ok


def test_order_needs_elements_that_can_be_told_apart() -> None:
    with pytest.raises(HistoryError, match=r"(?s)1 is put more than once.*ordered=False"):
        judged(("enqueue", 1), ("enqueue", 1))
    recorder = Recorder(StillClock())
    recorder.invoke("p", "enqueue", 1, 2).ok()
    with pytest.raises(HistoryError, match="one argument, the element"):
        checkers.queue(recorder.history())


@st.composite
def runs(draw: st.DrawFn) -> tuple[Recorder, list[Value]]:
    """Producers and consumers of a real queue, each acting at one moment between its two events."""
    recorder, elements = Recorder(StillClock()), deque[Value]()
    running: list[Any] = []
    counts = [0, 0, 0]
    idle: list[Any] = [0, 1, 2, "a", "b", "c"]
    for _ in range(draw(st.integers(1, 30))):
        if draw(st.booleans()) and idle:
            client = idle.pop(draw(st.integers(0, len(idle) - 1)))
            asked = []
            if isinstance(client, int):
                asked = [(client, counts[client])]
                counts[client] += 1
            op = "enqueue" if asked else "dequeue"
            running.append((client, recorder.invoke(client, op, *asked), asked))
        elif running:
            client, pending, asked = running.pop(draw(st.integers(0, len(running) - 1)))
            idle.append(client)
            if asked:
                elements.extend(asked)
                pending.ok()
            elif elements:
                pending.ok(elements.popleft())
            else:
                pending.fail("empty")
    return recorder, list(elements)


@given(runs(), st.data())
@settings(max_examples=examples(200))
def test_a_real_queue_passes_and_any_loss_or_doubling_is_caught(
    drawn: tuple[Recorder, list[Any]], data: st.DataObject
) -> None:
    recorder, left = drawn
    history = recorder.history()
    assert checkers.queue(history, left=left).ok is (True if len(history) else None)

    gone = [o.result for o in history if o.op == "dequeue" and o.result is not None]
    if left:
        at = data.draw(st.integers(0, len(left) - 1))
        open_takes = any(o.op == "dequeue" and o.returned is None for o in history)
        first = all(other[0] != left[at][0] for other in left[:at])  # of its producer: else it overtook
        assert checkers.queue(history, left=left[:at] + left[at + 1 :]).ok is (open_takes and first)
        assert checkers.queue(history, left=[*left, left[at]]).ok is False
    if gone:
        assert checkers.queue(history, left=[*left, data.draw(st.sampled_from(gone))]).ok is False
    assert checkers.queue(history, left=[*left, "invented"]).ok is False


@given(st.lists(st.sampled_from("pq"), min_size=2, max_size=12), st.data())
@settings(max_examples=examples(100))
def test_two_elements_of_one_producer_that_change_places_are_caught_and_of_two_are_not(
    producers: list[str], data: st.DataObject
) -> None:
    elements = [(producer, n) for n, producer in enumerate(producers)]
    at = data.draw(st.integers(0, len(elements) - 2))
    swapped = [*elements[:at], elements[at + 1], elements[at], *elements[at + 2 :]]
    recorder = Recorder(StillClock())
    for element in elements:
        recorder.invoke(element[0], "enqueue", element).ok()
    for element in swapped:
        recorder.invoke("consumer", "dequeue").ok(element)

    verdict = checkers.queue(recorder.history())

    assert verdict.ok is (producers[at] != producers[at + 1])
    assert checkers.queue(recorder.history(), ordered=False).ok


@pytest.mark.parametrize(("early", "ok"), [(False, False), (True, True)])
def test_an_open_take_explains_what_is_gone_only_if_it_can_have_come_first(early: bool, ok: bool) -> None:
    recorder = Recorder(StillClock())
    for n in (1, 2):
        recorder.invoke("p", "enqueue", n).ok()
    if early:
        recorder.invoke("a", "dequeue").info("timed out")
    recorder.invoke("b", "dequeue").ok(2)
    if not early:
        recorder.invoke("a", "dequeue").info("timed out")

    assert checkers.queue(recorder.history(), left=()).ok is ok
