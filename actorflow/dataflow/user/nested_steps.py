"""Steps within steps, run by code of the user that a node calls, by handlers, or by what feeds queues.

A step that such code runs is one within a step. Each wait for a step, and of a step for code, is an edge of
the wait-for graph, so that a ring through steps is found as one of actors is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from actorflow.actors.address import waiter_here
from actorflow.actors.ask import Ask
from actorflow.actors.task_carrier import HANDLING
from actorflow.actors.wait_rings import actor_of, blockers, open_rings
from actorflow.actors.waits import Blocked

if TYPE_CHECKING:
    from actorflow.actors.turns import Turns


class Waiter:
    """A node of the wait-for graph that is no actor.

    Attributes:
        name: What reports call it.
        awaits: The waits that it has now.
    """

    __slots__ = ("awaits", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.awaits: dict[Any, None] = {}

    def blocked(self) -> Blocked[Any]:
        """Returns what it waits for: the end of all."""
        return Blocked(tuple(wait for wait in self.awaits if not wait.void))


class Code(Waiter):
    """Code of the user that runs in a task of its own; tasks and threads that it begins inherit whose.

    It stands where else an actor would whose handler runs, so that an ask of it is an edge like any other.

    Attributes:
        step: The step for which it runs; None where it runs for none that is known.
        behind: Whose handler or code began it, if it is not its step's own.
        number: 0 while it runs: what it has left running waits for itself alone.
    """

    __slots__ = ("behind", "number", "step")

    reentrant = cancellable = False

    def __init__(self, name: str, step: Any = None, behind: Any = None) -> None:
        self.name = name  # without `super`: one is made for every call of a node
        self.awaits: dict[Any, None] = {}
        self.step = step
        self.behind = behind
        self.number = 0

    @property
    def label(self) -> str:
        """What a ring calls it: its step, if it has one."""
        return self.name if self.step is None else str(self.step.name)

    def enter(self, context: Context) -> None:
        """Has what runs in a context be of this code."""
        handling: Any = (self, 0)
        context.run(HANDLING.set, handling)

    def end(self) -> None:
        """It has ended."""
        self.number = 1
        if self.awaits:
            self.awaits.clear()


@dataclass(frozen=True, slots=True)
class Group:
    """Steps of which all must have ended before a place is free.

    Attributes:
        name: What reports call it.
        steps: The steps.
    """

    name: str
    steps: tuple[Any, ...]

    def blocked(self) -> Blocked[Any]:
        """Returns what it waits for: the end of all."""
        return Blocked(tuple(Await(self, step) for step in self.steps))


class Await:
    """One wait that is no message."""

    __slots__ = ("awaited", "waiter")

    asks = True
    void = False

    def __init__(self, waiter: Any, awaited: Any) -> None:
        self.waiter = waiter
        self.awaited = awaited

    def begin(self) -> None:
        """Notes the wait."""
        actor_of(self.waiter).awaits[cast("Any", self)] = None

    def end(self) -> None:
        """The wait is over."""
        actor_of(self.waiter).awaits.pop(cast("Any", self), None)


@contextmanager
def awaiting(waiter: Any, awaited: Any) -> Iterator[None]:
    """Has `waiter` wait for `awaited` while inside; None waits for nobody's sake.

    Raises:
        AskCycle: that closes a ring.
    """
    if waiter is None:
        yield
        return
    edge = Await(waiter, awaited)
    edge.begin()
    try:
        open_rings(edge)
        yield
    finally:
        edge.end()


def step_here() -> Any:
    """Returns the step for which this code runs; None where it runs for none."""
    handling: Any = HANDLING.get()
    return handling[0].step if handling is not None and type(handling[0]) is Code else None


def step_asking() -> Any:
    """Returns the step for which the handler that runs here works, through others or not; None without one.

    It looks up who asked whom, up to code of a step, which waits for the answer.
    """
    node: Any = waiter_here()
    seen = set()
    while node is not None and node not in seen:
        seen.add(node)
        if type(node) is Code:
            if node.step is not None:
                return node.step
            node = node.behind
            continue
        jobs = cast("Turns", actor_of(node)).jobs(node)
        question = next((job for job in jobs if type(job) is Ask), None)
        node = None if question is None else question.waiter
    return None


def node_of(ref: Any, reply: Any) -> Any:
    """Returns what works on a call of a step at the actor at `ref`; None where it is no code of the user."""
    at_work = getattr(getattr(ref, "behaviour", None), "at_work", None)
    return None if at_work is None else at_work(reply)


def steps_below(node: Any, is_step: Callable[[Any], bool]) -> list[Any] | None:
    """Returns the steps, and the like, for which `node` waits; None where it may go on by itself.

    Args:
        node: A node of the wait-for graph.
        is_step: Tells what is such a step: what that waits for in turn is not looked up.
    """
    found: list[Any] = []
    seen = {node}
    ahead = [node]
    while ahead:
        blocked = blockers(ahead.pop())
        if not (blocked.waits or blocked.runs) or not all(wait.asks for wait in blocked.waits):
            return None
        for after in (*(wait.awaited for wait in blocked.waits), *blocked.runs):
            if after in seen:
                continue
            seen.add(after)
            (found if is_step(after) else ahead).append(after)
    return found
