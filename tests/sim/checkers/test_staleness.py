from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import HistoryError
from actorflow.sim import checkers
from actorflow.sim.history import History, Recorder
from tests.sim.histories import StillClock
from tests.support.strategies import examples


def flat(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(text.split())


def cached_reads(refreshes: bool) -> History:
    """One writer makes five versions; a reader keeps what it saw first, or looks again every other time."""
    recorder = Recorder(StillClock())
    seen = 1
    for version in range(1, 6):
        recorder.invoke("writer", "write", version * 10).ok(version)
        if refreshes and version % 2:
            seen = version
        recorder.invoke("reader", "read").ok((seen * 10, seen))
    return recorder.history()


def test_a_cache_that_never_looks_again_is_caught_and_one_that_does_passes() -> None:
    stale = checkers.bounded_staleness(cached_reads(refreshes=False), 1)

    assert stale.ok is False
    assert "saw version 1, 4 behind 5, which was proven before it began; k is 1" in flat(stale.explain())
    assert checkers.bounded_staleness(cached_reads(refreshes=False), 4).ok
    assert checkers.bounded_staleness(cached_reads(refreshes=True), 1).ok
    assert checkers.bounded_staleness(cached_reads(refreshes=True), 0).ok is False


def test_a_read_during_a_write_may_see_either_version() -> None:
    for seen in (0, 1):
        recorder = Recorder(StillClock())
        write = recorder.invoke("a", "write", 7)
        recorder.invoke("b", "read").ok(seen)
        write.ok(1)

        assert checkers.bounded_staleness(recorder.history(), 0).ok


def test_what_a_read_saw_is_proven_to_the_next_reader() -> None:
    recorder = Recorder(StillClock())
    write = recorder.invoke("a", "write", 7)
    recorder.invoke("b", "read").ok(1)
    recorder.invoke("c", "read").ok(0)
    write.ok(1)

    verdict = checkers.bounded_staleness(recorder.history(), 0)

    assert "saw version 0, 1 behind 1" in verdict.explain()


def test_each_open_write_may_have_made_one_version() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke("a", "write", 7)
    recorder.invoke("b", "read").ok(1)
    once = recorder.history()
    recorder.invoke("b", "read").ok(2)

    assert checkers.bounded_staleness(once, 0).ok
    assert (
        "version 2, which no write can have made"
        in checkers.bounded_staleness(recorder.history(), 0).explain()
    )


def test_versions_that_make_no_sense_are_told() -> None:
    def finding(*operations: tuple[str, Any, Any]) -> str:
        recorder = Recorder(StillClock())
        for client, (op, value, result) in enumerate(operations):
            recorder.invoke(client, op, *([value] if op == "write" else [])).ok(result)
        return flat(checkers.bounded_staleness(recorder.history(), 9).explain())

    assert "both made version 1" in finding(("write", 5, 1), ("write", 6, 1))
    assert "made version 1 when 2 was proven" in finding(("write", 5, 2), ("write", 6, 1))
    assert "saw version 1 before write 5 -> 1" in finding(("read", None, 1), ("write", 5, 1))
    assert "gives version 1 the value 6 and write 5 -> 1 (client 0, event 0) 5" in finding(
        ("write", 5, 1), ("read", None, (6, 1))
    )
    with pytest.raises(HistoryError, match="does not say which version"):
        finding(("read", None, None))


@st.composite
def runs(draw: st.DrawFn, k: int) -> Recorder:
    """A variable and its readers, who may be given any of the last k + 1 versions."""
    recorder, versions, running = Recorder(StillClock()), ["first"], []
    for client in range(draw(st.integers(1, 15))):
        op = draw(st.sampled_from(["read", "write"]))
        asked = [f"value {client}"] if op == "write" else []
        running.append((recorder.invoke(client, op, *asked), asked))
        while draw(st.booleans()) and running:
            pending, asked = running.pop(draw(st.integers(0, len(running) - 1)))
            if asked:
                versions += asked
                pending.ok(len(versions) - 1)
            else:
                version = len(versions) - 1 - draw(st.integers(0, min(k, len(versions) - 1)))
                pending.ok((versions[version], version))
    return recorder


@given(st.integers(0, 3).flatmap(lambda k: st.tuples(st.just(k), runs(k))))
@settings(max_examples=examples(100))
def test_reads_of_the_last_versions_pass_and_one_more_behind_is_caught(drawn: tuple[int, Recorder]) -> None:
    k, recorder = drawn
    assert checkers.bounded_staleness(recorder.history(), k).ok

    for n in range(k + 1):
        known = [o.result for o in recorder.history() if o.op == "write" and o.returned is not None]
        recorder.invoke("more", "write", f"more {n}").ok(max([0, *known]) + 1)  # type: ignore[type-var, operator]
    oldest = max(o.result for o in recorder.history() if o.client == "more")  # type: ignore[type-var]
    recorder.invoke("late", "read").ok(oldest - k - 1)  # type: ignore[operator]
    assert checkers.bounded_staleness(recorder.history(), k).ok is False
