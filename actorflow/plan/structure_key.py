"""A key that programs share which do the same in the same way: an installed one can run for the other.

A graph that builds the same nodes again, with every step, gives each time a program of other nodes and other
names, and otherwise the same. The key is what is left without the names: kinds, ops, attributes, edges,
control edges, devices, frames, resources, specs, the user's lines, and constants. Nodes are known by their
place in the program, which follows the order in which they were built.

A key is good only as long as the program that it was made of is there: what is large is known by the object.

Pure: a function of a program.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from actorflow.graph.node import is_plain
from actorflow.plan.program import Constant, PlanNode, Program
from actorflow.values.arrays import is_dtype, name_of, nbytes

_COMPARED_BYTES = 4096
_NODE = "name op kind inputs controls attrs outputs device frame resource where"
_LATER = tuple(f.name for f in fields(PlanNode) if f.name not in _NODE.split())
"""Fields of nodes that are not written out in `_node`: they count as well."""


def structure_key(program: Program) -> Hashable:
    """Returns what two programs share of which one may run for the other.

    It holds every field of a program and of its nodes but their names.
    """
    # Every field, also those that are added later: what is left out would make two programs equal that are
    # not.
    whole = (_hashable(getattr(program, f.name)) for f in fields(program) if f.name != "nodes")
    return tuple(map(_node, program.nodes)), tuple(whole)


def _node(node: PlanNode) -> Hashable:
    """Returns a node without its name; written out, in a fifth of the time that `_hashable` takes."""
    return (
        node.op,
        node.kind.value,
        tuple([_bits(source) if type(source) is Constant else source for source in node.inputs]),
        node.controls,
        _attrs(node),
        node.outputs,
        node.device,
        node.frame,
        None if node.resource is None else (node.resource.kind.value, node.resource.name),
        # Lines are in it and names are not: so an error of a program that runs for another names the line
        # that is right, and a node that was built there before.
        node.where.defined_at,
        tuple([_hashable(getattr(node, name)) for name in _LATER]),
    )


def _attrs(node: PlanNode) -> Hashable:
    """Returns the attributes as text, which tells 1, True and 1.0 apart; they are plain data."""
    attrs = node.attrs
    if all(map(is_plain, attrs.values())):
        # As text, since 1, True and 1.0 are equal otherwise.
        return repr(sorted(attrs.items()))
    return _hashable(attrs)


def _hashable(value: Any) -> Hashable:
    """Returns a value as something that is equal only to what cannot be told from it."""
    kind = type(value)
    if kind is PlanNode:
        return _node(value)
    if kind is Program:
        return structure_key(value)
    if kind is Constant:
        return _bits(value)
    if isinstance(value, Enum):
        return kind, value.name
    if isinstance(value, tuple):
        return kind, tuple(map(_hashable, value))
    if isinstance(value, Mapping):
        return "mapping", frozenset((_hashable(k), _hashable(v)) for k, v in value.items())
    if isinstance(value, frozenset):
        return kind, frozenset(map(_hashable, value))
    # as with attributes: text tells 1 and True apart
    if is_plain(value):
        return kind, repr(value)
    if is_dataclass(value):
        return kind, tuple(_hashable(getattr(value, f.name)) for f in fields(value))
    if is_dtype(value):
        return "dtype", name_of(value)
    # Whatever is no plain data is equal to itself alone.
    return kind, id(value)


def _bits(constant: Constant) -> Hashable:
    value = constant.value
    # Small constants are equal when their bits are; large ones when they are one object.
    if nbytes(value) > _COMPARED_BYTES or value.dtype.hasobject:
        return "object", id(value)
    return value.dtype.name, value.shape, value.tobytes()
