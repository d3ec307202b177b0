"""The address of an actor of another process."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from actorflow.actors.address import Address, deadline, mark_seen, tick, waiter_here
from actorflow.actors.ask import Ask
from actorflow.actors.deadline import rest_of
from actorflow.actors.outbox import AwaitedTell, OutboxMessage, WaitingMessage
from actorflow.actors.ref import DONE, Ref, Sender, Watcher
from actorflow.actors.remote.inbound_asks import travelling
from actorflow.actors.task_carrier import HANDLING
from actorflow.actors.wait_rings import actor_of
from actorflow.actors.waits import Blocked
from actorflow.errors import ActorDied, CannotTravel, ChannelClosed
from actorflow.runtime.messages import Request, Terminated
from actorflow.transport.codec.registry import travels
from actorflow.transport.rules.channel import Envelope, EnvelopeKind, Lane

if TYPE_CHECKING:
    from asyncio import Future

    from actorflow.actors.remote.outbound_asks import OutboundAsks
    from actorflow.actors.system import ActorSystem

log = logging.getLogger("actorflow.actors")

travels("actors.terminated")(Terminated)


class RemoteRef(Ref):
    """How to reach an actor of another process; made by `RemoteHub.ref`, good for every incarnation of it.

    What `Ref` promises holds, with these differences.

    - Room is credit: it stands for room in the mailboxes of that process, all of them together, so an
      actor that is slow to take its messages may hold up those to its neighbours.
    - What was told and had not arrived when the process was lost becomes a dead letter here; what was
      on its way then may have arrived all the same.
    - Nobody sees the waits of two processes at once: actors that ask each other in a ring over
      processes end by their deadlines, not by AskCycle, and those that fill each other's mailboxes are
      not helped.
    - `tell`, `try_tell`, `put`, `ask` and `signal` raise CannotTravel for a message that cannot leave the
      process. One that stood in line is found out later: its asker hears, else it is logged and becomes
      a dead letter.
    """

    __slots__ = ("actor", "name", "peer")

    def __init__(self, peer: OutboundAsks, actor: str) -> None:
        self.name = peer.address(actor)
        self.actor = actor
        self.peer = peer

    @property
    def system(self) -> ActorSystem:
        """The system of this side."""
        return self.peer.system

    # -- tell ----------------------------------------------------------------------------------------

    def tell(self, message: Any) -> Awaitable[None]:
        """Sends `message`; await the result, which is ready at once while there is credit."""
        self.system.check_here()
        # ORDER: behind whoever waits, also for other actors there: the channel has one line.
        if not self.peer.free:
            return self._tell_later(message)
        try:
            self._send(message)
        except ChannelClosed:
            return self._tell_nobody(message)
        return DONE

    def try_tell(self, message: Any) -> bool:
        """Sends `message` if that needs no waiting; false when it stays with the caller."""
        self.system.check_here()
        if not self.peer.free:
            return False
        try:
            self._send(message)
        except ChannelClosed:
            return False
        return True

    def put(self, message: Any, sender: Sender) -> bool:
        """Sends `message` for a sender that cannot wait; see `Ref.put`."""
        self.system.check_here()
        if not self.peer.free:
            now = self.system.now()
            if isinstance(sender, Address):
                # Bytes are the channel's affair: credit is counted there.
                self.peer.line[OutboxMessage(message, 0, self, sender, now)] = None
            else:
                self.peer.line[WaitingMessage(message, 0, self, sender, now)] = None
            return False
        try:
            self._send(message)
        except ChannelClosed:
            self.undeliverable(message)
        return True

    def signal(self, message: Any) -> None:
        """Sends `message` on the control lane: never waits, ahead of all data.

        A `Terminated` names the actor as its own process calls it.
        """
        self.system.check_here()
        if type(message) is Terminated and message.reason is not None:
            # A reason of the user's own type would not travel.
            message = Terminated(message.actor, travelling(message.reason))
        try:
            self.peer.say(Envelope(self.actor, message, EnvelopeKind.TELL, Lane.CONTROL))
        except ChannelClosed:
            self.undeliverable(message)

    def _send(self, message: Any) -> None:
        self.peer.send(Envelope(self.actor, message))

    async def _tell_nobody(self, message: Any) -> None:
        self.system.check_here()
        self.undeliverable(message)
        await tick()  # or telling the dead in a loop would never let anyone else run

    async def _tell_later(self, message: Any) -> None:
        """Waits in the line; the message is sent when this task runs again."""
        self.system.check_here()
        peer = self.peer
        # asked again: the task runs later than `tell` was called
        if not peer.free:
            waiter = waiter_here()
            place = AwaitedTell(message, 0, self, waiter, self.system.create_future(), self.system.now())
            awaits = {} if waiter is None else actor_of(waiter).awaits
            awaits[place] = None
            peer.line[place] = None
            try:
                await place.future
            except BaseException:
                place.leave()
                awaits.pop(place, None)
                del place  # the error knows this frame
                raise
            awaits.pop(place, None)
            # Refused: the session has ended meanwhile.
            if not place.held:
                self.undeliverable(message)
                return
        try:
            self._send(message)
        except ChannelClosed:
            self.undeliverable(message)
        finally:
            # The turn was held for this task alone: the next has it now, whether this has sent or not.
            peer.release()

    # -- ask -----------------------------------------------------------------------------------------

    async def ask(self, message: Any, deadline_s: float | None = None) -> Any:
        """Sends `message` and returns the answer of its handler; see `Ref.ask`.

        Raises:
            ActorDied: also when the process is lost, or has no actor of this name.
            CannotTravel: the message, or the answer, is nothing that travels.
        """
        system = self.system
        system.check_here()
        waiter = waiter_here()
        if deadline_s is None and waiter is not None:
            # What it asks is of use for no longer than its own asker waits.
            deadline_s = rest_of(HANDLING.get())
        limit_s = system.deadline_s if deadline_s is None else deadline(deadline_s)
        now = system.now()
        future = system.create_future()
        question = Ask(message, 0, future, self, waiter, now, limit_s)
        system.accounts.sent += 1
        system.timer_wheel.add(now + limit_s, question)
        if waiter is not None:
            actor_of(waiter).awaits[question] = None
        try:
            if self.peer.free:
                # Nobody is ahead: it leaves now, as `enter` would have it leave the line.
                question.enter()
            else:
                self.peer.line[question] = None
            return await future
        except BaseException:
            question.cancel()
            mark_seen(future)
            raise
        finally:
            if waiter is not None:
                actor_of(waiter).awaits.pop(question, None)
            del future, question  # the error knows this frame, which would keep it, and all that it knows

    # -- life ----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks the actor to stop."""
        self.system.check_here()
        try:
            self.peer.say(Envelope(self.actor, None, EnvelopeKind.STOP, Lane.CONTROL))
        except ChannelClosed:
            # Who is out of reach has stopped, as far as can be known here.
            log.debug("'%s' is out of reach and cannot be asked to stop", self.name)

    async def stopped(self) -> BaseException | None:
        """Waits until the actor is dead and returns the reason; PeerLost when its process is lost."""
        self.system.check_here()
        witness = _Witness(self.system.create_future())
        self.peer.watch(self.actor, witness)
        try:
            return await witness.future
        finally:
            self.peer.unwatch(self.actor, witness)
            del witness  # an error knows this frame, which would keep it

    def watch(self, watcher: Watcher) -> None:
        """Sends `watcher` a `Terminated`, once, when this actor is dead or its process is lost."""
        self.system.check_here()
        self.peer.watch(self.actor, watcher)

    # -- what stands in the line (an `outbox.Target`) --------------------------------------------------

    def add(self, message: Any, _nbytes: int) -> None:
        """Sends what stood in the line, or a question."""
        asks = type(message) is Ask
        try:
            if asks:
                self.peer.ask(self.actor, message)
            else:
                self._send(message)
        except ChannelClosed:
            # Told as any message to the dead.
            self.undeliverable(message)
        except CannotTravel as error:
            if asks:
                message.failed(error)
            else:
                # Nobody waits for it: it is found out only here, long after it was accepted.
                log.error("a message to '%s' was accepted and cannot travel", self.name, exc_info=error)  # noqa: TRY400
                self.undeliverable(message)

    def hold(self, _nbytes: int) -> None:
        """Gives the turn to a task."""
        self.peer.hold()

    def release(self, _nbytes: int) -> None:
        """Gives the turn back."""
        self.peer.release()

    def withdraw(self, entry: Any) -> bool:
        """Takes `entry` out of the line, or cancels the question that it is."""
        return self.peer.withdraw(self.actor, entry)

    def undeliverable(self, message: Any) -> None:
        """Tells whoever asked; what nobody asked becomes a dead letter."""
        if type(message) is Ask:
            message.refuse()
        elif isinstance(message, Request):
            message.reply.failed(self.death_error(message))
        else:
            self.system.dead_letters.add(self.name, message)

    def death_error(self, message: Any) -> ActorDied:
        """Returns what the asker of `message` hears."""
        why = self.peer.why()
        ago = self.peer.ago()
        error = ActorDied(
            f"'{self.name}' is out of reach and did not answer {type(message).__name__}: {why.what}"
            + (f" ({ago})" if ago else "")
        )
        error.__cause__ = why
        return error

    def obstacle(self) -> str:
        """Says why a message is not answered now."""
        return f"its process is {self.peer.state()}"

    def blocked(self) -> Blocked[Any]:
        """Returns nothing: what actors of another process wait for is not known here."""
        # Nobody sees the waits of two processes at once: rings over both end by their deadlines.
        return Blocked()

    def __eq__(self, other: object) -> bool:
        # Two refs to one actor are equal: they were made by name.
        return isinstance(other, RemoteRef) and self.peer is other.peer and self.actor == other.actor

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<RemoteRef '{self.name}' {self.peer!r}>"


class _Witness:
    """A task that waits for the end of an actor."""

    __slots__ = ("future",)

    def __init__(self, future: Future[BaseException | None]) -> None:
        self.future = future

    def signal(self, notice: Terminated) -> None:
        # whoever waited may have been cancelled
        if not self.future.done():
            self.future.set_result(notice.reason)
