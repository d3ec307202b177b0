"""A program as placers see it: tasks that take time on devices, and values that travel between them.

Plain numbers, so that placing, ordering and forecasting know nothing of ops and specs;
`plan.placement.placer` makes one from a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


class DeviceLink(NamedTuple):
    """What lies between two devices, in one direction."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, size: float) -> float:
        """Returns from when a value of `size` bytes is sent, alone on the link, until it is there."""
        return self.latency_s + size / self.bytes_per_s


class Value(NamedTuple):
    """What a task makes and others take; of 0 bytes when it only says that the task is done."""

    maker: int
    takers: tuple[int, ...]
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class SchedulingProblem:
    """Tasks by number, in an order in which they can run one after the other.

    INVARIANT: the maker of a value has a smaller number than its takers; each taker is listed once.

    Attributes:
        seconds: By task and device; infinite where the task cannot run.
        values: What travels.
        links: By device that sends and device that receives; those of a device with itself say nothing.
        groups: By task; tasks of one group run on one device.
        limits: Bytes that each device can hold.
        makes: By task: the values that it makes.
        takes: By task: the values that it takes.
        members: By group: its tasks.
        choices: By group: the devices on which all its tasks can run.
    """

    seconds: Sequence[Sequence[float]]
    values: Sequence[Value]
    links: Sequence[Sequence[DeviceLink]]
    groups: Sequence[int] = ()
    limits: Sequence[float] = ()
    makes: list[list[int]] = field(init=False, repr=False)
    takes: list[list[int]] = field(init=False, repr=False)
    members: list[list[int]] = field(init=False, repr=False)
    choices: list[tuple[int, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Fills in what follows from the rest."""
        # Frozen: what follows from the rest is filled in once, here.
        put = object.__setattr__
        put(self, "groups", tuple(self.groups) or tuple(range(len(self.seconds))))
        put(self, "limits", tuple(self.limits) or (inf,) * len(self.links))
        makes: list[list[int]] = [[] for _ in self.seconds]
        takes: list[list[int]] = [[] for _ in self.seconds]
        for v, value in enumerate(self.values):
            makes[value.maker].append(v)
            for taker in value.takers:
                takes[taker].append(v)
        members: list[list[int]] = [[] for _ in range(max(self.groups, default=-1) + 1)]
        for task, group in enumerate(self.groups):
            members[group].append(task)
        put(self, "makes", makes)
        put(self, "takes", takes)
        put(self, "members", members)
        devices = range(len(self.links))
        put(
            self,
            "choices",
            [tuple(d for d in devices if all(self.seconds[t][d] < inf for t in group)) for group in members],
        )

    @property
    def size(self) -> int:
        """Number of tasks."""
        return len(self.seconds)

    def send_seconds(self, value: int, source: int, target: int) -> float:
        """Returns how long a value takes from one device to another; nothing where they are the same."""
        return 0.0 if source == target else self.links[source][target].seconds(self.values[value].size)

    def mean_link(self) -> DeviceLink:
        """Returns a link that takes what values take between two different devices on average."""
        devices = range(len(self.links))
        between = [self.links[a][b] for a in devices for b in devices if a != b]
        if not between:
            return DeviceLink(0.0, inf)
        # Seconds a byte, not bytes a second: what is averaged is how long values take.
        pace = sum(1 / link.bytes_per_s for link in between) / len(between)
        return DeviceLink(sum(link.latency_s for link in between) / len(between), 1 / pace if pace else inf)


class TransferControl(NamedTuple):
    """The transfer of `value` to `device` does not begin before the task `after` has ended."""

    value: int
    device: int
    after: int


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where each task of a problem runs, and which goes first where several could.

    Attributes:
        device: By task.
        rank: By task; the lowest of those that are ready on a device runs first.
        after: Pairs (before, after) of tasks that must run in that order, whatever the values say.
        transfer_controls: Which transfers wait for more than their value.
    """

    device: tuple[int, ...]
    rank: tuple[float, ...]
    after: tuple[tuple[int, int], ...] = ()
    transfer_controls: tuple[TransferControl, ...] = ()
