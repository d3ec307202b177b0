"""Our side: a graph and a session of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import actorflow as af
from actorflow import errors
from tests.conformance.case import Case
from tests.conformance.primitives_ours import PlanNodes
from tests.conformance.recording import encoded

FAILURES: dict[type[BaseException], str] = {
    errors.OutOfRange: "out of range",
    errors.QueueClosed: "cancelled",
    errors.DeadlinePassed: "deadline",
    errors.KernelError: "invalid",
    errors.StateError: "invalid",
    errors.FetchError: "invalid",
    errors.SpecError: "invalid",
}
REFUSED = (errors.SpecError, errors.GraphError)


def outcome(case: Case) -> Any:
    """What actorflow comes to, encoded."""
    assert case.ours is not None
    if not inspect.iscoroutinefunction(case.ours):  # what runs without a loop
        return encoded(case.ours(PlanNodes()))
    return encoded(af.run(_outcome(case.ours)))


async def _outcome(ours: Any) -> Any:
    with af.Graph(seed=1) as graph:
        async with af.Session(graph, threads=0) as session:
            try:
                return await ours(Ours(session))
            except REFUSED:
                return "refused when built"


class Ours:
    """What a case uses."""

    def __init__(self, session: af.Session) -> None:
        self.session = session

    async def run(self, fetches: Any, feeds: Any = None, *, within: float | None = None) -> Any:
        """What a step gives, or how it fails; `within` so many seconds."""
        try:
            return plain(await self.session.run(fetches, feeds, deadline_s=within or 20))
        except tuple(FAILURES) as error:
            return next(name for kind, name in FAILURES.items() if isinstance(error, kind))

    async def begin(self, fetches: Any, feeds: Any = None) -> Coroutine[Any, Any, Any]:
        """Starts a step, which then waits for something; gives what to await for its outcome."""
        others = len(self.session.dump().steps)
        task = asyncio.create_task(self.run(fetches, feeds))
        while not task.done():
            steps = self.session.dump().steps
            if len(steps) > others and all(step.waits for step in steps):
                break
            await asyncio.sleep(0)

        async def result() -> Any:
            return await task

        return result()


def plain(value: Any) -> Any:
    """Arrays, and lists of them: of sparse gradients their values and indices."""
    if isinstance(value, af.Slices):
        return [value.values, value.indices]
    if isinstance(value, dict):
        return [plain(value[key]) for key in sorted(value)]
    return [plain(v) for v in value] if isinstance(value, tuple | list) else value
