"""Whose turn it is: first come, first served, unless a strand is delayed.

A strand that comes up may be **delayed by k turns**: others that are ready go first, and it goes as soon as k
turns have passed and it comes up, or when nobody else can go. Time never passes for that, so no deadline
runs out because of it. One such entry moves a strand past whole conversations of others, where "run another
one once" would need an entry for each of their turns.

A schedule by priorities (PCT) picks among all that are ready. It is told in the same words: a strand
that was passed over was delayed by as many turns as it took until it was picked. So every run, by
whatever schedule, has a plan that repeats it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableSequence
from typing import TypeVar

from actorflow.sim.engine.choice import Choices, Deviation
from actorflow.sim.engine.schedulers import Ranks
from actorflow.sim.engine.strands import Strand

T = TypeVar("T")

PATIENCE = 512
"""So many turns at most go by rank past a strand that is first in line: asyncio is fair, and a program
may wait in a loop for what another strand does."""


class Order:
    """The turns of one run.

    Attributes:
        turn: How many turns were given.
        held: Who is delayed, and until which turn.
    """

    __slots__ = ("_passed", "choices", "held", "ranks", "turn")

    def __init__(self, choices: Choices, ranks: Ranks | None = None) -> None:
        self.choices = choices
        self.ranks = ranks
        self.turn = 0
        self.held: dict[Strand, int] = {}
        self._passed: dict[Strand, tuple[int, int]] = {}  # with ranks: (count, turn) at which it was passed

    def end(self) -> None:
        """Accounts for the strands that were passed over and had not gone when the run ended."""
        for strand in list(self._passed):
            self._end_pass(strand)

    def stop(self) -> None:
        """First come, first served from now on: what follows is no part of the run."""
        self.end()
        self.choices.stop()
        self.ranks = None
        self.held.clear()

    def take(self, queue: deque[T], strand_of: Callable[[T], Strand], *, others: bool) -> T | None:
        """Removes and returns the item whose turn it is.

        Args:
            queue: What is ready, in order of arrival; not empty.
            strand_of: Gives the strand of an item.
            others: Whether something outside `queue` is ready too.

        Returns:
            None when all in the queue are delayed and those others go first.
        """
        if len(queue) == 1 and not others:  # nobody to go first
            item = queue.pop()
            # It goes, however long it was to be delayed: nobody else can.
            if self.held or self._passed:
                self.release(strand_of(item))
            self.turn += 1
            return item
        if self.ranks is None and not self.held:  # _next, for the usual case: -0.5 us a step
            strand = strand_of(queue[0])
            aside = self.choices.choose(strand.point)
            if not aside:
                self.turn += 1
                return queue.popleft()
            # It stays where it is, and others go past it.
            self.held[strand] = self.turn + aside
        i = self._ranked(queue, strand_of) if self.ranks else self._next(queue, strand_of, others=others)
        if i is None:
            return None
        self.turn += 1
        item = queue[i]
        del queue[i]
        return item

    def _next(
        self, queue: MutableSequence[T], strand_of: Callable[[T], Strand], *, others: bool
    ) -> int | None:
        held = self.held
        for i, item in enumerate(queue):
            strand = strand_of(item)
            # Asked once before it goes, and not a second time: so nobody is delayed for ever.
            until = held.get(strand) if held else None
            if until is None:
                aside = self.choices.choose(strand.point)
                if aside <= 0:
                    return i
                held[strand] = self.turn + aside
            # Its turns have passed, and it comes up.
            elif self.turn >= until:
                del held[strand]
                return i
        if others:
            return None
        # All are delayed and nobody else can go: then the one whose delay ends first.
        strands = [strand_of(item) for item in queue]
        soonest = min(strands, key=held.__getitem__)
        del held[soonest]
        return strands.index(soonest)

    def delays(self, strand: Strand, queue: MutableSequence[T], strand_of: Callable[[T], Strand]) -> bool:
        """Asks whether a strand, which runs now, lets those in `queue` go first; delays it if so.

        That counts as a turn: who gives way and comes up again at once has still given way.
        """
        if self.ranks is not None:
            rank = self.ranks.rank(strand.label)
            way = any(self.ranks.rank(strand_of(item).label) > rank for item in queue)
            if way:
                self._pass_over(strand)
            else:
                self._count(strand)
        else:
            aside = self.choices.choose(strand.point)
            way = aside > 0
            if way:
                # Delayed as a strand that has come up is: the plan tells it in the same words.
                self.held[strand] = self.turn + aside
        self.turn += way
        return way

    def release(self, strand: Strand) -> None:
        """Lets a strand go on that was delayed, if it was."""
        self.held.pop(strand, None)
        if strand in self._passed:
            self._end_pass(strand)

    # -- by rank -----------------------------------------------------------------------------------

    def _ranked(self, queue: MutableSequence[T], strand_of: Callable[[T], Strand]) -> int:
        assert self.ranks is not None
        first: dict[Strand, int] = {}
        # The first item of each strand: within a strand the order stays.
        for i, item in enumerate(queue):
            first.setdefault(strand_of(item), i)
        strands = list(first)
        best = self.ranks.best([strand.label for strand in strands])
        oldest = self._passed.get(strands[0])
        # asyncio is fair, and a program may wait in a loop for what another strand does.
        if oldest is not None and self.turn - oldest[1] >= PATIENCE:
            best = 0
        # All before it in line are passed over: told as delayed by as many turns as it takes until they go.
        for strand in strands[:best]:
            if strand not in self._passed:
                self._pass_over(strand)
        chosen = strands[best]
        if chosen in self._passed:
            self._end_pass(chosen)
        else:
            self._count(chosen)
        return first[chosen]

    def _pass_over(self, strand: Strand) -> None:
        """Notes that a strand which came up has to wait for others of higher rank."""
        # Its count is that of the asking at which a plan would have delayed it.
        self._count(strand)
        self._passed[strand] = (strand.point.count, self.turn)

    def _end_pass(self, strand: Strand) -> None:
        nth, since = self._passed.pop(strand)
        # Within one turn it was passed over and picked: no delay at all.
        if self.turn > since:
            self.choices.taken.append(Deviation(strand.label, nth, f"+{self.turn - since}"))

    def _count(self, strand: Strand) -> None:
        strand.point.count += 1
