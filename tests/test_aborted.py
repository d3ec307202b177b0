"""What an aborted step leaves, for each kind of state: the table of docs/state.md, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.sessions import run

ONES = np.ones(1, "int64")


@dataclass(frozen=True)
class Written:
    """A write that needs nothing, the same of an element, and what shows that it has been done.

    Attributes:
        made: The state.
        blind: Builds a write of it that is made of nothing.
        of: Builds a write of an element, an int64; None where there is none.
        look: Builds what is looked at.
        before: What is seen without a write, and `after` one.
    """

    made: Callable[[], Any]
    blind: Callable[[Any], Any]
    of: Callable[[Any, Any], Any] | None
    look: Callable[[Any], Any]
    before: Any
    after: Any


def _row(x: Any) -> Any:
    return af.reshape(x, (1,))


WRITTEN: dict[str, Written] = {
    "variable": Written(
        lambda: af.Variable(np.int64(0), trainable=False),
        lambda v: v.assign_add(1),
        lambda v, x: v.assign_add(x),
        lambda v: v.read(),
        0,
        1,
    ),
    "queue": Written(
        lambda: af.state.FIFOQueue(4, "int64", ()),
        lambda q: q.enqueue(np.int64(1)),
        lambda q, x: q.enqueue(x),
        lambda q: q.size(),
        0,
        1,
    ),
    "barrier": Written(
        lambda: af.state.Barrier("int64", ()),
        lambda b: b.insert_many(0, [b"key"], ONES),
        lambda b, x: b.insert_many(0, [b"key"], _row(x)),
        lambda b: b.ready_size(),
        0,
        1,
    ),
    "accumulator": Written(
        lambda: af.state.ConditionalAccumulator("int64", (), "sum"),
        lambda a: a.apply_grad(np.int64(1)),
        lambda a, x: a.apply_grad(x),
        lambda a: a.num_accumulated(),
        0,
        1,
    ),
    "hash table": Written(
        lambda: af.state.HashTable("int64", "int64", 0),
        lambda t: t.insert(ONES, ONES),
        lambda t, x: t.insert(_row(x), _row(x)),
        lambda t: t.size(),
        0,
        1,
    ),
    "counter": Written(lambda: af.state.Counter(), lambda c: c.next(), None, lambda c: c.read(), 0, 1),
    "stack": Written(
        lambda: af.state.Stack("int64", ()),
        lambda s: s.push(np.int64(1)),
        lambda s, x: s.push(x),
        lambda s: s.size(),
        0,
        1,
    ),
}


def failing(graph: af.Graph, after: list[Any]) -> Any:
    """What fails when all of `after` has been done."""
    with graph, af.control_dependencies(after):
        return af.math.check_numerics(af.constant(1.0) / 0.0)


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_write_beside_a_take_stays_and_the_element_comes_back(kind: str) -> None:
    w = WRITTEN[kind]
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "int64", (), name="from")
        put, taken, left, state = queue.enqueue(np.int64(1)), queue.dequeue(), queue.size(), w.made()
        look = w.look(state)
        written = w.blind(state)
    fail = failing(graph, [taken, written])

    async def body(session: af.Session) -> Any:
        await session.run(put)
        before = int(await session.run(look))
        with pytest.raises(errors.NumericError):
            await session.run(fail)
        return before, int(await session.run(look)), int(await session.run(left))

    assert run(graph, body, passes=()) == (w.before, w.after, 1)


@pytest.mark.parametrize("kind", [kind for kind, w in WRITTEN.items() if w.of is not None])
def test_an_element_that_was_written_somewhere_stays_there(kind: str) -> None:
    w = WRITTEN[kind]
    assert w.of is not None
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "int64", (), name="from")
        put, left, state = queue.enqueue(np.int64(1)), queue.size(), w.made()
        look = w.look(state)
        written = w.of(state, queue.dequeue())
    fail = failing(graph, [written])

    async def body(session: af.Session) -> Any:
        await session.run(put)
        with pytest.raises(errors.NumericError):
            await session.run(fail)
        return int(await session.run(look)), int(await session.run(left))

    assert run(graph, body, passes=()) == (w.after, 0)


TAKES: dict[str, Callable[[Any], Any]] = {
    "queue": lambda q: q.dequeue(),
    "barrier": lambda b: b.take_many(1).keys,
    "accumulator": lambda a: a.take_grad(1),
}


@pytest.mark.parametrize("kind", TAKES)
def test_what_was_taken_comes_back(kind: str) -> None:
    w = WRITTEN[kind]
    with af.Graph() as graph:
        state = w.made()
        put, look = w.blind(state), w.look(state)
        taken = TAKES[kind](state)
    fail = failing(graph, [taken])

    async def body(session: af.Session) -> Any:
        await session.run(put)
        with pytest.raises(errors.NumericError):
            await session.run(fail)
        return int(await session.run(look))

    assert run(graph, body, passes=()) == w.after


def test_what_was_popped_is_gone() -> None:
    with af.Graph() as graph:
        stack = af.state.Stack("int64", ())
        push, pop, size = stack.push(np.int64(1)), stack.pop(), stack.size()
    fail = failing(graph, [pop])

    async def body(session: af.Session) -> Any:
        await session.run(push)
        with pytest.raises(errors.NumericError):
            await session.run(fail)
        return int(await session.run(size))

    assert run(graph, body, passes=()) == 0


def test_looking_up_by_an_element_does_not_use_it() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "int64", (1,), name="from")
        table = af.state.HashTable("int64", "int64", 0)
        put, left = queue.enqueue(ONES), queue.size()
        found = table.lookup(queue.dequeue())
    fail = failing(graph, [found])

    async def body(session: af.Session) -> Any:
        await session.run(put)
        with pytest.raises(errors.NumericError):
            await session.run(fail)
        return int(await session.run(left))

    assert run(graph, body, passes=()) == 1
