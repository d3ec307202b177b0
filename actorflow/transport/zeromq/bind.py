"""The addresses that others connect to: bound, guarded by ZAP, bound anew when their key is dropped."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

import zmq

from actorflow.errors import ConfigError
from actorflow.transport.rules.address import Address, Ipc, Place, place
from actorflow.transport.rules.security import KeyRing, RefusalReason, ZapDomain
from actorflow.transport.zeromq import authentication
from actorflow.transport.zeromq.keys import Keyring
from actorflow.transport.zeromq.monitor import FAILURES, Monitor, News
from actorflow.transport.zeromq.peer_address import peer_address
from actorflow.transport.zeromq.zap import ZapGate


class BoundAddresses:
    """The addresses of one socket.

    Whoever owns it waits for messages at `zap_gate` and `monitor`, gives them to `answer_zap` and
    `hear_news`, and calls `bind_again` from time to time while `waits`.

    Args:
        context: Of the socket.
        socket: To be bound; it is this one's from now on.
        bind: Where, as transport addresses; port 0 is any that is free.
        keys: Of this process, or None.
        refused: Hears of everybody who is not let in, and where from.

    Raises:
        ConfigError: an address cannot be bound, or must not be without keys.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        bind: Sequence[str],
        *,
        keys: Keyring | None,
        refused: Callable[[RefusalReason, str], None],
    ) -> None:
        self._keys = keys
        self._refused = refused
        self._socket = socket
        self._pair = keys.ring.current if keys is not None else None
        self._bound: list[tuple[str, Place, ZapDomain]] = []
        self._unbound: list[str] = []
        self._latest = News.CLOSED
        self._whose: dict[int, str] = {}  # where a connection comes from, by its descriptor
        self._files: list[tuple[Ipc, int]] = []  # that were made here, and their inodes
        self.zap_gate = ZapGate(context, self._ring, refused)
        self.monitor = Monitor(context, socket)
        try:
            # Socket files first: they need no key, and a socket that has one asks for keys from then on.
            for at in sorted(map(place, bind), key=lambda at: not isinstance(at, Ipc)):
                asked = authentication.zap_domain(at, self._ring())
                self._bound.append((authentication.bind(socket, at, asked, self._pair), at, asked))
                if isinstance(at, Ipc):
                    self._files.append((at, os.lstat(at.path).st_ino))
        except ConfigError:
            self.close(0.0)
            raise

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What others dial."""
        shown = self._pair.public if self._pair is not None else None
        return tuple(Address(at, shown if asked is ZapDomain.KEYS else None) for at, _, asked in self._bound)

    def allows(self, key: str, name: str) -> bool:
        """Tells whether a connection that has shown that key, or "" for none, may speak as that process."""
        return not key or self._keys is None or self._keys.ring.allows(key, name)

    def answer_zap(self) -> None:
        """Answers one question of the gate; raises `zmq.Again` when there is none."""
        self.zap_gate.take()
        self._follow_keys()

    def hear_news(self, news: News, value: int) -> str:
        """Takes one of the news; returns where a connection came from that has ended, "" for all others."""
        before, self._latest = self._latest, news
        if news is News.ACCEPTED:
            self._whose[value] = peer_address(value)
        elif news is News.DISCONNECTED:
            whose = self._whose.pop(value, "")
            if before in FAILURES:  # which did not tell whose
                self.failed(before, whose)
            return whose
        return ""

    def failed(self, news: News, whose: str) -> None:
        """Takes a handshake that failed, and with whom; what the gate refused was told by that."""
        if news is not News.FAILED_AUTH:
            self._refused(RefusalReason.HANDSHAKE, whose)
            self._follow_keys()  # it may know that our key was dropped

    def _ring(self) -> KeyRing | None:
        return self._keys.ring if self._keys is not None else None

    # -- keys that were dropped --------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether `bind_again` has something to do."""
        return bool(self._unbound)

    def _follow_keys(self) -> None:
        """Shows another key once the one that is shown was dropped; connections with it end here."""
        if self._keys is None or self._pair is None or self._pair.public in self._keys.ring.publics:
            return
        self._pair = self._keys.ring.current
        for at, _, asked in self._bound:
            if asked is ZapDomain.KEYS and at not in self._unbound:
                self._socket.unbind(at)
                self._unbound.append(at)

    def bind_again(self) -> None:
        """Binds the same ports as before; libzmq's thread may take a moment to let them go."""
        waiting, self._unbound = self._unbound, []
        for at in waiting:
            try:
                authentication.bind(self._socket, place(at), ZapDomain.KEYS, self._pair)
            except ConfigError:
                self._unbound.append(at)

    def close(self, linger_s: float) -> None:
        """Ends all connections; what was sent has so long to leave."""
        self.monitor.close()
        self._socket.close(round(linger_s * 1000))
        self.zap_gate.close()
        for at, inode in self._files:  # libzmq leaves them
            with contextlib.suppress(OSError):
                if os.lstat(at.path).st_ino == inode:
                    os.unlink(at.path)
