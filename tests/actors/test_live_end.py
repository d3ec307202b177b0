"""What a step held is let go when it ends, however it ends: no garbage collector has to come."""

from __future__ import annotations

import asyncio
import gc
import types
import weakref
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.dataflow.engine.iteration_state import Frame, IterationState
from actorflow.dataflow.engine.node import forget_locals
from actorflow.errors import DeadlinePassed, KernelError
from tests.support.collecting import old_out_of_reach


def held() -> list[Any]:
    """The state of steps that is in memory."""
    return [each for each in gc.get_objects() if isinstance(each, IterationState | Frame)]


@pytest.fixture
def no_collector() -> Iterator[None]:
    with old_out_of_reach():
        gc.disable()
        yield
        gc.enable()


ENDS = {
    "good": None,
    "bad": KernelError,
    "bad_loop": KernelError,
    "endless": DeadlinePassed,
    "waits": DeadlinePassed,
}


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", ENDS)
def test_nothing_that_a_step_held_waits_for_the_garbage_collector(
    kind: str, lower: bool, no_collector: None
) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None,), name="x")
        queue = af.state.FIFOQueue(1, "float32", ())

        def loop(most: int, turn: Any, lower: bool = lower) -> Any:
            return af.while_loop(
                lambda k, y: k < most, lambda k, y: (k + 1, turn(k, y)), (0, x), lower=lower
            )[1]

        asked = {
            "good": lambda: loop(3, lambda k, y: y * 0.5 + x),
            "bad": lambda: af.gather(x, af.cast(x[0], "int32") + 9),
            "bad_loop": lambda: loop(9, lambda k, y: y + af.gather(x, k)),
            "endless": lambda: loop(2**31 - 1, lambda k, y: y * 0.5 + x),
            "waits": lambda: loop(3, lambda k, y: x * queue.dequeue(), lower=True),
        }[kind]()

    before = len(held())

    async def main() -> None:
        async with af.Session(graph, threads=0) as session:
            array = np.zeros(4, "float32")
            watched = weakref.ref(array)
            if expected := ENDS[kind]:
                with pytest.raises(expected) as caught:
                    await session.run(
                        asked, {x: array}, deadline_s=0.02 if expected is DeadlinePassed else 5.0
                    )
                del caught
            else:
                await session.run(asked, {x: array})
            del array
            for _ in range(100):  # what is under way comes to its end
                if watched() is None and len(held()) <= before:
                    break
                await asyncio.sleep(0.002)
            assert watched() is None
            assert len(held()) <= before

    af.run(main())


def test_letting_go_of_a_failure_leaves_coroutines_alone_through_which_it_came() -> None:
    """Of a suspended coroutine `frame.clear` would make an end."""
    order: list[str] = []

    @types.coroutine
    def pause() -> Generator[None, None, None]:
        yield

    async def main() -> None:
        try:
            raise ValueError
        except ValueError as error:
            caught.append(error)
            await pause()
            order.append("goes on")

    caught: list[BaseException] = []
    running = main()
    running.send(None)
    try:
        raise KeyError from caught[0]
    except KeyError as error:
        forget_locals(error)
    with pytest.raises(StopIteration):
        running.send(None)

    assert order == ["goes on"]
