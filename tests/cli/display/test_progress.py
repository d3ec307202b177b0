"""What the live line, the plain lines and the end show, also where the input is what limits."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from actorflow.cli.display.output import Output
from actorflow.cli.display.progress import Log, ProgressBar, summary
from actorflow.data.stages.stats import StageMeter, Stats, stats_of
from actorflow.training.batches import InputStats
from actorflow.training.events import EpochDone, Event, RunDone, StepDone
from actorflow.training.position import TrainingPosition

FACTS = ["epoch 12", "step 1,234/5,670", "loss 0.1235", "accuracy 0.9876", "100 steps/s", "98,765 messages/s"]


def stats() -> Stats:
    meters = [StageMeter("arrays"), StageMeter("map 'augment'"), StageMeter("batch(64)")]
    for meter, busy_s in zip(meters, [0.6, 9.3, 0.2], strict=True):
        meter.busy_s = busy_s
    return Stats(tuple(stats_of(meter, 10.0) for meter in meters), 10.0, 5, 0.5, 0, 0)


KEEPS_UP = InputStats(1.0, 10.0, stats)
BOUND = InputStats(8.5, 10.0, stats)
NO_PIPELINE = InputStats(8.5, 10.0)


def told(kind: Callable[..., Event], waited: InputStats, **more: Any) -> Any:
    return kind(
        epoch=12,
        step=1234,
        total=5670,
        loss=0.12345,
        metrics={"accuracy": 0.98764},
        train_s=12.34,
        messages=1218760,
        input=waited,
        training_position=TrainingPosition(),
        **more,
    )


def console(columns: int = 80, *, terminal: bool = True) -> tuple[Output, io.StringIO]:
    file = io.StringIO()
    made = Output(
        file=file, width=columns, height=5, force_terminal=terminal, color_system=None, soft_wrap=not terminal
    )
    return made, file


def drawn(file: io.StringIO) -> list[str]:
    """The lines, without what moves the cursor."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", file.getvalue()).splitlines()]


def live(columns: int, *events: Event) -> list[str]:
    shown, file = console(columns)
    display = ProgressBar(shown, seed=0)
    with display:
        for event in events:
            display.show(event)
    return drawn(file)


@pytest.mark.parametrize(("columns", "shown"), [(100, 6), (84, 5), (80, 5), (60, 4), (30, 2), (13, 1)])
def test_the_live_line_drops_whole_figures_from_the_right(columns: int, shown: int) -> None:
    assert "  ".join(FACTS[:shown]) in live(columns, told(StepDone, KEEPS_UP))


def test_input_that_limits_has_a_line_of_its_own_below_the_figures() -> None:
    lines = live(80, told(StepDone, BOUND))

    assert lines[lines.index("input-bound: map 'augment' 93 %") - 1] == "  ".join(FACTS[:5])


def test_that_line_is_cut_where_it_does_not_fit() -> None:
    assert "input-bound: map 'au" in live(24, told(StepDone, BOUND))


def test_input_that_keeps_up_has_no_line() -> None:
    assert not any("input" in line for line in live(80, told(StepDone, KEEPS_UP)))


def test_the_line_goes_when_the_input_keeps_up_again() -> None:
    shown, file = console()
    display = ProgressBar(shown, seed=0)
    with display:
        display.show(told(EpochDone, BOUND, scores={}))
        before = display.draw()
        display.show(told(EpochDone, KEEPS_UP, scores={}))
        after = display.draw()

    assert (len(before.renderables), len(after.renderables)) == (3, 2)
    assert not any("input" in line for line in drawn(file)[-3:])


def test_the_pipeline_is_looked_at_a_few_times_a_second_however_many_steps_there_are() -> None:
    looks: list[int] = []

    def look() -> Stats:
        looks.append(1)
        return stats()

    shown, _ = console()
    display = ProgressBar(shown, seed=0, now=lambda: 5.0)
    for _ in range(1000):
        display.show(told(StepDone, InputStats(8.5, 10.0, look)))

    assert len(looks) == 1


def test_a_plain_line_ends_with_what_limits() -> None:
    shown, file = console(terminal=False)
    log = Log(shown, seed=3)

    log.show(told(EpochDone, BOUND, scores={}))
    log.show(told(EpochDone, NO_PIPELINE, scores={}))
    log.show(told(EpochDone, KEEPS_UP, scores={}))

    over = ["epoch 12 done", FACTS[1], f"mean {FACTS[2]}", *FACTS[3:]]
    assert drawn(file) == [
        "  ".join(["seed 3", *over, "input-bound: map 'augment' 93 %"]),
        "  ".join(["seed 3", *over, "input-bound: batches 85 %"]),
        "  ".join(["seed 3", *over]),
    ]


def test_the_end_says_where_the_time_of_input_bound_runs_went() -> None:
    shown, file = console(terminal=False)
    ended = {
        seed: told(RunDone, waited, scores={}, test={})
        for seed, waited in enumerate([BOUND, KEEPS_UP, NO_PIPELINE])
    }

    summary(shown, ended)

    assert drawn(file)[-3:] == [
        "max training time: 12.3 s a seed",
        "seed 0: steps waited 85 % of the time for input; busy: map 'augment' 93 %, arrays 6 %",
        "seed 2: steps waited 85 % of the time for input",
    ]


def test_a_line_of_the_moment_and_one_of_an_epoch_are_told_apart() -> None:
    shown, file = console(terminal=False)
    times = iter([0.0])
    log = Log(shown, seed=3, now=lambda: next(times, 60.0))
    log.show(told(StepDone, NO_PIPELINE))
    log.show(told(EpochDone, NO_PIPELINE, scores={}))

    moment, over = drawn(file)
    assert "epoch 12  step" in moment
    assert "  loss 0.1235" in moment
    assert "epoch 12 done  step" in over
    assert "  mean loss 0.1235" in over


def test_one_seed_is_summed_up_by_its_last_line_alone() -> None:
    shown, file = console(terminal=False)
    last = told(RunDone, KEEPS_UP, scores={"accuracy": 0.5}, test={"accuracy": 0.25})
    Log(shown, seed=3).end(last)
    summary(shown, {3: last})

    (line,) = drawn(file)
    assert line.startswith(
        "seed 3  done: 1,234 steps in 12.3 s  loss 0.1235  accuracy 0.9876  accuracy 0.5000  "
    )
    assert line.endswith("  test accuracy 0.2500  100.0 steps/s  98,765 messages/s")
