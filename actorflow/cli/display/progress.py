"""How a training run looks: a live bar on a terminal, plain lines elsewhere, a table at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live as Screen
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from actorflow.cli.display.output import Output
from actorflow.cli.display.text_table import columns
from actorflow.runtime.clock import SystemClock
from actorflow.training.batches import InputStats, describe_stage
from actorflow.training.events import EpochDone, Event, Progress, RunDone

if TYPE_CHECKING:
    from rich.console import Console

_QUIET_S = 10.0  # plain lines: say something at least this often
_LOOK_S = 0.2  # the live bar: look at the pipeline no more often
_BUSY = 0.05  # the end names stages that were busy for so much of the time


class Display:
    """Remembers where a run is, and shows it while its `with` block lasts."""

    def __init__(self, console: Console, seed: int) -> None:
        self._console = console
        self._seed = seed
        self._last: Progress | None = None
        self._scores: Mapping[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return

    def show(self, event: Event) -> None:
        """Takes the next event of the run; raises BrokenPipeError when nobody reads on."""
        if isinstance(self._console, Output):
            self._console.check()
        self._last = event
        if isinstance(event, EpochDone):
            self._scores = event.scores

    @property
    def seed(self) -> int:
        """Of the run that it shows."""
        return self._seed

    @property
    def begun(self) -> bool:
        """Whether there has been a step."""
        return self._last is not None

    def at(self) -> str:
        """Says where the run is."""
        if self._last is None:
            return f"seed {self._seed}, before the first step"
        facts = [f"seed {self._seed}", *self._figures(self._last), str(self._last.input)]
        return "  ".join(filter(None, facts))

    def end(self, last: RunDone) -> None:
        """Says that the run is over; called after the block."""
        facts = [f"loss {last.loss:.4f}", *_numbers(last.metrics), *_numbers(_scores_of(last))]
        done = f"seed {self._seed}  done: {last.step:,} steps in {last.train_s:.1f} s"
        rates = [f"{last.steps_per_s:,.1f} steps/s", f"{last.messages_per_s:,.0f} messages/s"]
        self._console.print("  ".join([done, *facts, *rates]))

    def _figures(self, event: Progress) -> Iterator[str]:
        yield f"epoch {event.epoch}{_over(event)}"
        yield f"step {event.step:,}" + ("" if event.total is None else f"/{event.total:,}")
        yield loss_of(event)
        yield from _numbers(event.metrics)
        yield from _numbers(self._scores)
        yield f"{event.steps_per_s:,.0f} steps/s"
        yield f"{event.messages_per_s:,.0f} messages/s"


class Log(Display):
    """One line an epoch, and one every 10 s within a long one."""

    def __init__(self, console: Console, seed: int, now: Callable[[], float] = SystemClock.now) -> None:
        super().__init__(console, seed)
        self._now = now
        self._spoke = self._now()

    def show(self, event: Event) -> None:
        """Takes the next event of the run; prints it when it is time to."""
        super().show(event)
        if isinstance(event, EpochDone) or self._now() - self._spoke >= _QUIET_S:
            self._spoke = self._now()
            self._console.print(self.at())


class ProgressBar(Display):
    """A bar and a line of figures that stay while the run lasts, and one line when it is over.

    While steps wait for input, a line of its own says what for: among the figures it would push them out.
    """

    def __init__(self, console: Console, seed: int, now: Callable[[], float] = SystemClock.now) -> None:
        super().__init__(console, seed)
        self._bar = Bar(
            TextColumn(f"seed {seed}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
        )
        self._task = self._bar.add_task("", total=None)
        self._line = Text("starting", no_wrap=True, overflow="ellipsis")
        self._input = Text(no_wrap=True, overflow="ellipsis")
        self._now = now
        self._looked = self._now() - _LOOK_S
        self._live = Screen(get_renderable=self.draw, console=console, transient=True, refresh_per_second=5)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Takes the next event of the run; the screen has it at its next refresh."""
        super().show(event)
        self._bar.update(self._task, completed=event.step, total=event.total)
        # Four columns stay free: the terminal echoes ^C there, and must not begin a new line with it.
        self._line.plain = fitting(self._figures(event), self._console.width - 4)
        if isinstance(event, EpochDone) or self._now() - self._looked >= _LOOK_S:
            self._looked = self._now()
            self._input.plain = str(event.input)[: self._console.width - 4]

    def draw(self) -> Group:
        """Returns what the screen shows; called in its thread, so it looks at nothing that runs."""
        lines = [self._line, self._input] if self._input.plain else [self._line]
        return Group(self._bar, *lines)


def _over(event: Progress) -> str:
    return " done" if isinstance(event, EpochDone) else ""


def loss_of(event: Progress) -> str:
    """Says the loss: of the latest step, or at the end of an epoch the mean over its steps."""
    return f"{'mean ' * isinstance(event, EpochDone)}loss {event.loss:.4f}"


def fitting(facts: Iterable[str], width: int) -> str:
    """As many facts as fit whole, from the left; the first one is cut where not even that fits."""
    line, *others = facts
    for fact in others:
        longer = f"{line}  {fact}"
        if len(longer) > width:
            break
        line = longer
    return line[:width]


def summary(console: Console, ended: Mapping[int, RunDone]) -> None:
    """Prints one row a seed that ran to its end and the least of each score over them.

    Of one seed its own last line has said all but what its input was bound by.
    """
    if len(ended) > 1:
        _compare(console, ended)
    for seed, last in ended.items():
        if last.input.bound:
            console.print(f"seed {seed}: {_describe_waits(last.input)}")


def _compare(console: Console, ended: Mapping[int, RunDone]) -> None:
    found = {seed: _scores_of(last) for seed, last in ended.items()}
    names = list(next(iter(found.values())))
    rows = [["seed", *names, "loss", "steps", "steps/s", "messages/s", "training s"]]
    for seed, last in ended.items():
        row = [str(seed), *(f"{found[seed][name]:.4f}" for name in names), f"{last.loss:.4f}"]
        row += [f"{last.step:,}", f"{last.steps_per_s:,.1f}", f"{last.messages_per_s:,.0f}"]
        rows.append([*row, f"{last.train_s:.1f}"])
    console.print()
    for line in columns(rows, right=True):
        console.print(line)
    for name in names:
        console.print(
            f"min {name} over {len(ended)} seeds: {min(scores[name] for scores in found.values()):.4f}"
        )
    console.print(f"max training time: {max(last.train_s for last in ended.values()):.1f} s a seed")


def _describe_waits(told: InputStats) -> str:
    """Says how long steps waited for input, and what was busy meanwhile."""
    line = f"steps waited {100 * told.waiting:.0f} % of the time for input"
    busiest = sorted(told.stages, key=lambda stage: stage.busy, reverse=True)
    busy = [describe_stage(stage) for stage in busiest if stage.busy >= _BUSY]
    return f"{line}; busy: {', '.join(busy)}" if busy else line


def _scores_of(last: RunDone) -> dict[str, float]:
    """All scores of a run; those of the test carry its name."""
    return {**last.scores, **{f"test {name}": value for name, value in last.test.items()}}


def _numbers(named: Mapping[str, float]) -> Iterator[str]:
    return (f"{name} {value:.4f}" for name, value in named.items())
