"""The devices of one session: the host's, and those that its graph names.

`/cpu:0` is the host: variables, queues, feeds and fetches are there. A further `/cpu:1` is another
pool of threads of the same processor, with copies at its borders as a card has; it tests programs
for several devices where there is no card. A card `/gpu:0` is opened when the first plan names it.
"""

from __future__ import annotations

import re
from asyncio import AbstractEventLoop
from collections.abc import Iterable, Sequence

from actorflow.errors import ConfigError, PlacementError
from actorflow.kernels.device.device import Device
from actorflow.kernels.device.gpu import Gpu
from actorflow.runtime.clock import Clock
from actorflow.runtime.environment import ENVIRONMENT

AnyDevice = Device | Gpu

HOST = "/cpu:0"
_PROCESSOR = re.compile(r"/cpu:\d+\Z")
_GPU = re.compile(r"(?:.*/)?gpu:(\d+)\Z")


class Devices:
    """The devices of a session.

    Args:
        names: `/cpu:N`, the host's first, as `check_devices` returns them.
        threads: Worker threads of each of them.
    """

    def __init__(self, names: Sequence[str], loop: AbstractEventLoop, clock: Clock, threads: int) -> None:
        self._loop = loop
        self._clock = clock
        self._absent: dict[str, PlacementError] = {}
        opened = {name: Device(name, loop, clock, threads=threads) for name in names}
        self.host = opened[HOST]
        self.by_name: dict[str, AnyDevice] = {**opened}

    def __repr__(self) -> str:
        return f"<Devices {', '.join(self.by_name)}>"

    @property
    def offloaded(self) -> int:
        """Kernels that ran on threads, or on cards."""
        return sum(device.offloaded for device in self.by_name.values())

    def names_for(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Returns the names of the devices, after the cards among `wanted` have been opened.

        A card that cannot be opened is left out, and `hint` says why. Opening the first card takes a
        second or more, in which the loop stands still.
        """
        for card in filter(None, map(_GPU.match, wanted)):
            name = f"/gpu:{card[1]}"
            # Tried once: a card that cannot be opened is not looked for at every plan.
            if name not in self.by_name and name not in self._absent:
                try:
                    self.by_name[name] = self._open_gpu(name, int(card[1]))
                except PlacementError as error:
                    self._absent[name] = error
        return tuple(self.by_name)

    @property
    def hint(self) -> str | None:
        """What to do about the card that could not be opened last, None when there was none."""
        if not self._absent:
            return None
        reason = next(reversed(self._absent.values())).what
        return f"a card needs CUDA's driver and pip install 'actorflow[gpu]'; {reason}"

    async def close(self) -> None:
        """Closes all of them, each even when another fails, and raises the first failure."""
        failed: list[Exception] = []
        # The host was there first, and others copy through it.
        for device in reversed(tuple(self.by_name.values())):
            try:
                await device.close()
            except Exception as error:  # noqa: BLE001  raised below, after the others are closed
                failed.append(error)
        if failed:
            raise failed[0]

    def _open_gpu(self, name: str, index: int) -> Gpu:
        # A simulation is a function of its seed; a card is not.
        if ENVIRONMENT.get() is not None:
            raise PlacementError("a simulated run has no cards")
        return Gpu(name, index, self._loop, self._clock)


def check_devices(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names, the host's first; raises ConfigError for what a session cannot be given."""
    for name in names:
        if _GPU.match(name):
            message = f"a card is opened when the graph names it, {name!r} need not be listed"
            raise ConfigError(message, hint="leave it out")
        if not _PROCESSOR.match(name):
            message = f"a device that a session is given is /cpu:N, got {name!r}"
            raise ConfigError(message)
    return tuple(dict.fromkeys((HOST, *names)))
