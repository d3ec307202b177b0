"""A run is a function of (program, schedule, seed), and those who say so are shown to notice if not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.errors import Deadlock, SimulationError
from actorflow.sim.engine.choice import FAULTS, Asked
from actorflow.sim.engine.simulate import Outcome, attempt, digest
from actorflow.sim.property.pairs import SCHEDULES, Pair, pairs, programs
from actorflow.sim.property.replay import HASH_SEEDS, Difference, LocalRuns, RemoteRuns, orders, stir
from tests.support.strategies import examples

PROGRAMS = programs()
WORLDS = sorted(name for name, program in PROGRAMS.items() if program.faulty)
IRREGULAR = "tests.sim.irregular"

seeds = st.integers(0, 2**16)


def here(where: str | None, chosen: Sequence[Pair]) -> LocalRuns:
    found = LocalRuns(programs(where), chosen)
    assert list(found.run()) == list(range(1, len(chosen) + 1))
    return found


def elsewhere(
    hash_seed: str, where: str | None, order: Sequence[int], chosen: Sequence[Pair]
) -> dict[Pair, str]:
    with closing(RemoteRuns(hash_seed, where, order, chosen)) as other:
        other.hear()
        return other.digests


def differing(found: LocalRuns) -> set[str]:
    return {difference.pair.program for difference in found.differences}


# -- the laws --------------------------------------------------------------------------------------


@settings(max_examples=examples(150))
@given(program=st.sampled_from(sorted(PROGRAMS)), schedule=st.sampled_from(sorted(SCHEDULES)), seed=seeds)
def test_a_run_is_repeated_exactly_and_by_its_plan_too(program: str, schedule: str, seed: int) -> None:
    found = here(None, [Pair(program, schedule, seed)])

    assert not found.differences, str(found.differences[0])


@settings(max_examples=examples(100))
@given(
    name=st.sampled_from(WORLDS),
    schedule=sim.schedules(),
    faults=sim.faults(crash=1, pause=1, drop=2, duplicate=1, reorder=1, clog=1, split=1),
    seed=seeds,
)
def test_the_plan_that_a_run_tells_stands_for_schedule_and_faults(
    name: str, schedule: Any, faults: sim.Faults, seed: int
) -> None:
    main = PROGRAMS[name].main
    run = attempt(main, schedule, faults, seed=seed, trace=True)
    again = attempt(main, schedule, faults, seed=seed, trace=True)
    planned = attempt(main, run.plan, seed=seed, trace=True)

    assert run.account == again.account
    assert run.account == planned.account
    assert run.digest == planned.digest
    assert not planned.unused


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_the_plan_of_every_kind_of_schedule_repeats_its_run(program: str, schedule: str) -> None:
    found = here(None, [Pair(program, schedule, seed) for seed in (3, 4)])

    assert not found.differences, str(found.differences[0])


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_program_ends_as_it_says_first_come_first_served(name: str) -> None:
    """A program that fails at its first line would be repeated exactly, too."""
    outcome = attempt(PROGRAMS[name].main)

    expected = {"stuck": Deadlock, "unheard": SimulationError}.get(name, type(None))
    assert type(outcome.error) is expected, outcome.error


def test_kernels_are_large_enough_for_the_workers() -> None:
    _, ended = attempt(PROGRAMS["offloaded"].main).result

    assert max(offloaded for _, offloaded in ended) > 4


def test_most_harmed_runs_are_harmed() -> None:
    outcomes = [Pair("outage", "fifo", seed).run(PROGRAMS["outage"]) for seed in range(30)]
    kinds = {deviation.text for outcome in outcomes for deviation in outcome.plan.deviations}

    assert kinds == set(FAULTS)


def test_the_schedules_do_deviate() -> None:
    """Else the plans above would be empty and repeat nothing but a FIFO run."""
    for schedule in sorted(set(SCHEDULES) - {"fifo"}):
        outcomes = [Pair("waited", schedule, seed).run(PROGRAMS["waited"]) for seed in range(8)]
        assert sum(bool(len(outcome.plan)) for outcome in outcomes) >= 6
        assert len({outcome.digest for outcome in outcomes}) >= 6


def test_who_is_passed_over_until_the_end_is_in_the_plan() -> None:
    async def main() -> str:
        async def other() -> None:
            await asyncio.sleep(0)

        left = [asyncio.create_task(other()) for _ in range(6)]
        await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        return next(task.get_name() for task in left if task.done())

    for seed in range(20):
        run = attempt(main, sim.PCT(seed, 3), trace=True)
        assert attempt(main, run.plan, trace=True).account == run.account


# -- exploring and replaying -----------------------------------------------------------------------


def test_a_seed_in_a_fresh_process_repeats_what_it_did_after_29_others() -> None:
    chosen = [Pair("waited", "seeded", seed) for seed in (*range(7), *range(8, 30), 7)]
    last = len(chosen) - 1

    first = elsewhere("0", None, [last], chosen)
    after = elsewhere("0", None, range(len(chosen)), chosen)

    assert chosen[last].seed == 7
    assert list(first) == [chosen[last]]
    assert first[chosen[last]] == after[chosen[last]]
    assert len(set(after.values())) > 20


# -- what is planted is caught ---------------------------------------------------------------------


def test_a_set_of_plain_objects_is_caught_in_one_process() -> None:
    chosen = pairs(["steady", "addresses"], 10)

    assert differing(here(f"{IRREGULAR}:ADDRESSES", chosen)) == {"addresses"}


def test_a_clock_that_was_bound_before_the_run_is_caught_in_one_process() -> None:
    assert differing(here(f"{IRREGULAR}:REAL_TIME", [Pair("real_time", "fifo", 0)])) == {"real_time"}


def test_a_counter_of_the_process_is_caught_in_one_process() -> None:
    assert differing(here(f"{IRREGULAR}:NUMBERS", pairs(["steady", "numbers"], 4))) == {"numbers"}


def test_hashes_of_strings_are_caught_across_hash_seeds_and_only_there() -> None:
    where = f"{IRREGULAR}:STRINGS"
    chosen = pairs(["steady", "strings", "strings_in_order_of_tasks"], 6)
    order = range(len(chosen))

    assert not here(where, chosen).differences
    zero, again, one = (elsewhere(seed, where, order, chosen) for seed in ("0", "0", "1"))
    assert zero == again
    assert {pair.program for pair in chosen if zero[pair] != one[pair]} == {
        "strings", "strings_in_order_of_tasks",
    }  # fmt: skip


def test_another_process_gives_the_account_of_what_differs() -> None:
    chosen = [Pair("steady", "fifo", 0), Pair("strings", "fifo", 0)]
    with closing(RemoteRuns("1", f"{IRREGULAR}:STRINGS", (1, 0), chosen)) as other:
        other.hear()
        account = other.account(chosen[1])

    assert digest(account) == other.digests[chosen[1]]
    assert any(line.startswith("result (['shard ") for line in account)


def test_a_process_that_ends_early_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    chosen = [Pair("steady", "fifo", 0)]
    early = pytest.raises(SimulationError, match="hash seed 0 ended early, at '--program steady")
    with closing(RemoteRuns("0", f"{IRREGULAR}:EMPTY", (0,), chosen)) as other, early:
        other.hear()

    assert "programs are a dict" in capfd.readouterr().err


# -- accounts and their differences ----------------------------------------------------------------


def told(**changed: Any) -> Outcome:
    async def main() -> int:
        return 1

    run = attempt(main, trace=True)
    given = {name: getattr(run, name) for name in Outcome.__slots__}
    return Outcome(**{**given, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"trace": ((0.0, "main", "step"), (0.5, "other", "step"))},
        {"result": 2},
        {"error": ValueError("what it says")},
        {"plan": sim.Plan("main#1 +2")},
        {"steps": 77},
        {"seconds": 0.25},
        {"survey": (Asked("main", 9, 16, ()),)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_an_account_covers(changed: dict[str, Any]) -> None:
    assert told(**changed).digest != told().digest


def test_an_account_covers_the_causes_of_an_error() -> None:
    def failed(why: str) -> Outcome:
        error = ValueError("what it says")
        error.__cause__ = LookupError(why)
        return told(error=error)

    assert failed("one").digest != failed("other").digest
    assert failed("one").digest == failed("one").digest


def test_a_difference_shows_the_first_lines_that_differ_side_by_side() -> None:
    one = [f"{i} s  main  step" for i in range(9)]
    other = [*one[:5], "5 s  worker  step"]

    lines = str(Difference(Pair("waited", "pct", 3), "two runs", one, other)).splitlines()

    assert lines[0] == "--program waited --schedule pct --seed 3"
    assert lines[1] == "  two runs: line 6 differs"
    assert [line.split() for line in lines[4:7]] == [
        ["4", "s", "main", "step", "|", "4", "s", "main", "step"],
        ["!", "5", "s", "main", "step", "|", "5", "s", "worker", "step"],
        ["!", "6", "s", "main", "step", "|", "(over)"],
    ]


def test_a_difference_far_along_a_line_is_in_sight() -> None:
    one, other = "x" * 500 + "left" + "y" * 500, "x" * 500 + "right" + "y" * 500

    shown = str(Difference(Pair("waited", "pct", 3), "two runs", [one], [other]))

    assert "xleft" in shown
    assert "xright" in shown
    assert all(len(line) < 140 for line in shown.splitlines())


def test_pairs_are_different_and_cover_programs_first_then_schedules() -> None:
    names = list(PROGRAMS)
    every = pairs(names, 5 * len(names) * 2)

    assert len(set(every)) == len(every)
    assert {pair.program for pair in every[: len(names)]} == set(names)
    assert {pair.schedule for pair in every[: len(names)]} == set(SCHEDULES)
    assert {(pair.program, pair.schedule) for pair in every[: 5 * len(names)]} == {
        (name, schedule) for name in names for schedule in SCHEDULES
    }


def test_every_process_has_an_order_of_its_own_with_all_pairs() -> None:
    found = orders(40)

    assert tuple(found) == HASH_SEEDS
    assert all(sorted(order) == list(range(40)) for order in found.values())
    assert len({tuple(order) for order in (*found.values(), range(40))}) == 4
    assert found["0"][0] == 39


def test_the_heap_is_stirred_in_different_ways() -> None:
    class Thing:
        pass

    def order() -> list[int]:
        made = [Thing() for _ in range(12)]
        return [made.index(thing) for thing in set(made)]

    orders_seen = set()
    kept = []
    for seed in range(6):
        kept.append(stir(seed))
        orders_seen.add(tuple(order()))

    assert len(orders_seen) > 1
