"""`actorflow graph FILE`: prints a program's graph as a table; `--dot` writes it for Graphviz."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from actorflow.cli import dot
from actorflow.cli.arguments import natural
from actorflow.cli.program import ProgramFile
from actorflow.cli.table import columns
from actorflow.errors import ProgramError
from actorflow.graph.graph import Graph, Resource, VariableDef
from actorflow.graph.node import Node
from actorflow.spec import Spec

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    parser = commands.add_parser(
        "graph",
        help="show the graph of a program file",
        description="Prints the graph that build(seed) makes.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a Python file that defines build(seed)")
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="the seed to build with (default 0)"
    )
    parser.add_argument("--dot", type=Path, metavar="OUT.dot", help="write the graph here, for Graphviz")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Prints the table, writes the file if one is wanted, and returns 0."""
    graph = ProgramFile(args.file).graph(args.seed)
    print("\n".join(describe(graph)))
    if args.dot is not None:
        try:
            args.dot.write_text(dot.render(graph, title=args.file.stem), encoding="utf-8")
        except OSError as error:
            message = f"{args.dot} must be a file that can be written, got {error.strerror}"
            raise ProgramError(message) from None
        print(f"\nwrote {args.dot}")
    return 0


def describe(graph: Graph) -> Iterator[str]:
    """Yields a line of totals, the table of resources and the table of nodes."""
    variables = [r for r in graph.resources.values() if isinstance(r, VariableDef)]
    queues = len(graph.resources) - len(variables)
    parameters = sum(_size(v.spec) for v in variables if v.trainable)
    counts = (_count(len(graph), "node"), _count(len(variables), "variable"), _count(queues, "queue"))
    yield f"{', '.join(counts)}, {_count(parameters, 'trainable parameter')}, seed {graph.seed}"
    if graph.resources:
        yield ""
        states = ("state", "spec", "device", "defined at")
        yield from columns([states, *map(_resource, graph.resources.values())])
    yield ""
    nodes = ("node", "op", "spec", "device", "defined at", "inputs")
    yield from columns([nodes, *(_node(graph, n) for n in graph.nodes)])


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _size(spec: Spec) -> int:
    """Elements, 0 where nobody knows before the first assignment."""
    return 0 if spec.shape is None else prod(d or 0 for d in spec.shape)


def _resource(resource: Resource) -> tuple[str, ...]:
    if isinstance(resource, VariableDef):
        spec = str(resource.spec) + ("" if resource.trainable else ", not trainable")
    else:
        limit = "" if resource.capacity is None else f", at most {resource.capacity}"
        spec = f"queue of [{', '.join(map(str, resource.components))}]{limit}"
    return resource.name, spec, resource.device or "-", resource.defined_at


def _node(graph: Graph, node: Node) -> tuple[str, ...]:
    inputs = [graph.node(p.node).name + (f":{p.index}" if p.index else "") for p in node.inputs]
    controls = [f"^{graph.node(c).name}" for c in node.controls]
    specs = ", ".join(map(str, node.outputs)) or "-"
    return node.name, node.op, specs, node.device or "-", node.defined_at, ", ".join(inputs + controls) or "-"
