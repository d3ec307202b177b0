"""The rule of supervision: what happens to the children of a supervisor when one of them fails.

A rule for the exception says which directive applies, the kind says to whom: the one that failed, all, or it
and those started after it. A restart waits, each in a window longer than the one before.

Source: Erlang/OTP, "Supervisor Behaviour": strategies and restart intensity. Deviation: a restart
waits, and each failure picks its directive by exception, as in Akka.

Pure rules: no clock, no coin, no actor. `supervisor` obeys the effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto


class Directive(Enum):
    """What to do about a failure."""

    RESUME = auto()
    RESTART = auto()
    STOP = auto()
    ESCALATE = auto()


class Scope(Enum):
    """Whom a restart or a stop concerns."""

    ONE_FOR_ONE = auto()
    ALL_FOR_ONE = auto()
    REST_FOR_ONE = auto()


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long restarts wait: exponential, with jitter."""

    first_s: float = 0.05
    factor: float = 2.0
    max_s: float = 10.0
    jitter: float = 0.2

    def delay_s(self, nth: int, chance: float) -> float:
        """Returns the wait before the nth restart in a row; `chance` is drawn from [0, 1)."""
        try:
            wait_s = min(self.max_s, self.first_s * self.factor ** (nth - 1))
        # After so many restarts the power is too large for a float.
        except OverflowError:
            wait_s = self.max_s
        # Jitter keeps those that failed together from coming back together.
        return wait_s * (1 + self.jitter * (2 * chance - 1))


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a supervisor treats failures.

    Attributes:
        kind: Whom a restart or a stop concerns.
        on: The directive for an exception type; the nearest base class wins.
        otherwise: The directive for the failure of a tell, a signal or a hook that `on` does not name.
        max_restarts: Restarts allowed in any `window_s` seconds.
        window_s: Length of that window.
        backoff: How long a restart waits.
    """

    kind: Scope = Scope.ONE_FOR_ONE
    on: Mapping[type[BaseException], Directive] = field(default_factory=dict)
    otherwise: Directive = Directive.RESTART
    max_restarts: int = 3
    window_s: float = 5.0
    backoff: Backoff = Backoff()

    def directive(self, error: BaseException, *, told: bool, started: bool) -> Directive:
        """Returns the directive for `error`.

        Args:
            error: What the handler raised.
            told: Whether someone asked, and has been answered with the error.
            started: False when `on_start` failed: there is nothing to resume, so it stops.
        """
        # The nearest base class wins.
        named = (self.on[kind] for kind in type(error).__mro__ if kind in self.on)
        # Whoever asked was told of the error, so the actor may go on; of a tell nobody knows.
        chosen = next(named, Directive.RESUME if told else self.otherwise)
        # Without an `on_start` that ended well there is nothing to resume.
        return Directive.STOP if chosen is Directive.RESUME and not started else chosen


@dataclass(frozen=True, slots=True)
class Children:
    """Those that a supervisor looks after.

    INVARIANT: `names` are distinct, in the order in which they were started.
    INVARIANT: at most `max_restarts` of `restarts` lie in any window.
    """

    names: tuple[str, ...] = ()
    restarts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Resume:
    """The child takes its next message."""


@dataclass(frozen=True, slots=True)
class Stop:
    """These children stop; named in the order in which to stop them."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """These children end now, last first, and begin again, in this order, after `after_s`."""

    names: tuple[str, ...]
    after_s: float


@dataclass(frozen=True, slots=True)
class Escalate:
    """The supervisor itself has failed."""


Effect = Resume | Stop | Restart | Escalate


def joined(state: Children, name: str) -> Children:
    """Records a child that was spawned."""
    return replace(state, names=(*state.names, name))


def left(state: Children, name: str) -> Children:
    """Records a child that is dead."""
    return replace(state, names=tuple(other for other in state.names if other != name))


def failed(
    state: Children, strategy: Strategy, name: str, directive: Directive, *, now: float, chance: float
) -> tuple[Children, Effect]:
    """Records that child `name` failed and returns what to do about it.

    Args:
        state: The children.
        strategy: The supervisor's strategy.
        name: The child that failed.
        directive: What `strategy.directive` says about the failure.
        now: The time, in seconds.
        chance: A number from [0, 1), for the jitter.
    """
    if directive is Directive.RESUME:
        return state, Resume()
    if directive is Directive.ESCALATE:
        return state, Escalate()
    concerned = _affected(state.names, strategy.kind, name)
    if directive is Directive.STOP:
        # The last started first: whoever came later may rely on those before.
        return state, Stop(concerned[::-1])
    # INVARIANT: what has left the window is forgotten, so `restarts` stays short.
    recent = tuple(at for at in state.restarts if at > now - strategy.window_s)
    if len(recent) >= strategy.max_restarts:
        return replace(state, restarts=recent), Escalate()
    # The k-th in the window waits the longer, the larger k is.
    restarts = (*recent, now)
    return replace(state, restarts=restarts), Restart(
        concerned, strategy.backoff.delay_s(len(restarts), chance)
    )


def _affected(names: tuple[str, ...], kind: Scope, name: str) -> tuple[str, ...]:
    if kind is Scope.ALL_FOR_ONE:
        return names
    if kind is Scope.REST_FOR_ONE:
        # Those that were started after it may rely on it.
        return names[names.index(name) :]
    return (name,)
