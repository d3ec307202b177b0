"""Stacks and counters in steps."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.state.counter import CounterActor, NextNumber
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.resource_actor import WriteOnce
from actorflow.dataflow.state.stack import Pop, Push, StackActor
from actorflow.values.spec import spec
from tests.actors.heard import ask
from tests.support.sessions import run


def test_steps_get_one_number_each_until_the_limit() -> None:
    with af.Graph() as graph:
        counter = af.state.Counter(3, 6, name="c")
        following, read, reset = counter.next(), counter.read(), counter.reset()

    async def body(session: af.Session) -> Any:
        got = sorted(int(v) for v in await asyncio.gather(*(session.run(following) for _ in range(3))))
        with pytest.raises(errors.OutOfRange) as caught:
            await session.run(following)
        at = int(await session.run(read))
        return got, at, int(await session.run(reset)), int(await session.run(following)), caught.value

    got, at, start, first, error = run(graph, body)

    assert (got, at, start, first) == ([3, 4, 5], 6, 3, 3)
    assert str(error) == (
        "counter 'c' has reached its limit of 6\n"
        f"  where: node c/next, op counter_next, step 4, device /cpu:0, defined at {following.node.defined_at}\n"
        "  try:   reset it to count again"
    )


def test_numbers_of_one_step_follow_program_order() -> None:
    with af.Graph() as graph:
        counter = af.state.Counter()
        values = [counter.next(), counter.read(), counter.next(), counter.reset(), counter.next()]

    assert [int(v) for v in run(graph, lambda s: s.run(values))] == [0, 1, 1, 0, 0]


def test_a_number_of_a_step_that_failed_is_used_up() -> None:
    with af.Graph() as graph:
        counter = af.state.Counter()
        following = counter.next()
        fail = af.gather(af.reshape(counter.next(), (1,)), [3])

    async def body(session: af.Session) -> int:
        with pytest.raises(errors.KernelError):
            await session.run(fail)
        return int(await session.run(following))

    assert run(graph, body) == 1


def test_pushes_and_pops_of_one_step_follow_program_order() -> None:
    with af.Graph() as graph:
        stack = af.state.Stack("int32", ())
        values = [
            stack.push(1),
            stack.push(2),
            stack.size(),
            stack.pop(),
            stack.push(3),
            stack.pop(),
            stack.pop(),
        ]
        size = stack.size()

    values_, left = run(graph, lambda s: s.run([values, size]))

    assert [int(v) for v in values_] == [1, 2, 2, 2, 3, 3, 1]
    assert int(left) == 0


def test_elements_are_the_stack_s_own_copies_of_any_shape_that_fits() -> None:
    with af.Graph() as graph:
        stack = af.state.Stack("float32", (None,), max_bytes=20, name="s")
        x = af.placeholder("float32", None)
        push, pop, close = stack.push(x), stack.pop(), stack.close()

    async def body(session: af.Session) -> Any:
        value = np.ones(3, "float32")
        given = await session.run(push, {x: value})
        value[:] = 9
        await session.run(push, {x: np.zeros(2, "float32")})
        with pytest.raises(errors.StateError, match="holds 20 bytes at most, got 4 more beside 20"):
            await session.run(push, {x: np.zeros(1, "float32")})
        with pytest.raises(
            errors.SpecError, match=r"of stack 's' must be \(None,\) float32, got \(\) float32"
        ):
            await session.run(push, {x: np.float32(1)})
        popped = [(await session.run(pop)).tolist() for _ in range(2)]
        with pytest.raises(errors.OutOfRange, match="stack 's' is empty"):
            await session.run(pop)
        await session.run(close)
        with pytest.raises(errors.StateError, match="stack 's' is closed"):
            await session.run(pop)
        return given.tolist(), popped

    assert run(graph, body) == ([1, 1, 1], [[0, 0], [1, 1, 1]])


def test_bytes_weigh_what_they_hold() -> None:
    actor = StackActor("s", spec("bytes"), None, 100)

    ask(actor, Push(np.array(b"x" * 80, object)))
    (refused,) = ask(actor, Push(np.array(b"x" * 80, object))).said

    assert "holds 100 bytes at most, got 88 more beside 88" in str(refused)


def test_a_retried_write_is_answered_as_it_was() -> None:
    counter, stack = CounterActor("c", 0, None), StackActor("s", spec("int32"), None, None)
    ask(stack, Push(np.int32(1)))
    ask(stack, Push(np.int32(2)))

    numbers = [ask(counter, WriteOnce(NextNumber(), Source("a"), k)).said for k in (1, 1, 2)]
    popped = [ask(stack, WriteOnce(Pop(), Source("a"), k)).said for k in (1, 1, 2)]

    assert numbers == [[0], [0], [1]]
    assert popped == [[2], [2], [1]]
    assert isinstance(ask(stack, WriteOnce(Pop(), Source("a"), 3)).said[0], errors.OutOfRange)
