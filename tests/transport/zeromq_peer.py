"""A process at the other end, which is stopped, held up and killed by tests: `python -m tests.transport.zeromq_peer`.

It is dialled at the first address and dials the second one, says Hello there, and then does what it is told in
one line a time: how long to hold its loop, or all of Python. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading

from actorflow.runtime.clock import SystemClock
from actorflow.transport.zeromq import Address, Endpoint
from tests.transport.sockets import QUICK, Ear, until
from tests.transport.test_zeromq import hello


def hold_python(seconds: float) -> None:
    """Keeps Python's lock: one search does not let go of it."""
    now = SystemClock.now
    end = now() + seconds
    while now() < end:
        re.match(r"(a|a)*$", "a" * 19 + "b")  # ~0.1 s each; threads get the lock in between, for a moment


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(bind: str, dial: str) -> None:
    loop = asyncio.get_running_loop()
    dialled = Endpoint(loop, "dialled", [bind], options=QUICK)
    dials = Endpoint(loop, "dials", options=QUICK)
    ears = Ear(dialled, "test"), Ear(dials, "test")
    dials.dial("test", Address(dial))
    await until(lambda: ears[1].wire.contact().name == "CONNECTED")
    ears[1].wire.send(hello())
    say("ready")
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).split():
        if line[0] == b"loop":
            threading.Event().wait(float(line[1]))
        else:
            hold_python(float(line[1]))
        say("held")
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
