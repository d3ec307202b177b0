"""Whatever breaks while a message is handled, whoever asked hears of it and the actor is not stuck."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.supervision import Directive, Strategy
from actorflow.errors import ActorDied, ActorError, DeadlinePassed, HandlerError, InternalError
from actorflow.runtime.messages import Request
from tests.actors.playing import Recorder, Scripted, pause, play

if TYPE_CHECKING:
    from actorflow.actors.ref import Ref
    from actorflow.actors.system import ActorSystem


class Unprintable(Exception):
    def __str__(self) -> str:
        return self.detail  # type: ignore[attr-defined, no-any-return]  # what a hasty author writes


class OwnArguments(ActorError):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} {code}")


UNPRINTABLE = r"raised Unprintable \(its text cannot be shown: AttributeError\)"


def _plain(error: Exception) -> Callable[[Actor, Any], Any]:
    def script(_actor: Actor, message: Any) -> Any:
        if message == "bad":
            raise error
        return message

    return script


def _at_once(error: Exception) -> Callable[[Actor, Any], Any]:
    async def script(actor: Actor, message: Any) -> Any:
        return _plain(error)(actor, message)

    return script


def _after_a_wait(error: Exception) -> Callable[[Actor, Any], Any]:
    async def script(actor: Actor, message: Any) -> Any:
        await pause(0.1)
        return _plain(error)(actor, message)

    return script


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("handler", [_plain, _at_once, _after_a_wait])
@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [(Unprintable(), HandlerError, UNPRINTABLE), (OwnArguments(7, "code"), OwnArguments, "code 7")],
)
def test_an_asker_hears_of_an_error_however_it_is_made_and_the_actor_goes_on(
    error: Exception, kind: type[Exception], text: str, handler: Any, inline: bool
) -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, handler(error))
        await ref.ask("good")
        if not inline:
            system.inline.limit = system.inline.left = 0

        with pytest.raises(kind, match=text):
            await ref.ask("bad")

        assert await ref.ask("good") == "good"

    play(body)


def test_an_actor_that_dies_of_an_error_that_cannot_be_printed_fails_what_is_queued() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, _plain(Unprintable()))
        await ref.tell("bad")

        with pytest.raises(ActorDied, match=UNPRINTABLE):
            await ref.ask("good")

    with pytest.raises(ExceptionGroup) as left:
        play(body)
    assert isinstance(left.value.exceptions[0], HandlerError)


class Deaf:
    """A reply that breaks."""

    error = None
    interrupt: Callable[[], None] | None = None

    def done(self, value: Any, undo: Any = None) -> None:
        raise LookupError("done")

    def failed(self, error: BaseException) -> None:
        raise LookupError("failed")

    def wrote(self) -> None:
        """Nothing here is asked for in parts."""

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        raise LookupError("stands")


@dataclass(slots=True)
class Pull(Request):
    pass


def test_a_reply_that_raises_costs_its_actor_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def script(_actor: Actor, message: Any) -> Any:
        if isinstance(message, Pull):
            message.reply.done(1)
        return message

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script, name="store")
        await ref.tell(Pull(Deaf()))

        assert await ref.ask(2) == 2

    play(body)

    assert [r.getMessage() for r in caplog.records] == ["the reply to a Pull for 'store' raised"]


def test_a_reply_that_raises_while_its_actor_dies_keeps_the_news_from_nobody() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, _after_a_wait(ValueError()))
        ref.put(1, system.nobody)
        ref.put(Pull(Deaf()), system.nobody)
        asking = asyncio.ensure_future(ref.ask(2))
        mourning = asyncio.ensure_future(ref.stopped())
        await pause(0.05)

        ref.stop()

        with pytest.raises(ActorDied):
            await asking
        assert await mourning is None

    play(body)


class Careless(Strategy):
    def directive(self, error: BaseException, *, told: bool, started: bool) -> Directive:
        raise LookupError("no such rule")


@pytest.mark.parametrize("handler", [_plain, _at_once, _after_a_wait])
@pytest.mark.parametrize("inline", [True, False])
def test_a_strategy_that_raises_ends_the_actor_and_leaves_no_asker_waiting(
    handler: Any, inline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.supervisor(Careless()).spawn(Scripted, handler(ValueError("boom")), name="a")
        await ref.ask("good")
        if not inline:
            system.inline.limit = system.inline.left = 0

        with pytest.raises(HandlerError, match="ValueError: boom"):
            await ref.ask("bad")

        reason = await ref.stopped()
        assert isinstance(reason, InternalError)
        assert isinstance(reason.__cause__, LookupError)

    with caplog.at_level(logging.CRITICAL):
        play(body)


class Sizeless:
    @property
    def nbytes(self) -> int:
        raise LookupError("no size")


@pytest.mark.parametrize("handler", [_plain, _at_once])
@pytest.mark.parametrize("inline", [True, False])
def test_a_message_whose_size_raises_is_refused_or_handled_and_the_actor_goes_on(
    handler: Any, inline: bool
) -> None:
    async def ask(ref: Ref) -> Any:
        return await ref.ask(Sizeless())

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, handler(ValueError()))
        await ref.ask("good")
        if not inline:
            system.inline.limit = system.inline.left = 0

        answers = await asyncio.gather(ask(ref), return_exceptions=True)

        assert isinstance(answers[0], Sizeless if inline else LookupError)
        with pytest.raises(LookupError):
            ref.tell(Sizeless())
        assert await ref.ask("good") == "good"

    play(body)


def test_a_deadline_of_any_kind_of_number_passes() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, _after_a_wait(ValueError()))

        with pytest.raises(DeadlinePassed, match=r"within 0\.05 s"):
            await ref.ask("good", Fraction(1, 20))  # type: ignore[arg-type]

    play(body)


class Watching:
    def firing(self, actor: Any, turn: Any) -> None:
        raise LookupError("firing")

    def failed(self, actor: Any, turn: Any, error: BaseException) -> None:
        raise LookupError("failed")


def test_an_instrument_that_raises_is_reported_and_costs_no_actor_its_turn() -> None:
    reports: list[Any] = []

    async def body(system: ActorSystem) -> None:
        system.loop.set_exception_handler(lambda _loop, context: reports.append(context["exception"]))
        ref = system.spawn(Recorder, [])

        assert await ref.ask(1) == 1

    play(body, instrument=Watching())

    assert reports
    assert {type(error) for error in reports} == {LookupError}
