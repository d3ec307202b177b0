"""One of two real processes that talk through shared memory: `python shm_process.py ROLE FD COUNT BYTES`.

The receiver looks at every byte that comes and answers each payload by its number; the sender has four on
their way. Either ends with 0 when the other one has gone, and says how many payloads went through the ring.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Sequence

from actorflow.transport.codec.types import Buffer
from actorflow.transport.links.shm import ShmWire
from actorflow.transport.rules.datagrams import HEAD_BYTES
from actorflow.transport.rules.wire import Contact

_SIZES = struct.Struct("<II")
_AHEAD = 4


class SocketWire:
    """Datagrams over a stream; nothing of one that ends."""

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self.stream = self.socket.makefile("rb")

    def send(self, parts: Sequence[Buffer]) -> None:
        sizes = [len(part) for part in parts] + [0]
        try:
            self.socket.sendall(b"".join([_SIZES.pack(*sizes[:2]), *parts]))
        except OSError:
            raise SystemExit(0) from None

    def contact(self) -> Contact:
        return Contact.UNKNOWN

    def receive(self) -> list[Buffer]:
        try:
            sizes = _SIZES.unpack(self._exactly(_SIZES.size))
            return [self._exactly(size) for size in sizes if size]
        except OSError:
            raise SystemExit(0) from None

    def _exactly(self, size: int) -> bytes:
        found = self.stream.read(size)
        if len(found) < size:
            raise SystemExit(0)
        return found


def pattern(number: int, size: int) -> bytes:
    return bytes((number + i) % 256 for i in range(256)) * (size // 256)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


class Talker:
    """Both roles."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self.inner = SocketWire(fd)
        self.wire = ShmWire(self.inner, ring_bytes=1 << 20)
        self.wire.attach(self)
        self.heard = 0

    def receive(self, parts: Sequence[Buffer], *, borrowed: bool = False) -> None:
        number = int.from_bytes(bytes(parts[0][:8]), "little")
        assert number == self.heard, (number, self.heard)
        self.heard += 1
        if len(parts) == 2:
            assert bytes(parts[1]) == pattern(number, self.size)
            self.wire.send([number.to_bytes(HEAD_BYTES, "little")])

    def contact_changed(self) -> None:
        raise AssertionError

    def listen(self) -> None:
        self.wire.receive(self.inner.receive())

    def send(self, count: int) -> None:
        for number in range(count):
            while number - self.heard >= _AHEAD:
                self.listen()
            self.wire.send([number.to_bytes(HEAD_BYTES, "little"), pattern(number, self.size)])
            if number % 50 == 0:
                say(number)
        while self.heard < count:
            self.listen()


def main(role: str, fd: str, count: str, size: str) -> None:
    talker = Talker(int(fd), int(size))
    try:
        if role == "sender":
            talker.send(int(count))
        else:
            while True:
                talker.listen()
    finally:
        stats = talker.wire.stats()
        say(f"ring {stats.by_ring + stats.taken} {stats.malformed + stats.stale}")


if __name__ == "__main__":
    main(*sys.argv[1:])
