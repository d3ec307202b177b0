"""Figure 8c: the first m of n = m + b gradients make a step, with b backup workers against stragglers.

A step, in the order of time:

1. the coordinator tells every worker to compute;
2. a worker computes for as long as its host takes, stalls included, and tells the coordinator;
3. the policy (`coord.rules.policy.Backup`) is shown what has come, and takes the first m;
4. the parameter servers take `ps_s` longer for every worker beyond m.

A worker computes each step afresh: what it is late with is dropped, and does not delay its next step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from actorflow.actors.actor import Actor
from actorflow.coord.rules.policy import Arrived, Backup, Policy, Round, View
from actorflow.errors import ConfigError
from actorflow.sim.engine.simulate import Limits
from actorflow.sim.property.laws import world
from actorflow.sim.world.host import Host
from actorflow.sim.world.straggler import Straggler
from actorflow.sim.world.world import World
from studies.paper.numbers import Figure, figure
from studies.paper.order_statistics import at_least, errors_off, quantile

_LIMITS = Limits(max_steps=1_000_000_000, max_seconds=1e9)


@dataclass(frozen=True, slots=True)
class Model:
    """How long workers and parameter servers take.

    Attributes:
        name: As tables call it.
        base_s: A step of a worker that nothing disturbs.
        straggler: What disturbs it.
        ps_s: What a worker more costs the parameter servers in a step.
    """

    name: str
    base_s: float
    straggler: Straggler
    ps_s: float

    def below(self, m: int, n: int, step_s: float) -> float:
        """Returns how likely the first m of n make a step within `step_s`."""
        return at_least(m, n, self.straggler.below(step_s - self.base_s - self.ps_s * (n - m)))

    def exact_s(self, m: int, n: int) -> float:
        """Returns the median time of a step with the first m of n, computed and not simulated."""
        return self.base_s + self.ps_s * (n - m) + quantile(self.straggler.below, m, n)


def fitted(given: Figure | None = None) -> Model:
    """Returns the model that was fitted to the paper's medians."""
    given = given or figure("backup")
    straggler = Straggler(jitter_s=given["jitter_s"], p=given["stall_p"], stall_s=given["stall_s"])
    return Model("fitted", given["base_s"], straggler, given["ps_s"])


UNFITTED = (
    Model("exponential", 1.5, Straggler(jitter_s=0.0, p=1.0, stall_s=0.2), 0.0),
    Model("pareto", 1.5, Straggler(jitter_s=0.0, p=1.0, stall_s=0.2, shape=2.5), 0.0),
)
"""Two that were fitted to nothing, for which the simulation must find what can be computed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Steps with the first m of n.

    Attributes:
        m, n: Of how many the step needs how many.
        steps_s: How long each took.
        exact_s: The median, computed.
        off: By how many standard errors the simulated median is off that.
    """

    m: int
    n: int
    steps_s: tuple[float, ...]
    exact_s: float
    off: float

    @property
    def median_s(self) -> float:
        """The median step."""
        return median(self.steps_s)

    @property
    def p90_s(self) -> float:
        """What nine of ten steps take at most."""
        return quantiles(self.steps_s, n=10)[-1]


def timed(model: Model, m: int, n: int, *, steps: int, seed: int = 0) -> Timed:
    """Simulates steps with the first m of n.

    Workers draw the same in the runs of one seed, whatever n is, so that two n differ by what they do.
    """
    _check_steps(steps)
    took, _ = _train(model, Backup(m, n), n, steps, seed)
    off = errors_off(model.below(m, n, median(took)), steps)
    return Timed(m, n, tuple(took), model.exact_s(m, n), off)


def normalised(points: Sequence[Timed]) -> list[float]:
    """Returns how much faster than the first each is, for its workers: t(0) / t(b) * n(0) / n(b)."""
    first = points[0]
    return [first.median_s / point.median_s * first.n / point.n for point in points]


def chosen(model: Model, n: int, *, rounds: int, seed: int = 0) -> int:
    """Returns the m that `Backup("auto", n)` chooses after so many rounds that wait for all."""
    policy = Backup("auto", n, measure=rounds)
    _, after = _train(model, policy, n, rounds, seed)
    assert isinstance(after, Backup)
    return after.quorum


def _check_steps(steps: int) -> None:
    if steps < 2:
        message = f"a median needs at least 2 steps, got {steps}"
        raise ConfigError(message)


# -- the actors ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compute:
    """Coordinator → worker: compute the gradient of a step."""

    step: int


@dataclass(frozen=True, slots=True)
class Gradient:
    """Worker → coordinator: it is computed."""

    rank: int
    step: int


class Worker(Actor):
    """Computes the gradient of each step afresh, for as long as its host takes."""

    reentrant = True

    def __init__(self, host: Host, rank: int, base_s: float) -> None:
        self._host = host
        self._rank = rank
        self._base_s = base_s
        self._coordinator = host.ref("ps/coordinator")

    async def receive(self, message: Compute) -> None:
        """Computes, and says so."""
        await self._host.work(self._base_s)
        self._coordinator.tell(Gradient(self._rank, message.step))


class Coordinator(Actor):
    """Shows its policy what has come of the present step, until that takes some of it.

    Attributes:
        policy: It.
        complete: Set when the step has what it needs.
    """

    def __init__(self, host: Host, policy: Policy, n: int) -> None:
        self.policy = policy
        self.complete = asyncio.Event()
        self._host = host
        self._ranks = tuple(range(n))
        self._step = -1
        self._begun_s = 0.0
        self._arrived: tuple[Arrived, ...] = ()

    def begin(self, step: int) -> None:
        """Waits for the gradients of `step`."""
        self._step, self._arrived = step, ()
        self._begun_s = self._host.clock.now()
        self.complete.clear()

    def receive(self, message: Gradient) -> None:
        """Counts a gradient of the present step; what is late is dropped."""
        if message.step != self._step or self.complete.is_set():
            return
        now = self._host.clock.now()
        self._arrived += (Arrived(message.rank, message.step, message.step, now),)
        view = View(self._step, now, len(self._ranks), self._ranks, complete=self._arrived)
        if self.policy.takes(view):
            took = tuple(arrived.at - self._begun_s for arrived in self._arrived)
            self.policy = self.policy.after(Round(self._step + 1, took))
            self.complete.set()


def _train(model: Model, policy: Policy, n: int, steps: int, seed: int) -> tuple[list[float], Policy]:
    """Returns how long each step took, and the policy as it is after them."""

    @world("ps", worker=n, seed=seed, limits=_LIMITS)
    async def trains(here: World) -> tuple[list[float], Policy]:
        ps, *workers = here.hosts
        coordinator = Coordinator(ps, policy, n)
        ps.spawn(lambda: coordinator, name="coordinator")
        for rank, host in enumerate(workers):
            host.spawn(Worker, host, rank, model.base_s, name="worker")
            host.straggler = model.straggler  # by hand, it would have to stall at least once
        refs = [ps.ref(f"{host.name}/worker") for host in workers]
        quorum = policy.quorum if isinstance(policy, Backup) else n

        async def train() -> list[float]:
            took = []
            for step in range(steps):
                begun_s = here.loop.time()
                coordinator.begin(step)
                for ref in refs:
                    ref.tell(Compute(step))
                await coordinator.complete.wait()
                await here.sleep(model.ps_s * (n - quorum))
                took.append(here.loop.time() - begun_s)
            return took

        return await ps.run(train()), coordinator.policy

    took, after = trains()
    return took, after
