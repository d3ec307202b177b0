"""The backend of a session: where its steps run, be it in this process or over many.

`Session` knows what a step is fed and fetches, who waits for whom, for how long, and how many may run at
once. What it asks of its backend stands here, and is all that differs between one process and many.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from actorflow.actors.system import ActorSystem
from actorflow.dataflow.engine.resources import InitialValue
from actorflow.errors import ActorflowError
from actorflow.graph.node import Port
from actorflow.runtime.tag import StepId
from actorflow.values.spec import Spec

Key = tuple[tuple[Port, ...], tuple[Port, ...], str]
"""The ports that are fetched and fed, and the variable whose initial value is fetched; empty for none."""

DROPPED = -1
"""The revision of a plan that no step may begin any more."""


@dataclass(slots=True, kw_only=True, eq=False)
class Plan:
    """What a session knows of a program for one set of fetches and feeds.

    Attributes:
        key: What it is for.
        revision: The backend's when it was made: steps may begin while that has not changed.
        feeds: Name and spec of what is fed.
        fetches: How many values come.
        hidden: How many of them, the last ones, nobody asked for.
        messages: Tokens that a step sends along its edges; over processes, those that go from one to another.
        fills: Resources that its steps put something into, as far as the backend counts those.
        uninitialised: Variables that it touches and that may have no value yet.
        target: What the backend begins a step with: the partition; over processes, the plan itself.
        ready: Whether it is prepared, and its variables have their initial values.
    """

    key: Key
    revision: int
    feeds: tuple[tuple[str, Spec], ...]
    fetches: int
    hidden: int
    messages: int
    fills: tuple[str, ...]
    uninitialised: frozenset[str]
    target: Any
    ready: bool = False


class PlanChanged(ActorflowError):
    """The plan of a step that waited for admission may not be used any more; nothing of it has begun."""


class SessionStep(Protocol):
    """A step, as a session sees it: a node of the wait-for graph.

    Attributes:
        id: Its number, in the order of calls; 0 where it computes an initial value.
        future: Gets the values, or the error.
        since: When it was asked for.
        deadline_s: How long it may take.
        bucket: Where the timer wheel keeps the deadline.
        parent: The step whose code runs it; None where there is none.
        ahead: While it waits for admission, gives the groups of steps of which one must end before.
    """

    id: StepId
    future: Future[list[Any]]
    since: float
    deadline_s: float | None
    bucket: Any
    parent: Any
    ahead: Callable[[], Sequence[Any]] | None

    def __init__(
        self, step: StepId, fetches: int, future: Future[list[Any]], deadline_s: float | None, since: float
    ) -> None: ...

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def lingers(self) -> bool:
        """Whether something of it may still happen though whoever ran it has its error."""
        ...

    def abort(self, error: BaseException) -> None:
        """Ends it with `error`."""
        ...

    def cancel(self) -> None:
        """Ends it because whoever ran it was cancelled, be it in the moment in which it ended well."""
        ...

    def forget(self) -> None:
        """Lets go of its error, the traceback of which knows the step: who ran it has the error."""
        ...

    def expire(self) -> None:
        """Ends it because its deadline has passed."""
        ...

    def blocked(self) -> Any:
        """Returns what it waits for."""
        ...


P = TypeVar("P", bound=Plan)
S = TypeVar("S", bound=SessionStep)


@dataclass(frozen=True, slots=True)
class SessionSteps:
    """The steps of a session, as its backend sees them.

    Attributes:
        limit: How many may run at once.
        live: Those that run.
        first: Those that compute initial values, and which.
        waiting: Those that wait for admission, with what they are fed.
        ended: Gives how many have ended so far.
        release: Hears that a step which lingered is over.
    """

    limit: int
    live: Mapping[Any, Any]
    first: Mapping[Any, tuple[Any, Any]]
    waiting: Mapping[Any, tuple[Any, Sequence[Any]]]
    ended: Callable[[], tuple[int, ...]]
    release: Callable[[Any], None]

    def running(self) -> list[tuple[Any, Any]]:
        """Returns the steps that run, those of initial values last, with their plans."""
        return [*self.live.items(), *((step, plan) for step, (plan, _) in self.first.items())]


class Backend(Protocol[P, S]):
    """Where the steps of a session run.

    Attributes:
        system: The actor system of the process in which the session is.
        owns_system: Whether that is the session's own.
        step_class: What makes a step that has not begun.
        settles: Whether somebody has to hear that the values of a step have reached whoever ran it.
        transfers: What went from one process to another in the steps that ended well.
    """

    system: ActorSystem
    owns_system: bool
    step_class: type[S]
    settles: bool

    @property
    def transfers(self) -> int: ...  # noqa: D102

    # -- life --------------------------------------------------------------------------------------

    async def enter(self, *, in_block: bool) -> None:
        """Opens the actor system, if that is its own.

        Args:
            in_block: Whether a block will leave it.
        """
        ...

    def open(self, steps: SessionSteps) -> None:
        """Makes what runs the steps of a session."""
        ...

    async def close(self) -> None:
        """Ends all but the actor system, once the steps have been aborted."""
        ...

    async def leave(self, *error: Any) -> None:
        """Leaves the actor system, if that is its own: with what ended the block, or closing it."""
        ...

    # -- plans -------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """What plans that are made now may be used under; it changes when all have to be made anew."""
        ...

    def make_plan(self, key: Key) -> P:
        """Plans what is fetched and fed."""
        ...

    def drop_plan(self, plan: P) -> None:
        """Lets go of a plan that no step will begin with."""
        ...

    async def prepare(self, plan: P) -> None:
        """Returns once steps may begin wherever the plan has them run."""
        ...

    def unprepared(self, plan: P) -> str:
        """Says what `prepare` still waits for; nothing once it is done."""
        ...

    # -- initial values ----------------------------------------------------------------------------

    def initial_value(self, name: str) -> InitialValue:
        """Returns what is known of the initial value of a variable."""
        ...

    async def initialise(
        self, name: str, compute: Callable[[], Awaitable[tuple[list[Any], S]]]
    ) -> Future[bool]:
        """Has the initial value of a variable computed, and gives it to the variable.

        Args:
            name: The variable.
            compute: Runs the step that computes it; returns its values, and the step.

        Returns:
            What tells whether the variable has taken it; settled whoever waits for that.
        """
        ...

    def unready(self, plan: P, first: InitialValue | None) -> AbstractContextManager[None]:
        """Has a step that waits for initial values be known as one that will fill resources, while inside.

        Args:
            plan: The step's.
            first: Which initial value it computes itself.
        """
        ...

    async def missing(self) -> list[str]:
        """Returns the names of the variables that have no value now, in the order of the graph."""
        ...

    # -- steps -------------------------------------------------------------------------------------

    @property
    def begin(self) -> Callable[[Any, S, Sequence[Any]], None]:
        """Begins a step with the target of its plan, and what it is fed; there once it is open."""
        ...

    def settle(self, step: S) -> None:
        """Hears that whoever ran a step has its values."""
        ...

    def own_step(self, step: Any) -> S | None:
        """Returns the step for which some code runs, if the session may know it; None else.

        Args:
            step: That of which the code is a part in this process; None for none.
        """
        ...

    def count_producer(self, fills: Sequence[str]) -> None:
        """Hears that a step is there which will put something into resources."""
        ...

    def uncount_producer(self, fills: Sequence[str], failure: BaseException | None) -> None:
        """Hears that such a step has ended, and why if not well."""
        ...

    def watch_admission(self) -> None:
        """Hears that a step begins to wait for admission."""
        ...

    # -- looking inside ----------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Returns what only this process counts, as `SessionStats` calls it."""
        ...

    def waits(self, step: S, plan: P) -> tuple[str, ...]:
        """Says what a step waits for, one sentence each."""
        ...

    def left(self, step: S) -> int:
        """Returns how many fetches of a step have not come."""
        ...

    def kernel_seconds(self, plans: Iterable[P]) -> dict[tuple[str, str], float]:
        """Returns what kernels take as measured, by node and device."""
        ...
