"""Runs a partitioned program as bare parts, with tokens between them in any order that edges allow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from actorflow.actors.scheduling.dispatch import Dispatch
from actorflow.dataflow.engine.partition import Partition, Surroundings
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.register import Source
from actorflow.plan.partition.partition import Partitioning
from actorflow.plan.program import Holder
from actorflow.runtime.tag import StepId
from tests.actors.programs import BareLoop, FrozenClock, InlineDevice


def _nothing(holder: Holder) -> Any:
    raise AssertionError(holder)


class Parted:
    """One step of a partitioned program.

    Attributes:
        tokens: What is on its way: destination, key, value, turns.
        sent: How many tokens were sent, by key.
        peaks: The most tokens that waited at a process for turns which had not begun there.
    """

    def __init__(self, cut: Partitioning, chance: Random) -> None:
        self.cut = cut
        self.chance = chance
        loop: Any = BareLoop()
        self.loop = loop
        self.tokens: list[tuple[str, int, Any, tuple[int, ...]]] = []
        self.sent: dict[int, int] = {}
        self.peaks: dict[str, int] = {}
        device: Any = InlineDevice()
        self.partitions: dict[str, Partition] = {}
        for process, part in cut.parts.items():
            dispatch = Dispatch(loop, FrozenClock(), pick=self._pick)
            around = Surroundings(
                dispatch, {"/cpu:0": device}, _nothing, device, Source(process), itertools.count(1), self
            )
            self.partitions[process] = Partition(part.program, around)

    def _pick(self, ring: Any) -> Any:
        at = self.chance.randrange(len(ring))
        entry = ring[at]
        del ring[at]
        return entry

    def send(self, step: Step, key: int, value: Any, destination: str, turns: tuple[int, ...]) -> None:
        """Takes what a part sends."""
        self.tokens.append((destination, key, value, turns))
        self.sent[key] = self.sent.get(key, 0) + 1

    def run(
        self, feeds: Sequence[Any], fetches: int, watch: Callable[[Parted], None] | None = None
    ) -> list[Any]:
        """Returns the fetched values; every part has ended, and nothing is on its way any more."""
        steps: dict[str, Step] = {}
        for process, part in self.cut.parts.items():
            partition = self.partitions[process]
            step = Step(
                StepId(1), len(part.fetches), self.loop.create_future(), None, 0.0, sends=partition.sends
            )
            steps[process] = step
            partition.start(step, [feeds[k] for k in part.feeds])
            partition.dispatch.schedule()
        while self.loop.ready or self.tokens:
            if self.tokens and (not self.loop.ready or self.chance.random() < 0.5):
                process, key, value, turns = self.tokens.pop(self.chance.randrange(len(self.tokens)))
                partition = self.partitions[process]
                partition.arrive(steps[process], key, value, turns)
                if partition.dispatch.ring and not partition.dispatch.scheduled:
                    partition.dispatch.schedule()
                early = steps[process].early or {}
                waiting = sum(map(len, early.values()))
                self.peaks[process] = max(self.peaks.get(process, 0), waiting)
            else:
                self.loop.ready.pop(0)()
        values: list[Any] = [None] * fetches
        for process, part in self.cut.parts.items():
            step = steps[process]
            assert step.future.done(), f"{process} hangs: {self.partitions[process].waits(step)}"
            assert step.early is None, "what came early was offered"
            for k, value in zip(part.fetches, step.future.result(), strict=True):
                values[k] = value
        return values
