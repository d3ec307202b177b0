"""The rule for rings of waits, behind promise 2: what to do when waiting closes one.

Actors wait for each other in two ways: for the answer to an ask, and for room in a mailbox (a
blocked outbox, a handler that awaits a tell). Every wait is an edge waiter → awaited, and an
actor goes on only when all its waits are over, so a ring of edges never opens by itself.

Source: T. M. Parks, "Bounded Scheduling of Process Networks", 1995, section 4.3: on a deadlock,
enlarge a full channel. Deviation: Parks enlarges the smallest one, for good; we lend room for one
message, where least is lent, and never more than the overdraft.

Pure rules: no clock, no loop, no actor; actors and runs are whatever can be hashed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class WaitEdge(Protocol):
    """One wait of one actor for another."""

    @property
    def waiter(self) -> Hashable:
        """Who waits."""
        ...

    @property
    def awaited(self) -> Hashable:
        """Whom it waits for."""
        ...

    @property
    def asks(self) -> bool:
        """True for the answer to an ask, false for room in the mailbox of `awaited`."""
        ...


E = TypeVar("E", bound=WaitEdge)


@dataclass(frozen=True, slots=True)
class Relieve(Generic[E]):
    """Let the message of `edge` in over the limit."""

    edge: E


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nothing can open the ring: raise to whoever closed it.

    Attributes:
        asks: True when the ring is of asks alone, false when the overdrafts are spent.
    """

    asks: bool


@dataclass(frozen=True, slots=True)
class Blocked(Generic[E]):
    """What an actor waits for before it goes on: the end of all `waits`, and of one of `runs`.

    In a fixed order, so that a replay finds the same ring. Both empty: nothing.
    """

    waits: tuple[E, ...] = ()
    runs: tuple[Hashable, ...] = ()


Blockers = Callable[[Hashable], Blocked[E]]


def ring(edge: E, blockers: Blockers[E]) -> tuple[E, ...] | None:
    """Returns a shortest ring that `edge` closes, `edge` first; None when it closes none.

    Args:
        edge: The newest wait.
        blockers: Says what an actor, or a run of a re-entrant one, waits for.
    """
    # 1. All that the awaited one waits for, directly or not.
    around = _reachable(edge.awaited, blockers)
    # 2. Those of them that cannot go on before the waiter does. A wait for one of several runs is over as
    # soon as any of them goes on, so a ring of edges alone is no proof.
    stuck = _find_stuck(edge.waiter, around)
    if edge.awaited not in stuck:
        return None
    # 3. Among these the shortest way back to the waiter, breadth first.
    came_by: dict[Hashable, tuple[Hashable, E | None]] = {edge.awaited: (edge.awaited, None)}
    ahead: deque[Hashable] = deque((edge.awaited,))
    while edge.waiter not in came_by:
        if not ahead:
            return None  # a ring that was there before, and has nothing to do with this wait
        node = ahead.popleft()
        blocked = around[node]
        steps: list[tuple[Hashable, E | None]] = [(wait.awaited, wait) for wait in blocked.waits]
        # From an actor to its runs there is a step, but no wait that could be relieved.
        steps += [(run, None) for run in blocked.runs]
        for after, wait in steps:
            if after in stuck and after not in came_by:
                came_by[after] = (node, wait)
                ahead.append(after)
    return (edge, *_path(edge.waiter, edge.awaited, came_by))


def _reachable(start: Hashable, blockers: Blockers[E]) -> dict[Hashable, Blocked[E]]:
    around: dict[Hashable, Blocked[E]] = {}
    ahead = [start]
    while ahead:
        node = ahead.pop()
        if node not in around:
            around[node] = blocked = blockers(node)
            ahead += [wait.awaited for wait in blocked.waits]
            ahead += blocked.runs
    return around


def _find_stuck(waiter: Hashable, around: dict[Hashable, Blocked[E]]) -> set[Hashable]:
    """Returns those that cannot go on before `waiter` does, by letting go on whoever can."""
    stuck = {waiter, *around}
    moved = True
    while moved:
        free = {
            node
            for node in stuck - {waiter}
            # All waits have to be over, but of its runs, which fill it, one that ends is enough.
            if not any(wait.awaited in stuck for wait in around[node].waits)
            and not (around[node].runs and stuck.issuperset(around[node].runs))
        }
        stuck -= free
        moved = bool(free)
    return stuck


def _path(last: Hashable, start: Hashable, came_by: dict[Hashable, tuple[Hashable, E | None]]) -> list[E]:
    path: list[E] = []
    node = last
    while node != start:
        node, wait = came_by[node]
        # from an actor to its run: no wait
        if wait is not None:
            path.append(wait)
    return path[::-1]


def judge_wait(closed: Sequence[E], overdraft: Callable[[Hashable], int]) -> Relieve[E] | Refuse:
    """Returns how to open a ring.

    Args:
        closed: The ring, from `ring`.
        overdraft: Gives how many more messages an actor's mailbox may take over its limit.
    """
    rooms = [edge for edge in closed if not edge.asks]
    # Asks alone: there is no room that could be lent.
    if not rooms:
        return Refuse(asks=True)
    # Where least is lent; the first of equals, so that a replay decides alike.
    most = max(rooms, key=lambda edge: overdraft(edge.awaited))
    return Relieve(most) if overdraft(most.awaited) > 0 else Refuse(asks=False)
