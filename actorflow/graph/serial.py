"""Graphs as plain data and back: what crosses the wire, what lies in a file.

`to_data` gives dicts, lists, strings and numbers, and the constants beside them as arrays, so
that a codec sends those without copying. Python objects that the graph holds travel by key: the
receiver runs the same program and hands its own in. `from_data` believes nothing it is given:
every node is checked against the table of ops before the graph is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from actorflow.errors import ActorflowError, GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.atomic_block import check_blocks
from actorflow.graph.body import ARGUMENT, Body
from actorflow.graph.checking import check_functions
from actorflow.graph.graph import Graph
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import KINDS, ResourceDef
from actorflow.values.arrays import Array, as_checked_array, name_of
from actorflow.values.lease import read_only_copy
from actorflow.values.spec import ListSpec, Spec, spec

FORMAT = 1
# Nested deeper it is refused: data of others must not exhaust the stack of who reads it.
_MAX_DEPTH = 16

Data = dict[str, Any]

# ------------------------------------------------------------------------------------ writing


def to_data(graph: Graph) -> tuple[Data, list[Array]]:
    """Returns the graph as plain data, and its constants.

    A law: `from_data(*to_data(graph), graph.objects)` equals the graph. The data holds None,
    bool, int, float, str, and lists and string-keyed dicts of them, nothing else.
    """
    data: Data = {
        "format": FORMAT,
        "seed": graph.seed,
        "nodes": [_node_data(node) for node in graph.nodes],
        "resources": [_resource_data(r) for r in graph.resources.values()],
        "objects": list(graph.objects),
        "bodies": [_body_data(body) for body in graph.bodies.values()],
    }
    return data, list(graph.constants)


def _node_data(node: Node) -> Data:
    return {
        "name": node.name,
        "op": node.op,
        "inputs": [list(port) for port in node.inputs],
        "controls": list(node.controls),
        "attrs": {key: _attr_data(value) for key, value in node.attrs.items()},
        "outputs": [_spec_data(s) for s in node.outputs],
        "device": node.device,
        "colocate": node.colocate,
        "defined_at": node.defined_at,
    }


def _body_data(body: Body) -> Data:
    return {
        "key": body.key,
        "what": body.what,
        "defined_at": body.defined_at,
        "nodes": [_node_data(node) for node in body.nodes],
        "arguments": [list(port) for port in body.arguments],
        "given": body.given,
        "results": [list(port) for port in body.results],
    }


def _attr_data(value: Attr) -> Any:
    return [_attr_data(v) for v in value] if isinstance(value, tuple) else value


def _spec_data(of: Spec) -> list[Any]:
    """A pair of shape and dtype; of a list, of its size and what it is a list of."""
    if isinstance(of, ListSpec):
        return [of.size, _spec_data(of.element)]
    return [None if of.shape is None else list(of.shape), name_of(of.dtype)]


def _resource_data(resource: ResourceDef) -> Data:
    data: Data = {"kind": resource.kind}
    for field in fields(resource):
        data[field.name] = _field_data(getattr(resource, field.name))
    return data


def _field_data(value: Any) -> Any:
    """A field of a resource, whose types are those of `_FIELDS`."""
    if isinstance(value, Spec):
        return _spec_data(value)
    return [_field_data(v) for v in value] if isinstance(value, tuple) else value


# ------------------------------------------------------------------------------------ reading


def from_data(data: Any, arrays: Sequence[Array], objects: Mapping[str, Any] | None = None) -> Graph:
    """Returns the graph that `to_data` described.

    Args:
        data: The plain data; tuples may have become lists.
        arrays: The constants; copied.
        objects: The Python objects by the keys that the graph knows them by; others are ignored.

    Raises:
        GraphError: when the data is malformed: a missing or mistyped field, an unknown op, an
            edge that ends nowhere or would close a cycle, a dtype or attribute that cannot be,
            outputs that the op's spec rule does not give, an object that is not handed in.
    """
    top = _Record(data, "the graph")
    # ORDER: the format first: of another one nothing below can be trusted.
    if (version := top.field("format", int)) != FORMAT:
        message = f"graphs are read in format {FORMAT}, got {version}"
        raise GraphError(message, hint="write and read it with the same release of actorflow")
    graph = Graph(seed=top.field("seed", int))
    for array in arrays:
        # A copy: who handed it in may write to theirs.
        graph.add_constant(read_only_copy(_read_constant(array)))
    # ORDER: constants, nodes, state, objects, bodies: each is checked against those before, and edges lead
    # back only.
    for entry in top.list_of("nodes"):
        _read_node(graph, _Record(entry, f"node {len(graph.nodes)}"))
    for entry in top.list_of("resources"):
        graph.add_resource(_read_resource(graph, _Record(entry, f"resource {len(graph.resources)}")))
    for key in top.list_of("objects"):
        if not isinstance(key, str) or key not in (objects or {}):
            message = f"the graph needs the object {key!r}, which was not handed in"
            raise GraphError(message, hint="build or import the program that made the graph")
        graph.keep_object(key, (objects or {})[key])
    for entry in top.list_of("bodies"):
        _read_body(graph, _Record(entry, f"body {len(graph.bodies)}"))
    # What nodes name outside of edges is checked when all of it is there.
    for within in (graph, *graph.bodies.values()):
        for node in within.nodes:
            _check_references(within, node)
    check_functions(graph)
    check_blocks(graph.nodes, graph.resources)
    return graph


def _read_body(graph: Graph, record: _Record) -> None:
    """Reads a body: its nodes, what it is given and what it gives."""
    if (key := record.field("key", str)) in graph.bodies:
        raise record.wrong("key", f"must be unique, got {key!r:.60} again")
    # Where it stands does not matter any more: the graph itself is taken for what is around it.
    body = Body(graph, key, record.field("what", str), record.field("defined_at", str))
    for entry in record.list_of("nodes"):
        _read_node(body, _Record(entry, f"node {len(body.nodes)} of {record.what}"))
    arguments = [_read_port(body, p, record, "arguments") for p in record.list_of("arguments")]
    given = record.field("given", int)
    if any(body.nodes[port.node].op != ARGUMENT for port in arguments) or not 0 <= given <= len(arguments):
        raise record.wrong("arguments", "must name its arguments, and how many of them are given")
    results = [_read_port(body, p, record, "results") for p in record.list_of("results")]
    body.restored(arguments, given, results)


def _read_constant(array: Any) -> Array:
    try:
        return as_checked_array(array)
    except (TypeError, ValueError) as error:
        message = f"a constant must be an array, got {type(array).__name__}: {error}"
        raise GraphError(message) from None


class _Record:
    """A dict that is read field by field; each read names the record when the field is wrong."""

    def __init__(self, data: Any, what: str) -> None:
        if not isinstance(data, dict):
            message = f"{what} must be a dict, got {type(data).__name__}"
            raise GraphError(message)
        self.data = data
        self.what = what

    def wrong(self, key: str, why: str) -> GraphError:
        """The error to raise about field `key`."""
        return GraphError(f"field {key!r} of {self.what} {why}")

    def field(self, key: str, *kinds: type) -> Any:
        """The field, which is of one of `kinds` exactly."""
        value = self.data.get(key)
        # `type`, not `isinstance`: a bool is no int here.
        if type(value) not in kinds:
            said = " or ".join("None" if kind is _NONE else kind.__name__ for kind in kinds)
            raise self.wrong(key, f"must be {said}, got {value!r:.60}")
        return value

    def list_of(self, key: str) -> Sequence[Any]:
        """The field, which is a list; a tuple will do."""
        found: Sequence[Any] = self.field(key, list, tuple)
        return found


_NONE = type(None)


def _read_node(graph: Graph, record: _Record) -> None:
    node_id = NodeId(len(graph.nodes))
    attrs = record.field("attrs", dict)
    node = Node(
        id=node_id,
        name=record.field("name", str),
        op=record.field("op", str),
        inputs=tuple(_read_port(graph, p, record, "inputs") for p in record.list_of("inputs")),
        controls=tuple(_read_id(graph, c, record, "controls") for c in record.list_of("controls")),
        attrs={_read_key(k, record): _read_attr(v, record) for k, v in attrs.items()},
        outputs=tuple(_read_spec(s, record, "outputs") for s in record.list_of("outputs")),
        device=record.field("device", str),
        colocate=record.field("colocate", str, _NONE),
        defined_at=record.field("defined_at", str),
    )
    # ORDER: checked before it is part of the graph.
    _check_outputs(graph, node)
    graph.restore(node)


def _check_outputs(graph: Graph, node: Node) -> None:
    definition = opdef.lookup(node.op)
    inputs = [graph.nodes[p.node].outputs[p.index] for p in node.inputs]
    try:
        # The rule is asked anew: outputs that were sent are not believed.
        outputs = tuple(definition.spec(inputs, node.attrs))
    except ActorflowError as error:
        raise GraphError(error.what, where=node.where) from error
    except Exception as error:  # a rule may trip over attributes that its constructor never makes
        message = f"op {node.op!r} cannot have the attributes {dict(node.attrs)!r:.200}"
        raise GraphError(message, where=node.where) from error
    if outputs != node.outputs:
        said, given = ([str(s) for s in specs] for specs in (outputs, node.outputs))
        message = f"{node.op!r} gives {said} here, got {given}"
        raise GraphError(message, where=node.where)


def _check_references(graph: Graph, node: Node) -> None:
    """Checks what a node names outside the edges: constant, resources, object."""
    effect = opdef.lookup(node.op).effect
    if effect is Effect.CONSTANT:
        index = node.attrs.get("constant")
        if type(index) is not int or not 0 <= index < len(graph.constants):
            message = f"there are {len(graph.constants)} constants, got the index {index!r}"
            raise GraphError(message, where=node.where)
        array = graph.constants[index]
        if not node.outputs[0].fits(array.shape, array.dtype):
            message = f"the constant must fit {node.outputs[0]}, got {Spec(array.shape, array.dtype)}"
            raise GraphError(message, where=node.where)
    asks = effect is Effect.ASK
    named = ["object"] if "object" in node.attrs or asks else []
    named += ["actor"] if asks and node.attrs.get("ordered") is not None else []
    for attr in named:
        if (key := node.attrs.get(attr)) not in graph.objects:
            message = f"the graph has no object {key!r}"
            raise GraphError(message, where=node.where)
    names = [node.attrs["resource"]] if "resource" in node.attrs else node.attrs.get("resources", ())
    for name in names:
        if name not in graph.resources:
            message = f"the graph has no resource {name!r}"
            raise GraphError(message, where=node.where)


def _read_port(graph: Graph, value: Any, record: _Record, key: str) -> Port:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise record.wrong(key, f"must hold pairs (node, index), got {value!r:.60}")
    node_id, index = _read_id(graph, value[0], record, key), value[1]
    node = graph.nodes[node_id]
    if type(index) is not int or not 0 <= index < len(node.outputs):
        why = f"names output {index!r:.60} of {node.name!r}, which has {len(node.outputs)}"
        raise record.wrong(key, why)
    return Port(node_id, index)


def _read_id(graph: Graph, value: Any, record: _Record, key: str) -> NodeId:
    # Only nodes before it: so no cycle can be read.
    if type(value) is not int or not 0 <= value < len(graph.nodes):
        why = f"must name nodes that come before it, else there is a cycle; got {value!r:.60}"
        raise record.wrong(key, why)
    return NodeId(value)


def _read_key(value: Any, record: _Record) -> str:
    if not isinstance(value, str):
        raise record.wrong("attrs", f"must have strings as keys, got {value!r:.60}")
    return value


def _read_attr(value: Any, record: _Record, depth: int = 0) -> Attr:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not isinstance(value, list | tuple) or depth == _MAX_DEPTH:
        why = f"must hold plain values nested less than {_MAX_DEPTH} deep, got {value!r:.60}"
        raise record.wrong("attrs", why)
    return tuple(_read_attr(v, record, depth + 1) for v in value)


def _read_spec(value: Any, record: _Record, key: str, depth: int = 0) -> Spec:
    if not isinstance(value, list | tuple) or len(value) != 2 or depth == _MAX_DEPTH:
        why = f"must hold pairs (shape, dtype), nested less than {_MAX_DEPTH} deep, got {value!r:.60}"
        raise record.wrong(key, why)
    shape, of = value
    try:
        if isinstance(of, list | tuple):
            return _read_list(shape, _read_spec(of, record, key, depth + 1))
        if not isinstance(of, str):
            raise record.wrong(key, f"must hold pairs (shape, dtype), got {value!r:.60}")
        if shape is not None and not isinstance(shape, list | tuple):
            raise record.wrong(key, f"must have lists as shapes, got {shape!r:.60}")
        return spec(of, shape)
    except SpecError as error:
        raise record.wrong(key, f"is no spec: {error.what}") from None


def _read_list(size: Any, element: Spec) -> ListSpec:
    if size is not None and type(size) is not int:
        message = f"the size of a list is an integer or None, got {size!r:.60}"
        raise SpecError(message)
    return ListSpec(element, size)


def _read_held(value: Any, record: _Record, key: str) -> Spec:
    """What a resource holds, which is no list."""
    found = _read_spec(value, record, key)
    if isinstance(found, ListSpec):
        raise record.wrong(key, f"holds tensors, got a {found}")
    return found


def _read_resource(graph: Graph, record: _Record) -> ResourceDef:
    definition = KINDS.get(record.field("kind", str))
    if definition is None:
        raise record.wrong("kind", f"must be one of {', '.join(KINDS)}, got {record.data['kind']!r:.60}")
    return definition(**{f.name: _FIELDS[str(f.type)](graph, record, f.name) for f in fields(definition)})


def _read_initial(graph: Graph, record: _Record, key: str) -> Port | None:
    value = record.data.get(key)
    return None if value is None else _read_port(graph, value, record, key)


def _plain(*kinds: type) -> Callable[[Graph, _Record, str], Any]:
    return lambda graph, record, key: record.field(key, *kinds)


_FIELDS: Mapping[str, Callable[[Graph, _Record, str], Any]] = {
    "Spec": lambda graph, record, key: _read_held(record.data.get(key), record, key),
    "tuple[Spec, ...]": lambda graph, record, key: tuple(
        _read_held(s, record, key) for s in record.list_of(key)
    ),
    "Port | None": _read_initial,
    "bool": _plain(bool),
    "int": _plain(int),
    "int | None": _plain(int, _NONE),
    "float | None": _plain(float, _NONE),
    "str": _plain(str),
    "str | None": _plain(str, _NONE),
}
"""How a field of a resource is read, by its annotation."""
