"""Obeys the rules of `supervision` for one group of actors.

A supervisor has no mailbox: it hears of a failure in the turn in which it happens, so nothing can
come between a failure and its directive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from actorflow.actors import supervision
from actorflow.actors.supervision import Children, Escalate, Restart, Stop, Strategy
from actorflow.errors import ActorError

if TYPE_CHECKING:
    from actorflow.actors.actor import Actor
    from actorflow.actors.ref import Ref
    from actorflow.actors.timer_wheel import Timer, TimerWheel
    from actorflow.runtime.clock import Clock, Entropy

log = logging.getLogger("actorflow.actors")


class Child(Protocol):
    """What a supervisor looks after: an actor, or another supervisor."""

    name: str

    @property
    def started(self) -> bool:
        """Whether its present incarnation has begun well."""
        ...

    def begin(self) -> None:
        """Begins the next incarnation."""
        ...

    def end(self, reason: BaseException | None, *, restart: bool) -> None:
        """Ends this incarnation; the parent hears `ended` if it is to restart, else `gone`."""
        ...


class Parent(Protocol):
    """Whom a child tells of its life."""

    def failed(self, child: Any, error: BaseException, cause: BaseException, *, told: bool) -> None:
        """Hears of a failure and decides, before it returns.

        Args:
            child: Who failed.
            error: The failure, placed.
            cause: What was raised; rules go by its type.
            told: Whether someone asked, and has been answered with the error.
        """
        ...

    def ended(self, child: Any) -> None:
        """Hears that a child that is to restart waits for `begin`."""
        ...

    def gone(self, child: Any, *, heard: bool) -> None:
        """Hears that a child is dead; `heard` says whether anyone was told the reason."""
        ...


class SupervisorSystem(Protocol):
    """What supervisors need of the actor system that they are in."""

    clock: Clock
    entropy: Entropy
    timer_wheel: TimerWheel

    def spawn_under(
        self,
        parent: Any,
        factory: Callable[..., Actor],
        args: tuple[Any, ...],
        name: str | None,
        max_messages: int = ...,
        max_bytes: int = ...,
    ) -> Ref:
        """Starts an actor under `parent`."""
        ...

    def supervisor_under(self, parent: Any, strategy: Strategy, name: str | None) -> Supervisor:
        """Returns a new group under `parent`."""
        ...

    def check_here(self) -> None:
        """Raises WrongLoop in any other thread and loop than that of the system."""
        ...

    def missed(self, child: Any, error: BaseException, cause: BaseException) -> bool:
        """Tells whether `child` failed since it is stopped later than others when the system is left."""
        ...


class _Round:
    """Children that restart together: first all end, then the wait, then all begin."""

    __slots__ = ("after_s", "names", "pending", "timer")

    def __init__(self, names: tuple[str, ...], after_s: float) -> None:
        self.names = dict.fromkeys(names)
        self.pending = set(names)
        self.after_s = after_s
        self.timer: Timer | None = None

    def drop(self, name: str) -> None:
        self.names.pop(name, None)
        self.pending.discard(name)
        # Nobody is left to begin.
        if not self.names and self.timer is not None:
            self.timer.cancel()


class Supervisor:
    """A group of actors, treated by one strategy; itself a child of another, or of the system.

    Made by `system.supervisor(strategy)` or `supervisor.supervisor(strategy)`.

    INVARIANT: a child is in at most one round of restarts.
    """

    __slots__ = (
        "_children",
        "_ending",
        "_over",
        "_pending",
        "_restarting",
        "_rounds",
        "_state",
        "name",
        "parent",
        "started",
        "strategy",
        "system",
    )

    def __init__(self, system: SupervisorSystem, parent: Parent, strategy: Strategy, name: str) -> None:
        self.system = system
        self.parent = parent
        self.strategy = strategy
        self.name = name
        self._children: dict[str, Child] = {}
        self._state = Children()
        self._rounds: dict[str, _Round] = {}
        self._ending = False
        self._over = False
        self._restarting = False
        self._pending: set[str] = set()
        self.started = True

    def spawn(self, factory: Callable[..., Actor], *args: Any, name: str | None = None, **limits: int) -> Ref:
        """Starts an actor in this group; see `ActorSystem.spawn`."""
        return self.system.spawn_under(self, factory, args, name, **limits)

    def supervisor(self, strategy: Strategy, *, name: str | None = None) -> Supervisor:
        """Returns a new group below this one."""
        return self.system.supervisor_under(self, strategy, name)

    def stop(self) -> None:
        """Stops the group and all in it."""
        self.system.check_here()
        self.end(None, restart=False)

    def join(self, child: Child) -> None:
        """Takes a new child in; raises ActorError when the group has stopped."""
        # A group that is to restart takes new ones in, which begin with the others.
        if self._over or (self._ending and not self._restarting):
            message = f"'{self.name}' takes no more actors: it was stopped"
            raise ActorError(message)
        self._children[child.name] = child
        self._state = supervision.joined(self._state, child.name)

    # -- what children tell ----------------------------------------------------------------------

    def failed(self, child: Any, error: BaseException, cause: BaseException, *, told: bool) -> None:
        """A child failed: does what the rules say."""
        # The system is left, and what it needed was stopped before it: that is no failure.
        if not told and self.system.missed(child, error, cause):
            child.end(None, restart=False)
            return
        directive = self.strategy.directive(cause, told=told, started=child.started)
        self._state, effect = supervision.failed(
            self._state,
            self.strategy,
            child.name,
            directive,
            now=self.system.clock.now(),
            chance=self.system.entropy.uniform(),
        )
        if isinstance(effect, Escalate):
            log.error("'%s' failed; '%s' escalates", child.name, self.name, exc_info=error)
            # A group whose child failed in its start has nothing to resume either.
            self.started = child.started
            self.parent.failed(self, error, cause, told=False)
            self.started = True
        elif isinstance(effect, Restart):
            log.warning(
                "'%s' failed; restart in %.3g s: %s",
                child.name,
                effect.after_s,
                ", ".join(effect.names),
                exc_info=error,
            )
            self._restart(effect, error)
        elif isinstance(effect, Stop):
            log.error("'%s' failed; stop: %s", child.name, ", ".join(effect.names), exc_info=error)
            for name in effect.names:
                self._children[name].end(error, restart=False)
        # Whoever asked has the error; of a tell it would be lost.
        elif not told:
            log.warning("'%s' failed and resumes", child.name, exc_info=error)

    def ended(self, child: Any) -> None:
        """A child waits for its next incarnation."""
        turn = self._rounds.get(child.name)
        if turn is not None:
            turn.pending.discard(child.name)
            self._begin_when_ready(turn)
        self._report(child.name)

    def gone(self, child: Any, *, heard: bool) -> None:
        """A child is dead."""
        self._children.pop(child.name, None)
        self._state = supervision.left(self._state, child.name)
        turn = self._rounds.pop(child.name, None)
        if turn is not None:
            turn.drop(child.name)
            # The others of its round may have waited for it alone.
            self._begin_when_ready(turn)
        self._report(child.name)

    # -- rounds ------------------------------------------------------------------------------------

    def _restart(self, effect: Restart, reason: BaseException) -> None:
        turn = _Round(effect.names, effect.after_s)
        for name in effect.names:
            # INVARIANT: in at most one round: a failure amid one moves its children into the next.
            former = self._rounds.pop(name, None)
            if former is not None:
                former.drop(name)
            self._rounds[name] = turn
        # The last started first, as with a stop.
        for name in reversed(effect.names):
            self._children[name].end(reason, restart=True)

    def _begin_when_ready(self, turn: _Round) -> None:
        if turn.names and not turn.pending and turn.timer is None:
            turn.timer = self.system.timer_wheel.after(turn.after_s, lambda: self._begin(turn))

    def _begin(self, turn: _Round) -> None:
        # Those that have died or joined another round since do not begin with this one.
        mine = [name for name in turn.names if self._rounds.get(name) is turn]
        for name in mine:
            del self._rounds[name]
        self._begin_all([self._children[name] for name in mine])

    def _begin_all(self, children: Sequence[Child]) -> None:
        """Begins `children`; one that ends the program keeps the others from nothing."""
        raised: BaseException | None = None
        for child in children:
            try:
                child.begin()
            except BaseException as error:  # noqa: BLE001  raised below
                raised = raised or error
        if raised is not None:
            raise raised

    # -- the group as a child ----------------------------------------------------------------------

    def begin(self) -> None:
        """Begins all children again, in the order in which they were started."""
        self._restarting = self._ending = False
        # A restarted group counts its restarts anew.
        self._state = Children(self._state.names)
        self._begin_all(tuple(self._children.values()))

    def end(self, reason: BaseException | None, *, restart: bool) -> None:
        """Ends all children, the last first."""
        if self._over:
            return
        self._ending = True
        self._restarting = restart
        # A round that waits would begin children that are ending.
        for turn in self._rounds.values():
            if turn.timer is not None:
                turn.timer.cancel()
        self._rounds.clear()
        # ORDER: counted before any ends: some end at once, and report.
        self._pending = set(self._children)
        for child in reversed(tuple(self._children.values())):
            child.end(reason, restart=restart)
        # An empty group has nobody to report for it.
        self._report("")

    def _report(self, name: str) -> None:
        """Tells the parent, once, when the last child has ended."""
        self._pending.discard(name)
        if not self._ending or self._pending:
            return
        # ORDER: once: `begin` may come within `ended`.
        self._ending = False
        if self._restarting:
            self.parent.ended(self)
        else:
            self._over = True
            self.parent.gone(self, heard=True)
