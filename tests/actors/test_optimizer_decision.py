"""An update that is staged and waits for a decision: committed whole, or discarded without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.optimizer.gradients import ApplyGradients, Decision
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.caller import Caller
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.variable import Initialise, Read, VariableActor
from actorflow.runtime.messages import Call, CancelCall
from actorflow.values.arrays import as_dtype, same
from actorflow.values.spec import Spec

FLOAT = as_dtype("float64")
Values = dict[str, tuple[Any, int]]


class Trained:
    """Two variables and their optimizer, without a session."""

    def __init__(self, system: af.ActorSystem, make: Callable[[], OptimizerActor]) -> None:
        self.system = system
        self.refs = {
            "w": system.spawn(VariableActor, "w", Spec((4, 2), FLOAT), name="w"),
            "b": system.spawn(VariableActor, "b", Spec((3,), FLOAT), name="b"),
        }
        self.actor = make()
        self.ref = system.spawn(lambda: self.actor.bind(self.refs, Source("test"), None), name="optimizer")

    async def open(self) -> None:
        await self.refs["w"].ask(Initialise(np.arange(8.0).reshape(4, 2)))
        await self.refs["b"].ask(Initialise(np.ones(3)))

    async def values(self) -> Values:
        return {name: await ref.ask(Read()) for name, ref in self.refs.items()}

    def begin(self, rows: bool = False, scale: float = 1.0) -> tuple[Decision, asyncio.Event, Caller]:
        """Sends an update that waits for a decision; returns that, what is set once it is staged, the reply."""
        staged, future = asyncio.Event(), self.system.create_future()
        decision, reply = Decision(staged.set, future), Caller(self.system.create_future())
        w: Any = (np.array([0, 2]), scale * np.ones((2, 2))) if rows else scale * np.ones((4, 2))
        self.ref.put(Call(reply, ApplyGradients((w, scale * np.ones(3)), decision)), self.system.nobody)
        return decision, staged, reply

    async def update(self, scale: float = 1.0) -> int:
        decision, _, reply = self.begin(scale=scale)
        decision.commit.set_result(True)
        return int(await reply.future)

    def staged(self) -> int:
        """How many updates the variables hold that are staged."""
        actors = [self.system.actors[name].behaviour for name in self.refs]
        return sum(len(actor.register.staged) for actor in actors if isinstance(actor, VariableActor))

    def kept(self) -> list[Any]:
        """What the optimizer keeps: its count, and copies of the leaves of its state."""
        state = self.actor.state
        leaves = [] if state is None else [state["count"], *state["mean"].values(), *state["square"].values()]
        return [self.actor.count, *(np.array(leaf) for leaf in leaves)]


def trained(body: Callable[[Trained], Any], make: Callable[[], OptimizerActor] | None = None) -> Any:
    """Runs `body` with two variables under Adam, or under what `make` makes."""

    async def main() -> Any:
        result = None
        async with af.ActorSystem() as system:
            found = Trained(system, make or (lambda: OptimizerActor(af.optim.adam(0.1))))
            await found.open()
            result = await body(found)
        return result

    return af.run(main())


def equal(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(same(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True))


def equal_values(a: Values, b: Values) -> bool:
    return all(a[name][1] == b[name][1] and same(a[name][0], b[name][0]) for name in a)


@pytest.mark.parametrize("rows", [False, True], ids=["dense", "rows"])
def test_nothing_changes_before_the_decision_and_everything_after_it(rows: bool) -> None:
    async def body(t: Trained) -> Any:
        before, kept = await t.values(), t.kept()
        decision, staged, reply = t.begin(rows)
        await staged.wait()
        assert equal_values(await t.values(), before)
        assert equal(t.kept(), kept)
        assert not reply.future.done()

        decision.commit.set_result(True)
        count = int(await reply.future)

        return count, {name: version for name, (_, version) in (await t.values()).items()}, t.actor.count

    assert trained(body) == (1, {"w": 2, "b": 2}, 1)


@pytest.mark.parametrize("rows", [False, True], ids=["dense", "rows"])
def test_a_discard_leaves_values_count_and_state_as_they_were(rows: bool) -> None:
    async def body(t: Trained) -> None:
        await t.update()
        before, kept = await t.values(), t.kept()
        decision, staged, reply = t.begin(rows, scale=7.0)
        await staged.wait()

        decision.commit.set_result(False)

        with pytest.raises(errors.StepAborted, match="decided to discard"):
            await reply.future
        assert equal_values(await t.values(), before)
        assert equal(t.kept(), kept)
        assert t.staged() == 0

    trained(body)


def test_updates_after_a_discard_are_those_without_it() -> None:
    async def body(t: Trained, discarded: bool) -> Any:
        await t.update()
        if discarded:
            decision, staged, _ = t.begin(scale=5.0)
            await staged.wait()
            decision.commit.set_result(False)
        await t.update(2.0)
        return await t.values(), t.kept()

    values, kept = trained(lambda t: body(t, True))
    plain, plainly = trained(lambda t: body(t, False))

    assert equal_values(values, plain)
    assert equal(kept, plainly)


def test_the_next_update_waits_for_the_decision_of_the_one_before() -> None:
    async def body(t: Trained) -> list[int]:
        first, staged, one = t.begin()
        second, later, two = t.begin()
        await staged.wait()
        await asyncio.sleep(0)
        assert not later.is_set()
        first.commit.set_result(True)
        second.commit.set_result(True)
        return [int(await one.future), int(await two.future)]

    assert trained(body) == [1, 2]


def test_a_reply_that_is_interrupted_while_it_waits_discards() -> None:
    async def body(t: Trained) -> None:
        before, kept = await t.values(), t.kept()
        decision, staged, reply = t.begin()
        await staged.wait()

        reply.future.cancel()
        assert reply.interrupt is not None
        reply.interrupt()
        t.ref.signal(CancelCall(reply))

        assert await t.update() == 1, "the next one goes on from what was there"
        assert not decision.commit.done() or decision.commit.cancelled()
        assert [version for _, version in (await t.values()).values()] == [v + 1 for _, v in before.values()]
        assert kept == [0]
        assert t.staged() == 0

    trained(body)


def test_an_optimizer_that_is_stopped_while_it_waits_discards() -> None:
    async def body(t: Trained) -> None:
        before = await t.values()
        _, staged, reply = t.begin()
        await staged.wait()

        await t.system.stop(t.ref)

        with pytest.raises(errors.ActorDied):
            await reply.future
        assert equal_values(await t.values(), before)
        assert t.staged() == 0

    trained(body)


def test_an_update_that_is_refused_is_not_said_to_be_staged() -> None:
    class Failing(OptimizerActor):
        """Refuses every update."""

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            message = "no"
            raise ValueError(message)

    async def body(t: Trained) -> None:
        decision, staged, reply = t.begin()

        with pytest.raises(errors.HandlerError, match="ValueError: no"):
            await reply.future
        assert not staged.is_set()
        assert not decision.commit.done()

    trained(body, lambda: Failing(af.optim.adam(0.1)))


def test_the_staleness_of_the_gradients_is_what_the_rule_sees() -> None:
    seen = []

    class Seeing(OptimizerActor):
        """Notes how stale its gradients are."""

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            seen.append(ctx.staleness)
            return await super().on_gradients(grads, ctx)

    async def body(t: Trained) -> None:
        await t.update()
        grads = (np.ones((4, 2)), np.ones(3))
        for staleness in (0, 3):
            reply = Caller(t.system.create_future())
            t.ref.put(Call(reply, ApplyGradients(grads, staleness=staleness)), t.system.nobody)
            await reply.future

    trained(body, lambda: Seeing(af.optim.adam(0.1)))

    assert seen == [0, 0, 3]


def test_a_subclass_is_as_joint_as_its_transform_and_may_say_so_itself() -> None:
    class Own(OptimizerActor):
        """Has no Transform, and looks at everything."""

        joint = "Own"

    assert OptimizerActor(af.optim.lbfgs(0.1)).joint == "lbfgs"
    assert OptimizerActor(af.optim.adam(0.1)).joint == OptimizerActor().joint == ""
    assert Own().joint == "Own"
