"""CartPole, balanced by a policy that players ask while it learns: proximal policy optimisation.

Each player is an actor with some environments. The graph chooses what it does; what came of it goes into a
queue as one rollout. The learner takes rollouts from the queue and updates the weights, while players go on
with whatever weights they find: a rollout is stale by as many updates as were made since its first choice.
It is solved when the last 100 episodes were 475 steps long in the mean.

    python examples/cartpole.py [--seed N] [--steps N] [--quick] [--plot FILE]

Source: Schulman and others, "Proximal policy optimization algorithms", 2017; the advantages: Schulman and
others, "High-dimensional continuous control using generalized advantage estimation", ICLR 2016.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from curves import draw

import actorflow as af

PLAYERS, ENVS, LENGTH = 4, 4, 32  # a rollout: so many steps of each environment of one player
GOAL, EPISODES, STEPS = 475.0, 100, 250_000
PASSES, CLIP, RATE = 20, 0.2, 1e-3
DISCOUNT, TRACE = 0.98, 0.8
SIGHT, ACTIONS = 4, 2
PATIENCE_S = 300.0


class Agent:
    """The graph: what chooses, the queue of rollouts, and what learns from them."""

    def __init__(self, updates: int) -> None:
        self.seen = af.placeholder("float32", (ENVS, SIGHT), name="seen")
        self.policy, self.worth = network("policy", ACTIONS), network("worth", 1)
        self.version = self.policy.variables[0].version()  # counts updates
        logits = self.policy(self.seen)
        chosen = af.random.categorical(logits)
        self.choice = (chosen, likelihood(logits, chosen), self.version)

        grid = (LENGTH, ENVS)
        names = ["seen", "next", "chosen", "likelihood", "reward", "failed", "ended", "version"]
        dtypes = ["float32", "float32", "int64", *["float32"] * 4, "int64"]
        shapes = [(*grid, SIGHT), (*grid, SIGHT), *[grid] * 5, ()]
        self.queue = af.state.FIFOQueue(PLAYERS, dtypes, shapes, names=names, name="rollouts")
        self.rollout = {
            n: af.placeholder(d, s, name=f"played/{n}") for n, d, s in zip(names, dtypes, shapes, strict=True)
        }
        self.put = self.queue.enqueue(self.rollout)
        self.batch = self.advantages(self.queue.dequeue_many(PLAYERS))

        self.given = {
            name: af.placeholder(x.dtype, x.shape, name=f"given/{name}") for name, x in self.batch.items()
        }
        self.update = self.learns(self.given, updates)

    def advantages(self, taken: dict[str, Any]) -> dict[str, Any]:
        """Returns what to learn from rollouts, their steps one after the other."""
        now, after = (self.worth(taken[name])[..., 0] for name in ("seen", "next"))
        surprise = taken["reward"] + DISCOUNT * (1 - taken["failed"]) * after - now
        gained = af.math.linear_recurrence(
            DISCOUNT * TRACE * (1 - taken["ended"]), surprise, axis=1, reverse=True
        )
        flat = {name: taken[name] for name in ("chosen", "likelihood")} | {
            "gained": gained,
            "return": gained + now,
        }
        learned = {name: af.reshape(x, (-1,)) for name, x in flat.items()}
        return learned | {"seen": af.reshape(taken["seen"], (-1, SIGHT)), "version": taken["version"]}

    def learns(self, given: dict[str, Any], updates: int) -> Any:
        """Returns the update: towards what turned out better than expected, and not far at once."""
        logits, gained = self.policy(given["seen"]), given["gained"]
        gained = (gained - af.mean(gained)) / (af.std(gained) + 1e-8)
        ratio = af.exp(likelihood(logits, given["chosen"]) - given["likelihood"])
        loss = -af.mean(af.minimum(ratio * gained, af.clip(ratio, 1 - CLIP, 1 + CLIP) * gained))
        loss += 0.5 * af.mean(af.square(self.worth(given["seen"])[:, 0] - given["return"]))
        rule = af.optim.adam(af.optim.schedules.linear(RATE, updates=updates))
        return af.minimize(loss, af.optim.chain(af.optim.clip_by_global_norm(0.5), rule))


def network(name: str, outputs: int) -> af.nn.Sequential:
    """Two hidden layers; the last begins small, so that at first nothing is preferred."""
    small = af.init.normal(0.01)
    last = af.nn.Dense(64, outputs, weights=small)
    layers: list[Any] = [af.nn.Dense(SIGHT, 64), af.tanh, af.nn.Dense(64, 64), af.tanh, last]
    return af.nn.Sequential(layers, name=name)


def likelihood(logits: Any, chosen: Any) -> Any:
    """Returns the logarithm of the probability of what was chosen."""
    return -af.nn.softmax_cross_entropy(logits, chosen)


class Player(af.Actor):
    """Owns environments; asked for a rollout, it plays one, queues it, and answers how episodes ended."""

    def __init__(self, session: af.Session, agent: Agent, seed: int) -> None:
        self.session, self.agent = session, agent
        self.envs = [environment() for _ in range(ENVS)]
        self.seen = np.array([env.reset(seed=seed + k)[0] for k, env in enumerate(self.envs)], "float32")
        self.steps = np.zeros(ENVS, int)

    async def receive(self, message: str) -> list[int]:
        """Returns how long the episodes were that ended in the rollout."""
        played: dict[str, list[Any]] = {name: [] for name in self.agent.rollout}
        lengths: list[int] = []
        for _ in range(LENGTH):
            chosen, likely, version = await self.session.run(self.agent.choice, {self.agent.seen: self.seen})
            row = {"seen": self.seen, "chosen": chosen, "likelihood": likely, "version": version}
            row |= self.step(chosen, lengths)
            for name, value in row.items():
                played[name].append(value)
        rollout = {name: np.array(rows) for name, rows in played.items()} | {"version": played["version"][0]}
        await self.session.run(self.agent.put, {self.agent.rollout[name]: x for name, x in rollout.items()})
        return lengths

    def step(self, chosen: Any, lengths: list[int]) -> dict[str, Any]:
        """Steps each environment, and resets those whose episode ended."""
        made = [env.step(int(action)) for env, action in zip(self.envs, chosen, strict=True)]
        after, reward, failed, late, _ = (np.array(x) for x in zip(*made, strict=True))
        ended = failed | late
        self.steps += 1
        self.seen = after.astype("float32")
        for k in np.flatnonzero(ended):
            lengths.append(int(self.steps[k]))
            self.steps[k], self.seen[k] = 0, self.envs[k].reset()[0]
        facts = {"next": after, "reward": reward, "failed": failed, "ended": ended}
        return {name: x.astype("float32") for name, x in facts.items()}

    def on_stop(self, cause: Any) -> None:
        """Closes the environments."""
        for env in self.envs:
            env.close()


def environment() -> Any:
    """Makes one; ConfigError where gymnasium is missing."""
    try:
        import gymnasium
    except ImportError as error:
        message = "CartPole is an environment of gymnasium, which is not installed"
        raise af.errors.ConfigError(message, hint="pip install 'actorflow[examples]'") from error
    return gymnasium.make("CartPole-v1")


@dataclass
class Run:
    """How a run goes: how long episodes were, and how much was played."""

    episodes: list[int] = field(default_factory=list)
    played: int = 0
    curve: list[tuple[float, float]] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Of the last episodes."""
        return float(np.mean(self.episodes[-EPISODES:] or [0]))

    @property
    def solved(self) -> bool:
        """Whether there were enough episodes, and long ones."""
        return len(self.episodes) >= EPISODES and self.mean >= GOAL

    def __str__(self) -> str:
        return f"mean return {self.mean:.1f} of the last {EPISODES} of {len(self.episodes)} episodes"


async def keep_playing(player: af.Ref, run: Run) -> None:
    """Asks a player for one rollout after the other, until it is cancelled."""
    while True:
        run.episodes += await player.ask("a rollout", deadline_s=PATIENCE_S)
        run.played += LENGTH * ENVS


async def learn(session: af.Session, agent: Agent, run: Run, steps: int) -> None:
    """Takes rollouts and learns from them, until it is solved or so many steps were played."""
    batches = 0
    while not run.solved and run.played < steps:
        batch = await session.run(agent.batch)
        made_with = batch.pop("version")
        now = await session.run(agent.version)
        for _ in range(PASSES):
            await session.run(agent.update, {agent.given[name]: x for name, x in batch.items()})
        run.curve.append((run.played, run.mean))
        batches += 1
        if batches % 10 == 1:
            stale = now - made_with
            weights = f"weights {now}, rollouts of {stale.min()} to {stale.max()} updates before"
            print(f"{run.played:6} steps: {run}; {weights}", flush=True)


async def main(seed: int, steps: int, plot: str | None) -> Run:
    """Plays and learns; says how it went."""
    environment().close()  # says at once what is missing
    run = Run()
    with af.Graph(seed=seed) as graph:
        agent = Agent(updates=PASSES * steps // (PLAYERS * ENVS * LENGTH))
    async with af.Session(graph) as session, af.ActorSystem() as system:  # players stop before the session
        players = [
            system.spawn(Player, session, agent, 1000 * seed + ENVS * k, name=f"player{k}")
            for k in range(PLAYERS)
        ]
        async with asyncio.TaskGroup() as tasks:
            playing = [tasks.create_task(keep_playing(player, run)) for player in players]
            await learn(session, agent, run, steps)
            for task in playing:
                task.cancel()
    how = "solved" if run.solved else "not solved"
    print(f"seed {seed}: {how} after {run.played} steps: {run}")
    if plot:
        draw(
            plot, {"mean return": (run.curve, "-")}, xlabel="steps", ylabel=f"of the last {EPISODES} episodes"
        )
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--quick", action="store_true", help="five thousand steps, to see that it runs")
    parser.add_argument("--plot", default="cartpole.svg", metavar="FILE", help="where the curve is drawn")
    chosen = parser.parse_args()
    try:
        af.run(main(chosen.seed, 5000 if chosen.quick else chosen.steps, chosen.plot))
    except KeyboardInterrupt:
        print("stopped")
