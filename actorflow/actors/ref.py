"""The address of an actor: all that anyone else may hold of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from actorflow.errors import ActorflowError


class Sender(Protocol):
    """Whoever puts messages without ever suspending: a node, a link, an actor's outbox."""

    def admitted(self) -> None:
        """Hears, once for each `put` that returned False, that the message has left the line."""
        ...


class Watcher(Protocol):
    """Whoever hears of the end of an actor: another actor, or what passes it on."""

    def signal(self, message: Any) -> None:
        """Hears a `Terminated`."""
        ...


class Ref(ABC):
    """How to reach an actor; stays good over restarts, and after its death tells so.

    Order: messages of one sender to one actor are handled in the order in which they were told
    or asked. Delivery: at most once; what cannot be delivered becomes a dead letter.
    Thread: that of its system's event loop; see `ActorSystem`.
    """

    __slots__ = ()

    name: str

    @abstractmethod
    def tell(self, message: Any) -> Awaitable[None]:
        """Sends `message`; await the result, which is ready at once while there is room.

        In a full mailbox it takes a place in the line when awaited. A wait that was cancelled was
        never accepted. To a dead actor it becomes a dead letter.
        """

    @abstractmethod
    def try_tell(self, message: Any) -> bool:
        """Sends `message` if that needs no waiting; false when it stays with the caller."""

    @abstractmethod
    def put(self, message: Any, sender: Sender) -> bool:
        """Sends `message` for a sender that cannot wait.

        Returns:
            True when it is in the mailbox (or a dead letter). False when it stands in the line:
            `sender.admitted()` is called once it has left that, and until then the sender should
            take no new work. The message is accepted either way.

        Raises:
            MailboxFull: `sender` is an actor, and waiting would close a ring that no overdraft
                can open.
        """

    @abstractmethod
    async def ask(self, message: Any, deadline_s: float | None = None) -> Any:
        """Sends `message` and returns the answer of its handler.

        Args:
            message: The question.
            deadline_s: How long to wait, for room and for the answer together; None takes the
                system's.

        Raises:
            HandlerError: the handler raised; its exception is the cause. An ActorflowError comes
                as itself.
            ActorDied: the actor is dead, or stopped before it answered.
            DeadlinePassed: no answer in time. The handler may still run; its answer is dropped.
            AskCycle: an actor would wait for itself.
            WrongLoop: asked in another thread or event loop than the system's; nothing was sent.
        """

    @abstractmethod
    def signal(self, message: Any) -> None:
        """Sends `message` on the control lane: never waits, ahead of all data."""

    @abstractmethod
    def stop(self) -> None:
        """Asks the actor to stop: after its present handler, which is cancelled if it is suspended."""

    @abstractmethod
    async def stopped(self) -> BaseException | None:
        """Waits until the actor is dead and returns the reason; None when it was asked to stop."""

    @abstractmethod
    def watch(self, watcher: Watcher) -> None:
        """Sends `watcher` a `Terminated`, once, when this actor is dead; at once if it is already."""


class Proxy(Ref):
    """A ref whose calls are made elsewhere, with another ref; `tell_all` asks it what came of them."""

    __slots__ = ()

    @abstractmethod
    async def tell_error(self, message: Any, limit_s: float | None) -> ActorflowError | None:
        """Tells `message` and returns why it has not arrived; None when it has.

        Args:
            message: What to tell.
            limit_s: How long to wait; None takes the limit of the system there.
        """


class _Done:
    """An awaitable that is ready; one for all, so that telling allocates nothing."""

    __slots__ = ()

    # The tuple itself makes the iterator: awaiting takes 50 ns, 120 with a function in between.
    __await__: Callable[[], Generator[Any, None, None]] = staticmethod(cast("Any", ().__iter__))


DONE = _Done()
