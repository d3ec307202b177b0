"""Turns a constructor's arguments into a checked node: symbolic tensors, scopes, source lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from actorflow.arrays import DType, as_array, as_dtype, frozen_copy
from actorflow.errors import ActorflowError, GraphError, SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.graph import Graph, current
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.spec import Shape, Spec

_PACKAGE = str(Path(__file__).resolve().parents[1])


class Tensor:
    """A symbolic value: output `index` of a node. Has a spec and no data; fetch it for that.

    Arithmetic operators, comparisons (`<`, `<=`, `>`, `>=`), `@` and indexing build nodes. `==`
    compares identity, so that tensors can be dictionary keys; use `af.equal` for the op.
    """

    __slots__ = ("graph", "port")

    __array_priority__ = 1000  # so that ndarray + Tensor asks Tensor

    def __init__(self, graph: Graph, port: Port) -> None:
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and self.graph is other.graph and self.port == other.port

    def __bool__(self) -> bool:
        message = f"a tensor has no truth value while the graph is built: {self!r}"
        raise GraphError(message, where=self.node.where, hint="fetch it first, or use af.where")

    def __iter__(self) -> Iterator[Any]:
        message = f"a tensor cannot be iterated while the graph is built: {self!r}"
        raise GraphError(message, where=self.node.where)

    # fmt: off
    def __add__(self, other: Any) -> Any: return _call("add", self, other)
    def __radd__(self, other: Any) -> Any: return _call("add", other, self)
    def __sub__(self, other: Any) -> Any: return _call("subtract", self, other)
    def __rsub__(self, other: Any) -> Any: return _call("subtract", other, self)
    def __mul__(self, other: Any) -> Any: return _call("multiply", self, other)
    def __rmul__(self, other: Any) -> Any: return _call("multiply", other, self)
    def __truediv__(self, other: Any) -> Any: return _call("divide", self, other)
    def __rtruediv__(self, other: Any) -> Any: return _call("divide", other, self)
    def __pow__(self, other: Any) -> Any: return _call("pow", self, other)
    def __rpow__(self, other: Any) -> Any: return _call("pow", other, self)
    def __matmul__(self, other: Any) -> Any: return _call("matmul", self, other)
    def __rmatmul__(self, other: Any) -> Any: return _call("matmul", other, self)
    def __neg__(self) -> Any: return _call("negative", self)
    def __abs__(self) -> Any: return _call("abs", self)
    def __lt__(self, other: Any) -> Any: return _call("less", self, other)
    def __le__(self, other: Any) -> Any: return _call("less_equal", self, other)
    def __gt__(self, other: Any) -> Any: return _call("greater", self, other)
    def __ge__(self, other: Any) -> Any: return _call("greater_equal", self, other)
    def __getitem__(self, index: Any) -> Any: return _call("slice", self, index)
    # fmt: on


def _call(op: str, *args: Any) -> Any:
    return opdef.lookup(op).constructor(*args)


def as_tensor(value: Any, *, dtype: DType | None = None) -> Tensor:
    """Returns `value` as a tensor of the current graph.

    Tensors pass through; objects with an `as_tensor()` method (variables) are asked; everything
    else becomes a constant. A Python number takes `dtype` when one is given.

    Raises:
        GraphError: for a tensor of another graph.
        SpecError: for a value that no tensor can hold.
    """
    if isinstance(value, Tensor):
        if value.graph is not current():
            message = f"{value!r} belongs to another graph"
            raise GraphError(message, where=value.node.where, hint="build both inside one `with Graph()`")
        return value
    if hasattr(value, "as_tensor"):
        tensor = value.as_tensor()
        assert isinstance(tensor, Tensor)
        return tensor
    try:
        array = as_array(value, dtype if isinstance(value, bool | int | float | complex) else None)
        if dtype is None and array.dtype.kind == "f" and not hasattr(value, "dtype"):
            array = array.astype("float32")  # what Python floats mean to a framework
        elif dtype is None and array.dtype.kind == "i" and not hasattr(value, "dtype"):
            array = array.astype("int32") if abs(array).max(initial=0) < 2**31 else array
        as_dtype(array.dtype)
    except (TypeError, ValueError) as error:
        message = f"no tensor can hold {type(value).__name__} {value!r:.60}: {error}"
        raise SpecError(message, where=Where(defined_at=source_line())) from None
    graph = current()
    index = graph.add_constant(frozen_copy(array))
    node = graph.add(
        "constant",
        name="constant",
        inputs=(),
        attrs={"constant": index},
        outputs=(Spec(array.shape, array.dtype),),
        defined_at=source_line(),
    )
    return Tensor(graph, Port(node.id))


def as_tensors(*values: Any) -> tuple[Tensor, ...]:
    """Returns the values as tensors; Python numbers take the dtype of the first real tensor."""
    typed = [v for v in values if not isinstance(v, bool | int | float | complex)]
    first = as_tensor(typed[0]) if typed else None
    dtype = None if first is None else first.dtype
    return tuple(
        first if typed and v is typed[0] and first is not None else as_tensor(v, dtype=dtype) for v in values
    )


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
    tensors = as_tensors(*inputs)
    attributes = dict(attrs or {})
    line = source_line()
    wanted = name or op
    try:
        outputs = tuple(opdef.lookup(op).spec([t.spec for t in tensors], attributes))
    except ActorflowError as error:
        for i, tensor in enumerate(tensors):
            error.add_note(f"  input {i}: {tensor.name} {tensor.spec}, defined at {tensor.node.defined_at}")
        placed = error.at(Where(node=f"{graph.scope.name}{wanted}", op=op, defined_at=line))
        raise placed from error.__cause__
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


def build_one(
    op: str, inputs: Sequence[Any], attrs: Mapping[str, Attr] | None = None, *, name: str | None = None
) -> Tensor:
    """Adds one node of an op with a single output and returns that tensor; see `build`."""
    (tensor,) = build(op, inputs, attrs, name=name)
    return tensor


def source_line() -> str:
    """Returns `file:line` of the innermost caller outside actorflow: what the user wrote."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return f"{path.name}:{frame.f_lineno}"


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Prefixes the names of nodes and resources built inside with `name/`; nests."""
    graph = current()
    prefix = f"{graph.scope.name}{name}/"
    with graph.scoped(replace(graph.scope, name=prefix)):
        yield prefix


@contextmanager
def device(spec: str) -> Iterator[None]:
    """Places the nodes built inside on the device that `spec` names, for example `/cpu:0`."""
    graph = current()
    with graph.scoped(replace(graph.scope, device=spec)):
        yield


@contextmanager
def colocate_with(target: Any) -> Iterator[None]:
    """Places the nodes built inside where `target` (a tensor or a variable) lives."""
    graph = current()
    name = target.node.name if isinstance(target, Tensor) else target.name
    with graph.scoped(replace(graph.scope, colocate=name)):
        yield


@contextmanager
def control_dependencies(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Makes the nodes built inside wait until the nodes of `tensors` have fired."""
    graph = current()
    ids: tuple[NodeId, ...] = tuple(as_tensor(t).port.node for t in tensors)
    with graph.scoped(replace(graph.scope, controls=tuple(dict.fromkeys(graph.scope.controls + ids)))):
        yield
