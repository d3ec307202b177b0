"""The delay of a worker at each contribution, drawn as a simulated host draws it: for experiments.

A simulated worker takes `work_s` of virtual time and what a straggler adds; a real one takes that beside what
it computes, so that both can be compared. A delay reaches the process that it holds up as a text.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any

from actorflow.errors import ConfigError
from actorflow.runtime.clock import Entropy
from actorflow.sim.settings import check_number, check_whole
from actorflow.sim.world.straggler import Straggler

STEADY = Straggler(jitter_s=0.0, p=0.0, stall_s=0.0)
"""Adds nothing."""


@dataclass(frozen=True, slots=True)
class Delay:
    """What a worker waits before a contribution leaves.

    Attributes:
        work_s: Seconds, each time.
        straggler: Adds to these.
        seed: Of chance: a worker of one name draws the same in every process that runs it.

    Raises:
        ConfigError: one of them cannot be what it is.
    """

    work_s: float = 0.0
    straggler: Straggler = STEADY
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("work_s", self.work_s, finite=True, hint="work_s=0.1 is a tenth of a second a batch")
        check_whole("seed", self.seed)
        given: Any = self.straggler
        if not isinstance(given, Straggler):
            message = f"a straggler is a sim.Straggler, got {given!r:.60}"
            raise ConfigError(message, hint="sim.Straggler(p=0.1, stall_s=0.2)")

    def __str__(self) -> str:
        """As `delay` reads it: `work_s=0.5,p=0.2,stall_s=1.0,seed=3`."""
        said = {"work_s": self.work_s, "seed": self.seed}
        said |= {f.name: getattr(self.straggler, f.name) for f in fields(Straggler)}
        usual = {"work_s": 0.0, "seed": 0} | {f.name: getattr(STEADY, f.name) for f in fields(Straggler)}
        return ",".join(f"{name}={value!r}" for name, value in said.items() if value != usual[name])


def delay(text: str) -> Delay:
    """Returns the delay that a text names.

    Raises:
        ConfigError: it names none.
    """
    work_s, seed = 0.0, 0
    stalls: dict[str, float] = {}
    names = {f.name for f in fields(Straggler)}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        try:
            if name == "seed":
                seed = int(value)
            elif name == "work_s":
                work_s = float(value)
            elif name in names:
                stalls[name] = float(value)
            else:
                raise ValueError(name)  # noqa: TRY301  told below
        except ValueError:
            message = f"a delay is told as NAME=VALUE, with commas between, got {part!r:.60}"
            raise ConfigError(message, hint=f"there are work_s, seed, {', '.join(sorted(names))}") from None
    return Delay(work_s, replace(STEADY, **stalls), seed)


class Delaying:
    """Delays one worker; await a call of it.

    Args:
        delay: How long, and by what chance.
        name: Of the worker.
        loop: Whose timers it waits for.
    """

    def __init__(self, delay: Delay, name: str, loop: AbstractEventLoop) -> None:
        told = blake2b(f"{delay.seed} {name}".encode(), digest_size=8).digest()
        self._delay = delay
        self._chance = Entropy(int.from_bytes(told))
        self._loop = loop

    def next_s(self) -> float:
        """Draws the next delay, in seconds."""
        extra_s, _ = self._delay.straggler.extra_s(self._chance)
        return max(0.0, self._delay.work_s + extra_s)

    async def __call__(self) -> None:
        """Waits for as long as that is."""
        over: Future[None] = self._loop.create_future()

        def end() -> None:
            if not over.done():
                over.set_result(None)

        timer = self._loop.call_later(self.next_s(), end)
        try:
            await over
        finally:
            timer.cancel()
