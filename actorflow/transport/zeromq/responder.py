"""Answers questions from a thread of its own, whatever the loop of the process is doing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from threading import Thread

import zmq

from actorflow.errors import ConfigError, NoAnswer, NobodyThere, PeerRefused, RequestFailed, describe, shorten
from actorflow.runtime.clock import SystemClock
from actorflow.transport.codec.failures import WHAT
from actorflow.transport.rules.address import Address
from actorflow.transport.rules.security import KeyPair, attempts
from actorflow.transport.zeromq import authentication
from actorflow.transport.zeromq.bind import BoundAddresses
from actorflow.transport.zeromq.counters import Counters, EndpointStats
from actorflow.transport.zeromq.keys import Keyring
from actorflow.transport.zeromq.monitor import Monitor, News
from actorflow.transport.zeromq.options import OPTIONS, Options, make

log = logging.getLogger("actorflow.transport")

_DONE, _FAILED = b"\0", b"\1"
_ID_BYTES = 16
_REBIND_MS = 20
_MOST_ANSWER = 64 << 20


class Responder:
    """Answers bytes with bytes, one question after the other, until it is closed.

    Args:
        name: Of this process, for its log.
        bind: Where, as for an `Endpoint`.
        answer: Gives the answer to a question, in the thread; what it raises is answered as an error.
        keys: Those of the cluster, or None.
        options: How its socket behaves.

    Raises:
        ConfigError: it cannot be bound there, or must not be.
    """

    def __init__(
        self,
        name: str,
        bind: Sequence[str],
        answer: Callable[[bytes], bytes],
        *,
        keys: Keyring | None = None,
        options: Options = OPTIONS,
    ) -> None:
        self._answer = answer
        self._counters = Counters(name)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.setsockopt(zmq.BLOCKY, 0)
        self._socket = make(self._context, zmq.ROUTER, options)
        try:
            self._addresses_bound = BoundAddresses(
                self._context, self._socket, bind, keys=keys, refused=self._counters.refuse
            )
        except ConfigError:
            self._context.term()
            raise
        at = "inproc://end"
        self._told_to_end = self._context.socket(zmq.PAIR)
        self._told_to_end.bind(at)
        self._end = self._context.socket(zmq.PAIR)
        self._end.linger = 0
        self._end.connect(at)
        self._linger_s = 0.0
        self._thread = Thread(target=self._run, name=f"{name} answers", daemon=True)
        self._thread.start()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it can be asked."""
        return self._addresses_bound.addresses

    def stats(self) -> EndpointStats:
        """Returns its account."""
        return self._counters.stats(connections=0, unmatched=0, routes=0)

    def close(self, linger_s: float = 0.2) -> None:
        """Ends it; closing twice is harmless. An answer that is being made ends by itself, unheard.

        Args:
            linger_s: How long answers have to leave; it takes no longer.
        """
        if self._end.closed:
            return
        self._linger_s = linger_s
        self._end.send(b"")
        self._end.close()
        self._thread.join(linger_s)

    def _run(self) -> None:
        """ORDER: the sockets are this thread's alone from its start to its end."""
        entrance, poller = self._addresses_bound, zmq.Poller()
        turns: dict[zmq.Socket[bytes], Callable[[], object]] = {
            self._socket: self._take,
            entrance.zap_gate.socket: entrance.answer_zap,
            entrance.monitor.socket: lambda: entrance.hear_news(*entrance.monitor.take()),
        }
        for socket in (*turns, self._told_to_end):
            poller.register(socket, zmq.POLLIN)
        while True:
            ready = dict(poller.poll(_REBIND_MS if entrance.waits else None))
            if self._told_to_end in ready:
                break
            for socket in ready:
                try:
                    turns[socket]()
                except zmq.ZMQError:  # as when the asker has gone
                    self._counters.dropped += 1
            if entrance.waits:
                entrance.bind_again()
        entrance.close(self._linger_s)
        self._told_to_end.close(0)
        self._context.term()

    def _take(self) -> None:
        who, *question = self._socket.recv_multipart(zmq.NOBLOCK)
        if len(question) != 2 or len(question[0]) != _ID_BYTES:
            self._counters.dropped += 1
            return
        self._counters.datagrams_in += 1
        self._counters.bytes_in += len(question[1])
        try:
            kind, answer = _DONE, self._answer(question[1])
        except Exception as error:
            log.warning("a question could not be answered", exc_info=error)
            kind, answer = _FAILED, shorten(describe(error), WHAT).encode(errors="replace")
        self._socket.send_multipart([who, question[0], kind, answer], zmq.NOBLOCK)
        self._counters.datagrams_out += 1
        self._counters.bytes_out += len(answer)


def request(address: Address, payload: bytes, timeout_s: float = 2.0, keys: Keyring | None = None) -> bytes:
    """Asks a `Responder` and returns its answer; waits for it.

    Args:
        address: Where it is.
        payload: The question, of 1 MiB at most.
        timeout_s: How long to wait.
        keys: Those of its cluster, or None.

    Raises:
        ConfigError: the address is none, or needs keys.
        NobodyThere: nobody listens there.
        PeerRefused: it does not know our keys, or we do not know its.
        NoAnswer: it did not answer in time.
        RequestFailed: it answered with an error.
    """
    ring = None if keys is None else keys.ring
    authentication.check_dialled(address, ring)
    tries: tuple[tuple[str | None, KeyPair | None], ...] = ((None, None),)
    if address.key is not None and ring is not None:
        tries = attempts(ring, address.key)
    clock = SystemClock()
    end_s = clock.now() + timeout_s
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        for expected, pair in tries:
            found = _ask(context, address, expected, pair, payload, lambda: end_s - clock.now())
            if found is not None:
                return found
    finally:
        context.destroy(linger=0)
    message = f"who answers at {address.at} and who asks have a key in common, got none"
    raise PeerRefused(message, hint="--keys FILE, with the file that the cluster uses")


def _ask(
    context: zmq.Context[zmq.Socket[bytes]],
    address: Address,
    expected: str | None,
    pair: KeyPair | None,
    payload: bytes,
    left_s: Callable[[], float],
) -> bytes | None:
    """Asks with one key; returns the answer, or None when the key is refused."""
    socket = make(context, zmq.DEALER, Options(message_bytes=_MOST_ANSWER))
    monitor = Monitor(context, socket)
    poller = zmq.Poller()
    poller.register(monitor.socket, zmq.POLLIN)
    poller.register(socket, zmq.POLLIN)
    number = os.urandom(_ID_BYTES)
    try:
        authentication.connect(socket, address, expected, pair)
        while (wait_s := left_s()) > 0:
            ready = dict(poller.poll(max(1, int(wait_s * 1000))))
            if socket in ready:
                got = socket.recv_multipart()
                if len(got) == 3 and got[0] == number:
                    return _answer(address, *got[1:])
            if monitor.socket not in ready:
                continue
            match monitor.take()[0]:
                case News.MET:
                    socket.send_multipart([number, payload])
                case News.RETRIED:
                    message = f"somebody listens at an address that is asked, got nobody at {address.at}"
                    raise NobodyThere(message, hint="has the process ended?")
                case News.FAILED_AUTH | News.FAILED_PROTOCOL | News.FAILED:
                    return None
                case _:
                    pass
        message = f"who is asked answers in time, got nothing from {address.at}"
        raise NoAnswer(message, hint="the process may be stopped, or hold Python's lock")
    finally:
        monitor.close()
        socket.close(0)


def _answer(address: Address, kind: bytes, answer: bytes) -> bytes:
    if kind == _DONE:
        return answer
    message = f"a question to {address.at} could not be answered there: {answer.decode(errors='replace')}"
    raise RequestFailed(message)
