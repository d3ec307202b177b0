"""What the live view of a cluster shows, and the plain lines: of a run in a simulated world, and by hand."""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Callable
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.cli import cluster_arguments, launch
from actorflow.cli.display.live import ClusterDisplay, ClusterLive, ClusterLog, Following
from actorflow.cli.display.output import Output
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.training.events import EpochDone, RunDone
from tests.cli.display.test_observed import run, seat, update
from tests.support.linear import regression

WORKERS = ("worker0", "worker1", "worker2")


def console(width: int = 100, *, terminal: bool = True) -> tuple[Output, io.StringIO]:
    file = io.StringIO()
    made = Output(
        file=file, width=width, height=30, force_terminal=terminal, color_system=None, soft_wrap=not terminal
    )
    return made, file


def lines(file: io.StringIO) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", file.getvalue()).splitlines()]


def drawn(live: ClusterLive, width: int = 100) -> list[str]:
    """What the screen would show now."""
    shown, file = console(width)
    shown.print(live.draw())
    return lines(file)


class Clock:
    """A time that stands still unless it is told to go."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def live(**known: Any) -> tuple[ClusterLive, Clock]:
    clock = Clock()
    return ClusterLive(console()[0], 3, workers=WORKERS, now=clock, **known), clock


def test_the_screen_has_figures_staleness_and_a_line_a_worker() -> None:
    view, _ = live(epochs=2, batches=10)
    view.members(run(seat(0, number=9), seat(1), seat(2, complete=True)))
    view.show(update(1, [0, 1], stale=1))
    view.show(update(2, [0, 2], [(1, "late: too late")]))

    bar, figures, staleness, _, head, *workers = drawn(view)
    assert bar.startswith("seed 3 ") and " 15% " in bar
    assert figures == "epoch 1/2  update 2  loss 0.5000  10.0 updates/s"
    assert staleness == "staleness mean 0.50 max 1  0▅ 1▅   1 of 5 dropped (1 late)".replace(
        "▅", staleness[28]
    )
    assert head.split() == ["worker", "state", "life", "used", "dropped", "share"]
    assert [line.split()[:1] + line.split()[-6:] for line in workers[:1]] == [
        ["worker0", "1", "2", "0", "50", "%", "█" * 12]
    ]
    assert "has contributed" in workers[2]


def test_who_is_lost_and_back_shows_between_updates() -> None:
    view, clock = live()
    view.members(run(seat(0), seat(1), seat(2)))
    view.show(update(1, [0, 1]))
    clock.now_s += 2.0
    view.members(run(seat(0), seat(1, "dead", why="its worker is silent"), seat(2)))
    lost = "\n".join(drawn(view))
    clock.now_s += 1.5
    view.members(run(seat(0), seat(1, life=2, number=7), seat(2)))
    back = "\n".join(drawn(view))

    assert re.search(r"worker1 +lost: its worker is silent +1 ", lost)
    assert "2.0 s  worker1 lost: its worker is silent" in lost
    assert re.search(r"worker1 +at work +2 ", back)
    assert "3.5 s  worker1 is back (life 2)" in back


def test_who_leaves_after_the_run_was_told_to_end_is_no_news() -> None:
    shown, file = console(terminal=False)
    log, (view, _) = ClusterLog(shown, 3, workers=WORKERS), live()
    for display in (log, view):
        display.members(run(seat(0), seat(1), seat(2)))
        display.leave()
        display.members(run(seat(0), seat(1, "dead", why="out of reach"), seat(2)))
    assert file.getvalue() == ""
    assert "lost" not in "\n".join(drawn(view))


def test_on_a_narrow_terminal_no_line_is_broken() -> None:
    view, _ = live()
    view.members(run(seat(0), seat(1, "dead", why="it does not reach a shard: " + "x" * 100), seat(2)))
    view.show(update(1, [0, 1]))

    assert max(map(len, drawn(view, 40))) <= 40
    assert len(drawn(view, 40)) == len(drawn(view, 100))


def test_at_40_columns_numbers_are_whole_and_states_are_read() -> None:
    view = ClusterLive(console(40)[0], 3, workers=WORKERS)
    view.members(run(seat(0, number=9), seat(1, "dead", why="out of reach"), seat(2)))
    view.show(update(1234, [0, 1], stale=1))
    text = drawn(view, 40)
    assert max(map(len, text)) <= 40
    assert text[1] == "epoch 1  update 1,234  loss 0.5000"
    assert text[2].startswith("staleness mean 1.00 max 1")
    head, *workers = text[4:7]
    assert head.split() == ["worker", "state", "used", "dropped"]
    assert workers[0].split() == ["worker0", "at", "work", "1", "0"]
    assert re.fullmatch(r"worker1 +lost: out.* +1 +0", workers[1]), workers[1]


def test_a_narrow_terminal_has_names_and_states_instead_of_bars() -> None:
    view = ClusterLive(console(60)[0], 3, workers=WORKERS)
    view.members(run(seat(0), seat(1, "dead", why="out of reach"), seat(2)))
    view.show(update(1, [0, 1]))

    text = "\n".join(drawn(view, 60))
    assert re.search(r"^worker +state +life +used +dropped +share$", text, re.MULTILINE), text
    assert "worker1  lost: out of reach" in text


@pytest.mark.parametrize(
    ("known", "step", "part"),
    [({}, 4, None), ({"epochs": 1}, 4, None), ({"epochs": 1, "batches": 10}, 4, 0.5), ({"epochs": 4, "batches": 20}, 19, 0.25)],
)  # fmt: skip
def test_the_bar_knows_how_much_is_done_where_anybody_can(known: Any, step: int, part: float | None) -> None:
    view, _ = live(**known)
    view.show(update(step, [0]))

    assert view.part == part


def test_the_size_of_an_epoch_is_learnt_from_the_first() -> None:
    view, _ = live(epochs=4)
    for step, (epoch, index) in enumerate([(0, 1), (0, 9), (0, 8), (1, 0), (0, 7), (1, 4)], 1):
        view.show(update(step, [0], at=(epoch, index)))

    assert view.observed.batches == 10
    assert view.part == (1 + 0.5) / 4


def simulated(make: Callable[[Any], ClusterDisplay], *, epochs: int = 3) -> tuple[ClusterDisplay, RunDone]:
    """Trains in a simulated world, where worker1 crashes and comes back, and shows that."""
    found: list[Any] = []

    @sim.world("chief", ps=1, worker=3, latency_s=0.0005)
    async def body(world: sim.World) -> None:
        cluster = SimulatedCluster(regression(), ps=1, workers=3, work_s=0.5, world=world)
        display = make(world.loop.time)
        async with cluster:
            with Following(cluster, display):
                async for event in af.Trainer(cluster, af.Backup(2, 3)).run(epochs=epochs):
                    display.show(event)
                    if isinstance(event, af.types.UpdateDone) and event.step == 5:
                        world.crash("worker1")
                        world.restart_later("worker1", 3.0)
        found.extend((display, event))

    body()
    return found[0], found[1]


def test_plain_lines_tell_of_a_run_as_it_goes_and_of_who_comes_and_goes() -> None:
    shown, file = console(200, terminal=False)
    display, last = simulated(lambda now: ClusterLog(shown, 0, workers=WORKERS, epochs=3, now=now))
    display.end(last)

    told = lines(file)
    assert sum(": worker1 lost: " in line for line in told) == 1
    assert sum(": worker1 is back (life 2)" in line for line in told) == 1
    epochs = [line for line in told if line.startswith("seed 0  epoch")]
    assert len(epochs) >= 3 + 3, "one an epoch, and one every few seconds"
    assert all("updates/s  staleness mean" in line and "alive" in line for line in epochs)
    done, sums = told[-2:]
    assert done.startswith(f"seed 0  done: {last.step} steps in ")
    assert re.search(r"worker1 \d+ life 2, worker2 \d+\)  \d+ of \d+ dropped \(\d+ late", sums)


def test_the_live_view_tells_the_same_of_the_same_run() -> None:
    shown, file = console(120)
    display, last = simulated(lambda now: ClusterLive(shown, 0, workers=WORKERS, epochs=3, now=now))
    display.end(last)

    told = "\n".join(lines(file))
    assert "worker1 lost: " in told and "worker1 is back (life 2)" in told
    assert display.observed.workers[1].incarnation == 2
    used = [worker.used for worker in display.observed.workers.values()]
    assert sum(used) in (2 * last.step, 2 * last.step - 1), "two make an update; one may be left at the end"


def test_the_screen_itself_starts_and_stops() -> None:
    shown, file = console()
    view = ClusterLive(shown, 0, workers=WORKERS)
    with view:
        view.show(update(1, [0, 1]))
    view.end(RunDone(**_progress(), scores={}, test={"accuracy": 0.9876}))

    assert "update 1" in "\n".join(lines(file))
    assert "test accuracy 0.9876" in "\n".join(lines(file))


def test_the_end_counts_what_was_dropped_after_the_last_update_too() -> None:
    shown, file = console(200, terminal=False)
    log = ClusterLog(shown, 0, now=Clock())
    log.show(update(1, [0, 1]))
    last = RunDone(**_progress(), scores={}, test={}, dropped=3, reasons={"late": 2, "not finite": 1})
    log.show(last)
    log.end(last)

    assert "3 of 5 dropped (2 late, 1 not finite)" in lines(file)[-1]


def test_an_epoch_ends_in_a_plain_line_with_its_scores() -> None:
    shown, file = console(200, terminal=False)
    log = ClusterLog(shown, 0, now=Clock())
    log.show(update(1, [0]))
    log.show(EpochDone(**_progress(), scores={"accuracy": 0.5}))

    (line,) = lines(file)
    assert "accuracy 0.5000" in line


def test_short_epochs_do_not_all_have_a_line() -> None:
    shown, file = console(200, terminal=False)
    clock = Clock()
    log = ClusterLog(shown, 0, now=clock)
    for _ in range(30):
        clock.now_s += 0.11
        log.show(EpochDone(**_progress(), scores={}))

    assert len(lines(file)) == 3, "in 3.3 s"


def test_chaos_is_told_to_the_chief_alone() -> None:
    parser = argparse.ArgumentParser()
    launch.add_to(parser.add_subparsers())
    args = parser.parse_args(["launch", "digits.py", "--chaos", "--no-progress"])

    assert {"--chaos", "--no-progress"} <= set(cluster_arguments.training(args))
    assert "--chaos" not in cluster_arguments.common(args)
    assert "--chaos" not in cluster_arguments.training(parser.parse_args(["launch", "digits.py"]))


def _progress() -> dict[str, Any]:
    event = update(1, [0])
    names = ("epoch", "step", "total", "loss", "metrics", "train_s", "messages", "input", "training_position")
    return {name: getattr(event, name) for name in names}
