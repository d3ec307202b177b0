"""A pipeline as data: its stages, and how they are cut into the parts that run side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from actorflow.data.stages.stage import CallSite, Operator
from actorflow.data.values.chunk import CHUNK
from actorflow.data.workers.function_names import FunctionName

Length = float | None
"""How many elements a pipeline has: a whole number, inf, or None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Where the function of a map runs beside the event loop.

    Attributes:
        function: Of an element, and of a generator where `random`.
        count: How many threads or processes.
        name: Of the function, where it runs in processes; None for threads.
        ordered: Whether results keep the order of the elements.
        random: Whether the function takes chance.
        as_bits: Whether it takes that as bits, not as a generator.
        seed: Of the chance; None for a drawn one.
    """

    function: Callable[..., Any]
    count: int
    name: FunctionName | None
    ordered: bool
    random: bool
    as_bits: bool
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a pipeline.

    Attributes:
        call_site: Its name, and the user's line.
        settings: What it was given, as text; part of the pipeline's fingerprint.
        operator: (place, seed) -> the operator that runs it; None for a prefetch to the host.
        length: (elements that come) -> elements that leave.
        holds: Elements that it holds from one chunk to the next.
        gathers: How many elements it makes one of; None: one of one.
        scales: Whether an element that leaves is about as large as what it is made of.
        element_bytes: Else, the size of one, if the user has said it.
        looks: Whether which elements leave depends on their values.
        expands: Whether it may make several elements of one.
        workers: Where a map runs, if not inline.
        room: Elements that a prefetch holds.
        max_bytes: Bytes that the queue behind it holds; None: as many as its elements have.
        unseeded: Whether it draws, and was given no seed.
    """

    call_site: CallSite
    settings: str
    operator: Callable[[CallSite, int], Operator] | None
    length: Callable[[float], Length]
    holds: int = 0
    gathers: int | None = None
    scales: bool = True
    element_bytes: int | None = None
    looks: bool = False
    expands: bool = False
    workers: Workers | None = None
    room: int | None = None
    max_bytes: int | None = None
    unseeded: bool = False


@dataclass(slots=True)
class Part:
    """Stages that one actor runs: a map on workers, if any, then others, then a buffer.

    Attributes:
        map_stage: The stage whose workers what comes in goes through.
        stages: (index, stage) of the others.
        room: Elements that the buffer behind it holds.
        most: Elements that may leave it together, and that whoever takes from that buffer takes at once.
        limit: The stage whose `max_bytes` that buffer has, if any.
    """

    map_stage: tuple[int, Stage] | None = None
    stages: list[tuple[int, Stage]] = field(default_factory=list)
    room: int = 0
    most: int = CHUNK
    limit: Stage | None = None

    @property
    def empty(self) -> bool:
        """Whether it would do nothing."""
        return self.map_stage is None and not self.stages

    @property
    def gathers(self) -> bool:
        """Whether what leaves is batches."""
        return any(stage.gathers for _, stage in self.stages)

    @property
    def stacks(self) -> bool:
        """Whether what the map gives is copied into batches at once."""
        return bool(self.stages) and self.stages[0][1].gathers is not None and not self.stages[0][1].looks

    @property
    def max_bytes(self) -> int | None:
        """Bytes that the buffer behind it holds."""
        return None if self.limit is None else self.limit.max_bytes


def parts(stages: Sequence[Stage]) -> list[Part]:
    """Returns the parts that run side by side, the first of which reads the source."""
    found = [Part()]
    for k, stage in enumerate(stages):
        last = found[-1]
        if stage.room is not None:
            # A prefetch to a card is a map as well, the last before its buffer.
            if stage.operator is not None:
                last.stages.append((k, stage))
            last.room = stage.room
            last.limit = stage if stage.max_bytes is not None else None
            found.append(Part())
        # ORDER: a map on workers begins a part: what is before it runs while they work.
        elif stage.workers is not None:
            if not last.empty:
                last.room = 2 * stage.workers.count if last.gathers else CHUNK
                found.append(Part())
            found[-1].map_stage = (k, stage)
            if stage.max_bytes is not None:  # its own queue, right behind it
                batches = any(part.gathers for part in found)
                found[-1].room = 2 * stage.workers.count if batches else CHUNK
                found[-1].limit = stage
                found.append(Part())
        else:
            last.stages.append((k, stage))
    # A prefetch at the end: its buffer is what users take from.
    if len(found) > 1 and found[-1].empty:
        found.pop()
    if not found[-1].room:
        # One batch ready is enough behind batches; of single elements a chunk.
        found[-1].room = 1 if any(part.gathers for part in found) else CHUNK
    together = CHUNK
    for part in found:
        # Through all parts, since a batch stays one behind later buffers.
        for _, stage in part.stages:
            together = _combine(stage, together)
        part.most = together
    return found


def _combine(stage: Stage, before: int) -> int:
    """Returns how many elements leave a stage together, of those that come together: a batch is many."""
    if stage.expands:
        return CHUNK
    return max(1, before // stage.gathers) if stage.gathers else before


def seed_of(base: int, index: int) -> int:
    """Returns the seed of a stage that was given none, from the one that the stream has drawn."""
    # Spread by the golden ratio: stages that draw from one seed must not draw alike.
    return (base + 0x9E3779B97F4A7C15 * (index + 1)) % 2**63


def fingerprint(source: str, size: int | None, stages: Sequence[Stage]) -> str:
    """Returns a short text that differs for pipelines that give different elements."""
    told = [
        f"{source}, {size}",
        # A prefetch changes nothing of what comes out.
        *(f"{stage.call_site.label}: {stage.settings}" for stage in stages if stage.room is None),
    ]
    return blake2b("\n".join(told).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Holds:
    """What a stage may hold at once: so many elements, and bytes where the size of one is known."""

    label: str
    elements: int
    bytes: int | None

    def __str__(self) -> str:
        size = "" if self.bytes is None else f", {self.bytes} bytes"
        return f"{self.label}: {self.elements} elements{size}"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a pipeline may hold at once, chunks on their way included.

    Attributes:
        stages: Each stage, and each queue behind some of them.
        elements: Of all of them together; an element behind a batch is a batch.
        bytes: Likewise; None where the size of some elements is not known beforehand.
    """

    stages: tuple[Holds, ...]

    @property
    def elements(self) -> int:
        """Elements of all stages together."""
        return sum(stage.elements for stage in self.stages)

    @property
    def bytes(self) -> int | None:
        """Bytes of all stages together."""
        sizes = [stage.bytes for stage in self.stages]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))


def capacity(label: str, element_bytes: int | None, stages: Sequence[Stage]) -> Capacity:
    """Returns what a pipeline may hold at once.

    Of batches as many are together as have a chunk of elements. Behind a buffer with a limit of bytes no
    element has more.
    """
    found: list[Holds] = []
    size, chunk = element_bytes, CHUNK

    def add(name: str, count: int, limited: int = 0, most: int = 0) -> None:
        """So many elements, and `limited` more that have `most` bytes together, at most."""
        if size is None:
            found.append(Holds(name, count + limited, None))
        else:
            # The buffer ends at whichever limit comes first.
            inside = min(limited * size, most) if most else limited * size
            found.append(Holds(name, count + limited, count * size + inside))

    add(label, 3 * CHUNK)  # what is worked on, read ahead, and being read
    for part in parts(stages):
        if part.map_stage is not None:
            _, stage = part.map_stage
            assert stage.workers is not None
            under_way = 2 * stage.workers.count * chunk
            # Two chunks for each worker: one that it works on and one that waits.
            add(f"{stage.call_site.label}, to do", under_way)
            size = _least(stage.element_bytes, stage.max_bytes)
            add(f"{stage.call_site.label}, done", under_way + chunk)
        for _, stage in part.stages:
            add(stage.call_site.label, stage.holds)
            chunk = _combine(stage, chunk)
            if not stage.scales:
                size = stage.element_bytes
            elif size is not None and stage.gathers:
                size *= stage.gathers
            # What it works on has been counted by whoever gave it: this is what it makes.
            add(f"{stage.call_site.label}, on the way", chunk)
        size = _least(size, part.max_bytes)  # an element that alone has more is refused
        # As many elements as its room, and what was taken out of it and put into it last.
        add("queue", 2 * chunk, part.room, part.max_bytes or 0)
    return Capacity(tuple(found))


def _least(*sizes: int | None) -> int | None:
    return min((size for size in sizes if size is not None), default=None)
