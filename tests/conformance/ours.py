"""Our side: a graph and a session of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

import numpy as np

import actorflow as af
from actorflow import errors
from tests.conformance.case import Case
from tests.conformance.primitives_ours import PlanNodes
from tests.conformance.recording import encoded
from tests.conformance.resources import Resources

FAILURES: dict[type[BaseException], str] = {
    errors.OutOfRange: "out of range",
    errors.QueueClosed: "cancelled",
    errors.DeadlinePassed: "deadline",
    errors.KernelError: "invalid",
    errors.StateError: "invalid",
    errors.FetchError: "invalid",
    errors.SpecError: "invalid",
}


def outcome(case: Case) -> Any:
    """What actorflow comes to, encoded."""
    assert case.ours is not None
    if not inspect.iscoroutinefunction(case.ours):  # what runs without a loop
        program: Any = case.ours
        return encoded(program(PlanNodes()))
    try:
        return encoded(af.run(_outcome(case.ours)))
    except errors.GraphError:
        return "refused when built"


async def _outcome(ours: Any) -> Any:
    with af.Graph(seed=1) as graph:
        async with af.Session(graph, threads=0) as session:
            try:
                return await ours(Ours(session))
            except errors.SpecError:
                return "refused when built"


class Ours:
    """What a case uses."""

    def __init__(self, session: af.Session) -> None:
        self.session = session
        self._given: dict[Any, Any] = {}

    def given(self, value: Any) -> Any:
        """A value of floats that comes from outside in every step."""
        array = np.asarray(value, "float32")
        made = af.placeholder("float32", array.shape)
        self._given[made] = array
        return made

    def dense(self, grad: Any) -> Any:
        """A gradient with all its rows."""
        return grad.to_dense() if isinstance(grad, af.IndexedSlices) else grad

    async def run(self, fetches: Any, feeds: Any = None, *, within: float | None = None) -> Any:
        """What a step gives, or how it fails; `within` so many seconds."""
        try:
            return plain(
                await self.session.run(fetches, self._given | (feeds or {}), deadline_s=within or 20)
            )
        except tuple(FAILURES) as error:
            return next(name for kind, name in FAILURES.items() if isinstance(error, kind))

    async def begin(self, fetches: Any, feeds: Any = None) -> Awaitable[Any]:
        """Starts a step, which then waits for something; gives what to await for its outcome."""
        others = {step.id for step in self.session.dump().steps}
        task = asyncio.create_task(self.run(fetches, feeds))
        while not task.done():
            if any(step.waits for step in self.session.dump().steps if step.id not in others):
                break  # what it asks of a queue lies in that queue's mailbox, before all that comes later
            await asyncio.sleep(0)

        async def result() -> Any:
            return await task

        return result()

    def resources(self) -> Resources:
        """Queues, accumulators, barriers and arrays."""
        from tests.conformance.resources_ours import OurResources

        return OurResources(self)


def plain(value: Any) -> Any:
    """Arrays, and lists of them: of sparse gradients their values and indices."""
    if isinstance(value, af.types.Slices):
        return [value.values, value.indices]
    if isinstance(value, dict):
        return [plain(value[key]) for key in sorted(value)]
    return [plain(v) for v in value] if isinstance(value, tuple | list) else value
