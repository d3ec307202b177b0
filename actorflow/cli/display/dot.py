"""A graph as Graphviz text: values flow down the picture, gradients up again beside them.

Name scopes are clusters. A variable is a cylinder; a read of it is a dashed one with its name, there
where it is used, so that no line crosses the picture for it. Solid lines carry values, dashed ones
only order; dotted ones join a variable or queue to what changes it, or asks it otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

import actorflow.ops  # noqa: F401  fills the table of ops
from actorflow.graph import opdef
from actorflow.graph.body import keys_of
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import QueueDef, ResourceDef, VariableDef

_FEWEST = 3  # things that make a cluster; fewer are drawn in the scope around theirs
_CYLINDER = 'shape=cylinder margin="0.08,0.09"'  # its lid takes room from the words
_STYLE = """\
  graph [ranksep=0.3 nodesep=0.2 style=rounded color=grey70 fontcolor=grey40
         fontname="sans-serif" fontsize=11];
  node [shape=box style=rounded height=0.3 margin="0.08,0.04" fontname="sans-serif" fontsize=10];
  edge [color=grey30 arrowsize=0.6 fontname="sans-serif" fontsize=8];"""


@dataclass(slots=True)
class _ScopeBox:
    """A name scope: what is drawn in it, and the scopes within.

    Attributes:
        drawn: The name in the scope, an identifier for DOT, the lines below the name, and the look.
    """

    drawn: list[tuple[str, str, list[str], str]] = field(default_factory=list)
    inner: dict[str, _ScopeBox] = field(default_factory=dict)

    def add(self, path: str, name: str, identifier: str, lines: list[str], look: str) -> None:
        scope = self
        for part in filter(None, path.split("/")):
            scope = scope.inner.setdefault(part, _ScopeBox())
        scope.drawn.append((name, identifier, lines, look))

    def fold(self) -> _ScopeBox:
        """The same scope, without those in it that hold too little for a cluster."""
        result = _ScopeBox(list(self.drawn))
        for name, scope in self.inner.items():
            small = scope.fold()
            if not small.inner and len(small.drawn) < _FEWEST:
                result.drawn += [(f"{name}/{last}", i, lines, look) for last, i, lines, look in small.drawn]
            elif not small.drawn and len(small.inner) == 1:
                ((within, only),) = small.inner.items()
                result.inner[f"{name}/{within}"] = only
            else:
                result.inner[name] = small
        return result


def render(graph: Graph, *, title: str = "graph") -> str:
    """Returns the DOT text; the same graph gives the same text."""
    root = _ScopeBox()
    for resource in graph.resources.values():
        scope, _, name = resource.name.rpartition("/")
        root.add(scope, name, _state(resource.name), *_resource(resource))
    initial, backward = _initial(graph), _backward(graph)
    for node in graph.nodes:
        root.add(*_place(graph, node), f"n{node.id}", *_node(graph, node, small=node.id in initial))
    lines = [
        f"digraph {_quote(title)} {{",
        _STYLE,
        *_draw(root.fold(), ()),
        *(f"  {edge}" for node in graph.nodes for edge in _edges(graph, node, backward)),
        *(f"  {edge}" for resource in graph.resources.values() for edge in _first_value(resource)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _draw(scope: _ScopeBox, path: tuple[str, ...]) -> Iterator[str]:
    indent = "  " * (len(path) + 1)
    for name, identifier, lines, look in scope.drawn:
        yield f"{indent}{identifier} [label={_label(name, lines)}{look}];"
    for name, inner in scope.inner.items():
        yield f"{indent}subgraph {_quote('cluster ' + '/'.join((*path, name)))} {{"
        yield f"{indent}  label={_quote(name)};"
        yield from _draw(inner, (*path, name))
        yield f"{indent}}}"


# -- what is drawn ---------------------------------------------------------------------------------


def _resource(resource: ResourceDef) -> tuple[list[str], str]:
    if isinstance(resource, VariableDef):
        return [str(resource.spec)], f" {_CYLINDER}"
    if isinstance(resource, QueueDef):
        return [resource.kind, *map(str, resource.components)], ' shape=cds margin="0.15,0.12"'
    return [resource.description], " shape=component"


def _node(graph: Graph, node: Node, *, small: bool) -> tuple[list[str], str]:
    """The lines below the name of a node, and how it looks."""
    effect = opdef.lookup(node.op).effect
    lines = [*map(str, node.outputs), *filter(None, [node.device])]
    last = node.name.rpartition("/")[2]
    if node.op == "read_variable":
        return lines, f" {_CYLINDER} style=dashed"
    if effect is Effect.CONSTANT:
        return lines, " shape=plaintext fontsize=8 height=0.2 margin=0.02"
    if effect is Effect.FUNCTION:
        lines = [*(f"runs {key}: {len(graph.bodies[key])} nodes" for key in keys_of(node)), *lines]
    if not last.startswith(node.op):
        lines.insert(0, node.op)
    if effect is Effect.FEED:
        return lines, ' style="rounded,filled" fillcolor=grey90'
    return lines, " fontsize=8 height=0.2" if small else ""


def _place(graph: Graph, node: Node) -> tuple[str, str]:
    """The scope of a node, and what it is called there: a number by its value, a read after its variable."""
    scope, _, name = node.name.rpartition("/")
    if node.op == "constant" and node.outputs[0].shape == ():
        value = str(graph.constants[node.attrs["constant"]])
        return scope, value if name.startswith("constant") else f"{name} = {value}"
    if node.op != "read_variable":
        return scope, name
    variable: str = node.attrs["resource"]
    around = scope.removesuffix(variable)
    if around in ("", scope):
        around, _, variable = scope.rpartition("/")
    return around, variable


def _initial(graph: Graph) -> set[NodeId]:
    """The nodes that compute the first values of variables, and nothing else of the graph."""
    found: set[NodeId] = set()
    used: set[NodeId] = set()
    roots = {r.initial.node for r in graph.resources.values() if isinstance(r, VariableDef) and r.initial}
    for node in reversed(graph.nodes):
        if node.id in used or node.id not in found | roots:
            used.update(p.node for p in node.inputs)
        else:
            found.add(node.id)
            found.update(p.node for p in node.inputs)
    return found - used


def _backward(graph: Graph) -> set[NodeId]:
    """The gradients, and what is computed from them."""
    found: set[NodeId] = set()
    for node in graph.nodes:
        if "gradients" in node.name.split("/") or any(p.node in found for p in node.inputs):
            found.add(node.id)
    return found


# -- lines -----------------------------------------------------------------------------------------


def _edges(graph: Graph, node: Node, backward: set[NodeId]) -> Iterator[str]:
    here = f"n{node.id}"
    for port in node.inputs:
        there = f"n{port.node}"
        look = [f"taillabel={_quote(f':{port.index}')}"] if port.index else []
        if port.node in backward:  # drawn from its end, so that it leads upwards
            yield f"{here} -> {there} [{' '.join(['dir=back', *look])}];"
        elif node.id in backward:  # what a gradient needs of the forward pass lies beside it
            yield f"{there} -> {here} [{' '.join(['color=grey75 minlen=0', *look])}];"
        else:
            yield f"{there} -> {here}" + (f" [{look[0]}];" if look else ";")
    for control in node.controls:
        yield f"n{control} -> {here} [style=dashed];"
    effect = opdef.lookup(node.op).effect
    if effect in (Effect.COMMIT, Effect.UNLOCK):
        for name in node.attrs["resources"]:
            yield f"{here} -> {_state(name)} [style=dotted constraint=false];"
    elif "resource" in node.attrs and node.op != "read_variable":
        state = _state(node.attrs["resource"])
        changes = effect is Effect.WRITE or node.op.startswith(("queue_enqueue", "queue_close"))
        yield f"{here} -> {state} [style=dotted];" if changes else f"{state} -> {here} [style=dotted];"


def _first_value(resource: ResourceDef) -> Iterator[str]:
    if isinstance(resource, VariableDef) and resource.initial is not None:
        yield f"n{resource.initial.node} -> {_state(resource.name)} [style=dotted];"


# -- words -----------------------------------------------------------------------------------------


def _state(name: str) -> str:
    return _quote(f"state {name}")


def _label(name: str, lines: list[str]) -> str:
    """A name and what is to know of it, smaller."""
    below = "".join(f'<br/><font point-size="8" color="grey40">{escape(line)}</font>' for line in lines)
    return f"<{escape(name)}{below}>"


def _quote(text: str) -> str:
    """Returns the text as a DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
