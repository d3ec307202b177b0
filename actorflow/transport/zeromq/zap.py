"""Answers libzmq's question whether a connection may come in (ZAP, 27/ZAP in ZeroMQ's RFCs).

libzmq asks at a socket of the same context; a connection waits, unheard, until it is answered.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import zmq
from zmq.utils import z85

from actorflow.transport.rules.security import KeyRing, RefusalReason, ZapDomain, judge

_AT = "inproc://zeromq.zap.01"


class ZapGate:
    """Lets in whom `security.judge` lets in.

    Args:
        context: Of the sockets that it guards.
        ring: Gives the keys that are let in now.
        refused: Hears of each that was not, and its address.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        ring: Callable[[], KeyRing | None],
        refused: Callable[[RefusalReason, str], None],
    ) -> None:
        self._ring = ring
        self._refused = refused
        self._user = os.geteuid()
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(_AT)

    def take(self) -> None:
        """Answers one question; raises `zmq.Again` when there is none."""
        version, request, domain, address, _identity, mechanism, *credentials = self.socket.recv_multipart(
            zmq.NOBLOCK
        )
        where = address.decode(errors="replace")
        key = z85.encode(credentials[0]).decode() if mechanism == b"CURVE" and credentials else None
        refusal = judge(
            ZapDomain(domain.decode()), mechanism.decode(), where, key, ring=self._ring(), user=self._user
        )
        # The key becomes the user id of every message, so that the name it bears can be checked against it.
        code, user = (b"200", (key or "").encode()) if refusal is None else (b"400", b"")
        self.socket.send_multipart([version, request, code, b"", user, b""], zmq.NOBLOCK)
        if refusal is not None:
            self._refused(refusal, where.partition(":")[0] if domain_of(domain) is ZapDomain.USER else where)

    def close(self) -> None:
        """Answers no more."""
        self.socket.close()


def domain_of(domain: bytes) -> ZapDomain:
    """Returns the domain that a question is about."""
    return ZapDomain(domain.decode())
