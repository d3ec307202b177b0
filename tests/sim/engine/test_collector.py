from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from actorflow.sim.engine.collector import Collector, anybody_froze


class Cycle:
    """Only a collection ends it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.end()


def test_nothing_is_collected_until_a_tidy(collector: Collector) -> None:
    collector.begin()
    gone = weakref.ref(Cycle())
    filler = [[] for _ in range(200_000)]  # many times what starts the collector by itself

    assert gone() is not None
    assert collector.tidy() > 0
    assert gone() is None
    assert len(filler) == 200_000


def test_a_cycle_that_outlives_a_tidy_goes_at_a_later_one(collector: Collector) -> None:
    collector.begin()
    held = Cycle()
    gone = weakref.ref(held)
    collector.tidy()

    del held
    collector.tidy()

    assert gone() is None


def test_a_tidy_leaves_alone_what_was_there_before(collector: Collector) -> None:
    before = Cycle()
    gone = weakref.ref(before)
    collector.begin()

    del before
    collector.tidy()
    during = gone()
    collector.end()
    assert during is not None
    del during
    gc.collect()

    assert gone() is None


def test_what_died_before_is_collected_before(collector: Collector) -> None:
    gone = weakref.ref(Cycle())

    collector.begin()

    assert gone() is None


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_the_collector_is_left_as_it_was(enabled: bool, collector: Collector) -> None:
    if not enabled:
        gc.disable()
    thresholds = gc.get_threshold()
    try:
        collector.begin()
        during = gc.isenabled()
        gc.set_threshold(1, 2, 3)
        gc.enable()
        collector.tidy()
        tidied = gc.isenabled()
        collector.end()
        after = gc.isenabled(), gc.get_threshold(), anybody_froze()
    finally:
        gc.enable()

    assert (during, tidied) == (False, False)
    assert after == (enabled, thresholds, False)


def test_it_knows_whether_the_program_has_frozen_objects_whatever_the_interpreter_counts() -> None:
    gc.collect()  # from here on CPython 3.12 counts what is immortal
    before = anybody_froze()
    gc.freeze()
    try:
        during = anybody_froze()
    finally:
        gc.unfreeze()
    after = anybody_froze()
    gc.collect()

    assert (before, during, after, anybody_froze()) == (False, True, False, False)


def test_what_the_caller_froze_stays_frozen_and_the_run_is_tidied_all_the_same(collector: Collector) -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        collector.begin()
        gone = weakref.ref(Cycle())
        collector.tidy()
        collector.end()
        after = gc.get_freeze_count()
    finally:
        gc.unfreeze()

    assert gone() is None
    assert 0 < after <= frozen
    assert after > 0.9 * frozen  # some of it died in the meantime; none of it was thawed


def test_the_end_is_harmless_where_nothing_was_begun() -> None:
    Collector().end()

    assert gc.isenabled()


def test_old_garbage_does_not_pile_up_over_many_runs(collector: Collector) -> None:
    """Each tidy puts off the interpreter's own whole collections, so there is one of ours now and then."""
    held = Cycle()
    gone = weakref.ref(held)
    collector.begin()
    collector.end()  # it is old now: only a whole collection finds it
    del held

    runs = 0
    while gone() is not None and runs < 3_000:
        collector.begin()
        collector.tidy()
        collector.end()
        runs += 1

    assert 1 < runs <= 2_000
