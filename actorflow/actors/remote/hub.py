"""The hub of a process: refs to actors of other processes, and what arrives from there.

A `RemoteHub` is the `Receiver` of all channels of its process. It says nothing of how channels come to be.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from actorflow.actors.dump import PeerEntry
from actorflow.actors.remote.inbound_asks import InboundAsks
from actorflow.actors.remote.outbound_asks import OutboundAsks
from actorflow.actors.remote.ref import RemoteRef
from actorflow.actors.tombstones import absent
from actorflow.errors import ActorError, ActorflowError, ChannelClosed, ConfigError
from actorflow.runtime.story import Story
from actorflow.transport.rules.channel import Channel, Envelope, EnvelopeKind

if TYPE_CHECKING:
    from actorflow.actors.ref import Ref, Watcher
    from actorflow.actors.system import ActorSystem

_ANSWERS = (EnvelopeKind.ANSWER, EnvelopeKind.BULK, EnvelopeKind.ERROR, EnvelopeKind.GONE)


class RemoteHub:
    """Connects the actors of one system with those of other processes; one a system.

    Make it inside `async with system`. Leaving the system ends it, after the actors that were started
    later: open asks to others end with ActorDied, and the channels are closed.

    Args:
        system: The actors of this process.
        name: Name of this process, as others address it.
        incarnation: Which one of the process this is.
    """

    def __init__(self, system: ActorSystem, name: str, incarnation: int = 1) -> None:
        system.check_here()
        if not name or "/" in name:
            message = f"a process is named by a word without '/', got {name!r}"
            raise ConfigError(message)
        if system.outside is not None:
            message = f"a system has one hub, got '{name}' beside {system.outside!r}"
            raise ActorError(message)
        self.system = system
        self.name = name
        self.incarnation = incarnation
        self._attached: dict[str, tuple[OutboundAsks, InboundAsks]] = {}
        # Those that were attached before: their refs are still about, and work again when it comes back.
        self._known: weakref.WeakValueDictionary[str, OutboundAsks] = weakref.WeakValueDictionary()
        self._hearers: list[Callable[[str, ActorflowError], None]] = []
        system.outside = self
        self._tenant = _AttachedChannel(self)
        # Leaving the system ends it in its turn, after the actors that were started later.
        system.join(self._tenant)

    # -- channels -----------------------------------------------------------------------------------

    def attach(self, channel: Channel) -> None:
        """Takes a channel in; one that was there for the same process is closed first."""
        self.system.check_here()
        name = channel.peer
        if name == self.name or not name or "/" in name:
            message = f"a channel of '{self.name}' leads to another process, got one to {name!r}"
            raise ConfigError(message)
        there = self._attached.get(name)
        # Attached again: nothing to do, and nothing to lose.
        if there is not None and there[0].channel is channel:
            return
        # ORDER: what waits for the old channel hears of its end before the new one is there.
        self.detach(name)
        peer = self._known.get(name)
        if peer is None:
            peer = self._known[name] = OutboundAsks(self.system, name)
        peer.channel = channel
        peer.up = True
        self._attached[name] = peer, InboundAsks(self.system, channel, self.name)

    def detach(self, name: str) -> None:
        """Closes the channel to a process, and ends all that waits for it; harmless if there is none."""
        self.system.check_here()
        peer, serving = self._attached.pop(name, (None, None))
        if peer is None or serving is None or peer.channel is None:
            return
        # ORDER: out of reach first: whoever hears of the end may send at once.
        channel, peer.channel = peer.channel, None
        serving.end()
        peer.end(ChannelClosed(f"'{self.name}' has closed its channel to '{name}'"))
        channel.close()

    def close(self) -> None:
        """Detaches every process."""
        self.system.check_here()
        for name in tuple(self._attached):
            self.detach(name)

    def leave(self) -> None:
        """Detaches every process and leaves the system, which may have another hub then."""
        self.system.check_here()
        if self.system.outside is self:
            self._tenant.end(None, restart=False)

    def peers(self) -> dict[str, bool]:
        """Returns the attached processes, and whether each is up, as far as is known."""
        return {name: peer.up for name, (peer, _) in sorted(self._attached.items())}

    # -- refs and watching ----------------------------------------------------------------------------

    def ref(self, address: str) -> Ref:
        """Returns the address of an actor of any attached process, `process/actor`.

        Of an actor of this process it is the ref that spawning it gave.

        Raises:
            ConfigError: it is no address.
            ActorError: no such process is attached, or this one has no such actor.
        """
        self.system.check_here()
        given: Any = address
        process, _, actor = address.partition("/") if isinstance(given, str) else ("", "", "")
        if not process or not actor:
            message = f"an address reads 'process/actor', got {address!r:.100}"
            raise ConfigError(message)
        if process != self.name:
            return RemoteRef(self._outbound(process), actor)
        cell = self.system.actors.get(actor)
        if cell is None:
            system = self.system
            where = f"process '{self.name}'"
            raise ActorError(absent(where, actor, system.actors, system.tombstones, system.now()))
        return cell

    def watch_peer(self, name: str, watcher: Watcher) -> None:
        """Sends `watcher` a `Terminated(name, PeerLost)`, once, when a process is lost; at once if it is."""
        self.system.check_here()
        self._outbound(name).watch("", watcher)

    def on_lost(self, hear: Callable[[str, ActorflowError], None]) -> None:
        """Calls `hear(name, reason)` whenever a process is lost, after its asks have ended."""
        self.system.check_here()
        self._hearers.append(hear)

    def why(self, name: str) -> ActorflowError:
        """Returns why a process is out of reach, or was last."""
        there = self._attached.get(name)
        return ChannelClosed(f"'{self.name}' has no channel to '{name}'") if there is None else there[0].why()

    def _outbound(self, name: str) -> OutboundAsks:
        there = self._attached.get(name)
        if there is None:
            known = ", ".join(sorted(self._attached)) or "none"
            message = f"'{self.name}' knows no process '{name}'; attached: {known}"
            raise ActorError(message)
        return there[0]

    # -- what channels tell (a `transport.rules.channel.Receiver`) -------------------------------------------

    def deliver(self, channel: Channel, envelope: Envelope) -> bool:
        """Takes an envelope; see `Receiver.deliver`."""
        self.system.check_here()
        there = self._attached.get(channel.peer)
        # From a channel that was replaced: nobody waits for it, and a tell was accepted.
        if there is None or there[0].channel is not channel:
            if envelope.say is EnvelopeKind.TELL:
                self.system.dead_letters.add(envelope.target, envelope.body)
            return True
        peer, serving = there
        # Whatever comes proves that it lives.
        peer.up = True
        if envelope.say not in _ANSWERS:
            return serving.deliver(envelope)
        peer.hear(envelope)
        return True

    def lost(self, channel: Channel, reason: ActorflowError, unacknowledged: Sequence[Envelope]) -> None:
        """Hears that a session is over; see `Receiver.lost`."""
        self.system.check_here()
        there = self._attached.get(channel.peer)
        if there is not None and there[0].channel is channel:
            peer, serving = there
            # ORDER: the books of the next session are open before those of this one end: what ends may send.
            self._attached[peer.name] = peer, InboundAsks(self.system, channel, self.name)
            serving.end()
            peer.end(reason)
            for hear in tuple(self._hearers):
                hear(peer.name, reason)
        # What had not arrived is told of; what was on its way may have arrived all the same.
        for envelope in unacknowledged:
            if envelope.say is EnvelopeKind.TELL:
                self.system.dead_letters.add(f"{channel.peer}/{envelope.target}", envelope.body)

    # -- looking in -----------------------------------------------------------------------------------

    def waits_now(self) -> list[Any]:
        """Returns the messages, and asks, that stand in line for credit."""
        return [entry for peer, _ in self._attached.values() for entry in peer.line]

    def known(self) -> list[str]:
        """Returns the processes that are attached, or that somebody here has an address of an actor of."""
        return sorted(self._known)

    def channels(self) -> dict[str, Channel]:
        """Returns the way to each attached process."""
        return {name: peer.channel for name, (peer, _) in sorted(self._attached.items()) if peer.channel}

    def peers_now(self) -> list[PeerEntry]:
        """Returns what is open with every attached process."""
        return [
            PeerEntry(
                name,
                peer.up,
                len(peer.asks),
                peer.waiting,
                len(serving.open),
                peer.watched,
                peer.describe_loss(),
                _story(peer.channel),
                len(serving.early),
                len(serving.large),
                serving.large.nbytes,
            )
            for name, (peer, serving) in sorted(self._attached.items())
        ]

    def validate(self) -> None:
        """Raises InternalError where what it keeps of its peers does not fit together."""
        for peer, _ in self._attached.values():
            peer.validate()

    def __repr__(self) -> str:
        peers = ", ".join(repr(peer) for peer, _ in self._attached.values()) or "nobody attached"
        return f"<RemoteHub '{self.name}', incarnation {self.incarnation}: {peers}>"


def _story(channel: Channel | None) -> str:
    """What a way to a process went through last; a wire without a story has nothing to tell."""
    story = getattr(channel, "story", None)
    return str(story) if isinstance(story, Story) else ""


class _AttachedChannel:
    """The hub as a child of its system: leaving the system ends it."""

    started = True

    def __init__(self, hub: RemoteHub) -> None:
        self.name = f"hub of {hub.name}"
        self._hub = hub

    def begin(self) -> None:
        """Nothing restarts under the system itself."""

    def end(self, _reason: BaseException | None, *, restart: bool) -> None:
        """The system is left."""
        del restart
        self._hub.close()
        # A system has one hub at a time: the place is free again.
        self._hub.system.outside = None
        self._hub.system.gone(self, heard=True)
