"""What the stages of a running pipeline have done: counted as it goes, and told for the progress view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class StageMeter:
    """The counts of one stage. The clock is read twice a chunk, sizes are of one element a chunk.

    Attributes:
        label: The stage.
        elements: Elements that it gave.
        bytes: About their size.
        busy_s: Time in which it worked; for a map on workers, of all workers.
        input_s: Time in which it waited for elements.
        room_s: Time in which it waited for room behind it.
        width: How many can work at once.
        fill: Elements that wait in its queue now.
        fill_bytes: Their bytes, each counted.
        room: Elements that its queue holds at most; 0 for a stage without.
        room_bytes: Bytes that it holds at most; None where elements alone are counted.
        largest: Bytes of the largest element seen.
    """

    __slots__ = (
        "busy_s",
        "bytes",
        "elements",
        "fill",
        "fill_bytes",
        "input_s",
        "label",
        "largest",
        "room",
        "room_bytes",
        "room_s",
        "width",
    )

    def __init__(self, label: str, width: int = 1, room: int = 0) -> None:
        self.label = label
        self.elements = self.bytes = self.largest = self.fill = self.fill_bytes = 0
        self.busy_s = self.input_s = self.room_s = 0.0
        self.width = width
        self.room = room
        self.room_bytes: int | None = None

    def passed(self, count: int, size: int) -> None:
        """Elements of about that size have left the stage."""
        self.elements += count
        # Of one element a chunk: all alike, as far as a progress view needs.
        self.bytes += count * size
        if size > self.largest:
            self.largest = size


class MemoryAccount:
    """Bytes that a running pipeline holds now, and held at most; one account for each holder."""

    __slots__ = ("_accounts", "now", "peak")

    def __init__(self) -> None:
        self._accounts: dict[Any, int] = {}
        self.now = 0
        self.peak = 0

    def hold(self, who: Any, amount: int) -> None:
        """`who` holds that many bytes from now on."""
        # What it held before is taken off: one account for each holder.
        self.now += amount - self._accounts.get(who, 0)
        self._accounts[who] = amount
        if self.now > self.peak:
            self.peak = self.now


@dataclass(frozen=True, slots=True)
class StageStats:
    """What one stage has done; shares are of the time since the stream was opened.

    Attributes:
        label: The stage.
        elements: Elements that it gave.
        bytes: About their size.
        rate: Elements a second.
        busy: Share of the time in which it worked; of a map on workers, of the time of all workers.
        waits_input: Share in which it waited for elements.
        waits_room: Share in which it waited for room behind it.
        fill: Elements in its queue now.
        room: Elements that its queue holds at most; 0 for a stage without.
        fill_bytes: Bytes of the elements in its queue, each counted.
        room_bytes: Bytes that its queue holds at most; None where only elements are limited.
    """

    label: str
    elements: int
    bytes: int
    rate: float
    busy: float
    waits_input: float
    waits_room: float
    fill: int
    room: int
    fill_bytes: int
    room_bytes: int | None

    def __str__(self) -> str:
        queue = f", queue {self.fill}/{self.room}" if self.room else ""
        if self.room_bytes is not None:
            queue += f", {self.fill_bytes}/{self.room_bytes} bytes"
        return f"{self.label}: {self.elements} elements, {self.rate:.4g}/s, busy {self.busy:.0%}{queue}"


@dataclass(frozen=True, slots=True)
class Stats:
    """What a stream has done since it was opened.

    Attributes:
        stages: In the order in which elements meet them.
        seconds: Since it was opened.
        elements: Handed out.
        waiting: Share of the time in which somebody waited for the next element: near 1 where the input
            is what limits, near 0 where whoever takes the elements is.
        bytes: Held by all stages now.
        peak_bytes: Held at most.
    """

    stages: tuple[StageStats, ...]
    seconds: float
    elements: int
    waiting: float
    bytes: int
    peak_bytes: int

    @property
    def bottleneck(self) -> StageStats | None:
        """The stage that is busy most, unless none has worked yet."""
        busiest = max(self.stages, key=lambda stage: stage.busy, default=None)
        return busiest if busiest is not None and busiest.busy > 0 else None

    def __str__(self) -> str:
        """One line for a progress view: "input-bound: map 'decode' 93 %"."""
        kind = "input-bound" if self.waiting >= 0.5 else "input keeps up"
        slowest = self.bottleneck
        return kind if slowest is None else f"{kind}: {slowest.label} {100 * slowest.busy:.0f} %"


def stats_of(meter: StageMeter, seconds: float) -> StageStats:
    """Returns what a meter shows after so many seconds."""

    def share(part: float) -> float:
        return part / seconds if seconds > 0 else 0.0

    return StageStats(
        label=meter.label,
        elements=meter.elements,
        bytes=meter.bytes,
        rate=share(meter.elements),
        # Of a map on workers, of the time of all of them.
        busy=share(meter.busy_s) / meter.width,
        waits_input=share(meter.input_s),
        waits_room=share(meter.room_s),
        fill=meter.fill,
        room=meter.room,
        fill_bytes=meter.fill_bytes,
        room_bytes=meter.room_bytes,
    )


def combine_stats(first: Stats, second: Stats) -> Stats:
    """Returns what two streams have done, one after the other, as if they had been one.

    Stages are the same where label and place are; those of one stream alone keep their counts.
    """
    seconds = first.seconds + second.seconds

    def share(a: float, b: float) -> float:
        return (a * first.seconds + b * second.seconds) / seconds if seconds > 0 else 0.0

    def keyed(stats: Stats) -> dict[tuple[int, str], StageStats]:
        return {(k, stage.label): stage for k, stage in enumerate(stats.stages)}

    before, after = keyed(first), keyed(second)
    found = []
    for key in {**before, **after}:
        label = key[1]
        a, b = before.get(key, _idle(label)), after.get(key, _idle(label))
        found.append(
            StageStats(
                label=label,
                elements=a.elements + b.elements,
                bytes=a.bytes + b.bytes,
                # Shares are of the time of both streams together.
                rate=share(a.rate, b.rate),
                busy=share(a.busy, b.busy),
                waits_input=share(a.waits_input, b.waits_input),
                waits_room=share(a.waits_room, b.waits_room),
                # What is there now is that of the later one.
                fill=b.fill,
                room=b.room or a.room,
                fill_bytes=b.fill_bytes,
                room_bytes=a.room_bytes if b.room_bytes is None else b.room_bytes,
            )
        )
    return Stats(
        stages=tuple(found),
        seconds=seconds,
        elements=first.elements + second.elements,
        waiting=share(first.waiting, second.waiting),
        bytes=second.bytes,
        peak_bytes=max(first.peak_bytes, second.peak_bytes),
    )


def _idle(label: str) -> StageStats:
    return stats_of(StageMeter(label), 0.0)
