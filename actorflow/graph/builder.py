"""Turns a constructor's arguments into a checked node: symbolic tensors, scopes, source lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from actorflow.errors import ActorflowError, ConfigError, GraphError, SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.atomic_block import marks
from actorflow.graph.body import Body, elsewhere, is_around
from actorflow.graph.device import merge
from actorflow.graph.graph import Graph, current, current_or_none
from actorflow.graph.node import Attr, Node, NodeId, Port, is_plain
from actorflow.graph.opdef import Promoting
from actorflow.graph.operators import OneArray
from actorflow.runtime.call_site import source_line
from actorflow.runtime.name_hints import ADVICE
from actorflow.values.arrays import (
    Array,
    DType,
    as_array,
    as_checked_array,
    as_dtype,
    convert_numbers,
    name_of,
)
from actorflow.values.dtypes import common
from actorflow.values.lease import read_only_copy
from actorflow.values.spec import Shape, Spec

NO_RETURN = "a function without a return gives None: let it return its results"
"""What to try with a None that a function of the user's gave."""


class Tensor(OneArray):
    """A symbolic value: output `index` of a node. Has a spec and no data; fetch it for that.

    Arithmetic operators, comparisons (`<`, `<=`, `>`, `>=`), `@` and indexing build nodes. `==` does
    not, since tensors are keys of dictionaries; use `af.equal`. It is an error but for the same tensor.
    """

    __slots__ = ("graph", "port")

    graph: Graph
    port: Port

    # Type checkers see what there is; at run time whoever tries `af.Tensor([1, 2])` is told what to write.
    if TYPE_CHECKING:

        def __init__(self, graph: Graph, port: Port) -> None: ...

    else:

        def __init__(self, graph: Any = None, port: Any = None, *_: Any, **__: Any) -> None:
            if type(port) is not Port:  # a value, as elsewhere tensors are made of
                message = f"a tensor is an output of a node, and is made by building one, got {graph!r:.60}"
                raise GraphError(message, where=Where(defined_at=source_line()), hint=ADVICE["tensor"])
            self.graph = graph
            self.port = port

    @property
    def node(self) -> Node:
        """The node that computes this tensor."""
        return self.graph.nodes[self.port.node]

    @property
    def spec(self) -> Spec:
        """What is known of shape and dtype."""
        return self.node.outputs[self.port.index]

    @property
    def shape(self) -> Shape:
        """The shape, None for unknown sizes; None as a whole for an unknown rank."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.spec.dtype

    @property
    def name(self) -> str:
        """`node:index`."""
        return f"{self.node.name}:{self.port.index}"

    def __repr__(self) -> str:
        return f"<Tensor {self.name} {self.spec}>"

    def __hash__(self) -> int:
        return hash((id(self.graph), self.port))

    def is_same(self, other: object) -> bool:
        """Tells whether `other` stands for the same output of the same node."""
        return isinstance(other, Tensor) and self.graph is other.graph and self.port == other.port

    def place(self) -> Where | None:
        """Where its node was made."""
        return self.node.where


def as_tensor(value: Any, *, dtype: DType | None = None, name: str = "constant") -> Tensor:
    """Returns `value` as a tensor of the current graph.

    Tensors pass through; objects with an `as_tensor()` method (variables) are asked; everything
    else becomes a constant. Python numbers, and lists of them, take `dtype` when one is given; else
    floats are float32 and integers int32 where they fit.

    Raises:
        GraphError: for a tensor of another graph.
        SpecError: for a value that no tensor of that dtype can hold.
    """
    if isinstance(value, Tensor):
        graph = current_or_none()
        # A tensor outside of any `with g:` passes: what is built of it finds its graph, or says so.
        if graph is None and not isinstance(value.graph, Body):
            return value  # what is built of it says whether there is a graph to build into
        graph = current()
        return value if value.graph is graph else _capture(graph, value)
    if hasattr(value, "as_tensor"):
        tensor = value.as_tensor()
        assert isinstance(tensor, Tensor)
        return tensor
    graph = current()
    line = graph.scope.defined_at or source_line()
    try:
        # OWNS: a copy: the user may go on writing into the array.
        array = read_only_copy(_as_constant(value, dtype))
        found = as_dtype(array.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        kind = "tensor" if dtype is None else f"{name_of(dtype)} tensor"
        message = f"no {kind} can hold {type(value).__name__} {value!r:.60}: {error}"
        hint = NO_RETURN if value is None else None
        raise SpecError(message, where=Where(defined_at=line), hint=hint) from None
    node = graph.add(
        "constant",
        name=name,
        inputs=(),
        attrs={"constant": graph.add_constant(array), "dtype": name_of(found), "shape": array.shape},
        outputs=(Spec(array.shape, found),),
        defined_at=line,
    )
    return Tensor(graph, Port(node.id))


def _capture(graph: Graph, value: Tensor) -> Tensor:
    """What stands in a body for a tensor of a graph around it; GraphError when `graph` is not such a body."""
    if isinstance(graph, Body):
        return Tensor(graph, graph.capture(value.graph, value.port))
    why, hint = elsewhere(value.graph, graph)
    message = f"{value!r} {why}"
    raise GraphError(message, where=value.node.where, hint=hint)


def _as_constant(value: Any, dtype: DType | None) -> Array:
    """The array that a value which is no tensor stands for; TypeError when it would lose digits."""
    # A Python number takes the dtype beside it, where that holds its kind.
    if dtype is not None and isinstance(value, bool | int | float | complex):
        if isinstance(value, bool) and dtype.kind not in "bO":
            message = "it is a bool, and bool and numbers do not mix; write 0 or 1"
            raise TypeError(message)
        if dtype.kind == "O":
            message = "it is a number; give bytes, or af.strings.as_bytes of a tensor"
            raise TypeError(message)
        if _ORDER[as_checked_array(value).dtype.kind] > _ORDER[dtype.kind]:
            message = "it is of a wider kind; convert the tensor with af.cast, or the number"
            raise TypeError(message)
        return convert_numbers(value, dtype)
    array = as_checked_array(value)
    # What has a dtype means it.
    if hasattr(value, "dtype"):
        return array
    if dtype is not None and array.dtype.kind != "O":
        return convert_numbers(value, dtype)
    if array.dtype.kind == "f":
        return array.astype("float32")  # what Python floats mean to a framework
    # Integers are int32 where they fit.
    if array.dtype.kind == "i" and array.min(initial=0) >= -(2**31) and array.max(initial=0) < 2**31:
        return array.astype("int32")
    return array


_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}  # a kind holds those before it; V: bfloat16


def as_tensors(*values: Any) -> tuple[Tensor, ...]:
    """Returns the values as tensors; Python numbers take the dtype of the first real tensor."""
    typed = [v for v in values if not isinstance(v, bool | int | float | complex)]
    first = as_tensor(typed[0]) if typed else None
    dtype = None if first is None else first.dtype
    numbers = (bool, int, float, complex)
    # Made once: `first` has its node already.
    return tuple(
        first
        if first is not None and v is typed[0]
        else as_tensor(v, dtype=dtype if isinstance(v, numbers) else None)
        for v in values
    )


def promote(*values: Any) -> tuple[Tensor, ...]:
    """Returns the values as tensors of the one dtype that they mix to; see `dtypes`.

    Python numbers and lists of them take that dtype where it holds their kind. Tensors that do not
    mix stay what they are, for the op's spec rule to refuse.

    Raises:
        SpecError: for a Python number that the dtype cannot hold.
    """
    # 1. Whatever has a dtype of its own. Numbers, lists and numpy's own wide arrays do not count yet.
    typed = [None if isinstance(v, _WEAK) or _is_wide(v) else as_tensor(v) for v in values]
    beside = common(dict.fromkeys(t.dtype for t in typed if t is not None))
    # 2. Wide arrays beside a floating tensor take its dtype; alone, or beside integers, they keep their own.
    typed = [_unless_weak(v, beside) if t is None else t for t, v in zip(typed, values, strict=True)]
    dtypes = dict.fromkeys(t.dtype for t in typed if t is not None)
    if not dtypes:
        return as_tensors(*values)
    # 3. The dtype to which all mix.
    wanted = common(dtypes)
    # They do not mix: left for the op's rule, which names them.
    if wanted is None:
        first = next(iter(dtypes))
        return tuple(_weak(v, first) if t is None else t for t, v in zip(typed, values, strict=True))
    # 4. All take it: numbers where it holds their kind, tensors by a cast.
    return tuple(
        _weak(v, wanted) if t is None else t if t.dtype == wanted else _convert(t, wanted)
        for t, v in zip(typed, values, strict=True)
    )


def _convert(tensor: Tensor, dtype: DType) -> Tensor:
    return build_one("cast", [tensor], {"dtype": dtype.name})


_WEAK = (bool, int, float, complex, list, tuple)


def _is_wide(value: Any) -> bool:
    """Tells whether a value is an array of the dtypes that numpy makes of Python's floats by itself."""
    return isinstance(value, np.ndarray) and value.dtype in _WIDE


_WIDE = (np.dtype("float64"), np.dtype("complex128"))


def _unless_weak(value: Any, beside: DType | None) -> Tensor | None:
    """None for what takes the dtype of the tensors beside it, else the tensor that it makes by itself."""
    if not _is_wide(value):
        return None
    floating = beside is not None and _ORDER[beside.kind] >= _ORDER[value.dtype.kind]
    return None if floating else as_tensor(value)


def _narrow(value: Array, dtype: DType) -> Tensor:
    """An array of numpy's own floats as a constant of the dtype beside it."""
    try:
        return as_tensor(convert_numbers(value, dtype))
    except (ValueError, OverflowError) as error:
        message = f"no {name_of(dtype)} tensor can hold the {value.dtype} array {value!r:.60}: {error}"
        line = current().scope.defined_at or source_line()
        hint = f"convert the tensor: af.cast(x, {value.dtype.name!r})"
        raise SpecError(message, where=Where(defined_at=line), hint=hint) from None


def _weak(value: Any, dtype: DType) -> Tensor:
    """A Python number or wide array as a tensor of `dtype`, a list where `dtype` holds their kind."""
    if _is_wide(value):
        return _narrow(value, dtype)
    if isinstance(value, list | tuple):
        try:
            kind = as_array(value).dtype.kind
        except ValueError:  # ragged: as_tensor says so
            return as_tensor(value)
        # A list of floats beside integers stays what it is, for the rule to refuse.
        if kind not in "iufc" or dtype.kind == "b" or _ORDER[kind] > _ORDER.get(dtype.kind, -1):
            return as_tensor(value)
    return as_tensor(value, dtype=dtype)


def build(
    op: str,
    inputs: Sequence[Any],
    attrs: Mapping[str, Attr] | None = None,
    *,
    name: str | None = None,
    exact_name: bool = False,
    controls: Sequence[Tensor] = (),
) -> tuple[Tensor, ...]:
    """Adds one node of op `op` and returns its output tensors.

    Raises:
        SpecError: when the op's spec rule refuses the inputs; placed at the user's line, naming
            the lines of the inputs as well.
    """
    graph = current()
    rule = opdef.lookup(op).spec
    # Inputs before `first` do not mix with the others.
    if isinstance(rule, Promoting):
        tensors = (*as_tensors(*inputs[: rule.first]), *promote(*inputs[rule.first :]))
    else:
        tensors = as_tensors(*inputs)
    attributes = dict(attrs or {})
    for key, value in attributes.items():
        # So that a graph can be written down, and sent.
        if not is_plain(value):
            message = f"attributes are plain values and tuples of them, got {key}={value!r:.60} for {op!r}"
            raise GraphError(message)
    line = graph.scope.defined_at or source_line()
    wanted = name or op
    # Inside of an atomic block every node says so, or may not be there.
    if graph.scope.block is not None:
        attributes.update(_marks(graph, op, attributes, Where(op=op, defined_at=line)))
    try:
        outputs = tuple(rule([t.spec for t in tensors], attributes))
    except ActorflowError as error:
        where = Where(node=f"{graph.scope.name}{wanted}", op=op, defined_at=line)
        given = [v if isinstance(v, Tensor) else t for v, t in zip(inputs, tensors, strict=True)]  # not casts
        raise _locate(error, where, given) from None
    # ORDER: the node is added when nothing can refuse it any more.
    node = graph.add(
        op,
        name=wanted,
        inputs=tuple(t.port for t in tensors),
        attrs=attributes,
        outputs=outputs,
        defined_at=line,
        exact_name=exact_name,
        controls=tuple(t.port.node for t in controls),
    )
    return tuple(Tensor(graph, Port(node.id, i)) for i in range(len(outputs)))


def _marks(graph: Graph, op: str, attrs: Mapping[str, Attr], where: Where) -> Mapping[str, Attr]:
    """What a node says of the atomic block that it is built in; GraphError when it may not be."""
    assert graph.scope.block is not None
    try:
        return marks(graph.scope.block, opdef.lookup(op), attrs, graph.resources)
    except GraphError as error:
        raise error.at(where) from None


def _locate(error: ActorflowError, where: Where, inputs: Sequence[Tensor]) -> ActorflowError:
    """The error of a spec rule with the node's place, and a line for each input and its place."""
    lines = [f"  input {i}: {t.name} {t.spec}, defined at {t.node.defined_at}" for i, t in enumerate(inputs)]
    return type(error)("\n".join([error.what, *lines]), where=error.where or where, hint=error.hint)


def build_one(
    op: str, inputs: Sequence[Any], attrs: Mapping[str, Attr] | None = None, *, name: str | None = None
) -> Tensor:
    """Adds one node of an op with a single output and returns that tensor; see `build`."""
    (tensor,) = build(op, inputs, attrs, name=name)
    return tensor


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Prefixes the names of nodes and resources built inside with `name/`; nests."""
    graph = current()
    given: Any = name
    if not isinstance(given, str) or not given:
        message = f"a name scope is a text that is not empty, got {name!r:.60}"
        raise GraphError(message, where=Where(defined_at=source_line()))
    prefix = f"{graph.scope.name}{name}/"
    with graph.use_scope(replace(graph.scope, name=prefix)):
        yield prefix


@contextmanager
def container(name: str) -> Iterator[None]:
    """Gives the shared names of variables and other state made inside their meaning: that of `name`.

    A container is a space of names within an actor system; outside of all is the one named `""`. State
    without a `shared_name` is its session's own, and in none.
    """
    graph = current()
    given: Any = name
    if not isinstance(given, str) or not given:
        message = f"a container is named by a text that is not empty, got {name!r:.60}"
        raise GraphError(message, where=Where(defined_at=source_line()))
    with graph.use_scope(replace(graph.scope, container=name)):
        yield


@contextmanager
def on_behalf_of(node: Node, prefix: str) -> Iterator[None]:
    """Makes the nodes built inside belong to `node`: its source line, its place, its name.

    They are named `prefix/<name of node>/…` inside the current name scope, so that an error in a
    node that the user never wrote points at the line that caused it. Inside a body, whose nodes have long
    names, only the last part of the name counts.
    """
    graph = current()
    # What is built for a node goes where the node is, whatever scope is open now; a node without a place
    # leaves that open.
    has_place = bool(node.device or node.colocate)
    # Inside a body, whose nodes have long names, only the last part counts.
    local = node.name.rpartition("/")[2] if isinstance(graph, Body) else node.name
    scope = replace(
        graph.scope,
        name=f"{graph.scope.name}{prefix}/{local}/",
        device=node.device if has_place else graph.scope.device,
        colocate=node.colocate if has_place else graph.scope.colocate,
        defined_at=node.defined_at,
    )
    with graph.use_scope(scope):
        yield


@contextmanager
def device(spec: str | None) -> Iterator[None]:
    """Places the nodes built inside on the device that `spec` names, for example `/cpu:0` or `/gpu:0`.

    A name may leave fields open: `/job:ps`, `/task:1`, `/gpu:*`. Scopes nest: each adds to those around
    it, and where two name the same field the inner one counts; None forgets those around it.

    Raises:
        ConfigError: when `spec` is no name of a device.
    """
    graph = current()
    try:
        wanted = "" if spec is None else merge(spec, graph.scope.device)
    except ConfigError as error:
        raise error.at(Where(defined_at=source_line())) from None
    with graph.use_scope(replace(graph.scope, device=wanted)):
        yield


@contextmanager
def colocate_with(target: Any) -> Iterator[None]:
    """Places the nodes built inside where `target` (a tensor, a variable or a queue) lives.

    Device scopes around it do not count inside; one inside it must allow the device of the target.

    Raises:
        GraphError: for anything else, what is of another graph, and a tensor of a body that is not open.
    """
    graph = current()
    name = target.node.name if isinstance(target, Tensor) else getattr(target, "name", "")
    if not hasattr(target, "graph") or (not isinstance(target, Tensor) and name not in graph.resources):
        message = f"colocate_with takes a tensor, a variable or a queue of this graph, got {target!r:.60}"
        raise GraphError(message, where=Where(defined_at=source_line()))
    if not is_around(target.graph, graph):
        why, hint = elsewhere(target.graph, graph)
        message = f"colocate_with takes what lives in this graph, {target!r} {why}"
        raise GraphError(message, where=Where(defined_at=source_line()), hint=hint)
    # Scopes around it do not count inside: they may forbid the target's device.
    asked = target.node.device if isinstance(target, Tensor) else graph.resources[name].device
    with graph.use_scope(replace(graph.scope, colocate=name, device=asked)):
        yield


@contextmanager
def control_dependencies(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Makes the nodes built inside wait until the nodes of `tensors` have fired."""
    graph = current()
    given: Any = tensors
    if isinstance(given, Tensor) or hasattr(given, "as_tensor") or not isinstance(given, Iterable):
        message = f"control_dependencies takes a list of tensors, got {tensors!r:.60}"
        raise GraphError(message, where=Where(defined_at=source_line()), hint="pass a list")
    ids: tuple[NodeId, ...] = tuple(as_tensor(t).port.node for t in tensors)
    with graph.use_scope(replace(graph.scope, controls=tuple(dict.fromkeys(graph.scope.controls + ids)))):
        yield
