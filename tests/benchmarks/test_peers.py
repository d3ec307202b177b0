from __future__ import annotations

import asyncio
import operator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from benchmarks.peers import ASKERS, Actors, check, load, queue_task, time_tells


async def play(opening: AbstractAsyncContextManager[Actors]) -> list[float]:
    async with opening as actors:
        return [
            await actors.tell(200),
            await actors.ask(100),
            await actors.ask_queued(100),
            await actors.ask_async(100),
            await actors.ask_together(2 * ASKERS),
        ]


def test_queue_actors_handle_every_message_that_a_round_is_timed_for() -> None:
    seconds = asyncio.run(play(queue_task.open_actors()))

    assert all(s > 0 for s in seconds)


def test_pykka_handles_every_message_that_a_round_is_timed_for() -> None:
    pytest.importorskip("pykka")
    module: Any = load("pykka")

    seconds = asyncio.run(play(module.open_actors()))

    assert all(s > 0 for s in seconds)


@pytest.mark.wire
def test_xoscar_handles_every_message_that_a_round_is_timed_for() -> None:
    pytest.importorskip("xoscar")
    module: Any = load("xoscar")

    seconds = asyncio.run(play(module.open_actors()))

    assert all(s > 0 for s in seconds)


def test_a_peer_that_is_not_installed_has_no_module() -> None:
    assert load("no_such_library") is None


def test_a_round_that_loses_a_message_is_no_round() -> None:
    handled = 0

    async def tell(message: Any) -> None:
        nonlocal handled
        handled += message != 3

    async def ask(message: Any) -> int:
        nonlocal handled
        handled += 1
        return handled

    with pytest.raises(RuntimeError, match="a round of 10 messages must handle 10, got 9"):
        asyncio.run(time_tells(tell, ask, 10))

    check(10, 10)


@pytest.mark.parametrize(("width", "length"), [(1, 1), (1, 50), (5, 1), (7, 9)])
def test_chains_of_queue_nodes_add_one_at_every_node(width: int, length: int) -> None:
    async def run() -> Any:
        async with queue_task.open_chains(operator.add, width, length) as graph:
            return tuple(await asyncio.gather(graph.run(0, 1), graph.run(10, 2)))

    assert asyncio.run(run()) == ((length,) * width, (10 + 2 * length,) * width)


def test_chains_keep_the_order_of_the_inputs_of_a_node() -> None:
    async def run() -> Any:
        async with queue_task.open_chains(operator.sub, 1, 2) as graph:
            return await graph.run(10, 1)

    assert asyncio.run(run()) == (8,)


def test_a_failing_node_is_reported_when_its_graph_closes() -> None:
    async def run() -> None:
        async with queue_task.open_node(lambda value: 1 // value) as graph, asyncio.timeout(0.05):
            await graph.run(0)

    with pytest.raises(ExceptionGroup, match="tasks of a peer failed"):
        asyncio.run(run())
