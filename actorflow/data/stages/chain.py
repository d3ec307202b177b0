"""A run of stages without anything between them: chunks in, chunks out, epoch after epoch.

Pure: no clock but the one for the meters, no loop. The same object takes a pipeline to a position
(`seek`) and runs a part of it (`pipeline_worker`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actorflow.data.stages.stage import CallSite, Operator
from actorflow.data.stages.stats import StageMeter
from actorflow.data.values.chunk import Chunk, nbytes

_NOTHING = Chunk([], [])


class Repeat(Operator):
    """Runs everything before it `count` times, or for ever; each time is an epoch.

    It lets elements through; at the end of an epoch it says whether there is another one. An epoch without
    elements is the last one of a `repeat` for ever, which would not end.
    """

    makes = False

    def __init__(self, place: CallSite, count: int | None) -> None:
        super().__init__(place)
        self._count = count
        self._done = 0
        self._empty = True

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives the chunk."""
        self._empty = False
        yield chunk

    def again(self) -> bool:
        """Counts an epoch, and says whether another one is to come."""
        self._done += 1
        # For ever, until one is empty: it would not end.
        empty, self._empty = self._empty, True
        return not empty if self._count is None else self._done < self._count

    def leave_out(self, epochs: int) -> int:
        """Counts epochs that nobody runs, and returns how many: the last one is always run."""
        # The last one is always run: something has to end.
        self._done = epochs if self._count is None else min(epochs, self._count - 1)
        return self._done

    def restart(self) -> None:
        """Begins to count again."""
        super().restart()
        self._done = 0
        self._empty = True


class Chain:
    """Operators one after the other.

    Args:
        operators: In the order in which elements meet them.
        meters: One for each: what it has done, and how long it took; none: nobody wants to know.
        now: Measures that; the operators have it as well.

    Attributes:
        makes: Whether what leaves is new, not what came.
        again: After `end`: whether another epoch is to be pushed; if not, the end goes on.
    """

    def __init__(
        self, operators: Sequence[Operator], meters: Sequence[StageMeter], now: Callable[[], float]
    ) -> None:
        self.operators = list(operators)
        self.meters = list(meters)
        self.again = False
        self._now = now
        for operator in operators:
            operator.now = now
        self.makes = any(operator.makes for operator in operators)
        # Only these hold anything: the sum is asked for at every chunk.
        self._holders = [operator for operator in operators if operator.holds]

    @property
    def full(self) -> bool:
        """Whether one of them wants no more elements in this epoch."""
        return any(operator.full for operator in self.operators)

    @property
    def bytes(self) -> int:
        """Bytes of the elements that they hold."""
        return sum(operator.bytes for operator in self._holders)

    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives what comes of a chunk, a part at a time; take all of it before the next.

        A part of which nothing came is an empty chunk: there may be any number of them, so whoever takes
        them gives others a turn.
        """
        return self._through(0, chunk)

    def end(self) -> Iterator[Chunk]:
        """The epoch ends: gives what is held, and sets `again`."""
        operators = self.operators
        self.again = False
        # What stands before a `take` that is full is not asked for more.
        start = max((k for k, operator in enumerate(operators) if operator.full), default=0)
        for k in range(start, len(operators)):
            operator = operators[k]
            # Its end is the end of one epoch: what stands before it begins again, and what stands behind goes
            # on.
            if isinstance(operator, Repeat) and operator.again():
                for before in operators[:k]:
                    before.restart()
                self.again = True
                return
            yield from self._behind(k, operator.end())

    def restart(self) -> None:
        """All begin again: something behind them repeats."""
        for operator in self.operators:
            operator.restart()

    def _through(self, k: int, chunk: Chunk) -> Iterator[Chunk]:
        if k == len(self.operators) or not chunk.values:
            yield chunk
        else:
            yield from self._behind(k, self.operators[k].push(chunk))

    def _behind(self, k: int, outs: Iterator[Chunk]) -> Iterator[Chunk]:
        """Gives what comes of all that stage `k` gives, until a stage behind it is full."""
        behind = self.operators[k + 1 :]
        for out in self._time(k, outs):
            nothing = True
            for piece in self._through(k + 1, out):
                nothing = False
                yield piece
            # What stands before a stage that is full does not work on: an error of elements that nobody wants
            # any more is none.
            if any(operator.full for operator in behind):
                return
            # Told, so that stages that give nothing do not keep the loop.
            if nothing:
                yield _NOTHING

    def _time(self, k: int, outs: Iterator[Chunk]) -> Iterator[Chunk]:
        return self._measure(self.meters[k], outs) if self.meters else outs

    def _measure(self, meter: StageMeter, outs: Iterator[Chunk]) -> Iterator[Chunk]:
        now = self._now
        while True:
            start = now()
            try:
                out = next(outs, None)
            finally:
                # The time until a failure counts as well.
                meter.busy_s += now() - start
            if out is None:
                return
            if out.values:
                meter.passed(len(out.values), nbytes(out.values[:1]))
            yield out
