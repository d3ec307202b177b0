"""Makes an async test of a simulated world a plain function, which pytest and hypothesis can call.

    @given(schedule=sim.schedules(), faults=sim.faults(crash=1, drop=2), n=st.integers(1, 5))
    @sim.world("ps", worker=3)
    async def test_nothing_is_lost(world, n): ...

Hypothesis then draws the schedule, the harms and the inputs of one example, and shrinks them
together. The test itself runs on the simulated loop, outside all hosts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from actorflow.errors import ConfigError
from actorflow.sim.choosers import FIFO, Schedule
from actorflow.sim.harms import NO_FAULTS, Faults
from actorflow.sim.plan import Plan
from actorflow.sim.simulate import Limits, Main
from actorflow.sim.trial import Trial
from actorflow.sim.worlds import World

Test = Callable[..., Coroutine[Any, Any, Any]]


def world(
    *names: str, latency_s: float = 0.0, seed: int = 0, limits: Limits | None = None, **counts: int
) -> Callable[[Test], Callable[..., Any]]:
    """Returns a decorator that runs an async test in a world of its own.

    The test gets the `World` first, then its inputs by name. What it returns is returned. The
    function's attribute `program(**inputs)` gives what `sim.run` takes: the test in its world.

    Args:
        *names: Hosts of which there is one.
        latency_s: How long a message travels that is not late.
        seed: Of all chance in the world.
        limits: How long a run may take.
        **counts: Hosts of which there are several: `worker=3` makes worker0, worker1 and worker2.

    Raises:
        ConfigError: two hosts have one name, or the decorated function is not `async def`.
    """
    hosts = [*names, *(f"{name}{i}" for name, n in counts.items() for i in range(n))]
    if len(set(hosts)) < len(hosts):
        message = f"hosts of a world have different names, got {', '.join(hosts)}"
        raise ConfigError(message)

    def decorate(test: Test) -> Callable[..., Any]:
        if not inspect.iscoroutinefunction(test):
            message = f"sim.world decorates an `async def`, got {test!r}"
            raise ConfigError(message, hint="@given(...) stands above @sim.world(...)")
        told = _Told(test)
        hint: Plan | None = None

        def program(**inputs: Any) -> Main:
            async def main() -> Any:
                loop: Any = asyncio.get_running_loop()
                here = World(loop, hosts, latency_s=latency_s, seed=seed)
                await here.start()
                try:
                    result = await test(here, **inputs)
                finally:
                    await here.close()
                here.tally.check()
                return result

            return main

        @functools.wraps(test)
        def law(schedule: Schedule = FIFO, faults: Faults = NO_FAULTS, **inputs: Any) -> Any:
            nonlocal hint
            trial = Trial(program(**inputs), seed=seed, limits=limits, hint=hint)
            try:
                return trial.run(schedule, faults, lambda plan: told.example(plan, inputs)).result
            finally:
                hint = trial.hint

        law.__signature__ = _signature(test)  # type: ignore[attr-defined]
        law.program = program  # type: ignore[attr-defined]
        return law

    return decorate


def _signature(test: Test) -> inspect.Signature:
    """Returns `(schedule=FIFO, faults=NO_FAULTS, *inputs)`: the test's, with the world taken out."""
    inputs = list(inspect.signature(test).parameters.values())[1:]
    given = [
        inspect.Parameter("schedule", inspect.Parameter.KEYWORD_ONLY, default=FIFO),
        inspect.Parameter("faults", inspect.Parameter.KEYWORD_ONLY, default=NO_FAULTS),
    ]
    keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in inputs]
    return inspect.Signature([*given, *keyword_only])


class _Told:
    """How a failure of a test is written as an `@example` in the words of the test's own module."""

    def __init__(self, test: Test) -> None:
        self._globals: dict[str, Any] = getattr(test, "__globals__", {})

    def example(self, plan: Plan, inputs: dict[str, Any]) -> str:
        """Returns the line to paste."""
        prefix = self._prefix()
        arguments = [f"schedule={prefix}{plan!r}"]
        arguments += [f"{name}={value!r}" for name, value in inputs.items()]
        return f"@example({', '.join(arguments)})"

    def _prefix(self) -> str:
        """Returns how the test's module reaches `Plan`."""
        found = self._globals
        if found.get("Plan") is Plan:
            return ""
        for name, value in found.items():
            if inspect.ismodule(value) and value.__name__ == "actorflow.sim":
                return f"{name}."
        for name, value in found.items():
            if inspect.ismodule(value) and value.__name__ == "actorflow":
                return f"{name}.sim."
        return ""
