"""The optimizer actor: pure rules and custom actors, in order and all or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors


def quadratic(optimizer: Any) -> tuple[af.Graph, Any, Any]:
    """Minimizes w² / 2 + b² / 2, whose gradients are the values themselves."""
    with af.Graph() as graph:
        w = af.Variable(np.array([1.0, 2.0]), name="w")
        b = af.Variable(np.array(4.0), name="b")
        loss = (af.sum(af.square(w)) + af.square(b)) * 0.5
        train = af.minimize(loss, optimizer)
        values = {"w": w.read(), "b": b.read()}
    return graph, train, values


def run(graph: af.Graph, body: Any, **options: Any) -> Any:
    async def main() -> Any:
        async with af.Session(graph, **options) as session:
            return await body(session)

    return af.run(main())


def test_sgd_moves_every_variable_by_its_gradient_and_counts() -> None:
    graph, train, values = quadratic(af.optim.sgd(0.5))

    async def body(session: af.Session) -> Any:
        counts = [int(await session.run(train)) for _ in range(2)]
        return counts, await session.run(values)

    counts, after = run(graph, body)

    assert counts == [1, 2]
    assert after["w"].tolist() == [0.25, 0.5]
    assert after["b"] == 1.0


def test_the_loss_of_a_step_is_taken_before_its_own_update_and_a_later_read_after_it() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.array(1.0), name="w")
        loss = af.square(w) * 0.5
        train = af.minimize(loss, af.optim.sgd(0.5))
        after = w.read()

    assert [float(v) for v in run(graph, lambda s: s.run([loss, train, after]))] == [0.5, 1, 0.5]


@pytest.mark.parametrize("threads", [0, 1])
def test_concurrent_updates_are_applied_one_after_the_other(threads: int) -> None:
    with af.Graph() as graph:
        w = af.Variable(np.zeros(200_000, "float32"), name="w")  # large: updates run on a thread
        train = af.minimize(af.sum(w), af.optim.sgd(1.0))
        value = w.read()

    async def body(session: af.Session) -> Any:
        counts = await asyncio.gather(*(session.run(train) for _ in range(8)))
        return sorted(int(c) for c in counts), await session.run(value)

    counts, after = run(graph, body, threads=threads)

    assert counts == list(range(1, 9))
    assert set(after.tolist()) == {-8.0}


def test_a_custom_actor_may_ask_other_actors_before_it_answers() -> None:
    class Rate(af.Actor):
        """Halves what it gives at every ask."""

        def __init__(self) -> None:
            self.rate = 1.0

        def receive(self, message: Any) -> float:
            self.rate /= 2
            return self.rate

    class Asking(af.OptimizerActor):
        """Sgd whose rate another actor decides."""

        def init(self, params: Any) -> Any:
            return ()

        async def on_gradients(self, grads: Any, ctx: af.UpdateContext) -> Any:
            rate = await refs["rate"].ask("next", deadline_s=1)
            return {n: -rate * g for n, g in grads.items()}, ()

    refs: dict[str, af.Ref] = {}
    graph, train, values = quadratic(Asking)

    async def main() -> Any:
        result = None
        async with af.ActorSystem() as system, af.Session(graph, system=system) as session:
            refs["rate"] = system.spawn(Rate, name="rate")
            for _ in range(2):
                await session.run(train)
            result = await session.run(values)
        return result

    assert af.run(main())["b"] == 4 * 0.5 * 0.75


def test_state_is_committed_with_the_deltas_only() -> None:
    class Failing(af.OptimizerActor):
        """Adds one to its state, and fails at its second update."""

        def init(self, params: Any) -> Any:
            return np.int64(0)

        async def on_gradients(self, grads: Any, ctx: af.UpdateContext) -> Any:
            seen.append((int(ctx.state), ctx.count))
            await asyncio.sleep(0)
            if len(seen) == 2:
                raise ValueError("no")
            return {n: -g for n, g in grads.items()}, ctx.state + 1

    seen: list[tuple[int, int]] = []
    graph, train, values = quadratic(Failing)

    async def body(session: af.Session) -> Any:
        await session.run(train)
        with pytest.raises(errors.HandlerError, match="raised ValueError: no"):
            await session.run(train)
        await session.run(train)
        return await session.run(values)

    run(graph, body)

    assert seen == [(0, 0), (1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        (
            af.OptimizerActor(af.optim.sgd(0.1)),
            "an optimizer actor is made anew for every session, got an instance",
        ),
        (3, "an optimizer is a Transform or makes an OptimizerActor, got 3"),
    ],
)
def test_what_is_no_optimizer_is_refused_at_build_time(optimizer: Any, text: str) -> None:
    with pytest.raises(errors.GraphError, match=text):
        quadratic(optimizer)


def test_a_factory_that_makes_something_else_is_named_when_the_step_is_planned() -> None:
    graph, train, _ = quadratic(lambda: 3)

    with pytest.raises(errors.ActorflowError, match="must make an OptimizerActor, it made 3"):
        run(graph, lambda s: s.run(train))


def test_an_optimizer_without_a_rule_says_what_to_do() -> None:
    graph, train, _ = quadratic(af.OptimizerActor)

    with pytest.raises(errors.StateError, match="has no Transform and does not override init") as caught:
        run(graph, lambda s: s.run(train))

    assert "pass one to super().__init__" in str(caught.value)
