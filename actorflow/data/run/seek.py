"""Takes a pipeline to a position: runs its stages past what was given, and makes only what they still hold.

Functions of maps are put off (`deferred`), and so is reading the source, unless which elements leave
depends on their values (filter, flat_map, bucket) or nobody knows where an epoch ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from actorflow.actors.address import tick
from actorflow.data.run.pipeline_plan import Length, Stage
from actorflow.data.run.reader import StageReader
from actorflow.data.stages.batching import BatchStage
from actorflow.data.stages.chain import Chain, Repeat
from actorflow.data.stages.operators import Map
from actorflow.data.stages.stage import Operator
from actorflow.data.values.chunk import CHUNK, Chunk, epoch_of, nbytes, numbers, ordinal_of
from actorflow.data.values.deferred import Leaf, leaves, materialise
from actorflow.errors import InputError

_TURN = 256  # elements between two turns of everybody else
_PIECES = 4  # parts of what comes of them, likewise


@dataclass(slots=True)
class ResumePoint:
    """Where a run begins.

    Attributes:
        epoch: Of the source.
        ordinal: The first element to read in it.
        over: Whether there is nothing more to read at all.
        left: What leaves the last stage before that.
    """

    epoch: int = 0
    ordinal: int = 0
    over: bool = False
    left: Iterable[Chunk] = field(default_factory=tuple)


Opener = Callable[[int, int], StageReader]
"""(epoch, ordinal) -> a reader of the source that begins there."""


async def seek(
    opened: Opener,
    size: int | None,
    stages: Sequence[Stage],
    operators: Sequence[Operator | None],
    taken: int,
) -> ResumePoint:
    """Takes the operators past `taken` elements, and returns where to go on.

    Args:
        opened: Opens the source.
        size: Elements of an epoch, if known.
        stages: Of the pipeline.
        operators: Of the stages; left as they were when the last of those elements had been given.
        taken: How many.
    """
    running = [operator for operator in operators if operator is not None]
    for operator in running:
        operator.lazy = True
    # Which elements leave depends on their values: they have to be read.
    known = None if any(stage.looks for stage in stages) else size
    # No more elements are pushed at once than are missing, and one by one where a stage makes several of one:
    # so every stage is exactly where it was when the last element of the position had left.
    most = 1 if any(stage.expands for stage in stages) else CHUNK
    # Whole epochs at once, where that is known to change nothing.
    epoch, given = (0, 0) if known is None else _jump(known, stages, operators, taken)
    walk = _Seek(Chain(running, (), lambda: 0.0), taken, given, most)
    start = await walk.run(opened, known, epoch)
    held = [values for operator in running for values in operator.held_elements()]
    # Only what the stages still hold is read and computed, once the position is reached.
    await _read(leaves(value for values in [*held, walk.left] for value in values), opened)
    for operator in running:
        operator.lazy = False
        for values in operator.held_elements():
            for i, value in enumerate(values):
                values[i] = materialise(value)
                # Computing what was put off may take long: others have their turn.
                if i % _TURN == 0:
                    await tick()
        operator.bytes = sum(nbytes(values) for values in operator.held_elements())
    # What left with the last element of the position, but after it, is given first.
    start.left = _chunks_of(walk.left, walk.numbers)
    return start


def _jump(
    size: int, stages: Sequence[Stage], operators: Sequence[Operator | None], taken: int
) -> tuple[int, int]:
    """Takes operators past whole epochs, after each of which they are the same: (epochs, what those gave).

    That is so behind a single `repeat` that only maps follow, and at most one batch.
    """
    repeats = [k for k, operator in enumerate(operators) if isinstance(operator, Repeat)]
    # Epochs within epochs.
    if len(repeats) != 1:
        return 0, 0
    [at] = repeats
    tail = [operator for operator in operators[at + 1 :] if operator is not None]
    batches = [operator for operator in tail if isinstance(operator, BatchStage)]
    # A stage with a memory behind the repeat is another one after each epoch.
    if len(batches) > 1 or not all(isinstance(operator, Map | BatchStage) for operator in tail):
        return 0, 0
    each: Length = size
    for stage in stages[:at]:
        each = None if each is None else stage.length(each)
    if not each:
        return 0, 0
    count, width = int(each), batches[0].size if batches else 1
    repeat = operators[at]
    assert isinstance(repeat, Repeat)
    # One epoch at least is left to run: its elements are before the position, and those that a batch holds
    # from one epoch to the next are in the first batch after the jump.
    epochs = repeat.leave_out((taken - 1) * width // count)
    for operator in operators[:at]:
        if operator is not None:
            operator.jump(epochs)
    given, over = divmod(epochs * count, width)
    for batch in batches:
        # As many as such a batch would hold: which ones does not matter, for it is before the position.
        batch.fill(over, given)
    return epochs, given


def _chunks_of(values: list[Any], numbers: list[int]) -> Iterator[Chunk]:
    for value, whose in zip(values, numbers, strict=True):
        yield Chunk([materialise(value)], [whose])


class _Seek:
    """A chain on its way to a position.

    Attributes:
        left: What left it with the last element of the position, but after it.
        numbers: Of those.
    """

    def __init__(self, chain: Chain, taken: int, given: int, most: int) -> None:
        self._chain = chain
        self._most = most
        self._missing = taken - given
        self._taken = taken
        self.left: list[Any] = []
        self.numbers: list[int] = []

    async def run(self, opened: Opener, size: int | None, epoch: int) -> ResumePoint:
        """Pushes elements, from an epoch on, until the position is reached; with a size, without reading."""
        chain = self._chain
        while True:
            ordinal = 0
            # With a known size nothing is read: elements are stood for by their numbers.
            inlet = opened(epoch, 0) if size is None else None
            try:
                while self._missing and not chain.full:
                    if inlet is not None:
                        chunk = await inlet.want()
                        values = [] if chunk is None else chunk.values
                    else:
                        assert size is not None
                        whose = numbers(epoch, ordinal, min(size - ordinal, _TURN))
                        values = [Leaf(each) for each in whose]
                        await tick()
                    if not values:
                        break
                    ordinal += await self._push(values, epoch, ordinal)
            finally:
                if inlet is not None:
                    await inlet.close()
            if not self._missing:
                return ResumePoint(epoch, ordinal)
            await self._count(chain.end())
            if not chain.again:
                if self._missing:
                    # The pipeline is shorter than the position says.
                    raise self._ended()
                return ResumePoint(epoch, ordinal, over=True)
            epoch += 1
            if not self._missing:
                return ResumePoint(epoch, 0)

    def _ended(self) -> InputError:
        reached, taken = self._taken - self._missing, self._taken
        what = f"the pipeline must give the same elements again, but ended after {reached} of the {taken} "
        hint = "has a file become shorter, or does a generator go on with what another pass has begun?"
        return InputError(f"{what}before the position", hint=hint)

    async def _push(self, values: list[Any], epoch: int, ordinal: int) -> int:
        """Pushes elements until the position is reached, and returns how many."""
        at = 0
        while at < len(values) and self._missing and not self._chain.full:
            part = values[at : at + min(self._missing, self._most)]
            await self._count(self._chain.push(Chunk(part, numbers(epoch, ordinal + at, len(part)))))
            at += len(part)
        return at

    async def _count(self, outs: Iterable[Chunk]) -> None:
        for i, out in enumerate(outs, 1):
            if i % _PIECES == 0:  # one element may become any number
                await tick()
            # Of what leaves with the last missing element the rest is given first.
            cut = min(self._missing, len(out))
            self._missing -= cut
            self.left.extend(out.values[cut:])
            self.numbers.extend(out.numbers[cut:])


async def _read(wanted: list[Leaf], opened: Opener) -> None:
    """Reads these elements of the source, each epoch once, forward."""
    by_epoch: dict[int, dict[int, Leaf]] = defaultdict(dict)
    for leaf in wanted:
        by_epoch[epoch_of(leaf.number)][ordinal_of(leaf.number)] = leaf
    # Each epoch once, forward.
    for epoch, missing in sorted(by_epoch.items()):
        at, last = min(missing), max(missing)
        inlet = opened(epoch, at)
        try:
            while at <= last:
                chunk = await inlet.want()
                if chunk is None:
                    break
                for i, value in enumerate(chunk.values, at):
                    if i in missing:
                        missing[i].value = value
                at += len(chunk)
        finally:
            await inlet.close()
