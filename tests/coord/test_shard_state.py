"""The state of a shard's optimizer is made when the shard opens, on a thread, and is that of the first update."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.actors.actor import Actor
from actorflow.coord.rules.messages import Committed, PrepareUpdate
from actorflow.dataflow.optimizer.gradients import MakeState
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.register import Source, WriteMode
from actorflow.dataflow.state.variable import WriteValue
from tests.coord.actors.test_shard import ADAM, shards
from tests.coord.shards import START, Shards

ALONE: Any = [["w", "b"]]
TABLE = {"w": np.linspace(-1, 1, 40_000, dtype="float32").reshape(-1, 2), "b": np.zeros(2, "float32")}
LIMIT_S = 20.0


class Threads:
    """Runs jobs when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[..., None]]] = []
        self.came = asyncio.Event()
        self.held = False

    def submit(self, job: Callable[[], Any], done: Callable[..., None]) -> None:
        self.jobs.append((job, done))
        self.came.set()
        if not self.held:
            self.run()

    def run(self) -> None:
        while self.jobs:
            job, done = self.jobs.pop()
            try:
                done(job(), None, 0.0)
            except Exception as error:  # noqa: BLE001  as threads do
                done(None, error, 0.0)


class Echo(Actor):
    def receive(self, message: Any) -> Any:
        return message


def state(world: Shards) -> Any:
    return world.actors[0].optimizer.state


async def updated(world: Shards, updates: int) -> list[bytes]:
    """The values and the state after some updates, each of all of `b` and some rows of `w`."""
    rng = np.random.default_rng(7)
    at = np.array([0, 5, 19_999])
    for version in range(updates):
        rows = (at, rng.standard_normal((3, 2)).astype("float32"))
        grads = {"w": rows, "b": rng.standard_normal(2).astype("float32")}
        await world.contribute(version + 1, 0, version, grads)
        world.say(PrepareUpdate(1, version, ((0, version + 1),), commits=True))
        await world.heard(Committed)
    values, kept = await world.values(updates), state(world)
    return [a.tobytes() for tree in (values, kept["mean"], kept["square"]) for _, a in sorted(tree.items())]


def test_others_are_answered_while_a_state_is_made_and_it_is_that_of_the_first_update() -> None:
    made: list[str] = []
    rule = af.optim.Transform(
        name="noting", init=lambda params: (made.append("made"), ADAM.init(params))[1], update=ADAM.update,
        sparse=True,
    )  # fmt: skip
    threads = Threads()

    async def early(world: Shards) -> list[bytes]:
        echo = world.system.spawn(Echo, name="echo")
        threads.held = True
        opening = asyncio.ensure_future(world.refs[0].ask(MakeState(LIMIT_S), LIMIT_S))
        await threads.came.wait()
        assert await echo.ask("there") == "there"
        assert (made, opening.done(), state(world)) == ([], False, None)
        threads.run()
        threads.held = False
        await opening
        assert state(world)["mean"]["w"].shape == TABLE["w"].shape
        found = await updated(world, 4)
        assert made == ["made"], "an update does not make it again"
        return found

    async def late(world: Shards) -> list[bytes]:
        return await updated(world, 4)

    def make() -> OptimizerActor:
        return OptimizerActor(rule)

    options: dict[str, Any] = {"names": ALONE, "start": TABLE}
    found = shards(early, make, submit=threads.submit, **options)
    assert found == shards(late, make, **options)


def test_a_state_that_was_made_from_other_values_is_made_anew() -> None:
    def rule() -> OptimizerActor:
        return OptimizerActor(
            af.optim.Transform(
                init=lambda params: {n: np.array(p) for n, p in params.items()},
                update=lambda grads, kept, params: ({n: kept[n] - params[n] + 1 for n in grads}, kept),
            )
        )

    async def body(world: Shards) -> None:
        await world.refs[0].ask(MakeState(LIMIT_S))
        await world.refs[0].ask(MakeState(LIMIT_S))
        written = WriteValue(WriteMode.ASSIGN, np.full(2, 9.0, "float32"), Source("test"), 1)
        await world.variables["b"].ask(written)
        grads = {name: np.ones_like(value) for name, value in START.items()}
        await world.contribute(1, 0, 0, grads)
        world.say(PrepareUpdate(1, 0, ((0, 1),), commits=True))
        await world.heard(Committed)
        assert (await world.values(1))["b"].tolist() == [10.0, 10.0]

    shards(body, rule, names=ALONE)


def test_no_state_is_made_of_variables_without_values() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            world = Shards(system, lambda: OptimizerActor(ADAM), names=ALONE)
            await world.refs[0].ask(MakeState(LIMIT_S))
            assert state(world) is None

    af.run(main())


@pytest.mark.parametrize("threads", [False, True])
def test_a_rule_that_cannot_make_its_state_says_so(threads: bool) -> None:
    def init(params: Any) -> Any:
        raise ArithmeticError("no")

    async def body(world: Shards) -> None:
        with pytest.raises(
            errors.HandlerError, match="optimizer bad raised ArithmeticError: no on shard 0, when"
        ):
            await world.refs[0].ask(MakeState(LIMIT_S))

    rule = af.optim.Transform(name="bad", init=init, update=ADAM.update)
    submit = Threads().submit if threads else None
    shards(body, lambda: OptimizerActor(rule), names=ALONE, start=TABLE, submit=submit)
