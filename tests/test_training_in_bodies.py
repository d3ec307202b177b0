"""Training updates inside of loops and branches: every turn one, in order, and none in a branch not taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import KernelError

START = np.array([1.0, -2.0, 0.5], "float32")
RULES = [af.optim.sgd(0.1), af.optim.momentum(0.1, 0.9), af.optim.adam(0.1)]


def _loss(w: Any) -> Any:
    return af.sum(af.square(w - 0.25) * af.square(w))


async def _stepped(rule: Any, n: int) -> tuple[Any, list[Any]]:
    with af.Graph() as graph:
        w = af.Variable(START, name="w")
        loss = _loss(w)
        train = af.minimize(loss, rule, [w], max_not_finite=None)
    async with af.Session(graph, threads=0) as session:
        losses = [(await session.run([loss, train]))[0] for _ in range(n)]
        return await session.run(w), losses


@pytest.mark.parametrize("rule", RULES, ids=["sgd", "momentum", "adam"])
@pytest.mark.parametrize("parallel", [1, 8])
def test_a_loop_of_updates_is_as_many_steps(rule: Any, parallel: int) -> None:
    n = 7
    with af.Graph() as graph:
        w = af.Variable(START, name="w")

        def turn(k: Any) -> Any:
            loss = _loss(w)
            af.minimize(loss, rule, [w], max_not_finite=None)  # with momentum it goes to infinity
            return k + 1, loss

        _, losses = _with_losses(turn, n, parallel)
        after = w.read()

    async def main() -> None:
        async with af.Session(graph, threads=0) as session:
            looped, value = await session.run([losses, after])
        expected, stepped = await _stepped(rule, n)
        assert value.tobytes() == expected.tobytes()
        assert looped.tobytes() == np.array(stepped).tobytes()

    af.run(main())


def _with_losses(turn: Any, n: int, parallel: int) -> tuple[Any, Any]:
    """The turns, and what `turn` gives beside its number, stacked."""

    def body(k: Any, array: af.TensorArray) -> Any:
        following, loss = turn(k)
        return following, array.write(k, loss)

    k, array = af.while_loop(
        lambda k, _: k < n,
        body,
        (0, af.TensorArray("float32", n, element_shape=())),
        parallel_iterations=parallel,
    )
    return k, array.stack()


def test_only_the_branch_that_is_taken_updates() -> None:
    with af.Graph() as graph:
        p = af.placeholder("bool", name="p")
        a, b = af.Variable(START, name="a"), af.Variable(START, name="b")
        rule = af.optim.momentum(0.1, 0.9)
        turn = af.cond(p, lambda: af.minimize(_loss(a), rule, [a]), lambda: af.minimize(_loss(b), rule, [b]))

    async def main() -> None:
        async with af.Session(graph, threads=0) as session:
            for taken in (True, False, False, True, False):
                await session.run(turn, {p: taken})
            found = await session.run([a, b])
        for value, n in zip(found, (2, 3), strict=True):
            expected, _ = await _stepped(rule, n)
            assert value.tobytes() == expected.tobytes()

    af.run(main())


def test_updates_before_a_turn_that_fails_stay_and_its_own_does_not() -> None:
    with af.Graph() as graph:
        w = af.Variable(START, name="w")

        def turn(k: Any) -> Any:
            fine = af.gather(af.constant([1.0, 1.0, 1.0]), k)
            af.minimize(_loss(w) * fine, af.optim.sgd(0.1), [w])
            return k + 1

        end = af.while_loop(lambda k: k < 9, turn, 0, parallel_iterations=1)

    async def main() -> None:
        async with af.Session(graph, threads=0) as session:
            with pytest.raises(KernelError, match="gather"):
                await session.run(end)
            value = await session.run(w)
        expected, _ = await _stepped(af.optim.sgd(0.1), 3)
        assert value.tobytes() == expected.tobytes()

    af.run(main())
