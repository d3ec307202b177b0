"""Shared state forgets the sessions that have closed: it holds no receipts, and nothing that these hold."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.dataflow.engine.resources import Resources
from actorflow.dataflow.state.locks import LockOwner, Locks
from actorflow.dataflow.state.register import Forget, Register, Source, WriteMode
from actorflow.runtime.tag import StepId
from actorflow.values.spec import spec
from tests.support.systems import in_system

ONE = np.int64(1)


def entries(system: af.ActorSystem) -> dict[str, int]:
    """How many receipts each shared actor holds."""
    found = {}
    for name, cell in system.actors.items():
        actor: Any = cell.behaviour
        if name.startswith("shared/"):
            register = getattr(actor, "register", None)
            once = getattr(actor, "_once", None)
            receipts = 0 if register is None else len(register.last) + len(register.counted)
            found[name] = receipts + (0 if once is None else len(once.last))
    return found


def written(graph: af.Graph) -> list[Any]:
    """Ops that write to shared state of every kind."""
    with graph:
        v = af.Variable(np.int64(0), name="v", shared_name="v")
        n = af.Variable(np.int64(0), name="n", shared_name="n")
        w = af.Variable(4.0, name="w", shared_name="w")
        with af.atomic(v) as block:
            v.assign(v + 1)
        barrier = af.state.Barrier("int64", (), name="b", shared_name="b")
        grads = af.state.ConditionalAccumulator("int64", (), "sum", name="g", shared_name="g")
        table = af.state.HashTable("int64", "int64", -1, name="t", shared_name="t")
        counter = af.state.Counter(name="c", shared_name="c")
        stack = af.state.Stack("int64", (), name="s", shared_name="s")
        queue = af.state.FIFOQueue(None, "int64", (), name="q", shared_name="q")
        key = af.placeholder("bytes", (1,), name="key")
        return [
            v.assign_add(ONE),
            n.count_up_to(1000),
            block.done,
            af.minimize(w * w, af.optim.sgd(0.1)),
            barrier.insert_many(0, key, np.ones(1, "int64")),
            grads.apply_grad(ONE, ONE),
            table.insert([ONE], [ONE]),
            counter.next(),
            stack.push(ONE),
            queue.enqueue(ONE),
        ]


async def sessions(system: af.ActorSystem, count: int = 50) -> dict[str, int]:
    """The receipts that are left after as many sessions, one after the other."""
    for k in range(count):
        graph = af.Graph()
        ops = written(graph)
        async with af.Session(graph, system=system) as session:
            for op in ops:
                needs_key = "barrier" in op.node.op
                await session.run(op, {"key": [b"%d" % k]} if needs_key else None)
            assert sum(entries(system).values()) >= 9
    await asyncio.sleep(0)
    return entries(system)


def test_shared_state_of_every_kind_holds_no_receipt_of_sessions_that_have_closed() -> None:
    left = in_system(sessions)

    assert len(left) == 9
    assert set(left.values()) == {0}


def test_the_test_finds_a_session_that_does_not_say_that_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(self: Resources) -> None:
        for holder, ref in reversed(tuple(self.refs.items())):
            if not self._is_shared(holder):
                await self._system.stop(ref)

    monkeypatch.setattr(Resources, "stop", silent)

    assert sum(in_system(lambda system: sessions(system, 5)).values()) >= 5 * 9


@pytest.mark.usefixtures("only_new_garbage")
def test_what_a_session_popped_is_freed_when_it_has_closed() -> None:
    with af.Graph() as graph:
        stack = af.state.Stack("float32", (1000,), name="s", shared_name="s")
        push, pop = stack.push(np.zeros(1000, "float32")), stack.pop()

    async def popped(system: af.ActorSystem) -> weakref.ref[Any]:
        async with af.Session(graph, system=system) as session:
            await session.run(push)
            return weakref.ref((await session.run(pop)).base)

    async def body(system: af.ActorSystem) -> Any:
        element = await popped(system)
        await asyncio.sleep(0)
        gc.collect()
        return element()

    assert in_system(body) is None


def test_sessions_that_are_open_keep_their_receipts() -> None:
    register = Register("v", spec("int64"))
    one, ten = Source("session1"), Source("session10")
    for source in (one, ten, Source("session1/atomic"), Source("session1/optimizer/o")):
        register.write(WriteMode.ASSIGN, ONE, source, 1)

    register.forget(Forget(one))

    assert list(register.last) == [ten]
    assert not register.write(WriteMode.ADD, ONE, ten, 1).applied


def test_a_block_that_is_under_way_brings_no_receipt_back() -> None:
    register = Register("v", spec("int64"))
    gone, other = Source("session1"), Source("session2")
    register.write(WriteMode.ASSIGN, ONE, gone, 1)
    locks = Locks(register)
    owner = LockOwner(other, 1, "block", StepId(1))
    locks.take(owner)
    locks.state(owner).write(WriteMode.ADD, ONE, Source("session2/atomic"), 2)

    locks.forget(Forget(gone))
    locks.end(owner, publish=True)

    assert list(register.last) == [Source("session2/atomic")]
