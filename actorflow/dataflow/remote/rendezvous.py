"""The rule of the rendezvous: how tokens of other processes meet the steps that wait for them here.

A step has a number, which grows in its session, and its StartPart comes in the order of numbers. A token may
be faster than StartPart, since it comes from another process: it waits here. It may be slower than the end of
its step: then it dies. So a session is told whole by the newest number that has been started and the few
steps that live: a number below that does not live is over for ever, and what has ended needs no memory.
An abort may be faster than StartPart as well; it is remembered until StartPart comes.

A process that starts again has another incarnation, a larger number. What an older one has sent is refused,
whenever it comes. And a process that starts again itself hears from which number on the steps of a session
concern it.

Waiting tokens are bounded: a token too many fails its step, not the others.

Pure: no actor, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple


class Early(NamedTuple):
    """A token that came before the StartPart of its step."""

    key: int
    value: Any
    source: str
    turns: tuple[int, ...] = ()


class Ruling(Enum):
    """What becomes of a token."""

    NOW = "now"  # its step lives here: offer it
    WAITS = "waits"  # kept until StartPart
    DROPPED = "dropped"  # its step or its session is over, or an older incarnation of its sender sent it
    TOO_MANY = "too many"  # dropped, and its step has to fail


@dataclass(slots=True)
class _Session:
    """The steps of one session as this process sees them.

    INVARIANT: every number in `states` is at most `newest`; every one in `aborted` or `early` is above.
    """

    newest: int
    states: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    early: dict[int, list[Early]] = field(default_factory=dict)


class Rendezvous:
    """The tokens and steps of one process.

    Args:
        max_early: How many tokens may wait for the StartPart of their steps.

    Attributes:
        early: How many wait.
        peak_early: The most that waited at once.
    """

    def __init__(self, max_early: int) -> None:
        self.max_early = max_early
        self.early = self.peak_early = 0
        self._sessions: dict[str, _Session] = {}
        self._incarnations: dict[str, int] = {}

    def __repr__(self) -> str:
        live = sum(len(s.states) for s in self._sessions.values())
        return f"<Rendezvous, {live} steps, {self.early}/{self.max_early} early (peak {self.peak_early})>"

    @property
    def empty(self) -> bool:
        """Whether nothing is left of any step."""
        return not any(s.states or s.aborted or s.early for s in self._sessions.values())

    # -- who there is ------------------------------------------------------------------------------

    def open(self, session: str, first: int) -> None:
        """Takes part in a session: its steps from number `first` on may come. Again changes nothing."""
        self._sessions.setdefault(session, _Session(first - 1))

    def close(self, session: str) -> None:
        """Forgets a session: what still comes of it dies."""
        gone = self._sessions.pop(session, None)
        if gone is not None:
            self.early -= sum(map(len, gone.early.values()))

    def meet(self, process: str, incarnation: int) -> None:
        """Hears of an incarnation of another process; what an older one has sent counts no more."""
        known = self._incarnations.get(process, incarnation)
        self._incarnations[process] = max(known, incarnation)
        if known >= incarnation:
            return
        for state in self._sessions.values():
            for number, tokens in tuple(state.early.items()):
                kept = [t for t in tokens if t.source != process]
                self.early -= len(tokens) - len(kept)
                if kept:
                    state.early[number] = kept
                else:
                    del state.early[number]

    # -- steps -------------------------------------------------------------------------------------

    def start(self, session: str, number: int) -> list[Early] | None:
        """Starts a step; returns what came before, in order. None when it is over already."""
        state = self._sessions.get(session)
        if state is None or number <= state.newest:
            return None
        state.newest = number
        over = number in state.aborted
        came = [] if over else state.early.pop(number, [])
        self.early -= len(came)
        self._pass_over(state)
        if over:
            return None
        state.states.add(number)
        return came

    def _pass_over(self, state: _Session) -> None:
        """Forgets what is said of steps that StartPart has passed over: they will not come here."""
        state.aborted = {n for n in state.aborted if n > state.newest}
        for number in [n for n in state.early if n <= state.newest]:
            self.early -= len(state.early.pop(number))

    def end(self, session: str, number: int) -> None:
        """Ends a step that lives: tokens that are late die from now on."""
        state = self._sessions.get(session)
        if state is not None:
            state.states.discard(number)

    def abort(self, session: str, number: int) -> None:
        """Ends a step whether or not it lives yet: one that has not been started never will be."""
        state = self._sessions.get(session)
        if state is None:
            return
        state.states.discard(number)
        if number > state.newest:
            state.aborted.add(number)
            self.early -= len(state.early.pop(number, ()))

    # -- tokens ------------------------------------------------------------------------------------

    def token(
        self,
        session: str,
        number: int,
        key: int,
        value: Any,
        source: str,
        incarnation: int,
        turns: tuple[int, ...] = (),
    ) -> Ruling:
        """Rules on a token that came from an `incarnation` of process `source`."""
        state = self._sessions.get(session)
        if state is None or self._incarnations.get(source) != incarnation:
            return Ruling.DROPPED
        if number in state.states:
            return Ruling.NOW
        if number <= state.newest or number in state.aborted:
            return Ruling.DROPPED
        if self.early >= self.max_early:
            self.abort(session, number)
            return Ruling.TOO_MANY
        state.early.setdefault(number, []).append(Early(key, value, source, turns))
        self.early += 1
        self.peak_early = max(self.peak_early, self.early)
        return Ruling.WAITS
