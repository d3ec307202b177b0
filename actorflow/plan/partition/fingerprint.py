"""A number that two processes share when they mean the same program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from zlib import crc32

from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.resource import ResourceDef
from actorflow.plan.program import Constant, Edge, Holding, Program
from actorflow.plan.routine import Routine
from actorflow.values import arrays
from actorflow.values.arrays import Array


def fingerprint(program: Program, graph: Graph) -> int:
    """Returns a number that two processes share when they mean the same program.

    It covers nodes, edges, attributes, devices and the bits of constants; the definitions of the state that
    nodes ask, optimizers and code of the user (of which `values.fingerprint` tells what it can), and the
    seed. Not the user's lines.

    Args:
        program: The program.
        graph: That from which it was lowered.
    """
    whole: Sequence[object] = (_of_nodes(program), _turns(program), graph.seed)
    return crc32(repr((whole, _state(program, graph))).encode())


def _turns(program: Program) -> tuple[object, ...]:
    turns = sorted(program.parallel_iterations.items())
    return program.feeds, program.fetches, program.hidden, turns


def _of_routine(routine: Routine) -> tuple[object, ...]:
    told = [(_of_nodes(program), _turns(program)) for program in routine.bodies]
    rest = (
        routine.control_flow.value,
        routine.results,
        routine.kept,
        routine.frame,
        routine.most,
        routine.draws,
    )
    return (*told, rest)


def _of_nodes(program: Program) -> int:
    found = 0
    for node in program.nodes:
        told = (
            node.name,
            node.op,
            node.kind.value,
            tuple(_describe(s) for s in node.inputs),
            node.controls,
            sorted((name, repr(value)) for name, value in node.attrs.items()),
            tuple(str(s) for s in node.outputs),
            node.device,
            node.frame,
            None if node.routine is None else _of_routine(node.routine),
        )
        found = crc32(repr(told).encode(), found)
    return found


def _state(program: Program, graph: Graph) -> list[object]:
    """Returns what the actors are that nodes ask, in a fixed order."""
    # Sorted below, since the order of a set differs between processes.
    asked = {node.resource for node in program.nodes if node.resource is not None}
    names = program.variables | {h.name for h in asked if h.kind is Holding.RESOURCE}
    objects = {h.name for h in asked if h.kind is not Holding.RESOURCE}
    objects.update(n.attrs["object"] for n in program.nodes if n.resource is not None and "object" in n.attrs)
    return [
        *((name, graph.likenesses[name]) for name in sorted(objects)),
        *(_describe_definition(graph.resources[name], graph) for name in sorted(names)),
    ]


def _describe_definition(resource: ResourceDef, graph: Graph) -> tuple[object, ...]:
    """Returns a definition without its line; names stand for ids of nodes, which differ between processes."""
    told: list[object] = [resource.kind]
    for field in fields(resource):
        value = getattr(resource, field.name)
        if isinstance(value, Port):
            # Ids count all nodes that a process has built; names mean the same in each.
            value = (graph.nodes[value.node].name, value.index)
        # not the line: it says where, and not what
        if field.name != "defined_at":
            told.append((field.name, str(value)))
    for name, port in resource.contents.items():
        told.append((name, _bits(graph.constants[graph.nodes[port.node].attrs["constant"]])))
    return tuple(told)


def _describe(source: Edge | Constant) -> tuple[object, ...]:
    if isinstance(source, Edge):
        return (source.node, source.output)
    return _bits(source.value)


def _bits(value: Array) -> tuple[object, ...]:
    # Bytes are objects: their addresses are not their bits.
    bits = repr(arrays.to_list(value)).encode() if value.dtype.hasobject else value.tobytes()
    return (value.dtype.name, value.shape, crc32(bits))
