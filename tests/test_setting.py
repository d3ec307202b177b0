from __future__ import annotations

from contextvars import copy_context

from actorflow import setting
from actorflow.clock import Clock, Entropy, SystemClock
from actorflow.setting import SETTING, Seat, Setting, Workers
from actorflow.sim.simulate import attempt


def test_in_the_real_world_there_is_no_setting() -> None:
    assert SETTING.get() is None
    assert isinstance(setting.clock(), SystemClock)
    assert setting.entropy().seed != setting.entropy().seed


def test_a_setting_gives_its_own_clock_and_chance_where_its_context_is_carried() -> None:
    class Given:
        clock: Clock = SystemClock()
        entropy = Entropy(5)

        def seat(self, system: object) -> Seat:
            raise NotImplementedError(system)

        def workers(self, name: str) -> Workers:
            raise NotImplementedError(name)

    given: Setting = Given()
    context = copy_context()
    context.run(SETTING.set, given)

    assert context.run(setting.clock) is given.clock
    assert context.run(setting.entropy) is given.entropy
    assert SETTING.get() is None


def test_a_simulated_run_hands_in_virtual_time_and_seeded_chance() -> None:
    async def main() -> tuple[float, int]:
        return setting.clock().now(), setting.entropy().below(10**9)

    assert attempt(main, seed=3).result == (0.0, Entropy(3).below(10**9))
    assert SETTING.get() is None
