"""Slot machines that a policy learns to play: actors of the user inside the graph that trains it.

One step of the session draws an arm for every machine, asks all machines at once, and moves the policy along
REINFORCE's gradient, E[(reward − baseline) ∇ log π(arm)]. Machines answer after a while, side by side: a step
takes as long as one of them.

Source: Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning",
Machine Learning 8, 1992.

    python examples/user_actors.py
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import actorflow as af

ODDS = (0.2, 0.5, 0.8)
PAID = af.Spec((), "float32")  # type: ignore[arg-type]  # it takes the names of dtypes


class Machine:
    """A slot machine: each arm pays 1 with odds of its own, after a while."""

    def __init__(self, odds: tuple[float, ...], seed: int, delay_s: float) -> None:
        self.odds, self.delay_s = odds, delay_s
        self.chance = random.Random(seed)

    async def pull(self, arm: Any) -> float:
        """Returns what the arm pays."""
        await asyncio.sleep(self.delay_s)
        return float(self.chance.random() < self.odds[int(arm)])


def build(machines: int, delay_s: float) -> tuple[af.Graph, Any]:
    """Returns the graph, and what a step of training gives: updates, mean reward, and the policy."""
    with af.Graph(seed=1) as graph:
        logits = af.Variable([0.0] * len(ODDS), name="logits")
        log_policy = af.nn.log_softmax(logits)
        arms = af.random.categorical(af.broadcast_to(log_policy, (machines, len(ODDS))))
        paid = [
            af.call(af.actor(Machine, ODDS, k, delay_s), "pull", arms[k], outputs=PAID)
            for k in range(machines)
        ]
        rewards = af.stack(paid)
        mean = af.mean(rewards)
        loss = -af.mean(af.gather(log_policy, arms) * af.stop_gradient(rewards - mean))
        train = af.minimize(loss, af.optim.sgd(1.0))
        return graph, {"updates": train, "reward": mean, "policy": af.exp(log_policy)}


async def play(steps: int = 60, machines: int = 32, delay_s: float = 0.005, every: int = 10) -> Any:
    """Trains the policy, prints how it does, and returns it."""
    graph, fetches = build(machines, delay_s)
    async with af.Session(graph) as session:
        for step in range(steps):
            found = await session.run(fetches)
            if step % every == 0:
                print(f"step {step}: reward {found['reward']:.2f}, policy {found['policy'].round(2)}")
        policy = await session.run(fetches["policy"])
    print("policy", policy.round(2))
    return policy


if __name__ == "__main__":
    af.run(play())
