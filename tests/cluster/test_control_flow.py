"""A loss with loops and branches in it is trained by a cluster as by a session."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import actorflow as af
from tests.cluster.policies import policies
from tests.cluster.training import in_world
from tests.laws.test_cluster_local_law import alone, locally


def recurrent() -> af.Program:
    """A loop over rows of a table, with a branch in its turn, and a function that is computed again."""
    with af.Graph(seed=4) as graph:
        x = af.placeholder("float32", (None, 4), name="x")
        y = af.placeholder("float32", (None, 2), name="y")
        keys = af.placeholder("int64", (3,), name="keys")
        table = af.Variable(af.init.he((7, 4)), name="table")
        w = af.Variable(af.init.he((4, 2)), name="w")
        b = af.Variable(af.init.zeros((2,)), name="b")

        def turn(i: Any, h: Any) -> Any:
            row = af.gather(table, af.gather(keys, i))
            h = af.autodiff.recompute(lambda h: af.tanh(h * row))(h)
            return i + 1, af.cond(af.sum(h) > 0.0, lambda: h + af.random.uniform((4,)), lambda: h - af.sum(w))

        _, hidden = af.while_loop(lambda i, h: i < 3, turn, (0, x))
        loss = af.mean((hidden @ w + b - y) ** 2)
        train = af.minimize(loss, af.optim.adam(0.05))

    def batches(epoch: int) -> list[dict[str, Any]]:
        rng = np.random.default_rng(epoch)
        made = [rng.normal(size=(3, 6)).astype("float32") for _ in range(3)]
        return [{"x": m[:, :4], "y": m[:, 4:], "keys": rng.integers(0, 7, 3)} for m in made]

    return af.Program(graph=graph, loss=loss, train=train, batches=batches, epochs=2)


def trained(ps: int) -> Any:
    """What a cluster of one worker and so many shards tells."""
    program = recurrent()
    return in_world(ps, 1, lambda world: alone(world, program, policies(1)[0], ps))()


def test_a_loss_with_a_loop_and_a_branch_is_trained_as_in_a_session() -> None:
    expected = asyncio.run(locally(recurrent()))

    for ps in (1, 2):
        assert trained(ps) == expected
    losses = [loss for kind, _, _, loss in expected[0] if kind == "epoch"]
    assert losses[-1] < losses[0]
