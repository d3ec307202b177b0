"""The optimizer actor: pure rules and custom actors, in order and all or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.sessions import run


def quadratic(optimizer: Any) -> tuple[af.Graph, Any, Any]:
    """Minimizes w² / 2 + b² / 2, whose gradients are the values themselves."""
    with af.Graph() as graph:
        w = af.Variable(np.array([1.0, 2.0]), name="w")
        b = af.Variable(np.array(4.0), name="b")
        loss = (af.sum(af.square(w)) + af.square(b)) * 0.5
        train = af.minimize(loss, optimizer)
        values = {"w": w.read(), "b": b.read()}
    return graph, train, values


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

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
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

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
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


def test_a_hung_optimizer_ends_with_its_step_and_the_next_step_goes_on() -> None:
    class Hanging(af.OptimizerActor):
        """Hangs in its first update."""

        def init(self, params: Any) -> Any:
            return ()

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            started.append(ctx.count)
            if len(started) == 1:
                await asyncio.Event().wait()
            return {n: -0.5 * g for n, g in grads.items()}, ()

    started: list[int] = []
    graph, train, values = quadratic(Hanging)

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.DeadlinePassed, match="/optimizer/train' to answer train/apply_gradients"):
            await session.run(train, deadline_s=0.05)
        cancelled = asyncio.create_task(session.run(train))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        count = await session.run(train, deadline_s=2)
        return int(count), float((await session.run(values))["b"])

    count, b = run(graph, body)

    assert b == 4 * 0.5**count
    assert started[0] == 0


def test_a_timeout_of_the_user_s_own_is_an_error_like_any_other() -> None:
    class Impatient(af.OptimizerActor):
        """Waits too long for something, by its own clock."""

        def init(self, params: Any) -> Any:
            return ()

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()

    graph, train, _ = quadratic(Impatient)

    with pytest.raises(errors.HandlerError, match="raised TimeoutError"):
        run(graph, lambda s: s.run(train))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, r"Junk.on_gradients must return \(deltas, state\), got NoneType"),
        ((None, None), r"Junk must return one delta for each of \['b', 'w'\], got NoneType"),
        (({"w": 1, "b": 2}, ()), "Junk's delta for 'w' must be"),
    ],
)
def test_junk_from_an_optimizer_is_named(answer: Any, text: str) -> None:
    class Junk(af.OptimizerActor):
        """Returns what it was told to."""

        def init(self, params: Any) -> Any:
            return ()

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            return answer

    graph, train, _ = quadratic(Junk)

    with pytest.raises(errors.StateError, match=text):
        run(graph, lambda s: s.run(train))


def test_the_params_of_an_update_cannot_be_changed() -> None:
    class Writing(af.OptimizerActor):
        """Tries to change what it looks at."""

        def init(self, params: Any) -> Any:
            return ()

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            ctx.params["w"] = ctx.params["w"] * 0  # type: ignore[index]

    graph, train, _ = quadratic(Writing)

    with pytest.raises(errors.HandlerError, match="does not support item assignment"):
        run(graph, lambda s: s.run(train))


def test_one_optimizer_instance_cannot_train_for_two_sessions() -> None:
    one = af.OptimizerActor(af.optim.sgd(0.5))
    graph, train, _ = quadratic(lambda: one)

    assert run(graph, lambda s: s.run(train)) == 1
    with pytest.raises(errors.GraphError, match="OptimizerActor already trains for a session") as caught:
        run(graph, lambda s: s.run(train))

    assert "node train/apply_gradients" in str(caught.value)


def test_a_rule_that_was_not_called_is_named_with_its_line() -> None:
    graph, train, _ = quadratic(af.optim.sgd)

    with pytest.raises(
        errors.GraphError, match="the optimizer passed to minimize could not be made"
    ) as caught:
        run(graph, lambda s: s.run(train))

    assert "node train/apply_gradients" in str(caught.value)


def test_a_variable_may_have_the_name_of_an_optimizer() -> None:
    with af.Graph() as graph:
        w = af.Variable(3.0, name="train")
        train = af.minimize(af.square(w), af.optim.sgd(0.25))
        value = w.read()

    assert [float(v) for v in run(graph, lambda s: s.run([train, value]))] == [1, 1.5]
