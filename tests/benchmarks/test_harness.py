from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.sim.engine.collector import anybody_froze
from benchmarks.harness import QUICK, Better, Contest, Peer, Round, Row, Sample, Size, Unit, absent, measure


def scripted(name: str, seconds: Sequence[float], log: list[tuple[str, int]]) -> Round:
    """A contestant whose rounds take the given seconds, without taking any."""
    left = list(seconds)

    async def run(n: int) -> float:
        log.append((name, n))
        return left.pop(0)

    return run


def rows_of(contest: Contest, size: Size) -> list[Row]:
    return asyncio.run(measure(contest, size))


def test_rounds_are_taken_in_turns_and_ask_the_same_of_everyone() -> None:
    log: list[tuple[str, int]] = []
    peers = [Peer("b", scripted("b", [1.0] * 3, log)), Peer("c", scripted("c", [1.0] * 3, log))]
    contest = Contest("tell", Unit.MESSAGES, 7, scripted("a", [1.0] * 3, log), peers)

    rows_of(contest, Size(rounds=2, warm_up=1))

    assert log == [("a", 7), ("b", 7), ("c", 7)] * 3


def test_the_value_is_the_median_of_the_rounds_after_warm_up() -> None:
    ours = scripted("a", [900.0, 1.0, 2.0, 50.0], [])
    theirs = scripted("b", [900.0, 4.0, 4.0, 4.0], [])
    contest = Contest("tell", Unit.MESSAGES, 100, ours, [Peer("b", theirs)])

    (row,) = rows_of(contest, Size(rounds=3, warm_up=1))

    assert (row.ours.median, row.theirs and row.theirs.median) == (50.0, 25.0)


@pytest.mark.parametrize(
    ("unit", "ours", "theirs", "ratio"),
    [
        (Unit.MESSAGES, 100.0, 50.0, 2.0),
        (Unit.MICROSECONDS, 10_000.0, 20_000.0, 0.5),
        (Unit.MILLISECONDS, 10.0, 20.0, 0.5),
    ],
)
def test_the_ratio_is_ours_over_theirs_whichever_way_is_better(
    unit: Unit, ours: float, theirs: float, ratio: float
) -> None:
    contest = Contest("m", unit, 100, scripted("a", [1.0], []), [Peer("b", scripted("b", [2.0], []))])

    (row,) = rows_of(contest, Size(rounds=1, warm_up=0))

    assert row.theirs is not None
    assert (row.ours.median, row.theirs.median, row.ratio) == (ours, theirs, ratio)


def test_an_absent_peer_is_a_row_that_says_what_to_install() -> None:
    peers = [absent("xoscar", "actorflow[bench]", 5.0), Peer("b", scripted("b", [2.0], []))]
    contest = Contest("tell", Unit.MESSAGES, 100, scripted("a", [1.0], []), peers)

    first, second = rows_of(contest, Size(rounds=1, warm_up=0))

    assert first.peer.name == "xoscar (absent: install actorflow[bench])"
    assert (first.theirs, first.ratio, first.ratio_met) == (None, None, None)
    assert second.ratio == 2.0


def test_what_lives_before_the_rounds_is_frozen_for_their_time_only() -> None:
    frozen: list[bool] = []

    async def run(n: int) -> float:
        frozen.append(anybody_froze())
        return 1.0

    rows_of(Contest("tell", Unit.MESSAGES, 1, run, []), Size(rounds=1, warm_up=1))

    assert frozen[:2] == [False, True]
    assert not anybody_froze()


def test_a_round_that_fails_ends_the_benchmark_and_thaws() -> None:
    async def broken(n: int) -> float:
        raise RuntimeError("lost messages")

    contest = Contest("tell", Unit.MESSAGES, 1, scripted("a", [1.0], []), [Peer("b", broken)])

    with pytest.raises(RuntimeError, match="lost messages"):
        rows_of(contest, Size(rounds=1, warm_up=0))

    assert not anybody_froze()


@pytest.mark.parametrize(
    ("unit", "aim", "ratio_aim", "met", "ratio_met"),
    [
        (Unit.MESSAGES, 100.0, 2.0, True, True),
        (Unit.MESSAGES, 100.1, 2.1, False, False),
        (Unit.MICROSECONDS, 100.0, 2.0, True, True),
        (Unit.MICROSECONDS, 99.9, 1.9, False, False),
        (Unit.MESSAGES, None, None, None, None),
    ],
)
def test_an_aim_is_met_from_its_own_side(
    unit: Unit, aim: float | None, ratio_aim: float | None, met: bool | None, ratio_met: bool | None
) -> None:
    peer = Peer("b", None, ratio_aim)
    contest = Contest("m", unit, 1, scripted("a", [], []), [peer], aim)
    row = Row(contest, peer, Sample([100.0]), Sample([50.0]))

    assert (row.met, row.ratio_met) == (met, ratio_met)


def test_rates_should_be_high_and_times_and_memory_low() -> None:
    assert [unit.value for unit in Unit if unit.better is Better.LOW] == ["ms", "us", "MiB"]


def test_a_contest_that_is_measured_once_takes_one_round_and_no_warm_up() -> None:
    calls: list[int] = []

    async def grow(n: int) -> float:
        calls.append(n)
        return 0.5

    contest = Contest("growth", Unit.MEBIBYTES, 10, grow, [Peer("limit", grow)], once=True)
    (row,) = asyncio.run(measure(contest, Size()))

    assert calls == [10, 10]
    assert (row.ours.values, row.ratio) == ([0.5], 1.0)


def test_the_spread_is_half_the_quartile_distance_over_the_median() -> None:
    assert Sample([8.0, 9.0, 10.0, 11.0, 12.0]).spread == pytest.approx(0.1)
    assert Sample([8.0]).spread == 0.0


@given(usual=st.integers(1, 10**6), step=st.integers(1, 10**4), share=st.floats(1e-6, 2.0))
def test_a_round_is_a_positive_multiple_of_its_step(usual: int, step: int, share: float) -> None:
    n = Size(share=share).operations(usual, step)

    assert n >= step
    assert n % step == 0
    assert abs(n - usual * share) <= step


def test_quick_asks_for_less() -> None:
    assert QUICK.rounds < Size().rounds
    assert QUICK.operations(1000) < Size().operations(1000) == 1000
