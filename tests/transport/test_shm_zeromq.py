"""Shared memory beside real sockets: it is used, and made anew with a new life of the peer."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actorflow.runtime.event_loop import loop_factory
from actorflow.transport.links.link import Link
from actorflow.transport.rules.channel import Envelope
from actorflow.transport.rules.handshake import Phase
from actorflow.transport.zeromq import Endpoint, Options
from tests.transport.sockets import real_link, until
from tests.transport.ways import REAL, Recorder

pytestmark = pytest.mark.wire

ARRAY = np.arange(3 << 18, dtype=np.float32)


def shared(link: Link) -> Any:
    """The counters of its shared memory."""
    return link._wire.stats()  # type: ignore[attr-defined]


def is_open_to(link: Link, life: int) -> bool:
    return link.phase is Phase.OPEN and link.handshake.theirs.incarnation == life


async def _exchange(a: Link, b: Link, at_a: Recorder, at_b: Recorder) -> None:
    """Both send an array to each other, and take it in."""
    ends = ((a, at_b), (b, at_a))
    for link, receiver in ends:
        receiver.got.clear()
        link.send(Envelope("x", ARRAY))
    await until(lambda: at_a.got and at_b.got)
    for _, receiver in ends:
        assert (receiver.got[0].body == ARRAY).all()


def test_a_new_life_of_the_peer_gets_new_rings(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        options = Options(reconnect_s=0.01)
        dialled = Endpoint(loop, "ps0", [f"ipc://{tmp_path}/s"], options=options)
        at_a = Recorder()
        a = real_link(dialled, "worker0", at_a, settings=REAL, shares=True)
        try:
            for life in (1, 2, 3):
                dials, at_b = Endpoint(loop, "worker0", options=options), Recorder()
                try:
                    dials.dial("ps0", dialled.addresses[0])
                    b = real_link(dials, "ps0", at_b, incarnation=life, settings=REAL, shares=True)
                    await until(partial(is_open_to, a, life))
                    for _ in range(3):
                        await _exchange(a, b, at_a, at_b)
                    assert shared(b).by_ring >= 6
                    assert shared(a).by_ring >= 6 * life
                    assert shared(a).offered == life
                    assert shared(a).malformed == shared(b).malformed == shared(a).refused == 0
                finally:
                    dials.close()
        finally:
            dialled.close()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())
