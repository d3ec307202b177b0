"""A graph as Graphviz text: boxes in the clusters of their name scopes, state as cylinders.

Solid edges carry values, dashed ones only order, dotted ones join state to the nodes that use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from actorflow.graph import opdef
from actorflow.graph.graph import Graph, VariableDef
from actorflow.graph.node import Node
from actorflow.graph.opdef import Effect


@dataclass(slots=True)
class _Scope:
    """A name scope: the lines drawn in it, and the scopes within."""

    lines: list[str] = field(default_factory=list)
    inner: dict[str, _Scope] = field(default_factory=dict)

    def at(self, path: Sequence[str]) -> _Scope:
        scope = self
        for name in path:
            scope = scope.inner.setdefault(name, _Scope())
        return scope


def render(graph: Graph, *, title: str = "graph") -> str:
    """Returns the DOT text; the same graph gives the same text."""
    root = _Scope()
    for name, resource in graph.resources.items():
        *path, last = name.split("/")
        if isinstance(resource, VariableDef):
            look = f"label={_quote(last, str(resource.spec))} shape=cylinder"
        else:
            look = f"label={_quote(last, 'queue')} shape=cds"
        root.at(path).lines.append(f"{_quote('state ' + name)} [{look}];")
    for node in graph.nodes:
        *path, last = node.name.split("/")
        root.at(path).lines.append(f"n{node.id} [label={_label(node, last)}];")
    lines = [
        f"digraph {_quote(title)} {{",
        '  graph [rankdir=TB fontname="sans-serif" fontsize=11 color=grey60];',
        '  node [shape=box style=rounded fontname="sans-serif" fontsize=10];',
        '  edge [fontname="sans-serif" fontsize=8 color=grey30];',
        *_draw(root, ()),
        *(f"  {edge}" for node in graph.nodes for edge in _edges(graph, node)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _draw(scope: _Scope, path: tuple[str, ...]) -> Iterator[str]:
    indent = "  " * (len(path) + 1)
    yield from (f"{indent}{line}" for line in scope.lines)
    for name, inner in scope.inner.items():
        yield f"{indent}subgraph {_quote('cluster ' + '/'.join((*path, name)))} {{"
        yield f"{indent}  label={_quote(name)};"
        yield from _draw(inner, (*path, name))
        yield f"{indent}}}"


def _edges(graph: Graph, node: Node) -> Iterator[str]:
    for port in node.inputs:
        spec = graph.nodes[port.node].outputs[port.index]
        yield f"n{port.node} -> n{node.id} [label={_quote(str(spec))}];"
    for control in node.controls:
        yield f"n{control} -> n{node.id} [style=dashed];"
    for name in _resources(node):
        state, here = _quote(f"state {name}"), f"n{node.id}"
        reads = opdef.lookup(node.op).effect is Effect.READ
        start, end = (state, here) if reads else (here, state)
        yield f"{start} -> {end} [style=dotted];"


def _resources(node: Node) -> tuple[str, ...]:
    if "resource" in node.attrs:
        return (node.attrs["resource"],)
    return tuple(node.attrs.get("resources", ()))


def _label(node: Node, last: str) -> str:
    op = () if last.startswith(node.op) else (node.op,)
    return _quote(last, *op, *filter(None, [node.device]))


def _quote(*lines: str) -> str:
    """Returns the lines as one DOT string."""
    text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return f'"{text}"'
