"""What has been seen of a training run on a cluster: who contributed, what came late, who came and went.

Told of updates and of members it keeps sums and says what is news. Nothing here prints, or reads a clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actorflow.cluster.inspect.reports import MemberEntry, RunEntry
from actorflow.cluster.trainer import UpdateDone
from actorflow.coord.rules.run_health import kind
from actorflow.training.events import RunDone

_RECENT_S = 3.0
"""How long back the rate of updates looks."""

_LATE_BEATS = 2.5
"""So many heartbeats of silence, and a worker counts as late."""

LAST_BAR = 8
"""Stalenesses from here on are counted together."""


@dataclass(slots=True)
class ObservedWorker:
    """One worker, as far as it was seen.

    Attributes:
        state: awaited, alive, dead or left; "unknown" before it was seen.
        incarnation: How often it has come, from 1.
        doing: What it does, in words.
        used: Contributions that updates were made of.
        late: Contributions that were dropped.
    """

    process: str
    state: str = "unknown"
    incarnation: int = 1
    doing: str = ""
    used: int = 0
    late: int = 0


class Observed:
    """The sums of one run.

    Attributes:
        workers: By rank, all that were seen.
        staleness: How many contributions had each.
        why: How many contributions were dropped, by why.
        alive: How many workers live, as the latest word has it.
        waits: For whom, or what, the next update waits.
        batches: How many batches an epoch has, once one is over.
    """

    def __init__(self, workers: Sequence[str] = ()) -> None:
        self.workers: dict[int, ObservedWorker] = {
            rank: ObservedWorker(process) for rank, process in enumerate(workers)
        }
        self.staleness: Counter[int] = Counter()
        self.why: Counter[str] = Counter()
        self.alive: int | None = None
        self.waits = ""
        self.batches: int | None = None
        self._after = 0  # contributions that were dropped after the last update of an epoch: no update tells
        self._place = 0, 0
        self._term = 0
        self._incarnations: dict[int, int] = {}  # of the present term
        self._times: deque[tuple[float, int]] = deque()

    # -- updates --------------------------------------------------------------------------------------

    def update(self, event: UpdateDone) -> None:
        """Hears of an update."""
        update = event.update
        self.alive = update.alive
        for rank, _, batch, _ in update.chosen:
            self._worker(rank).used += 1
            if batch.epoch > self._place[0]:
                self.batches = self._place[1] + 1
            self._place = max(self._place, (batch.epoch, batch.index))
        for (_, why), rank in zip(update.dropped, update.dropped_by, strict=False):
            self._worker(rank).late += 1
            self.why[kind(why)] += 1
        self.staleness.update(update.staleness)
        self._times.append((event.train_s, event.step))
        while self._times[0][0] < event.train_s - _RECENT_S and len(self._times) > 2:
            self._times.popleft()

    def ended(self, last: RunDone) -> None:
        """Hears that the run is over, which counts what no update has told."""
        if last.dropped > self.late:
            self._after += last.dropped - self.late
            self.why = Counter(last.reasons)

    def _worker(self, rank: int) -> ObservedWorker:
        if rank not in self.workers:
            self.workers[rank] = ObservedWorker(f"rank {rank}")
        return self.workers[rank]

    @property
    def updates_per_s(self) -> float:
        """Updates a second in the last few seconds; 0 before there are two."""
        if len(self._times) < 2:
            return 0.0
        (since, first), (until, last) = self._times[0], self._times[-1]
        return (last - first) / (until - since) if until > since else 0.0

    @property
    def used(self) -> int:
        """Contributions that updates were made of."""
        return sum(worker.used for worker in self.workers.values())

    @property
    def late(self) -> int:
        """Contributions that were dropped."""
        return sum(worker.late for worker in self.workers.values()) + self._after

    @property
    def stale(self) -> tuple[float, int]:
        """The mean staleness of contributions that were used, and the greatest."""
        counts = dict(self.staleness)
        count = sum(counts.values())
        total = sum(staleness * n for staleness, n in counts.items())
        return (total / count if count else 0.0), max(counts, default=0)

    def bars(self) -> list[int]:
        """How many contributions had staleness 0, 1, …; the last is for all from LAST_BAR on."""
        counts = dict(self.staleness)
        found = [0] * (min(max(counts, default=0), LAST_BAR) + 1)
        for staleness, n in counts.items():
            found[min(staleness, LAST_BAR)] += n
        return found

    # -- who is there -----------------------------------------------------------------------------------

    def see_members(self, run: RunEntry) -> list[str]:
        """Hears who takes part now; returns what is news about that.

        A run of epochs that are evaluated has a coordinator for each, whose books begin anew: whoever was
        lost under one and is there under the next is back.
        """
        if run.phase == "over":
            return []
        if run.term != self._term:
            self._term = run.term
            self._incarnations = {}
        self.waits = run.waits
        self.alive = sum(member.state == "alive" for member in run.members)
        news: list[str] = []
        for member in run.members:
            worker = self._worker(member.rank)
            worker.process = member.process
            news += self._changes(worker, member)
            worker.doing = _doing(member, run.heartbeat_s)
        return news

    def _changes(self, worker: ObservedWorker, member: MemberEntry) -> Iterable[str]:
        before, worker.state = worker.state, member.state
        known, self._incarnations[member.rank] = self._incarnations.get(member.rank, 0), member.incarnation
        joined = member.incarnation - known if known else max(0, member.incarnation - 1)
        gone = before in ("dead", "left")
        if gone and not known and member.incarnation:
            joined += 1
        if gone and member.state == "awaited":
            worker.state = before  # the books of a new coordinator do not know it yet
        worker.incarnation += joined
        if joined and before == "alive":
            why = f" ({member.why})" if member.why else ""
            yield f"{member.process} lost{why}, and back (life {worker.incarnation})"
        elif joined and gone:
            yield f"{member.process} is back (life {worker.incarnation})"
        if member.state == "dead" and (before != "dead" or joined):
            yield f"{member.process} lost: {member.why}" if member.why else f"{member.process} lost"
        elif member.state == "left" and before != "left":
            yield f"{member.process} left"


def _doing(member: MemberEntry, heartbeat_s: float) -> str:
    match member.state:
        case "dead":
            return f"lost: {member.why}" if member.why else "lost"
        case "left":
            return "left"
        case "awaited":
            return "not here yet"
    if member.heard_s > _LATE_BEATS * heartbeat_s:
        return f"late: silent for {member.heard_s:.1f} s"
    if member.number:
        return f"at work for {member.busy_s:.1f} s" if member.busy_s >= 1.0 else "at work"
    return "has contributed" if member.complete else "may not start"
