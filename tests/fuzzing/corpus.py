"""Frames and datagrams of real traffic: small clusters in the simulator, and a pair of links that say everything.

Recorded when it is asked for, and the same every time: a seed and a number tell a mutation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from actorflow.coord.rules.policy import Async, Backup, Policy, Sync
from actorflow.errors import ActorDied, Where, WireError
from actorflow.sim.world.links import SimWire
from actorflow.transport.codec.message_codec import join
from actorflow.transport.codec.types import DTYPES, Lossy
from actorflow.transport.rules import envelopes
from actorflow.transport.rules.channel import Envelope, EnvelopeKind, Lane
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import Datagram, DatagramKind, SessionEnd, pack, unpack
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.values.tensor_list import TensorList
from tests.cluster.programs import Task
from tests.cluster.training import in_world, train
from tests.transport.net import Net, Way
from tests.transport.values import Colour, Holder, Nothing, Point

KEPT = 400
"""Of frames, and of datagrams of each form."""

_LARGEST = 1 << 16  # bytes of a frame that is kept: larger ones teach nothing more and take longer


@dataclass(frozen=True)
class Corpus:
    """What was said.

    Attributes:
        frames: Envelopes, as the codec writes them.
        datagrams: Head and payload of each.
        hellos: Payloads of hellos.
    """

    frames: tuple[bytes, ...]
    datagrams: tuple[tuple[bytes, ...], ...]
    hellos: tuple[bytes, ...]


@cache
def recorded() -> Corpus:
    """Returns the corpus."""
    frames: dict[bytes, None] = {}
    datagrams: dict[tuple[bytes, ...], None] = {}
    with _watched(frames, datagrams):
        for policy, task in (
            (Sync(), Task()),
            (Backup(1, 2), Task(sparse=True, optimizer="momentum")),
            (Async(), Task(dropout=0.25)),
        ):
            _trained(policy, task)
        _talked(list(spoken()))
    hellos = {parts[1]: None for parts in datagrams if unpack(parts).form is DatagramKind.HELLO}
    forms = [[parts for parts in datagrams if unpack(parts).form is form] for form in DatagramKind]
    return Corpus(_kept(frames), tuple(parts for form in forms for parts in _kept(form)), tuple(hellos))


def _talked(envelopes_: list[Envelope]) -> None:
    """Two links that say everything, wait, lose, and close."""
    net = Net()
    for envelope in envelopes_:
        net.a.send(envelope)
    net.deliver()
    net.b.send(envelopes_[0])
    net.lose()
    net.pass_time(3.0)
    narrow = Net(LinkSettings(window=Window(2, 1 << 20), lossy=Lossy.BFLOAT16))
    narrow.at_a.parks = True
    for _ in range(4):
        narrow.b.send(Envelope("x", np.linspace(0, 1, 2000, dtype="f4")))
    narrow.pass_time(3.0)  # it asks for credit
    strange = pack(Datagram(DatagramKind.BEAT, SessionEnd(1, 1), SessionEnd(3, 1)))
    narrow.a.receive(strange)  # and answers what belongs to no session
    narrow.a.close()
    narrow.deliver()


def spoken() -> Iterator[Envelope]:
    """All that an envelope can be: says, lanes, and bodies with every kind that a header names."""
    for k, body in enumerate(_bodies()):
        yield Envelope(
            "echo", body, EnvelopeKind(k % len(EnvelopeKind)), Lane(k % len(Lane)), k, (0.0, 2.5)[k % 2]
        )


def _bodies() -> Iterator[Any]:
    yield from (None, True, -1, 2**63, 2**200, -(2**70), 1.5, "text", "\ud800", b"bytes", bytes(5000))
    for dtype in DTYPES:
        raw = np.arange(12 * dtype.itemsize, dtype=np.uint8)
        array = (raw & 1 if dtype.kind == "b" else raw).view(dtype).reshape(3, 4)
        yield array
        yield [array[0], array[1], array[2]]
        yield {"turned": array.T, "gaps": array[:, ::2], "none": array[:0]}
        if dtype.isnative and dtype.kind != "V":
            yield array[0, 0]
            yield [array[0, k] for k in range(4)]
    yield np.array([b"a", b"", None], object)[:2]
    yield [b"a", b"bb", b""], [1, 2, 3], ["a", "b"]
    yield [(k, float(k), np.full(2, k)) for k in range(5)]
    yield [{"k": k, "x": np.full((2, 2), k, "f4"), "deep": (k, [k])} for k in range(4)]
    yield [{"k": {"j": (np.uint8(k),)}} for k in range(20)]
    yield {None: 1, 2: b"", "a": [[], (), {}], b"k": [[[1]]]}
    yield Point(1, Colour.RED, z=Nothing()), Holder({"a": np.ones(3)}), [Point(k) for k in range(3)]
    rows = [np.full(3, k, "f4") for k in range(4)]
    yield (
        TensorList.of(rows),
        TensorList.at([1, 70], rows[:2], 100),
        TensorList.at([0, 9], [rows[0], np.ones(2)]),
    )
    yield TensorList.of([TensorList.of(rows), TensorList(5), TensorList.of([np.ones((2, 3)).T])])
    error = ActorDied("it failed", where=Where(node="n", step=3), hint="look")
    error.__cause__ = WireError("bytes")
    error.add_note("a note")
    yield error
    yield np.arange(20_000, dtype="f8")
    yield [np.arange(9000, dtype="f4"), "between", np.arange(9000, dtype="i8")]


def _trained(policy: Policy, task: Task) -> None:
    program = task.program()

    async def body(world: Any) -> Any:
        return await train(world, program, policy, ps=2, workers=2, steps=3)

    ran = in_world(2, 2, body)()
    assert ran.failure is None, ran.failure


@contextmanager
def _watched(frames: dict[bytes, None], datagrams: dict[tuple[bytes, ...], None]) -> Iterator[None]:
    write, sends = envelopes.write, {kind: kind.send for kind in (SimWire, Way)}

    def writing(*given: Any, **options: Any) -> Any:
        parts, size = write(*given, **options)
        frames[join(parts)] = None
        return parts, size

    def sending(self: Any, parts: Sequence[Any]) -> None:
        datagrams[tuple(bytes(part) for part in parts)] = None
        sends[type(self)](self, parts)

    with (
        patch.object(envelopes, "write", writing),
        patch.object(SimWire, "send", sending),
        patch.object(Way, "send", sending),
    ):
        yield


def _kept(found: Collection[Any]) -> tuple[Any, ...]:
    """Those that are not too large, evenly picked."""
    small = [each for each in found if len(b"".join(each) if type(each) is tuple else each) <= _LARGEST]
    return tuple(small[k * len(small) // KEPT] for k in range(KEPT)) if len(small) > KEPT else tuple(small)
