"""Verbs for many actors at once: each ends with who took part, and who did not and why.

A result of these is never mistaken for that of all: say which part is meant, `all()` of all actors or an
error, `answered` or `told` of those that took part, `failed` of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from actorflow.actors.address import Address, deadline
from actorflow.actors.ref import DONE, Proxy, Ref
from actorflow.actors.remote.presence import PresenceQuestion
from actorflow.actors.remote.ref import RemoteRef
from actorflow.actors.tombstones import REASON, reason_of
from actorflow.errors import (
    ActorDied,
    ActorflowError,
    ConfigError,
    DeadlinePassed,
    Incomplete,
    WireError,
    pluralise,
    shorten,
    show_value,
)

_LIMIT_S = 5.0
"""How long a ref of a kind of its own waits where nobody says."""

_NAMED = 8
"""How many of those that failed a text names."""


class _GroupOutcome:
    """What came of a message to many."""

    __slots__ = ("_good", "_kind", "failed", "refs")

    _verb = ""

    def __init__(self, refs: Sequence[Ref], kind: str, good: dict[Ref, Any], failed: dict[Ref, Any]) -> None:
        self.refs = tuple(refs)
        self.failed: Mapping[Ref, ActorflowError] = MappingProxyType(failed)
        self._kind = kind
        self._good = good

    @property
    def complete(self) -> bool:
        """Whether all took part."""
        return not self.failed

    def _check(self) -> None:
        if self.failed:
            raise Incomplete(str(self), hint=f".{self._verb} has those that took part, .failed the others")

    def _no(self, what: str) -> NoReturn:
        message = (
            f"{what} what came of a message to {pluralise(len(self.refs), 'actor')}: some may have failed"
        )
        hint = f".all() of all or an error, .{self._verb} of those that took part, .failed of the others"
        text = f"{message}\n  try:   {hint}"
        raise TypeError(text)

    # Whoever writes `for`, `len` or `if` means all of them, and would take a part for the whole.
    def __iter__(self) -> Iterator[Any]:
        self._no("nobody goes through")

    def __len__(self) -> int:
        self._no("nobody counts")

    def __bool__(self) -> bool:
        self._no("nobody tests")

    def __str__(self) -> str:
        head = f"{len(self._good)} of {pluralise(len(self.refs), 'actor')} {self._verb} {self._kind}"
        lines = [
            f"'{ref.name}': {type(error).__name__}: {reason_of(error)}"
            for ref, error in list(self.failed.items())[:_NAMED]
        ]
        if len(self.failed) > _NAMED:
            lines.append(f"and {len(self.failed) - _NAMED} more")
        return "\n    ".join([shorten(head, REASON), *lines])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


class Answers(_GroupOutcome):
    """Who answered what, and who did not and why; the result of `ask_all`.

    Attributes:
        refs: Whom the question was for, in order.
        failed: By ref, why there is no answer: ActorDied says when it died and why.
    """

    __slots__ = ()

    _verb = "answered"

    @property
    def answered(self) -> Mapping[Ref, Any]:
        """By ref, the answers that there are."""
        return MappingProxyType(self._good)

    def all(self) -> list[Any]:
        """Returns the answers of all, in the order of the refs.

        Raises:
            Incomplete: some have not answered; names them with why.
        """
        self._check()
        return [self._good[ref] for ref in self.refs]

    def __getitem__(self, ref: Ref) -> Any:
        """Returns the answer of one; raises its error where there is none."""
        error = self.failed.get(ref)
        if error is not None:
            # A copy: each raise adds a traceback to the error, and this one may be looked up again.
            raise error.copy()
        return self._good[ref]


class Told(_GroupOutcome):
    """Who has the message, and who has not and why; the result of `tell_all`.

    Attributes:
        refs: Whom the message was for, in order.
        failed: By ref, why it has nothing: ActorDied says when it died and why.
    """

    __slots__ = ()

    _verb = "told"

    @property
    def told(self) -> tuple[Ref, ...]:
        """Those that have it, in the order of the refs."""
        return tuple(self._good)

    def all(self) -> None:
        """Returns when all have it.

        Raises:
            Incomplete: some have not; names them with why.
        """
        self._check()


async def ask_all(refs: Iterable[Ref], message: Any, deadline_s: float | None = None) -> Answers:
    """Asks several actors the same, side by side, and returns who answered what and who did not.

    One that is dead, or fails, or is late keeps no other from answering. It ends by the deadline.

    Args:
        refs: Whom to ask, of this process and of others; each once.
        message: The question.
        deadline_s: How long each may take; None takes the system's.

    Returns:
        The partial result: `.all()` is the list of answers, or an error that names who has not answered.

    Raises:
        ConfigError: something among `refs` is no ref, or is there twice; then nobody is asked.
        ValueError: nobody could wait for the deadline.
        WrongLoop: in another thread or event loop than that of the actors; likewise.

    Example:
        answers = await af.ask_all(mesh, "how many?")
        for ref, number in answers.answered.items():
            print(ref.name, number)
        for ref, error in answers.failed.items():
            print(ref.name, "does not answer:", error)
    """
    whom = _check_refs(refs, asking=True)
    # ORDER: refused before anybody is asked.
    if deadline_s is not None:
        deadline_s = deadline(deadline_s)
    ends = await _together(_end(ref.ask(message, deadline_s)) for ref in whom)
    return Answers(whom, type(message).__name__, *_split(whom, ends))


async def tell_all(refs: Iterable[Ref], message: Any, deadline_s: float | None = None) -> Told:
    """Tells several actors the same, and returns who has the message and who has not.

    An actor of this process has it when it is in its mailbox, which may take a wait for room. One of another
    process has it when it was there after the message had come, which takes a question to that process; of
    one that died about then nobody knows whether it has handled the message.

    Args:
        refs: Whom to tell, of this process and of others; each once.
        message: What to tell.
        deadline_s: How long to wait for room, or for another process; None takes the system's.

    Returns:
        The partial result: `.all()` raises an error that names who has not got the message.

    Raises:
        ConfigError: something among `refs` is no ref, or is there twice; then nobody is told. A ref of a
            simulated host is none of these: nobody hears of what its network loses.
        ValueError: nobody could wait for the deadline.
        WrongLoop: in another thread or event loop than that of the actors; likewise.
    """
    whom = _check_refs(refs, asking=False)
    # ORDER: a limit that nobody could wait for is refused before anybody is told.
    limits = {ref: _limit_s(ref, deadline_s) for ref in whom}
    ends: dict[Ref, _Failed | None] = {}
    waiting: list[Coroutine[Any, Any, None]] = []
    there: dict[Any, list[RemoteRef]] = {}

    async def told(ref: Ref, telling: Awaitable[None]) -> None:
        """Notes how a tell ends that has to wait, or for which it is too late."""
        try:
            async with asyncio.timeout(limits[ref]):
                # There was room, but the actor may have died while the tell waited for it.
                ends[ref] = await _end(telling) or _dead(ref, message)
        except TimeoutError:
            ends[ref] = _Failed(DeadlinePassed(_late(ref, message, limits[ref])))

    async def handed_over(ref: Proxy) -> None:
        error = await _end(ref.tell_error(message, deadline_s))
        ends[ref] = _Failed(error) if isinstance(error, ActorflowError) else error

    for ref in whom:
        if isinstance(ref, Proxy):
            waiting.append(handed_over(ref))
            continue
        # ORDER: looked at before it is told, since the message may be what ends it.
        dead = _dead(ref, message)
        try:
            telling = ref.tell(message)
        except ActorflowError as error:
            ends[ref] = _Failed(error)
            continue
        # As good as told, until a wait or another process says otherwise.
        ends[ref] = dead
        if telling is not DONE:
            waiting.append(told(ref, telling))
        # Such a tell is done when it has left: whether the actor is there the process is asked below, once
        # for all.
        if isinstance(ref, RemoteRef):
            there.setdefault(ref.peer, []).append(ref)
    await _together(waiting)
    # ORDER: after the tells: messages to one process keep their order, so the question comes behind them.
    await _together(_note_dead(peers, message, limits[peers[0]], ends) for peers in there.values())
    return Told(whom, type(message).__name__, *_split(whom, [ends[ref] for ref in whom]))


class _Failed:
    """An error of ours instead of an answer, which may be an error as well."""

    __slots__ = ("error",)

    def __init__(self, error: ActorflowError) -> None:
        self.error = error.with_traceback(None)  # which holds the frames, and they the message


async def _end(awaitable: Awaitable[Any]) -> Any:
    """Returns what comes of an ask or a tell, be it an error of ours."""
    try:
        return await awaitable
    except ActorflowError as error:
        return _Failed(error)


async def _together(each: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Runs coroutines side by side to their ends; raises what is no error of ours after the last."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in each]
    if tasks:  # else no loop is needed, and there may be none
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]  # an answer may be an exception, so `gather` tells too little


def _split(refs: Sequence[Ref], ends: Sequence[Any]) -> tuple[dict[Ref, Any], dict[Ref, ActorflowError]]:
    pairs = list(zip(refs, ends, strict=True))
    good = {ref: end for ref, end in pairs if not isinstance(end, _Failed)}
    return good, {ref: end.error for ref, end in pairs if isinstance(end, _Failed)}


def _check_refs(refs: Iterable[Ref], *, asking: bool) -> list[Ref]:
    """Returns refs as a list, of which each is one and there once, and may be used here."""
    # The likely mistake: a Ref is no list, and asking it for an iterator would say less.
    if isinstance(refs, Ref):
        message = f"many actors are given as a list of their refs, got the one of '{refs.name}'"
        raise ConfigError(message, hint="write [ref], or call a method of the ref")
    whom = list(refs)
    for given in whom:
        _check_ref(given, asking=asking)
    # Answers are found by ref: two of one could not be told apart.
    if len(set(whom)) < len(whom):
        twice = next(ref for n, ref in enumerate(whom) if ref in whom[:n])
        message = f"each actor is told or asked once, got '{twice.name}' twice"
        raise ConfigError(message)
    # ORDER: all looked at before any is told, so that a refusal has told nobody.
    for ref in whom:
        if isinstance(ref, Address | RemoteRef):
            ref.system.check_here()
    return whom


def _check_ref(given: Any, *, asking: bool) -> None:
    """Raises ConfigError for what is no ref, and for one of whose messages nobody hears."""
    if isinstance(given, Ref):
        return
    simulated = hasattr(given, "ask") and hasattr(given, "name")  # of a host; see `sim.world.host`
    if simulated and asking:
        return
    if simulated:
        message = f"whether '{given.name}' has a message nobody hears: a simulated network may lose it"
        raise ConfigError(message, hint="ask: af.ask_all")
    message = f"many actors are told or asked by their refs, got {type(given).__name__} {show_value(given)}"
    raise ConfigError(message, hint="what spawn returned, or cluster.ref('worker0/echo')")


def _limit_s(ref: Ref, deadline_s: float | None) -> float:
    if deadline_s is not None:
        return deadline(deadline_s)
    return ref.system.deadline_s if isinstance(ref, Address | RemoteRef) else _LIMIT_S


def _dead(ref: Ref, message: Any) -> _Failed | None:
    """Returns why an actor of this process has not got the message; None if it has, or lives elsewhere."""
    return _Failed(ref.death_error(message)) if isinstance(ref, Address) and ref.closed else None


def _late(ref: Any, message: Any, limit_s: float) -> str:
    return f"'{ref.name}' had no room for {type(message).__name__} within {limit_s:g} s: {ref.obstacle()}"


async def _note_dead(
    refs: Sequence[RemoteRef], message: Any, limit_s: float, ends: dict[Ref, _Failed | None]
) -> None:
    """Notes which actors of one other process are dead, by what that says."""
    asked = [ref for ref in refs if ends[ref] is None]
    if not asked:
        return
    # The process itself, by the empty name: one question for all of its actors.
    process = RemoteRef(asked[0].peer, "")
    said = await _end(
        process.ask(PresenceQuestion(tuple(ref.actor for ref in asked), type(message).__name__), limit_s)
    )
    # Another version, or a stranger, may say anything.
    if not isinstance(said, _Failed) and not (type(said) is list and len(said) == len(asked)):
        said = _Failed(WireError(f"no list of actors, got {type(said).__name__}"))
    for number, ref in enumerate(asked):
        if not isinstance(said, _Failed):
            error = said[number]
            ends[ref] = None if error is None else _Failed(error)
        elif isinstance(said.error, ActorDied):  # the process is lost
            ends[ref] = _Failed(ref.death_error(message))
        else:
            ends[ref] = said
