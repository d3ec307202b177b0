"""The loop is asyncio's first come, first served, and keeps the order inside a lane under any schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given

from actorflow.sim.simulate import attempt
from tests.sim.drawn import Script, program, programs
from tests.virtual_loop import VirtualLoop


class Stable(VirtualLoop):
    """asyncio's loop in virtual time; timers that are due at one moment come in order of setting.

    asyncio's heap leaves their order open: of four the last may come second.
    """

    made = 0

    def time(self) -> float:
        return round(super().time() * 8) / 8

    def call_at(self, when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        self.made += 1
        return super().call_at(when + self.made * 1e-13, *args, **kwargs)


def on_asyncio(scripts: list[Script]) -> list[tuple[Any, ...]]:
    with asyncio.Runner(loop_factory=Stable) as runner:
        return runner.run(program(scripts)())


@given(programs)
@example([[("later", 0), ("soon", 1)], [("soon", 1)]])  # a timer that is due comes after what is ready
@example([[("later", 1)] * 5, [("later", 1)] * 2])
def test_first_come_first_served_is_what_asyncio_does(scripts: list[Script]) -> None:
    outcome = attempt(program(scripts))

    assert outcome.error is None
    assert outcome.result == on_asyncio(scripts)
