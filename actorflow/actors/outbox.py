"""Messages that wait for room in somebody else's mailbox, one class for each way of waiting.

Each is an entry in the line of its target and, if its waiter is an actor, an edge of the wait-for
graph.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, Any, Protocol

from actorflow.actors.ref import Sender

if TYPE_CHECKING:
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.task_carrier import Handling
    from actorflow.errors import ActorDied


class Target(Protocol):
    """Where a message waits for room: the mailbox of an actor, or the way to one of another process."""

    name: str

    @property
    def system(self) -> ActorSystem:
        """The system of whoever waits."""
        ...

    def add(self, message: Any, nbytes: int) -> None:
        """Takes a message for which there is room."""
        ...

    def hold(self, nbytes: int) -> None:
        """Keeps a place."""
        ...

    def release(self, nbytes: int) -> None:
        """Gives a held place back."""
        ...

    def withdraw(self, entry: Any) -> bool:
        """Takes `entry` out of the line; false when it is not in it any more."""
        ...

    def undeliverable(self, message: Any) -> None:
        """Tells whoever waits for an answer to `message`; without any it becomes a dead letter."""
        ...

    def death_error(self, message: Any) -> ActorDied:
        """Returns what the asker of `message` hears."""
        ...

    def obstacle(self) -> str:
        """Says why a message is not handled now."""
        ...


class WaitingMessage:
    """A message of a sender that cannot suspend. Accepted: it enters, or its target dies."""

    __slots__ = ("message", "nbytes", "sender", "since", "target")

    asks = False

    def __init__(self, message: Any, nbytes: int, target: Target, sender: Sender, since: float) -> None:
        self.message = message
        self.nbytes = nbytes
        self.target = target
        self.sender = sender
        self.since = since

    @property
    def void(self) -> bool:
        """Never: what was told is accepted for good."""
        return False

    @property
    def awaited(self) -> Target:
        """The actor in whose mailbox it waits for room."""
        return self.target

    def enter(self) -> None:
        """Enters the mailbox of its target."""
        self.target.add(self.message, self.nbytes)
        self.sender.admitted()

    def refuse(self) -> None:
        """Its target died: it becomes a dead letter."""
        self.target.undeliverable(self.message)
        self.sender.admitted()


class OutboxOwner(Sender, Protocol):
    """An actor that takes no data while messages of its own have not left."""

    name: str
    outbox: dict[OutboxMessage, None]
    attention: bool


class OutboxMessage(WaitingMessage):
    """A message in the outbox of an actor, which takes no data until it has left."""

    __slots__ = ("waiter",)

    def __init__(self, message: Any, nbytes: int, target: Target, sender: OutboxOwner, since: float) -> None:
        super().__init__(message, nbytes, target, sender, since)
        self.waiter: OutboxOwner = sender
        # ORDER: in the outbox before it stands in line: from now on the actor takes no data.
        sender.outbox[self] = None
        # The actor's next turn has to look at its outbox.
        sender.attention = True

    def enter(self) -> None:
        """Enters the mailbox of its target."""
        # ORDER: out of the outbox first, since `admitted` asks whether it is empty.
        self.waiter.outbox.pop(self, None)
        super().enter()

    def refuse(self) -> None:
        """Its target died: it becomes a dead letter."""
        self.waiter.outbox.pop(self, None)
        super().refuse()


class AwaitedTell:
    """A task that awaits a tell.

    INVARIANT: a cancellation, even one in the same tick, finds a message that was never accepted.
    """

    __slots__ = ("future", "held", "message", "nbytes", "since", "target", "waiter")

    asks = False

    def __init__(
        self,
        message: Any,
        nbytes: int,
        target: Target,
        waiter: OutboxOwner | Handling | None,
        future: Future[None],
        since: float,
    ) -> None:
        self.message = message
        self.nbytes = nbytes
        self.target = target
        self.waiter = waiter
        self.future = future
        self.since = since
        self.held = False

    @property
    def void(self) -> bool:
        """True once the wait was cancelled."""
        return self.future.done()

    @property
    def awaited(self) -> Target:
        """The actor in whose mailbox it waits for room."""
        return self.target

    def enter(self) -> None:
        """Room is held from now on."""
        # Only a place is held: the message enters when the task runs again, unless it is cancelled before.
        self.held = True
        self.target.hold(self.nbytes)
        self.future.set_result(None)

    def refuse(self) -> None:
        """Its target died: the task finds out when it runs."""
        # cancelled in the tick in which its target died
        if not self.future.done():
            self.future.set_result(None)

    def leave(self) -> None:
        """The wait was cancelled: gives the place to the next."""
        # Cancelled after it had its place, before it ran.
        if self.held:
            self.held = False
            self.target.release(self.nbytes)
        else:
            self.target.withdraw(self)
