from __future__ import annotations

from contextvars import copy_context

from actorflow.runtime import environment
from actorflow.runtime.clock import Clock, Entropy, SystemClock
from actorflow.runtime.environment import ENVIRONMENT, Environment, SchedulerSlot, Workers
from actorflow.sim.engine.simulate import attempt


def test_in_the_real_world_there_is_no_setting() -> None:
    assert ENVIRONMENT.get() is None
    assert isinstance(environment.clock(), SystemClock)
    assert environment.entropy().seed != environment.entropy().seed


def test_a_setting_gives_its_own_clock_and_chance_where_its_context_is_carried() -> None:
    class Given:
        clock: Clock = SystemClock()
        entropy = Entropy(5)

        def slot(self, system: object) -> SchedulerSlot:
            raise NotImplementedError(system)

        def workers(self, name: str) -> Workers:
            raise NotImplementedError(name)

    given: Environment = Given()
    context = copy_context()
    context.run(ENVIRONMENT.set, given)

    assert context.run(environment.clock) is given.clock
    assert context.run(environment.entropy) is given.entropy
    assert ENVIRONMENT.get() is None


def test_a_simulated_run_hands_in_virtual_time_and_seeded_chance() -> None:
    async def main() -> tuple[float, int]:
        return environment.clock().now(), environment.entropy().below(10**9)

    assert attempt(main, seed=3).result == (0.0, Entropy(3).below(10**9))
    assert ENVIRONMENT.get() is None
