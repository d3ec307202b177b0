"""What is news about those who take part, and the sums of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actorflow.cli.display.observed import LAST_BAR, Observed
from actorflow.cluster.inspect.reports import MemberEntry, RunEntry
from actorflow.cluster.trainer import UpdateDone
from actorflow.coord.rules.messages import Batch, Updated
from actorflow.training.batches import InputStats
from actorflow.training.position import TrainingPosition


def seat(rank: int, state: str = "alive", life: int = 1, **more: Any) -> MemberEntry:
    known: dict[str, Any] = {"heard_s": 0.1, "number": 0, "busy_s": 0.0, "complete": False, "why": ""}
    return MemberEntry(f"worker{rank}", rank, life if state != "awaited" else 0, state, **{**known, **more})


def run(*seats: MemberEntry, term: int = 1, phase: str = "idle") -> RunEntry:
    return RunEntry("coordinator1", term, 3, "sync", phase, (), "sync waits; …", 1.0, seats)


def update(
    step: int,
    chosen: list[int],
    dropped: Sequence[tuple[int, str]] = (),
    stale: int = 0,
    at: tuple[int, int] | None = None,
) -> UpdateDone:
    updated = Updated(
        version=step,
        chosen=tuple(
            (rank, 10 * step + rank, Batch(*(at or (0, step))), step - 1 - stale) for rank in chosen
        ),
        dropped=tuple((10 * step + rank, why) for rank, why in dropped),
        dropped_by=tuple(rank for rank, _ in dropped),
        alive=3,
        staleness=(stale,) * len(chosen),
    )
    return UpdateDone(
        epoch=1, step=step, total=None, loss=0.5, metrics={}, train_s=step / 10, messages=step,
        input=InputStats(0.0, 1.0), training_position=TrainingPosition(), update=updated,
    )  # fmt: skip


def news(*runs: RunEntry) -> list[str]:
    observed = Observed()
    return [line for each in runs for line in observed.see_members(each)]


def test_who_comes_for_the_first_time_is_no_news() -> None:
    assert news(run(seat(0, "awaited"), phase="gathering"), run(seat(0))) == []


def test_a_worker_that_is_lost_and_comes_back_is_news_both_times() -> None:
    lost = seat(0, "dead", why="its worker is silent")

    assert news(run(seat(0)), run(lost), run(lost), run(seat(0, life=2)), run(seat(0, life=2))) == [
        "worker0 lost: its worker is silent",
        "worker0 is back (life 2)",
    ]


def test_one_that_was_lost_and_back_between_two_looks_is_news_too() -> None:
    assert news(run(seat(0)), run(seat(0, life=2))) == ["worker0 lost, and back (life 2)"]
    assert news(run(seat(0)), run(seat(0, life=2, why="it has begun anew"))) == [
        "worker0 lost (it has begun anew), and back (life 2)"
    ]
    assert news(run(seat(0, "dead")), run(seat(0, "dead", life=2, why="gone"))) == [
        "worker0 lost",
        "worker0 is back (life 2)",
        "worker0 lost: gone",
    ]


def test_the_next_run_counts_lives_on() -> None:
    """Every epoch that is evaluated has a coordinator of its own, in whose books all are in their first life."""
    observed = Observed()
    for each in (run(seat(0)), run(seat(0, "dead")), run(seat(0, life=2))):
        observed.see_members(each)

    assert observed.see_members(run(seat(0, "awaited"), term=2)) == []
    assert observed.see_members(run(seat(0), term=2)) == []
    assert observed.workers[0].incarnation == 2
    observed.see_members(run(seat(0, "dead"), term=2))
    assert observed.see_members(run(seat(0, "awaited"), term=3)) == []
    assert observed.workers[0].state == "dead", "nobody has seen it yet"
    assert observed.see_members(run(seat(0), term=3)) == ["worker0 is back (life 3)"]


def test_who_leaves_in_good_order_is_told_and_the_end_of_a_run_is_no_loss() -> None:
    assert news(run(seat(0)), run(seat(0, "left"))) == ["worker0 left"]
    assert news(run(seat(0)), run(seat(0, "left"), phase="over")) == []


@pytest.mark.parametrize(
    ("entry", "doing"),
    [
        (seat(0, number=4, busy_s=0.2), "at work"),
        (seat(0, number=4, busy_s=3.25), "at work for 3.2 s"),
        (seat(0, complete=True), "has contributed"),
        (seat(0), "may not start"),
        (seat(0, heard_s=2.6, number=4), "late: silent for 2.6 s"),
        (seat(0, "dead", why="its worker is silent"), "lost: its worker is silent"),
        (seat(0, "awaited"), "not here yet"),
    ],
)
def test_what_a_worker_does_in_words(entry: MemberEntry, doing: str) -> None:
    observed = Observed()
    observed.see_members(run(entry))

    assert observed.workers[0].doing == doing


def test_sums_are_by_worker_and_in_all() -> None:
    observed = Observed(("worker0", "worker1", "worker2"))
    observed.update(update(1, [0, 1]))
    observed.update(update(2, [0, 2], [(1, "late: the update of its version is made")], stale=2))
    observed.update(update(3, [0, 1], [(2, "expired: nobody worked on it"), (2, "late: again")], stale=70))

    assert [(w.used, w.late) for w in observed.workers.values()] == [(3, 0), (2, 1), (1, 2)]
    assert (observed.used, observed.late) == (6, 3)
    assert observed.why == {"late": 2, "expired": 1}
    assert observed.stale == (24.0, 70)
    assert observed.bars() == [2, 0, 2, *[0] * (LAST_BAR - 3), 2]
    assert observed.updates_per_s == pytest.approx(10.0)


def test_the_rate_forgets_what_is_long_ago() -> None:
    observed = Observed()
    for step in [1, 2, 3, *range(100, 151)]:
        observed.update(update(step, [0]))

    assert observed.updates_per_s == pytest.approx(10.0)
