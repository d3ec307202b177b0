"""How a training run on a cluster looks: bars, staleness, and a line a worker; plain lines elsewhere.

Both take the events of an `af.Trainer`, and between them who takes part (`members`): so it shows when a
worker is lost, and when it is back, also while no update is made. `Following` looks every so often.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from rich.console import Group, RenderableType
from rich.live import Live as Screen
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from actorflow.cli.display.observed import LAST_BAR, Observed, ObservedWorker
from actorflow.cli.display.progress import Display, fitting, loss_of
from actorflow.cluster.inspect.reports import RunEntry, Totals
from actorflow.cluster.inspect.snapshots import links_now, run_now, totals_now
from actorflow.cluster.trainer import UpdateDone
from actorflow.runtime.clock import SystemClock
from actorflow.training.events import EpochDone, Event, Progress, RunDone

if TYPE_CHECKING:
    from rich.console import Console

    from actorflow.cluster.cluster import Cluster

_QUIET_S = 3.0  # plain lines: say something at least this often
_APART_S = 1.0  # epochs that are shorter do not all have a line
_LOOK_S = 0.2  # how often who takes part is looked at
_NEWS = 4  # lines of news that stay on the screen
_BARS = "▁▂▃▄▅▆▇█"
_SHARE = 24  # characters of a full bar
_WIDE = 80  # characters of a screen that has room for bars
_NARROW = 60  # characters of a screen that has room for all that is known of a worker
_GAP = 2  # characters between columns
_LEAST = 5  # characters of a state that is cut
_COLOURS = {"alive": "green", "dead": "red", "left": "yellow", "awaited": "dim", "unknown": "dim"}


class ClusterDisplay(Display):
    """Remembers where a run on a cluster is, and who takes part.

    Args:
        console: Where it shows that.
        seed: Of the run.
        workers: Processes of the workers, by rank; what is not told of is shown once it is seen.
        epochs: Epochs of the run, where that is its limit: then the bar knows how much is done.
        batches: Batches of an epoch, where that is known; else it is learnt from the first.
        now: Tells the time of news.

    Attributes:
        part: How much of the run is done, from 0 to 1; None where nobody can know.
    """

    def __init__(
        self,
        console: Console,
        seed: int,
        *,
        workers: Sequence[str] = (),
        epochs: int | None = None,
        batches: int | None = None,
        now: Callable[[], float] = SystemClock.now,
    ) -> None:
        super().__init__(console, seed)
        self.observed = Observed(workers)
        self._epochs = epochs
        self._batches = batches
        self._now = now
        self._began = now()
        self._totals: Totals | None = None
        self.part: float | None = None
        self._leaving = False

    def show(self, event: Event) -> None:
        """Takes the next event of the run."""
        super().show(event)
        if isinstance(event, UpdateDone):
            self.observed.update(event)
            self.part = self._fraction(event)
        elif isinstance(event, RunDone):
            self.part = 1.0
            self.observed.ended(event)

    def members(self, run: RunEntry) -> None:
        """Takes who takes part now; says what is news about that, until the run is told to end."""
        if self._leaving:
            return
        for news in self.observed.see_members(run):
            self.note(news)

    def leave(self) -> None:
        """Hears that the run was told to end: who leaves from now on is no news."""
        self._leaving = True

    def queues(self, totals: Totals) -> None:
        """Takes how full the queues of the chief's process are."""
        self._totals = totals

    def note(self, news: str) -> None:
        """Takes something that has happened: one line."""

    def end(self, last: RunDone) -> None:
        """Says that the run is over, and what became of all contributions; called after the block."""
        super().end(last)
        seen = self.observed
        shares = ", ".join(f"{w.process} {w.used:,}{_incarnation(w)}" for w in seen.workers.values())
        used = f"seed {self._seed}  {seen.used:,} contributions used ({shares})"
        self._console.print("  ".join([used, _describe_dropped(seen) + _whys(seen), _stale(seen)]))

    def _fraction(self, event: UpdateDone) -> float | None:
        """Returns how much of the run is over; None while nobody can know."""
        if event.total:
            return min(1.0, event.step / event.total)
        if self._epochs is None:
            return None
        epoch, index = max((batch.epoch, batch.index) for _, _, batch, _ in event.update.chosen)
        batches = self._batches or self.observed.batches
        return None if batches is None else min(1.0, (epoch + (index + 1) / batches) / self._epochs)

    def _figures(self, event: Progress) -> Iterator[str]:
        over = " done" if isinstance(event, EpochDone) else ""
        yield f"epoch {event.epoch}" + ("" if self._epochs is None else f"/{self._epochs}") + over
        yield f"update {event.step:,}" + ("" if event.total is None else f"/{event.total:,}")
        yield loss_of(event)
        for named in (event.metrics, self._scores):
            yield from (f"{name} {value:.4f}" for name, value in named.items())
        yield f"{self.observed.updates_per_s or event.steps_per_s:,.1f} updates/s"

    def _contributions(self) -> Iterator[str]:
        yield _stale(self.observed)
        yield _describe_dropped(self.observed)

    def _fill(self) -> Iterator[str]:
        if self._totals is None:
            return
        totals = self._totals
        yield f"queues: {totals.in_line} in line at links"
        if totals.mailbox_limit:
            of = f" ({totals.fullest})" if totals.mailbox else ""
            yield f"fullest mailbox {totals.mailbox}/{totals.mailbox_limit}{of}"


class ClusterLog(ClusterDisplay):
    """A line every few seconds and at the end of epochs, and for each worker that comes or goes."""

    def __init__(self, console: Console, seed: int, **known: Any) -> None:
        super().__init__(console, seed, **known)
        self._spoke = self._now()
        self._epoch_told = self._spoke - _APART_S

    def show(self, event: Event) -> None:
        """Takes the next event of the run; prints a line when it is time to."""
        super().show(event)
        now = self._now()
        over = isinstance(event, EpochDone) and now - self._epoch_told >= _APART_S
        if over or now - self._spoke >= _QUIET_S:
            self._spoke = now
            self._epoch_told = now if over else self._epoch_told
            self._console.print(self.at())

    def at(self) -> str:
        """Says where the run is."""
        if self._last is None:
            return super().at()
        alive = self.observed.alive
        living = "" if alive is None else f"{alive} alive"
        return "  ".join(filter(None, [super().at(), *self._contributions(), *self._full(), living]))

    def _full(self) -> Iterator[str]:
        """Where something waits in line, or a mailbox is filling up, how full the queues are."""
        totals = self._totals
        if totals is not None and (totals.in_line or totals.mailbox * 10 >= totals.mailbox_limit > 0):
            yield from self._fill()

    def note(self, news: str) -> None:
        """Prints what has happened."""
        self._console.print(f"seed {self._seed}  {self._now() - self._began:.1f} s: {news}")


class ClusterLive(ClusterDisplay):
    """A screen that stays while the run lasts: bar, figures, staleness, queues, a line a worker, news.

    Drawn in a thread of its own, from copies: nothing that runs waits for a terminal.
    """

    def __init__(self, console: Console, seed: int, **known: Any) -> None:
        super().__init__(console, seed, **known)
        self._news: deque[str] = deque(maxlen=_NEWS)
        self._bar = Bar(
            TextColumn(f"seed {seed}"), BarColumn(None), TaskProgressColumn(), TextColumn("eta"),
            TimeRemainingColumn(), expand=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None)
        self._input = ""
        self._looked = self._now() - _LOOK_S
        self._screen = Screen(get_renderable=self.draw, console=console, transient=True, refresh_per_second=5)

    def __enter__(self) -> Self:
        self._screen.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._screen.stop()

    def show(self, event: Event) -> None:
        """Takes the next event of the run; the screen has it at its next refresh."""
        super().show(event)
        if self.part is not None:
            self._bar.update(self._task, completed=self.part, total=1.0)
        if self._now() - self._looked >= _LOOK_S:
            self._looked = self._now()
            self._input = str(event.input)

    def note(self, news: str) -> None:
        """Shows what has happened, below the workers, and leaves it there when the screen is gone."""
        self._news.append(f"{self._now() - self._began:6.1f} s  {news}")

    def end(self, last: RunDone) -> None:
        """Says that the run is over, and what has happened in it; called after the block."""
        for news in self._news:
            self._console.print(news)
        super().end(last)

    # -- drawing ----------------------------------------------------------------------------------------

    def draw(self) -> Group:
        """Returns what the screen shows; called in its thread."""
        parts: list[RenderableType] = [self._bar]
        last = self._last
        if last is None:
            parts.append(_line("waiting for the first update"))
        else:
            parts.append(_line(fitting(self._figures(last), self._console.width)))
            parts.append(_staleness(self.observed))
            parts.append(_line("  ".join(filter(None, [*self._fill(), self._input]))))
        parts.append(_workers(self.observed, self._console.width))
        if self.observed.waits:
            parts.append(_line(self.observed.waits, "dim"))
        parts += [_line(news, "bold yellow") for news in tuple(self._news)]
        return Group(*parts)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _incarnation(worker: ObservedWorker) -> str:
    return f" life {worker.incarnation}" if worker.incarnation > 1 else ""


def _describe_dropped(seen: Observed) -> str:
    late, used = seen.late, seen.used
    return f"{late:,} of {late + used:,} dropped" if late else "none dropped"


def _whys(seen: Observed) -> str:
    whys = sorted(dict(seen.why).items(), key=lambda each: (-each[1], each[0]))
    return f" ({', '.join(f'{n} {why}' for why, n in whys)})" if whys else ""


def _stale(seen: Observed) -> str:
    mean, most = seen.stale
    return f"staleness mean {mean:.2f} max {most}"


def _staleness(seen: Observed) -> Text:
    bars = seen.bars()
    text = _line(f"{_stale(seen)} ")
    for staleness, n in enumerate(bars):
        more = "+" if staleness == LAST_BAR else ""
        height = _BARS[min(len(_BARS) - 1, n * len(_BARS) // (max(bars) + 1))] if n else " "
        text.append(f" {staleness}{more}", "dim").append(height, "cyan")
    text.append(f"   {_describe_dropped(seen)}{_whys(seen)}", "yellow" if seen.late else "")
    return text


def _workers(seen: Observed, width: int) -> Table:
    """A row a worker: what does not fit on a narrow screen is left out, and the state alone is cut."""
    bars, wide = width >= _WIDE, width >= _NARROW
    numbers = ("life", "used", "dropped", "share") if wide else ("used", "dropped")
    used = max(1, seen.used)
    rows: list[list[Text]] = []
    for worker in tuple(seen.workers.values()):
        late = worker.doing.startswith("late")
        colour = "yellow" if late else _COLOURS[worker.state]
        told = {
            "life": Text(str(worker.incarnation), "bold" if worker.incarnation > 1 else ""),
            "used": Text(f"{worker.used:,}"),
            "dropped": Text(f"{worker.late:,}", "yellow" if worker.late else ""),
            "share": Text(f"{100 * worker.used / used:.0f} %"),
        }
        bar = [Text("█" * round(_SHARE * worker.used / used), colour)] if bars else []
        state = Text(worker.doing or "not seen yet", colour)
        rows.append([Text(worker.process, colour), state, *(told[name] for name in numbers), *bar])
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim", expand=False)
    named = max((len(row[0]) for row in rows), default=0)
    counts = [max(len(name), *(len(row[2 + k]) for row in rows), 0) for k, name in enumerate(numbers)]
    taken = max(named, len("worker")) + sum(counts) + bars * _SHARE + _GAP * (2 + len(numbers) + bars)
    table.add_column("worker", no_wrap=True, overflow="ellipsis")
    table.add_column("state", no_wrap=True, overflow="ellipsis", max_width=max(_LEAST, width - taken))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    if bars:
        table.add_column("", no_wrap=True, min_width=_SHARE)
    for row in rows:
        table.add_row(*row)
    return table


class Following:
    """Looks at the run that the chief of a cluster conducts, every so often, while its `with` block lasts.

    Args:
        cluster: Open, in this process.
        display: Is told who takes part, and how full queues are.
        every_s: How often.
    """

    def __init__(self, cluster: Cluster, display: ClusterDisplay, every_s: float = _LOOK_S) -> None:
        self._cluster = cluster
        self._display = display
        self._every_s = every_s
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._look()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._look)
        chief = self._cluster.chief
        run = run_now(chief.system)
        if run is not None:
            self._display.members(run)
        self._display.queues(totals_now(chief.system, links_now(chief.hub)))
