"""What a progress view shows of a pipeline."""

from __future__ import annotations

import pytest

from actorflow.data.stages.stats import MemoryAccount, StageMeter, Stats, combine_stats, stats_of


def meter(label: str, busy_s: float, width: int = 1) -> StageMeter:
    made = StageMeter(label, width, room=4)
    made.busy_s, made.input_s, made.room_s = busy_s, 1.0, 2.0
    made.passed(10, 100)
    made.passed(5, 50)
    made.fill = 3
    return made


def test_shares_are_of_the_time_and_of_all_workers() -> None:
    found = stats_of(meter("map 'f'", 15.0, width=2), 10.0)

    assert (found.busy, found.waits_input, found.waits_room) == (0.75, 0.1, 0.2)
    assert (found.elements, found.bytes, found.rate) == (15, 1250, 1.5)
    assert str(found) == "map 'f': 15 elements, 1.5/s, busy 75%, queue 3/4"


def test_no_time_gives_no_shares() -> None:
    found = stats_of(StageMeter("x"), 0.0)

    assert (found.busy, found.rate) == (0.0, 0.0)
    assert str(found) == "x: 0 elements, 0/s, busy 0%"


def stats(waiting: float, *meters: StageMeter) -> Stats:
    return Stats(tuple(stats_of(each, 10.0) for each in meters), 10.0, 5, waiting, 0, 0)


def test_the_bottleneck_is_the_stage_that_is_busy_most() -> None:
    found = stats(0.9, meter("arrays", 1.0), meter("map 'f'", 9.3), meter("batch(3)", 5.0))

    assert found.bottleneck is not None
    assert found.bottleneck.label == "map 'f'"
    assert str(found) == "input-bound: map 'f' 93 %"
    assert str(stats(0.1, meter("arrays", 1.0))) == "input keeps up: arrays 10 %"


def test_before_anything_worked_there_is_no_bottleneck() -> None:
    assert stats(1.0, StageMeter("x")).bottleneck is None
    assert str(stats(1.0, StageMeter("x"))) == "input-bound"
    assert stats(0.0).bottleneck is None


def test_a_ledger_keeps_the_most_that_was_held() -> None:
    ledger = MemoryAccount()
    for who, amount in [("a", 5), ("b", 7), ("a", 2), ("b", 0), ("a", 9)]:
        ledger.hold(who, amount)

    assert (ledger.now, ledger.peak) == (9, 12)


def test_two_streams_add_up_stage_by_stage() -> None:
    first = stats(0.5, meter("arrays", 1.0), meter("map 'f'", 9.0))
    second = Stats(
        (stats_of(meter("arrays", 15.0), 30.0), stats_of(meter("map 'g'", 12.0), 30.0)), 30.0, 7, 0.1, 3, 9
    )

    found = combine_stats(first, second)

    assert (found.seconds, found.elements, found.bytes, found.peak_bytes) == (40.0, 12, 3, 9)
    assert found.waiting == pytest.approx((0.5 * 10 + 0.1 * 30) / 40)
    assert [(s.label, s.elements, s.fill) for s in found.stages] == [
        ("arrays", 30, 3),
        ("map 'f'", 15, 0),
        ("map 'g'", 15, 3),
    ]
    assert [s.busy for s in found.stages] == pytest.approx([16 / 40, 9 / 40, 12 / 40])
    assert found.stages[0].rate == pytest.approx(30 / 40)


def test_streams_that_took_no_time_add_up_to_one_that_took_none() -> None:
    nothing = Stats((stats_of(StageMeter("x"), 0.0),), 0.0, 0, 0.0, 0, 0)

    assert combine_stats(nothing, nothing) == nothing
