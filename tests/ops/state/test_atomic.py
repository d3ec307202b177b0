"""Atomic blocks as users meet them: isolation, all or nothing, what waits for whom, gradients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.state.locks import LockOwner
from actorflow.dataflow.state.register import Source, WriteMode
from actorflow.dataflow.state.variable import Inside, Publish, TakeLock, WriteValue
from actorflow.plan.program import Holder, Holding
from actorflow.runtime.messages import Call
from tests.support.turns import turns

Body = Callable[[af.Session], Awaitable[Any]]


def in_session(graph: af.Graph, body: Body, **options: Any) -> Any:
    async def main() -> Any:
        async with af.Session(graph, threads=0, **options) as session:
            return await body(session)

    return af.run(main())


class Bank:
    """Two accounts, a transfer that can fail or be held up inside, and two ways to look."""

    def __init__(self, **options: Any) -> None:
        with af.Graph() as self.graph:
            self.a = af.Variable(np.float32(100), name="a", **options)
            self.b = af.Variable(np.float32(0), name="b", **options)
            self.x = af.placeholder("float32", (), name="x")
            with af.atomic(self.a, self.b, name="transfer") as self.transfer:
                taken = self.a.assign(self.a - self.x)
                af.math.check_numerics(taken, name="check")
                self.b.assign(self.b + self.x)
                self.sum_inside = self.a.read() + self.b.read()
                self.checked = af.math.check_numerics(taken)
            self.look = [self.a.read(), self.b.read(), self.a.version(), self.b.version()]

    async def seen(self, session: af.Session) -> list[int]:
        return [int(v) for v in await session.run(self.look)]


def test_a_block_sees_its_own_writes_and_publishes_them_at_its_end() -> None:
    bank = Bank()

    async def body(session: af.Session) -> Any:
        total = await session.run(bank.sum_inside, {bank.x: 30.0})
        return float(total), await bank.seen(session)

    assert in_session(bank.graph, body) == (100.0, [70, 30, 2, 2])


def test_reads_after_a_block_in_one_step_see_what_it_wrote() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        early = a.read()
        with af.atomic(a) as block:
            inside = a.assign(a * 10.0)
        late = a.read()

    async def body(session: af.Session) -> Any:
        return [float(v) for v in await session.run([early, block.done, inside, late])]

    assert in_session(graph, body) == [1.0, 1.0, 10.0, 10.0]


def test_a_kernel_that_fails_inside_leaves_every_variable_as_it_was() -> None:
    bank = Bank()

    async def body(session: af.Session) -> Any:
        await session.run(bank.transfer.done, {bank.x: 1.0})
        with pytest.raises(errors.ActorflowError, match="check_numerics"):
            await session.run(bank.checked, {bank.x: np.inf})
        after = await bank.seen(session)
        await session.run(bank.transfer.done, {bank.x: 1.0})
        return after, await bank.seen(session)

    assert in_session(bank.graph, body) == ([99, 1, 2, 2], [98, 2, 3, 3])


def test_whatever_is_fetched_of_a_block_all_of_it_is_written() -> None:
    with af.Graph() as graph:
        a, b = af.Variable(5.0, name="a"), af.Variable(0.0, name="b")
        with af.atomic(a, b):
            took = a.assign_sub(2.0)
            b.assign_add(2.0)
        look = [a.read(), b.read()]

    async def body(session: af.Session) -> Any:
        return [float(v) for v in (await session.run(took), *await session.run(look))]

    assert in_session(graph, body) == [3.0, 3.0, 2.0]


def test_increments_in_blocks_lose_no_update() -> None:
    with af.Graph() as graph:
        n = af.Variable(np.int64(0), name="n")
        with af.atomic(n) as block:
            n.assign(n + 1)

    async def body(session: af.Session) -> Any:
        await asyncio.gather(*(session.run(block.done) for _ in range(50)))
        return int(await session.run(n))

    assert in_session(graph, body) == 50


def _both(names: tuple[str, str]) -> tuple[af.Graph, Any, Any]:
    """A graph that counts in two shared variables, listed in that order."""
    with af.Graph() as graph:
        one, other = (af.Variable(np.int64(0), name=f"v{n}", shared_name=n) for n in names)
        with af.atomic(one, other) as block:
            one.assign(one + 1)
            other.assign(other + 1)
        return graph, block.done, [one.read(), other.read()]


def test_blocks_of_two_sessions_take_their_locks_in_one_order() -> None:
    async def main() -> Any:
        (a, run_a, look), (b, run_b, _) = _both(("p", "q")), _both(("q", "p"))
        async with (
            af.ActorSystem(name="system") as system,
            af.Session(a, system=system) as s,
            af.Session(b, system=system) as t,
        ):
            await asyncio.gather(*(x.run(f) for x, f in ((s, run_a), (t, run_b)) * 20))
            return [int(v) for v in await s.run(look)]

    assert af.run(main()) == [40, 40]


# -- what others see while a block holds a variable ------------------------------------------------


class Hand:
    """Holds a variable as a block of another session does, until the test lets go of it."""

    error: BaseException | None = None
    interrupt: Callable[[], None] | None = None

    def __init__(self, session: af.Session, name: str) -> None:
        self.ref = session.resources.find(Holder(Holding.RESOURCE, name))
        self.owner = LockOwner(Source("somebody"), 1, "by hand", 7)
        self.values: list[Any] = []
        self.answered = asyncio.Event()
        self.sender = session.system.nobody

    def done(self, value: Any, undo: Any = None) -> None:
        self.values.append(value)
        self.answered.set()

    def failed(self, error: BaseException) -> None:
        raise error

    def wrote(self) -> None:
        raise AssertionError("nothing here is asked for in parts")

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        raise AssertionError(why())

    async def ask(self, body: Any) -> Any:
        """Asks the variable, and waits for the answer."""
        self.answered.clear()
        self.ref.put(Call(self, body), self.sender)
        await self.answered.wait()
        return self.values[-1]

    async def __aenter__(self) -> Hand:
        await self.ask(TakeLock(self.owner))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.ref.signal(Publish(self.owner))

    async def write(self, value: Any) -> None:
        write = WriteValue(
            WriteMode.ASSIGN, np.asarray(value, "float32"), Source("by hand"), len(self.values) + 1
        )
        await self.ask(Inside(self.owner, write))


class Held:
    """A variable, and what steps can do with it while it is held by hand."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            self.w = af.Variable(np.ones(2, "float32"), name="w", shape=(None,))
            self.read = self.w.read()
            self.version, self.known = self.w.version(), self.w.is_initialised()
            self.add = self.w.assign_add(np.full(2, 10, "float32"))
            self.train = af.minimize(af.sum(self.w * self.w), af.optim.sgd(0.5))
            with af.atomic(self.w, name="mine") as block:
                self.w.assign(self.w * 2.0)
            self.block = block.done


def held(body: Callable[[af.Session, Hand, Held], Awaitable[Any]]) -> Any:
    program = Held()

    async def main(session: af.Session) -> Any:
        await session.run(program.read)
        return await body(session, Hand(session, "w"), program)

    return in_session(program.graph, main)


def test_others_read_the_value_of_before_at_once() -> None:
    async def body(session: af.Session, hand: Hand, program: Held) -> Any:
        async with hand:
            await hand.write([7.0, 7.0])
            during = await session.run([program.read, program.version, program.known])
        return [
            during[0].tolist(),
            int(during[1]),
            bool(during[2]),
            (await session.run(program.read)).tolist(),
        ]

    assert held(body) == [[1.0, 1.0], 1, True, [7.0, 7.0]]


def test_others_writes_and_blocks_wait_in_line() -> None:
    async def body(session: af.Session, hand: Hand, program: Held) -> Any:
        async with hand:
            await hand.write([7.0, 7.0])
            steps = [asyncio.create_task(session.run(f)) for f in (program.add, program.block, program.add)]
            await turns()
            assert not any(step.done() for step in steps)
        await asyncio.gather(*steps)
        return (await session.run(program.read)).tolist()

    assert held(body) == [44.0, 44.0]


def test_a_training_update_waits_for_the_end_of_the_block_and_then_moves_what_that_left() -> None:
    async def body(session: af.Session, hand: Hand, program: Held) -> Any:
        async with hand:
            await hand.write([7.0, 7.0])
            training = asyncio.create_task(session.run(program.train))
            await turns()
            assert not training.done()
        assert int(await training) == 1
        return (await session.run(program.read)).tolist()

    assert held(body) == [6.0, 6.0]  # 7, and the step of -1 that was computed from 1


def test_an_update_whose_variable_has_changed_its_shape_meanwhile_is_refused() -> None:
    async def body(session: af.Session, hand: Hand, program: Held) -> Any:
        async with hand:
            await hand.write([7.0, 7.0, 7.0])
            training = asyncio.create_task(session.run(program.train))
            await turns()
        with pytest.raises(errors.SpecError, match=r"an update of variable 'w' must be \(3,\) float32"):
            await training
        await session.run(program.train)
        return (await session.run(program.read)).tolist()

    assert held(body) == [0.0, 0.0, 0.0]


def test_a_step_that_is_cancelled_while_it_waits_in_line_leaves_it() -> None:
    async def body(session: af.Session, hand: Hand, program: Held) -> Any:
        async with hand:
            steps = [asyncio.create_task(session.run(f)) for f in (program.block, program.add, program.train)]
            await turns()
            for step in steps:
                step.cancel()
            await asyncio.gather(*steps, return_exceptions=True)
        return (await session.run(program.add)).tolist()

    assert held(body) == [11.0, 11.0]


@pytest.mark.parametrize("fetch", ["block", "add", "train"])
def test_a_step_that_waits_past_its_deadline_says_who_holds_the_variable(fetch: str) -> None:
    async def body(session: af.Session, hand: Hand, program: Held) -> Any:
        async with hand:
            with pytest.raises(errors.DeadlinePassed) as caught:
                await session.run(getattr(program, fetch), deadline_s=0.05)
        return caught.value.what

    said = held(body)
    where, node = {
        "block": ("variable/w", "mine/lock/w"),
        "add": ("variable/w", "w/assign_add"),
        "train": ("optimizer/train", "train/apply_gradients"),
    }[fetch]
    assert f"it waits for 'session1/{where}' to answer {node}, which waits for " in said
    assert "atomic block 'by hand' of step 7 of somebody" in said


def test_who_stands_in_line_when_the_variable_stops_is_told() -> None:
    async def body(session: af.Session, hand: Hand, program: Held) -> Any:
        await hand.__aenter__()
        steps = [asyncio.create_task(session.run(f)) for f in (program.block, program.add, program.train)]
        await turns()
        await session.system.stop(hand.ref)
        return await asyncio.gather(*steps, return_exceptions=True)

    found = held(body)
    assert [type(e) for e in found] == [errors.ActorDied] * 3


def test_a_session_that_closes_inside_a_block_gives_its_locks_back() -> None:
    def built(names: str) -> tuple[af.Graph, af.Tensor, Any]:
        with af.Graph() as graph:
            held = [af.Variable(np.int64(0), name=n, shared_name=n) for n in names]
            with af.atomic(*held) as block:
                for variable in held:
                    variable.assign_add(np.int64(1))
            return graph, block.done, held[0]

    async def main() -> Any:
        (both, run_both, _), (one, run_one, p) = built("pq"), built("p")
        async with af.ActorSystem(name="system") as system, af.Session(one, system=system) as t:
            s = af.Session(both, system=system)
            await s.__aenter__()
            await s.run(run_both)
            async with Hand(s, "q"):
                waiting = asyncio.create_task(s.run(run_both))
                await turns()
                behind = asyncio.create_task(t.run(run_one))
                await turns()
                assert not behind.done()
                await s.close()
                with pytest.raises(errors.StepAborted):
                    await waiting
                await behind
            return int(await t.run(p))

    assert af.run(main()) == 2


# -- gradients -------------------------------------------------------------------------------------


def test_gradients_flow_to_reads_inside_a_block() -> None:
    with af.Graph() as graph:
        w = af.Variable(3.0, name="w")
        with af.atomic(w) as block:
            squared = w * w
        (grad,) = af.gradients(squared, w)
        update = af.minimize(squared, af.optim.sgd(0.5))
        assert grad is not None

    async def body(session: af.Session) -> Any:
        first = [float(v) for v in await session.run([grad, block.done])]
        await session.run(update)
        return first, float(await session.run(w))

    assert in_session(graph, body) == ([6.0, 1.0], 0.0)


def test_a_loss_of_reads_inside_and_outside_of_a_block_is_refused() -> None:
    """Others may write between the two, so that they need not be one value."""
    with af.Graph():
        w = af.Variable(3.0, name="w")
        outside = w.read()
        with af.atomic(w):
            product = w * outside
        with pytest.raises(errors.GradientError, match="must depend on one value of variable 'w' only"):
            af.gradients(product, w)
