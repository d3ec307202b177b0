"""Tests wait for progress, and not for seconds of the wall clock."""

from __future__ import annotations

import time

import pytest

from tests.support.busy import HANG_S, MOST, Stopwatch, competitors, counted, until


class World:
    """A clock, and how many share a core."""

    def __init__(self) -> None:
        self.now_s = 5.0
        self.load = 1.0

    def watch(self) -> Stopwatch:
        return Stopwatch(lambda: self.now_s, lambda: self.load)


def test_on_an_idle_machine_seconds_are_seconds() -> None:
    world = World()
    watch = world.watch()
    for _ in range(4):
        world.now_s += 0.5
        assert watch.counted_s() == pytest.approx(world.now_s - 5.0)


def test_a_second_counts_less_the_more_share_a_core_and_never_nothing() -> None:
    world = World()
    watch = world.watch()
    world.load = 5.0
    world.now_s += 1.0
    assert watch.counted_s() == pytest.approx(0.2)
    world.load = 1.0  # those that have just gone were there
    world.now_s += 1.0
    assert watch.counted_s() == pytest.approx(0.4)
    world.now_s += 1.0
    assert watch.counted_s() == pytest.approx(1.4)
    world.load = 1e9
    world.now_s += MOST
    assert watch.counted_s() == pytest.approx(2.4)


def test_what_never_comes_is_told() -> None:
    assert competitors() >= 1.0
    assert until(lambda: True) < HANG_S
    with pytest.raises(AssertionError, match="in vain for 0.01 s"):
        until(lambda: False, 0.01)


def test_the_seconds_of_a_block_are_counted_to_its_end() -> None:
    with counted() as seconds:
        began_s = time.perf_counter()
        time.sleep(0.05)
        took_s = time.perf_counter() - began_s
    assert took_s / MOST <= seconds() < HANG_S
