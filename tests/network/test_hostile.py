"""Whoever means harm to a running cluster is counted and told of once; training goes on."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import actorflow as af
from actorflow.transport.rules.address import Tcp, place
from actorflow.transport.zeromq import Keyring
from tests.network.rig import Rig

HOSTILE = Path(__file__).with_name("hostile.py")
WINDOW = 100
"""Updates over which is counted what one costs: seconds of this process, whatever else the machine does."""

DEARER = 3.0
"""An update under attack may cost so many times as much: refusing what they send costs something."""

ATTACK_S = 60.0
"""After so long an attacker ends by itself."""

TARGETS = ("chief", "ps0")
KINDS = {"wrong_key", "handshake", "malformed", "unknown_name"}
"""As what they are refused. A peer without a key is one whose handshake failed: libzmq tells no more."""


async def _cost(rig: Rig) -> float:
    """Returns the processor's seconds that this process, with all process runtimes in it, needs an update."""
    made, before = len(rig.updates), time.process_time()
    await rig.until_step(made + WINDOW)
    assert rig.failure is None, rig.failure
    return (time.process_time() - before) / (len(rig.updates) - made)


async def _attacked(rig: Rig, keys: Keyring) -> float:
    """Returns the cost of an update while every target is attacked."""
    processes = []
    for name in TARGETS:
        address = rig.ways[name].addresses[0]
        at, pair = place(address.at), keys.ring.pairs[0]
        assert isinstance(at, Tcp)
        argv = [str(at.port), address.key, pair.public, pair.secret, str(ATTACK_S)]
        processes.append(await asyncio.create_subprocess_exec(sys.executable, str(HOSTILE), *argv))
    async with asyncio.timeout(20.0):
        while not all(rig.ways[name].stats().refused.keys() >= KINDS for name in TARGETS):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # they begin
    cost = await _cost(rig)
    for process in processes:
        assert process.returncode is None, "it attacked all the while"
        process.kill()
        await process.wait()
    return cost


def test_training_goes_on_among_hostile_peers(caplog: pytest.LogCaptureFixture) -> None:
    keys = Keyring.new()

    async def main() -> dict[str, dict[str, int]]:
        rig = Rig(keys=keys, batches=20_000, bare=True, patient=True)
        async with rig:
            training = asyncio.ensure_future(rig.train(steps=20_000))
            await rig.until_step(20)
            alone, under = await _cost(rig), await _attacked(rig, keys)
            assert under < DEARER * alone, (under, alone)
            assert rig.losses() == [], "no session of the cluster is touched"
            training.cancel()
            await asyncio.wait([training])
            assert rig.failure is None
            assert [u.version for u in rig.updates] == list(range(1, len(rig.updates) + 1))
            return {name: dict(rig.ways[name].stats().refused) for name in TARGETS}

    with caplog.at_level("WARNING"):
        refused = af.run(main())
    for name in TARGETS:
        assert refused[name].keys() >= KINDS, refused
        assert refused[name]["handshake"] > 2, refused
    lines = Counter(record.getMessage() for record in caplog.records)
    kinds = {(line.split(" ")[0], line.split(", from")[0]) for line in lines}
    assert len(kinds) == sum(map(len, refused.values())), lines
    assert max(lines.values()) == 1, "one line a kind, and where from"
