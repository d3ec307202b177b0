"""Decides what to do when waiting closes a ring: the rule behind promise 2.

Actors wait for each other in two ways: for the answer to an ask, and for room in a mailbox (a
blocked outbox, a handler that awaits a tell). Every wait is an edge waiter → awaited, and an
actor goes on only when all its waits are over, so a ring of edges never opens by itself.

- A ring with a wait for room on it is opened by letting that message in over the limit, at the
  mailbox that has the most overdraft left. Each mailbox has a bounded overdraft; when all on the
  ring are spent, the actors make more messages than they finish, and the wait that closed the
  ring is refused.
- A ring of asks alone has no such way out: the ask that closed it is refused at once.

Source: T. M. Parks, "Bounded Scheduling of Process Networks", 1995, section 4.3: on a deadlock,
enlarge a full channel. Deviation: Parks enlarges the smallest one, for good; we lend room for one
message, where least is lent, and never more than the overdraft.

A re-entrant actor goes on while its handlers wait: each run of a handler is then a node of its own,
which waits for what that run awaits.

Pure rules: no clock, no loop, no actor; actors and runs are whatever can be hashed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Edge(Protocol):
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


E = TypeVar("E", bound=Edge)


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


def ring(edge: E, blockers: Callable[[Hashable], Iterable[E]]) -> tuple[E, ...] | None:
    """Returns a shortest ring that `edge` closes, `edge` first; None when it closes none.

    Args:
        edge: The newest wait.
        blockers: Gives the waits that an actor must see the end of before it takes another
            message; in a fixed order, so that a replay finds the same ring.
    """
    if edge.awaited == edge.waiter:
        return (edge,)
    came_by: dict[Hashable, E] = {}
    ahead: deque[Hashable] = deque((edge.awaited,))
    while ahead:
        for step in blockers(ahead.popleft()):
            if step.awaited in came_by or step.awaited == edge.awaited:
                continue
            came_by[step.awaited] = step
            if step.awaited == edge.waiter:
                return (edge, *_back(step, edge.awaited, came_by))
            ahead.append(step.awaited)
    return None


def _back(last: E, start: Hashable, came_by: dict[Hashable, E]) -> list[E]:
    path = [last]
    while path[-1].waiter != start:
        path.append(came_by[path[-1].waiter])
    return path[::-1]


def verdict(closed: Sequence[E], overdraft: Callable[[Hashable], int]) -> Relieve[E] | Refuse:
    """Returns how to open a ring.

    Args:
        closed: The ring, from `ring`.
        overdraft: Gives how many more messages an actor's mailbox may take over its limit.
    """
    rooms = [edge for edge in closed if not edge.asks]
    if not rooms:
        return Refuse(asks=True)
    most = max(rooms, key=lambda edge: overdraft(edge.awaited))
    return Relieve(most) if overdraft(most.awaited) > 0 else Refuse(asks=False)
