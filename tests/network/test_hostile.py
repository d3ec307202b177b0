"""Whoever means harm to a running cluster is counted and told of once; training goes on."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

import actorflow as af
from actorflow.transport.address import Tcp, place
from actorflow.transport.zeromq import Keyring
from tests.network.rig import Rig

HOSTILE = Path(__file__).with_name("hostile.py")
WINDOW_S = 1.5
TRIES = 3
"""Other work of the machine slows a window down as well: the best of so many counts."""

TARGETS = ("chief", "ps0")


async def _rate(rig: Rig) -> float:
    before = len(rig.updates)
    await asyncio.sleep(WINDOW_S)
    assert rig.failure is None, rig.failure
    return (len(rig.updates) - before) / WINDOW_S


async def _attacked(rig: Rig, keys: Keyring) -> float:
    """Returns the rate while every target is attacked."""
    processes = []
    for name in TARGETS:
        address = rig.ways[name].addresses[0]
        at, pair = place(address.at), keys.ring.pairs[0]
        assert isinstance(at, Tcp)
        argv = [str(at.port), address.key, pair.public, pair.secret, str(WINDOW_S + 1.0)]
        processes.append(await asyncio.create_subprocess_exec(sys.executable, str(HOSTILE), *argv))
    await asyncio.sleep(0.5)  # they begin
    rate = await _rate(rig)
    for process in processes:
        assert await asyncio.wait_for(process.wait(), 20.0) == 0
    return rate


def test_training_goes_on_among_hostile_peers(caplog: pytest.LogCaptureFixture) -> None:
    keys = Keyring.new()

    async def main() -> dict[str, dict[str, int]]:
        rig = Rig(keys=keys, batches=20_000, bare=True)
        async with rig:
            training = asyncio.ensure_future(rig.train(steps=20_000))
            await rig.until_step(20)
            rates: list[tuple[float, float]] = []
            while len(rates) < TRIES and not any(under >= alone / 2 for alone, under in rates):
                rates.append((await _rate(rig), await _attacked(rig, keys)))
            assert any(under >= alone / 2 for alone, under in rates), rates
            assert rig.losses() == [], "no session of the cluster is touched"
            training.cancel()
            await asyncio.wait([training])
            assert rig.failure is None
            assert [u.version for u in rig.updates] == list(range(1, len(rig.updates) + 1))
            return {name: dict(rig.ways[name].stats().refused) for name in TARGETS}

    with caplog.at_level("WARNING"):
        refused = af.run(main())
    for name in TARGETS:  # a peer without a key is one whose handshake failed: libzmq tells no more
        assert {"wrong_key", "handshake", "malformed", "unknown_name"} <= refused[name].keys(), refused
        assert refused[name]["handshake"] > 10, refused
    lines = Counter(record.getMessage() for record in caplog.records)
    kinds = {(line.split(" ")[0], line.split(", from")[0]) for line in lines}
    assert len(kinds) == sum(map(len, refused.values())), lines
    assert sum(lines.values()) == len(kinds), "one line a kind"
