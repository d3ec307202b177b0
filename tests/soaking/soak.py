"""A soak: workers take turns of laws until the time is up, and each turn is on disk when it has ended.

A turn draws without shrinking. When it fails, the law has a second turn with the same seed that
shrinks: so a turn that hangs is known from one that is busy making its failure small. A law that
failed is not run again in this soak, and its worker is replaced, since anything may be left behind.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from actorflow.runtime.clock import Clock, Entropy
from tests.soaking import report, shares
from tests.soaking.crew import Worker, WorkerLost
from tests.soaking.falsified import Falsified
from tests.soaking.report import Failure
from tests.soaking.state import Slice, State, save
from tests.soaking.worker import Ask, Collected, Told

SHRINK_LIMIT_S = 360.0  # hypothesis gives up shrinking after 300
SHORTEST_S, LONGEST_S = 0.2, 10.0
ROUNDS = 4  # slices of a law in a soak, where the time is enough
MARGIN = 4.0  # a slice aims at that part of its limit: its law may be slower than it was
WORKER_TURNS = 200
WORKER_GROWTH_BYTES = 1 << 30
COLLECT_LIMIT_S = 120.0
KILL_AFTER_S = 5.0  # a worker ends itself at its limit; later than that it is killed


class CannotSoak(Exception):
    """There is nothing to run, or the laws don't load."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asked for."""

    minutes: float
    state: Path
    workers: int = 2
    expression: str = ""
    laws: str = "tests"
    limit_s: float = 60.0

    @property
    def failures(self) -> Path:
        """Where failures are kept."""
        return self.state.parent / "failures.txt"


@dataclass(slots=True)
class Place:
    """A worker and the turn it is busy with: none yet while it collects."""

    worker: Worker
    deadline: float
    ready: bool = False
    ask: Ask | None = None
    first: Told | None = None  # of a law that failed and is being shrunk
    turns: int = 0
    at_start_bytes: int = 0


@dataclass(slots=True)
class Soak:
    """Runs `plan` on `state`; `failures`, `said` and `slices` are what came of it."""

    plan: Plan
    state: State
    clock: Clock
    entropy: Entropy
    say: Callable[[str], None]
    failures: list[Failure] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    laws: list[str] = field(default_factory=list)
    _resting: dict[str, str] = field(default_factory=dict)
    _places: list[Place] = field(default_factory=list)
    _end: float = 0.0
    _slice_s: float = LONGEST_S

    def run(self) -> None:
        """Soaks until the time is up or no law is left to run; on Ctrl-C the turns in flight are lost.

        Raises:
            CannotSoak: when no law is found, or a file of laws doesn't load.
        """
        self._end = self.clock.now() + 60 * self.plan.minutes
        self.state.run += 1
        self._places = [self._hire(n) for n in range(self.plan.workers)]
        try:
            while self._busy():
                self._wait()
        except KeyboardInterrupt:
            self.say("stopped; the slices in flight are not counted")
        finally:
            for place in self._places:
                place.worker.stop()
        for law, why in sorted(self._resting.items()):
            self.say(f"rested: {law}: {why}")

    def _busy(self) -> bool:
        over = self.clock.now() >= self._end
        if over:  # a worker that is still collecting has nothing to lose
            return any(place.ask is not None for place in self._places)
        return any(not place.ready or place.ask is not None for place in self._places)

    def _wait(self) -> None:
        """Hears whoever has something to say, and ends who is past its deadline."""
        waiting = [place for place in self._places if place.ask is not None or not place.ready]
        until = min(place.deadline for place in waiting)
        if self.clock.now() < self._end and any(not place.ready for place in waiting):
            until = min(until, self._end)
        heard, _, _ = select.select(
            [place.worker for place in waiting], [], [], max(0.0, until - self.clock.now())
        )
        for place in waiting:
            if place.worker in heard:
                self._hear(place)
            elif self.clock.now() >= place.deadline:
                self._lost(place, "did not end itself at its limit and was killed")

    def _hear(self, place: Place) -> None:
        try:
            answer = place.worker.hear()
        except WorkerLost as lost:
            self._lost(place, str(lost))
            return
        if isinstance(answer, Collected):
            self._collected(place, answer)
        elif answer is not None:
            self._told(place, answer)

    def _collected(self, place: Place, found: Collected) -> None:
        if found.broken:
            raise CannotSoak(f"{found.broken} files of laws do not load; see the log of {place.worker!r}")
        if not found.laws:
            raise CannotSoak(
                f"no law in {self.plan.laws} matches {self.plan.expression!r}\n"
                f"  {len(found.others)} laws are there in all"
            )
        if not self.laws:
            self._share_out(found)
        elif self.laws != found.laws:
            odd = sorted(set(self.laws).symmetric_difference(found.laws))
            raise CannotSoak(f"two workers found different laws: {', '.join(odd)}")
        place.ready = True
        self._give(place)

    def _share_out(self, found: Collected) -> None:
        self.laws = found.laws
        dropped = self.state.only([*found.laws, *found.others])
        if dropped:
            self.say(f"dropped, since they are gone: {', '.join(dropped)}")
        share_s = max(0.0, self._end - self.clock.now()) * self.plan.workers / len(self.laws)
        self.state.shares = shares.caught_up(self.state.shares, share_s)
        self._slice_s = min(max(share_s / ROUNDS, SHORTEST_S), LONGEST_S, self.plan.limit_s / MARGIN)
        self.say(f"{len(self.laws)} laws, about {share_s:.1f} s each in slices of {self._slice_s:.1f} s")

    def _give(self, place: Place) -> None:
        """Gives `place` the next law, as long as there is time and a law."""
        place.ask, place.first = None, None
        left_s = self._end - self.clock.now()
        mine = {law: self.state.shares[law] for law in self.laws}
        running = [each.ask.law for each in self._places if each.ask is not None]
        law = shares.next_law(mine, {*self._resting, *running})
        if law is None or left_s < SHORTEST_S / 2:
            return
        examples = shares.asked(mine[law], min(self._slice_s, left_s))
        self._ask(place, Ask(law, self._seed(), examples, shrink=False, limit_s=self.plan.limit_s))

    def _seed(self) -> int:
        return self.entropy.below(1 << 63)

    def _ask(self, place: Place, ask: Ask) -> None:
        place.ask = ask
        place.deadline = self.clock.now() + ask.limit_s + KILL_AFTER_S
        place.worker.ask(ask)

    def _told(self, place: Place, told: Told) -> None:
        assert place.ask is not None
        if place.first is None and told.failures:
            place.first = told
            shrinking = Ask(place.ask.law, place.ask.seed, place.ask.examples, True, SHRINK_LIMIT_S)
            self.say(f"failed, making it small: {place.ask.law}")
            self._ask(place, shrinking)
            return
        if place.first is not None:
            self._failed(place.ask, place.first, told.failures)
            self._record(place.ask, "failed", place.first.ran, place.first.seconds + told.seconds)
            self._replace(place)
            return
        self._record(place.ask, told.outcome, told.ran, told.seconds)
        if told.outcome == "skipped":
            self._resting[place.ask.law] = f"skipped: {told.reason}"
        elif told.drawn_out:
            self._resting[place.ask.law] = "it has no examples that it did not draw"
        place.turns += 1
        place.at_start_bytes = place.at_start_bytes or told.resident_bytes
        if told.resident_bytes - place.at_start_bytes > WORKER_GROWTH_BYTES:
            self.say(f"worker replaced: it grew to {told.resident_bytes >> 20} MiB, last by {place.ask.law}")
            self._replace(place)
        elif place.turns >= WORKER_TURNS:
            self._replace(place)
        else:
            self._give(place)

    def _failed(self, ask: Ask, first: Told, small: list[Falsified]) -> None:
        if not small:
            small = [
                Falsified(each.error, each.example, each.why_not or "it did not fail a second time")
                for each in first.failures
            ]
        self._keep(
            ask, [Failure(ask.law, ask.seed, ask.examples, first.source, first.function, s) for s in small]
        )

    def _keep(self, ask: Ask, found: list[Failure]) -> None:
        self._resting[ask.law] = "it failed, and is not run again in this soak"
        self.failures += found
        report.append(self.plan.failures, found, self.plan.laws)

    def _lost(self, place: Place, how: str) -> None:
        """Names the law whose worker is gone, and hires another."""
        ask, first = place.ask, place.first
        place.worker.stop()
        if ask is None:
            raise CannotSoak(f"a worker could not collect the laws: {how}")
        if first is not None:
            self.say(f"lost while making it small: {ask.law}: {how}")
            self._failed(ask, first, [])
        else:
            late = self.clock.now() >= place.deadline - KILL_AFTER_S
            kind = f"Hung: no end after {ask.limit_s:g} s" if late else "Crashed: its worker is gone"
            error = f"{kind} ({ask.examples} examples were asked for): {how}"
            what = Falsified(error, None, "the worker could not tell what it ran")
            self._keep(ask, [Failure(ask.law, ask.seed, ask.examples, "", "", what)])
        spent_s = self.clock.now() - (place.deadline - KILL_AFTER_S - ask.limit_s)
        self._record(
            ask, "failed" if first is not None else "lost", 0 if first is None else first.ran, spent_s
        )
        self._replace(place)

    def _record(self, ask: Ask, outcome: str, ran: int, seconds: float) -> None:
        done = Slice(self.state.run, ask.law, ask.seed, ask.examples, ran, seconds, outcome)
        failed = int(outcome in ("failed", "lost"))
        share = self.state.shares[ask.law]
        self.state.shares[ask.law] = shares.ran(share, ask.examples, ran, seconds, failed)
        self.state.slices.append(done)
        self.slices.append(done)
        save(self.plan.state, self.state)
        total = sum(each.ran for each in self.slices)
        self.say(report.progress(done, total, self._end - self.clock.now()))

    def _hire(self, n: int) -> Place:
        log = self.plan.state.parent / f"worker-{n}.log"
        worker = Worker(log, self.plan.laws, self.plan.expression)
        return Place(worker, self.clock.now() + COLLECT_LIMIT_S)

    def _replace(self, place: Place) -> None:
        n = self._places.index(place)
        place.worker.stop()
        place.ask = None
        if self.clock.now() < self._end:
            self._places[n] = self._hire(n)
