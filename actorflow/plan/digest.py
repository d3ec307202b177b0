"""Do two processes mean the same program? A number says so."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from actorflow import arrays
from actorflow.arrays import Array
from actorflow.plan.program import Constant, Edge, Program


def digest(program: Program) -> int:
    """Returns a number that two processes share when they mean the same program.

    It covers nodes, edges, attributes, devices and the bits of constants; not the lines of the user.
    """
    found = 0
    for node in program.nodes:
        told = (
            node.name,
            node.op,
            node.kind.value,
            tuple(_told(s) for s in node.inputs),
            node.controls,
            sorted((name, repr(value)) for name, value in node.attrs.items()),
            node.device,
            node.frame,
        )
        found = crc32(repr(told).encode(), found)
    ends: Sequence[object] = (program.feeds, program.fetches, program.hidden)
    return crc32(repr(ends).encode(), found)


def _told(source: Edge | Constant) -> tuple[object, ...]:
    if isinstance(source, Edge):
        return (source.node, source.output)
    return _bits(source.value)


def _bits(value: Array) -> tuple[object, ...]:
    bits = repr(arrays.listed(value)).encode() if value.dtype.hasobject else value.tobytes()
    return (value.dtype.name, value.shape, crc32(bits))
