"""What one worker learns eight learn too once they share the rate; a run that learned nothing says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.coord.rules.policy import Rate, View
from actorflow.errors import NoBetter

pytestmark = [pytest.mark.sim, pytest.mark.slow]
SHARED: Rate = "shared"
HELD = slice(None, None, 6)
Setting = dict[str, Any]


def program(optimizer: Any = None, epochs: int = 8) -> af.Program:
    images, labels = af.datasets.digits()
    images = images.reshape(-1, 64).astype("float32")
    tx, ty = np.delete(images, HELD, 0), np.delete(labels, HELD)
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None, 64))
        y = af.placeholder("int64", (None,))
        w1 = af.Variable(af.init.he((64, 128)), name="w1")
        w2 = af.Variable(af.init.he((128, 10)), name="w2")
        logits = af.nn.relu(x @ w1) @ w2
        loss = af.mean(af.nn.softmax_cross_entropy(logits, y))
        train = af.minimize(loss, optimizer or af.optim.sgd(0.5))
        right = af.mean(af.cast(af.equal(af.argmax(logits, axis=-1), y), "float32"))

    def batches(epoch: int) -> list[Any]:
        order = np.random.default_rng(epoch).permutation(len(tx))
        return [{x: tx[order[k : k + 32]], y: ty[order[k : k + 32]]} for k in range(0, len(order) - 31, 32)]

    async def test(session: Any) -> dict[str, float]:
        return {"accuracy": float(await session.run(right, {x: images[HELD], y: labels[HELD]}))}

    return af.Program(graph=graph, loss=loss, train=train, epochs=epochs, batches=batches, test=test)


def trained(
    made: af.Program, workers: int, policy: af.Policy, ps: int = 1, **settings: Any
) -> tuple[float, list[float], list[str]]:
    """The accuracy, the losses, and what was said."""
    losses: list[float] = []

    async def main() -> float:
        late = sim.Straggler(jitter_s=0.02)
        async with af.Cluster.simulated(made, ps=ps, workers=workers, work_s=0.1, straggler=late) as cluster:
            async for event in af.Trainer(cluster, policy, **settings).run():
                if isinstance(event, af.types.RunDone):
                    return float(event.test["accuracy"])
                if hasattr(event, "update"):
                    losses.append(event.loss)
        raise AssertionError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = sim.run(main)
    assert all(each.category is NoBetter for each in caught)
    if outcome.error is not None:
        raise outcome.error
    return float(outcome.result), losses, [str(each.message) for each in caught]


@dataclass(frozen=True)
class First(af.Policy):
    """One of one's own: whoever comes first."""

    fresh = False
    rate: Rate = "shared"

    def takes(self, view: View) -> list[int]:
        return [each.rank for each in view.complete[:1]]


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (af.Async(rate=SHARED), {}),
        (af.StaleSync(1, rate=SHARED), {}),
        (af.Policy.parse("async,rate=shared"), {"ps": 2}),
        (af.Async(rate=SHARED), {"ps": 2, "agreement": "per_shard"}),
        (First(), {}),
    ],
    ids=["async", "stale:1", "by text, 2 ps", "per_shard", "one's own"],
)
def test_eight_that_share_the_rate_learn(policy: af.Policy, more: Setting) -> None:
    accuracy, _, said = trained(program(), 8, policy, **more)

    assert accuracy > 0.9
    assert said == []


@pytest.mark.parametrize(
    "optimizer", [lambda: af.optim.momentum(0.1), lambda: af.optim.adam(0.01)], ids=["momentum", "adam"]
)
def test_rules_that_rescale_gradients_share_the_rate_too(optimizer: Callable[[], Any]) -> None:
    accuracy, _, said = trained(program(optimizer()), 8, af.Async(rate=SHARED))

    assert accuracy > 0.9
    assert said == []


def test_one_worker_that_shares_with_nobody_computes_the_same_bits() -> None:
    alone = trained(program(epochs=1), 1, af.Async())

    assert trained(program(epochs=1), 1, af.Async(rate=SHARED)) == alone


@pytest.mark.parametrize("policy", [af.Async(), af.StaleSync(1)], ids=str)
def test_eight_that_do_not_share_it_learn_nothing_and_say_so_with_what_to_try(policy: af.Policy) -> None:
    accuracy, _, said = trained(program(), 8, policy)

    assert accuracy < 0.5
    (message,) = said
    assert "the run ended no better than it began" in message
    assert f"under {policy} with 8 workers" in message
    assert "rate='shared'" in message


def test_a_run_of_all_at_once_that_learns_nothing_says_so_as_well() -> None:
    _, _, said = trained(program(af.optim.sgd(50.0), epochs=4), 2, af.Sync())

    (message,) = said
    assert "under sync with 2 workers" in message
    assert "A lower rate may help" in message
