"""The base class of actors, which users subclass: state, and one handler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

from actorflow.actors.deadline import remaining_s

if TYPE_CHECKING:
    from actorflow.actors.cell import Cell
    from actorflow.actors.ref import Ref
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.timer_wheel import Timer


class Actor:
    """Owner of some state, which it changes one message at a time.

    Write `receive` as a plain method where it never waits: that is the fast kind. Write it as
    `async def`, or return a coroutine for the messages that need one, where it does; while it is
    suspended the actor takes no other message, unless it is `reentrant`.

    **Receives** whatever it is told or asked; the return value answers an ask. Watched actors'
    ends come as `messages.Terminated`, ahead of all data.
    **Fails**: what its handler raises goes to the asker, and to the supervisor, which decides.
    A restart builds a new object from the factory given to `spawn`; ref and mailbox stay.

    Attributes:
        cancellable: Whether a suspended handler is cancelled as soon as nobody waits for its answer: whoever
            asked was cancelled, waited until the deadline, or is lost with its process. What such a handler
            asks others takes what is left of its own deadline, unless it says otherwise.
        reentrant: Whether it takes other messages while a handler is suspended.
        ref: Its own address; set once it is spawned, not yet in `__init__`.
        system: The system it lives in; likewise.
    """

    cancellable: ClassVar[bool] = False
    reentrant: ClassVar[bool] = False

    ref: Ref
    system: ActorSystem
    _cell: Cell

    def receive(self, message: Any) -> Any:
        """Handles one message; plain or `async`."""
        # The usual mistake is a handler under a name that nothing calls: the error says which.
        own = [name for name in dir(self) if not hasattr(Actor, name)]
        near = get_close_matches("receive", own, n=1)
        what = f"{type(self).__name__} has no receive"
        raise NotImplementedError(f"{what}; its {near[0]} is called by nobody" if near else what)

    def on_start(self) -> Any:
        """Runs before the first message of every incarnation; plain or `async`."""

    def on_stop(self, reason: BaseException | None) -> Any:
        """Runs after the last message, if `on_start` ended well; plain or `async`.

        Args:
            reason: What ends this incarnation; None when the actor was asked to stop.
        """

    def on_dump(self) -> Sequence[str]:
        """Returns what `dump` says of it beside its mailbox, a line each; by default nothing.

        It changes nothing and waits for nothing. While the loop is held up, another thread calls it.
        """
        return ()

    def tell(self, ref: Ref, message: Any) -> None:
        """Sends `message` without waiting; for handlers.

        What finds no room stands in this actor's outbox, and the actor takes no data message
        until that is flushed; so an outbox holds at most what one run of a handler sends.

        Raises:
            MailboxFull: actors that tell each other in a ring make more messages than fit.
        """
        ref.put(message, self._cell)

    def remaining_s(self) -> float | None:
        """Returns how long whoever asked still waits, in seconds; None where nobody asked.

        It is 0 once nobody waits any more. A task that an async handler has started may ask as well, until
        the handler ends. In a plain handler it is looked up when it is asked for, which takes some µs.

        Raises:
            ActorError: no handler of this actor runs here.
        """
        return remaining_s(self._cell)

    def spawn(
        self,
        factory: Callable[..., Actor],
        *args: Any,
        name: str | None = None,
        max_messages: int = 1024,
    ) -> Ref:
        """Starts an actor that ends with this one at the latest, and returns its address.

        It has the same supervisor. An actor that ends or restarts stops those that it spawned after its own
        `on_stop`, and is dead only when they are.

        Args:
            factory: Called with `args`, now and for every restart; an Actor subclass, as a rule.
            *args: Its arguments.
            name: Its name in the system; by default made from the factory's.
            max_messages: Messages its mailbox may hold.

        Raises:
            ActorError: when this actor is to end.
        """
        return self._cell.spawn(factory, args, name, max_messages)

    def after(self, delay_s: float, message: Any) -> Timer:
        """Tells this actor `message` in `delay_s` seconds, unless cancelled, stopped or restarted before.

        A timer belongs to the incarnation that sets it. What has rung and still stands in the mailbox
        when the timer is cancelled, or when the incarnation ends, is not delivered.
        """
        return self._cell.after(delay_s, message, self)
