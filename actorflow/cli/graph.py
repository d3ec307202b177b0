"""`actorflow graph FILE`: prints a program's graph as a table; `--dot` writes it for Graphviz."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from actorflow.cli.arguments import natural
from actorflow.cli.display import dot
from actorflow.cli.display.text_table import ShortenableColumn, columns, fit_rows
from actorflow.errors import ProgramError
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, Port
from actorflow.graph.resource import ResourceDef, VariableDef
from actorflow.training.program_file import ProgramFile
from actorflow.values.spec import Spec

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_STDOUT = Path("-")


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
    parser.add_argument(
        "--dot", type=Path, metavar="OUT.dot", help="write the graph here, for Graphviz; - prints it instead"
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Writes the drawing if one is wanted, prints the table or, for `--dot -`, the drawing; returns 0."""
    graph = ProgramFile(args.file).graph(args.seed)
    drawn = None if args.dot is None else dot.render(graph, title=args.file.stem)
    if drawn is not None and args.dot == _STDOUT:
        print(drawn, end="")
        return 0
    if drawn is not None:  # before the table, whose reader may leave early
        _write(args.dot, drawn)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print("\n".join(describe(graph, width)))
    if drawn is not None:
        picture = shlex.join(["dot", "-Tsvg", "-O", str(args.dot)])
        print(f"\nwrote {args.dot}; Graphviz draws it: {picture}")
    return 0


def _write(path: Path, drawn: str) -> None:
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        message = f"{path} must be a file that can be written, got {error.strerror}"
        raise ProgramError(message) from None


def describe(graph: Graph, width: int | None = None) -> Iterator[str]:
    """Yields a line of totals, the table of resources and the table of nodes.

    Inputs are the numbers of nodes: `7` the first output of node 7, `7:1` its second, `^7` only the
    order. The bodies of loops and branches follow, each with a table of its own. With a width, long names
    lose their beginning, and what else is too long its end.
    """
    variables = [r for r in graph.resources.values() if isinstance(r, VariableDef)]
    others = Counter(queue=0)
    others.update(r.kind for r in graph.resources.values() if not isinstance(r, VariableDef))
    parameters = sum(_size(v.spec) for v in variables if v.trainable)
    counts = [_count(len(graph), "node"), _count(len(variables), "variable")]
    counts.extend(_count(n, kind.replace("_", " ")) for kind, n in others.items())
    if graph.bodies:
        counts.append(f"{len(graph.bodies):,} {'body' if len(graph.bodies) == 1 else 'bodies'}")
    yield f"{', '.join(counts)}, {_count(parameters, 'trainable parameter')}, seed {graph.seed}"
    if graph.resources:
        yield ""
        states = [("state", "spec", "device", "defined at"), *map(_resource, graph.resources.values())]
        cuts = [ShortenableColumn(1, 24), ShortenableColumn(0, 20, keep_end=True)]
        yield from columns(fit_rows(_without_empty(states), width, cuts))
    yield ""
    yield from _table(graph.nodes, width)
    for body in graph.bodies.values():
        given = [str(body.nodes[p.node].id) for p in body.arguments[: body.given]]
        captured = [str(body.nodes[p.node].id) for p in body.arguments[body.given :]]
        told = [("takes", given), ("uses", captured), ("gives", list(map(_port, body.results)))]
        yield ""
        yield ", ".join([body.what, *(f"{verb} {' '.join(ports)}" for verb, ports in told if ports)])
        yield from _table(body.nodes, width)


def _table(nodes: Sequence[Node], width: int | None) -> Iterator[str]:
    rows = [("#", "node", "spec", "inputs", "device", "defined at"), *map(_node, nodes)]
    cuts = [ShortenableColumn(3, 8), ShortenableColumn(2, 24), ShortenableColumn(1, 20, keep_end=True)]
    yield from columns(fit_rows(_without_empty(rows), width, cuts))


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _size(spec: Spec) -> int:
    """Elements, 0 where nobody knows before the first assignment."""
    return 0 if spec.shape is None else prod(d or 0 for d in spec.shape)


def _resource(resource: ResourceDef) -> tuple[str, ...]:
    told = resource.description
    if resource.shared_name is not None:
        where = f" in {resource.container}" if resource.container else ""
        told = f"{told}, shared as {resource.shared_name}{where}"
    return resource.name, told, resource.device, resource.defined_at


def _port(port: Port) -> str:
    return f"{port.node}:{port.index}" if port.index else str(port.node)


def _node(node: Node) -> tuple[str, ...]:
    last = node.name.rpartition("/")[2]
    told = last.startswith(node.op) or (last.startswith("read") and node.op == "read_variable")
    name = node.name if told else f"{node.name} ({node.op})"
    specs = ", ".join(map(str, node.outputs))
    inputs = list(map(_port, node.inputs))
    controls = [f"^{control}" for control in node.controls]
    return str(node.id), name, specs, " ".join(inputs + controls), node.device, node.defined_at


def _without_empty(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows without a column for devices when nobody names one, and a dash for what else is missing."""
    at = rows[0].index("device")
    if not any(row[at] for row in rows[1:]):
        rows = [(*row[:at], *row[at + 1 :]) for row in rows]
    return [tuple(cell or "-" for cell in row) for row in rows]
