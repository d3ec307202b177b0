"""The discovery client tells the chief where its process is, dials whom that names, and notices its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.cluster.process.directory import dials, merge_table
from actorflow.cluster.process.messages import UNREACHED, AddressTable, AnnounceAddress
from actorflow.cluster.process.process import CHIEF
from actorflow.errors import ActorflowError, CoordinatorLost, PeerRefused
from actorflow.runtime.messages import Terminated


@dataclass(frozen=True, slots=True)
class ChiefTimeouts:
    """How long a process waits for its chief.

    Attributes:
        ready_s: For its first word.
        lost_s: For it to come back.
        again_s: Before it is asked again.
        answer_s: For one answer.
        over_s: Before it believes, of a chief that it does not know, that the job is complete: another one
            may be about to begin.
    """

    ready_s: float = 60.0
    lost_s: float = 10.0
    again_s: float = 0.1
    answer_s: float = 1.0
    over_s: float = 3.0


CHIEF_TIMEOUTS = ChiefTimeouts()

_KEYS = (
    "--keys FILE, the same file for all processes, which `actorflow keys` makes; else look at --coordinator: "
    "is it the address of a chief?"
)


@dataclass(frozen=True, slots=True)
class _AskNow:
    """DiscoveryClient → itself: time to ask the directory."""


@dataclass(frozen=True, slots=True)
class _Believe:
    """DiscoveryClient → itself: a chief of another job would have answered by now."""


@dataclass(frozen=True, slots=True)
class _Enough:
    """DiscoveryClient → itself: the chief that was lost as number `loss` should be back by now."""

    loss: int


class DiscoveryClient(Actor):
    """Keeps the ways of a process to those that it dials; in every process but the chief's.

    **Receives** AddressTable of the directory, and Terminated when that is out of reach.
    **Sends** AnnounceAddress to the directory, asked: at the start, and whenever the chief was lost.
    **Promise** what the directory knew at its last answer is dialled; a chief that stays away, or comes
        back without what it knew, is told once.

    Args:
        mine: Where this process is.
        directory: At the chief.
        dial: Called with each earlier process that is known, and again when its address changes.
        gone: Called with why this process cannot go on.
        timeouts: How long the chief may be away.
        refusal: Says how the chief refuses this process; "" when it does not.
        over: Says that the job is complete, None when nobody knows that: called with the incarnation of the
            chief, 0 for one that is not known, and whether another one would have answered by now.
    """

    def __init__(
        self,
        mine: AnnounceAddress,
        directory: Ref,
        dial: Callable[[AnnounceAddress], None],
        gone: Callable[[ActorflowError], None],
        timeouts: ChiefTimeouts,
        refusal: Callable[[], str] = lambda: "",
        over: Callable[[int, bool], ActorflowError | None] = lambda _chief, _waited: None,
    ) -> None:
        self._mine = mine
        self._directory = directory
        self._dial = dial
        self._gone = gone
        self._timeouts = timeouts
        self._refusal = refusal
        self._over = over
        self._waited = False
        self._table = AddressTable((mine,))
        self._chief = 0  # its incarnation
        self._losses = 0
        self._away = True

    def on_start(self) -> None:
        """Asks for the first time."""
        self.ref.signal(_AskNow())
        self.after(self._timeouts.ready_s, _Enough(0))
        self.after(self._timeouts.over_s, _Believe())

    async def receive(self, message: Any) -> None:
        """Asks, hears, or has waited long enough."""
        match message:
            case AddressTable():
                self._learn(message)
            case Terminated():
                if not self._away:
                    self._away = True
                    self._losses += 1
                    self.after(self._timeouts.lost_s, _Enough(self._losses))
                self.after(self._timeouts.again_s, _AskNow())
            case _AskNow():
                await self._ask()
            case _Believe():
                self._waited = True
            case _Enough(loss):
                if self._away and loss == self._losses:
                    self._gone(self._chief_lost_error())

    async def _ask(self) -> None:
        try:
            table = await self._directory.ask(self._mine, self._timeouts.answer_s)
        except UNREACHED:
            over = self._over(self._chief, self._waited)
            if over is not None:
                self._gone(over)
            else:
                self.after(self._timeouts.again_s, _AskNow())
        except ActorflowError as error:
            self._gone(error)
        else:
            self._away = False
            self._directory.watch(self.ref)
            self._learn(table)

    def _learn(self, table: AddressTable) -> None:
        chief = table.find(CHIEF)
        if chief is not None:
            if self._chief and chief.incarnation != self._chief:
                message = "the chief has begun anew, and knows nothing of what this process is part of"
                self._gone(CoordinatorLost(message, hint="start this process again: it joins the new run"))
                return
            self._chief = chief.incarnation
        before, self._table = self._table, merge_table(self._table, table.entries)
        for entry in self._table.entries:
            new = entry != before.find(entry.name)
            if new and entry.name != CHIEF and dials(self._mine.name, entry.name):
                self._dial(entry)

    def _chief_lost_error(self) -> ActorflowError:
        patience, refusal = self._timeouts, self._refusal()
        if refusal:
            message = f"a process and its chief have a key in common; {refusal}"
            return PeerRefused(message, hint=_KEYS)
        if self._chief:
            message = f"the chief is gone, and has not come back for {patience.lost_s:g} s"
            return CoordinatorLost(message, hint="look at how it ended: the job may be over")
        message = f"the chief has not answered for {patience.ready_s:g} s"
        hint = "start it, and look at --coordinator: is it its address? Or the job may be over"
        return CoordinatorLost(message, hint=hint)
