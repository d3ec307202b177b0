"""Sessions for a test: a graph, what is done in a session of it, and what comes of that.

`run` and `run_simulated` hand the session to a body; `run_step`, `run_steps` and `run_fetches` are for those that only fetch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import actorflow as af
from actorflow import sim


def in_session(
    graph: af.Graph, body: Callable[[af.Session], Awaitable[Any]], **options: Any
) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Returns a program that opens a session with these options and returns what `body` returns in it."""

    async def main() -> Any:
        async with af.Session(graph, **options) as session:
            return await body(session)

    return main


def run(graph: af.Graph, body: Callable[[af.Session], Awaitable[Any]], **options: Any) -> Any:
    """Returns what `body` returns in a session of the graph, in real time."""
    return af.run(in_session(graph, body, **options)())


def run_simulated(graph: af.Graph, body: Callable[[af.Session], Awaitable[Any]], **options: Any) -> Any:
    """Returns what `body` returns in a session of the graph, in virtual time; for drawn schedules see `strategies`."""
    return sim.run(in_session(graph, body, **options)).result


def run_step(graph: af.Graph, fetches: Any, feeds: Any = None, **options: Any) -> Any:
    """Returns what one step fetches in a session of its own, which has no threads unless it is said."""

    return run_steps(graph, (fetches, feeds), **options)[0]


def run_steps(graph: af.Graph, *steps: tuple[Any, Any], **options: Any) -> list[Any]:
    """Returns what each step gives, one after another in one session: a step is what is fetched, and what is fed."""

    async def all_of_them(session: af.Session) -> list[Any]:
        return [await session.run(fetches, feeds) for fetches, feeds in steps]

    found: list[Any] = run(graph, all_of_them, **{"threads": 0, **options})
    return found


def run_fetches(graph: af.Graph, *fetches: Any, feeds: Any = None, **options: Any) -> list[Any]:
    """Returns what steps give that fetch one of these each, all with the same feeds."""
    return run_steps(graph, *((fetch, feeds) for fetch in fetches), **options)


def assert_no_step_left(session: af.Session) -> None:
    """Nothing runs any more, and nobody waits for admission."""
    stats = session.stats()
    assert stats.live + stats.waiting == 0, f"no step is left behind: {session.dump()}"
