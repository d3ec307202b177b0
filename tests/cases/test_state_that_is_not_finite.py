"""An update whose new optimizer state is not finite is not made, though gradient and value are finite."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.coord.rules.policy import Backup, Policy
from actorflow.errors import NumericError
from tests.support.events import drain

BATCHES = 12
BAD = 4


class Problem(NamedTuple):
    program: af.Program
    w: af.Variable


def problem(optimizer: Any, large: float = 1e25, bad: Collection[int] = (BAD,), **options: Any) -> Problem:
    """sum(w x), whose gradient is x: one of them is finite, and its square is not."""
    with af.Graph() as graph:
        x = af.placeholder("float32", ())
        w = af.Variable(np.array([1, 2]), dtype="float32", name="w")
        loss = af.sum(w * x)
        train = af.minimize(loss, optimizer, **options)
    feeds = [{x: large if k in bad else 1.0} for k in range(BATCHES)]
    return Problem(af.Program(graph=graph, loss=loss, train=train, epochs=1, batches=lambda _: feeds), w)


def stepped(given: Problem, finite: bool = True) -> tuple[list[Any], int]:
    """Runs each batch in one session: the count that it gave, or its error; and how many were dropped."""
    batches: Any = given.program.batches(0)

    async def main() -> tuple[list[Any], int]:
        told: list[Any] = []
        async with af.Session(given.program.graph) as session:
            for feeds in batches:
                try:
                    told.append(int(await session.run(given.program.train, feeds)))
                except NumericError as error:
                    told.append(error)
            assert np.isfinite(await session.run(given.w)).all() == finite
            return told, session.stats().dropped

    return af.run(main())


@pytest.mark.parametrize(
    ("optimizer", "slot"),
    [
        (af.optim.adam(0.1), "['square']['w']"),
        (af.optim.adagrad(0.1), "['w']"),
        (af.optim.rmsprop(0.1), "['w']"),
        (af.optim.chain(af.optim.clip_by_value(1e30), af.optim.adam(0.1)), "['square']['w']"),
    ],
    ids=["adam", "adagrad", "rmsprop", "chain"],
)
def test_the_step_fails_names_the_slot_and_the_next_step_goes_on(optimizer: Any, slot: str) -> None:
    told, dropped = stepped(problem(optimizer))

    error = told.pop(BAD)
    assert re.match(
        r"the new state of \w+ must be finite, got 2 infinite of 2, the first at \[0\], in state", error.what
    )
    assert error.what.endswith(slot)
    assert "learning rate" not in error.hint
    assert error.where.op == "apply_gradients"
    assert told == list(range(1, BATCHES))
    assert dropped == 0


def test_it_is_dropped_and_counted_where_some_may_be() -> None:
    told, dropped = stepped(problem(af.optim.adam(0.1), max_not_finite=1))

    assert told == [*range(1, BAD + 1), *range(BAD, BATCHES)]
    assert dropped == 1


def test_nobody_looks_where_nobody_is_to() -> None:
    told, _ = stepped(problem(af.optim.adam(0.1), max_not_finite=None), finite=False)

    assert told == list(range(1, BATCHES + 1))


class Own(af.OptimizerActor):
    """Adds nothing, and keeps what `kept` makes of the state at the bad batch."""

    kept: Callable[[Any], Any]

    def init(self, params: Mapping[str, Any]) -> Any:
        return {"m": (params["w"] * 0, 0.0, "text", None), "n": np.int64(0)}

    async def on_gradients(self, grads: Any, ctx: Any) -> Any:
        bad = abs(grads["w"]).max() > 1e20
        return {name: grad * 0 for name, grad in grads.items()}, self.kept(ctx.state) if bad else ctx.state


def own(kept: Callable[[Any], Any]) -> Callable[[], Own]:
    def make() -> Own:
        actor = Own()
        actor.kept = kept
        return actor

    return make


@pytest.mark.parametrize(
    ("kept", "at"),
    [
        (lambda s: {**s, "m": (s["m"][0] * np.nan, *s["m"][1:])}, r"got 2 NaN of 2.* state\['m'\]\[0\]"),
        (
            lambda s: {**s, "m": (s["m"][0], float("inf"), "text", None)},
            r"got 1 infinite.* state\['m'\]\[1\]",
        ),
        (lambda s: {**s, "n": np.float32("nan")}, r"got 1 NaN of 1.* state\['n'\]"),
        (
            lambda s: {**s, "new": np.array([1j, np.nan])},
            r"got 1 NaN of 2, the first at \[1\].* state\['new'\]",
        ),
    ],
    ids=["array", "float", "scalar", "complex"],
)
def test_of_an_optimizer_of_a_users_own_as_well(kept: Callable[[Any], Any], at: str) -> None:
    told, _ = stepped(problem(own(kept)))

    assert re.search(at, told.pop(BAD).what)
    assert told == list(range(1, BATCHES))


def test_state_that_was_infinite_from_the_beginning_may_stay_so() -> None:
    best = af.optim.Transform(
        name="best",
        init=lambda params: {"best": np.full(2, np.inf), "least": float("inf")},
        update=lambda grads, state, params: ({"w": grads["w"] * -0.0}, {**state, "best": state["best"] * 2}),
    )
    told, _ = stepped(problem(best))

    assert told == list(range(1, BATCHES + 1))


def test_of_rows_the_row_is_named() -> None:
    with af.Graph() as graph:
        ids, scale = af.placeholder("int64", (None,)), af.placeholder("float32", ())
        w = af.Variable(np.ones((50, 2), "float32"), name="w")
        train = af.minimize(af.sum(af.gather(w, ids) * scale), af.optim.adam(0.1))

    async def main() -> None:
        async with af.Session(graph) as session:
            await session.run(train, {ids: [1, 7], scale: 1.0})
            with pytest.raises(NumericError, match=r"2 infinite of 2, the first at \[7, 0\], in state"):
                await session.run(train, {ids: [7], scale: 1e25})
            assert int(await session.run(train, {ids: [7], scale: 1.0})) == 2

    af.run(main())


POLICIES: list[tuple[Policy, dict[str, Any]]] = [
    (af.Sync(), {}),
    (af.Async(), {}),
    (af.StaleSync(1), {}),
    (Backup(2, 3), {}),
    (af.Async(), {"agreement": "per_shard"}),
]


@pytest.mark.parametrize(("policy", "options"), POLICIES, ids=str)
def test_in_a_cluster_worker_batch_and_slot_are_named(policy: Policy, options: dict[str, Any]) -> None:
    given = problem(af.optim.adam(0.1), large=1e30, bad=range(BAD, BATCHES))  # the first may be late

    async def main() -> tuple[NumericError, Any]:
        async with af.Cluster.simulated(given.program, ps=1, workers=3, work_s=0.1) as cluster:
            with pytest.raises(NumericError) as caught:
                await drain(af.Trainer(cluster, policy, **options).run())
            return caught.value, await cluster.run(given.w)

    error, w = sim.run(main).result
    assert "the new state of adam must be finite, got 2 infinite of 2" in error.what
    assert "state['square']['w']" in error.what
    assert re.search(r"in the update computed of batch \d+ of epoch 0 by 'worker\d'", error.what)
    assert np.isfinite(w).all()
