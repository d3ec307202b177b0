"""Variables: reads, versions and assigns; `ops.state.updates` trains many of them at once.

Nodes name the variable in `attrs["resource"]`; no edge carries a handle. These ops have no
kernels: the actor that owns the variable answers them. Within one step, reads and writes of one
variable happen in the order in which the program built them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from weakref import WeakKeyDictionary

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.autodiff import Use, advice
from actorflow.graph.body import Body, is_open, root_of
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.graph import Graph, current
from actorflow.graph.inputs_graph import in_graph_of_inputs, methods_in_own_graph
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, lookup, op
from actorflow.graph.operators import OneArray
from actorflow.graph.resource import HANDLES, VariableDef
from actorflow.ops.state.handle import as_typed_tensor, check_fits, resource_name, shared_name_of
from actorflow.ops.state.initial_values import Initial, spec_and_initial
from actorflow.ops.state.substitution import check_itself, stands_for
from actorflow.ops.state.writes import VariableWrites
from actorflow.runtime.call_site import source_line
from actorflow.runtime.name_hints import check_keywords
from actorflow.values.arrays import DType
from actorflow.values.spec import Dim, Shape, Spec, spec


@methods_in_own_graph
class Variable(VariableWrites, OneArray):
    """A tensor that keeps its value between steps. Used like a tensor, it is read.

    Creating one adds a `VariableDef` to the graph and builds the first value under the name scope
    `<name>/initial`; the value is computed when a session initialises its variables.

    With a `shared_name` it is the same variable in all sessions of an actor system, of whatever graph,
    that give this name in the same `af.state.container`; without, every session has its own.

    Shapes:   that of `initial`, or `shape`, which may leave open sizes that assigns may change
    Dtypes:   any; `dtype`, or that of `initial`
    Raises:   SpecError when initial, shape and dtype do not fit, or nothing says what they are;
              GraphError when an explicit `name` is taken, or the `shared_name` within the graph. A name
              that is left out is `variable`, `variable_1`, …

    >>> with af.Graph():
    ...     w = af.Variable(af.init.he((64, 10)), name="w")
    ...     print(w, w.read())
    <Variable w (64, 10) float32> <Tensor w/read:0 (64, 10) float32>
    """

    @check_keywords("Variable")
    @in_graph_of_inputs
    def __init__(
        self,
        initial: Initial = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        shape: Iterable[Dim] | None = None,
        trainable: bool = True,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        where = Where(defined_at=line)
        # ORDER: the name first: nodes of the first value are built under it.
        wanted = resource_name(graph, name, "variable", where)
        flag: Any = trainable
        if not isinstance(flag, bool):
            message = f"a variable is trainable=True or trainable=False, got {trainable!r:.60}"
            raise SpecError(message, where=where)
        found = spec_and_initial(graph, wanted.removeprefix(graph.scope.name), initial, dtype, shape, where)
        value, first = found
        self.definition = VariableDef(
            name=wanted,
            spec=value,
            initial=first,
            trainable=trainable,
            device=graph.scope.device,
            defined_at=line,
            **shared_name_of(graph, shared_name, "variable", where),
        )
        self.graph = root_of(graph)
        # Weak: a graph that is gone takes what was seen of it along.
        self._seen: WeakKeyDictionary[Graph, _SeenReads] = WeakKeyDictionary()
        graph.add_resource(self.definition)

    @classmethod
    def existing(cls, graph: Graph, name: str) -> Self:
        """Returns the variable of that full name in `graph`; raises GraphError when there is none."""
        definition = graph.resources.get(name)
        if not isinstance(definition, VariableDef):
            known = ", ".join(n for n, r in graph.resources.items() if isinstance(r, VariableDef))
            message = f"the graph has no variable {name!r}"
            raise GraphError(message, hint=f"it has {known}" if known else None)
        # A new handle of the same definition.
        variable = cls.__new__(cls)
        variable.definition = definition
        variable.graph = root_of(graph)
        variable._seen = WeakKeyDictionary()
        return variable

    @property
    def name(self) -> str:
        """The name of the resource, name scopes included."""
        return self.definition.name

    @property
    def spec(self) -> Spec:
        """What every value of the variable fits."""
        return self.definition.spec

    @property
    def shape(self) -> Shape:
        """The shape, None for sizes that assigns may change."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.spec.dtype

    def __repr__(self) -> str:
        return f"<Variable {self.name} {self.spec}>"

    def is_same(self, other: object) -> bool:
        """Tells whether `other` is that variable; `existing` gives a new Python object for it."""
        return isinstance(other, Variable) and self.graph is other.graph and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.graph), self.name))

    def read(self) -> Tensor:
        """A snapshot of the value after all writes built so far, and before those built later.

        Inside `af.nn.apply` it is the tensor that stands for the variable, if one does.
        """
        other = stands_for(self.graph, self.name)
        return self._use("read_variable", "read") if other is None else other

    def as_tensor(self) -> Tensor:
        """A read after the last write built so far, with the control inputs of the open scope.

        One that is there is used again; but never one that waits for more, or for less.
        """
        graph = self._check_graph()
        # What stands for the variable here takes part in no order of writes.
        other = stands_for(self.graph, self.name)
        if other is not None:
            return other
        seen = self._seen.setdefault(graph, _SeenReads())
        # Only what was built since the last look: asking again costs nothing.
        for node in graph.nodes[seen.nodes :]:
            # A read from before a write has the old value.
            if _writes(node, self.name):
                seen.reads.clear()
            elif node.op == "read_variable" and node.attrs["resource"] == self.name:
                # By control inputs: a read that waits for more would wait in vain, one that waits for less
                # comes too soon.
                seen.reads[frozenset(node.controls)] = node.id
        seen.nodes = len(graph.nodes)
        found = seen.reads.get(frozenset(graph.scope.controls))
        if found is not None:
            return Tensor(graph, Port(found))
        read = self.read()
        if isinstance(graph, Body):
            # An implicit read may be moved out of the body; see `complete_bodies`.
            graph.implicit.add(read.port.node)
        return read

    def reads(self) -> list[Tensor]:
        """Every read in the current graph, or in its own one, in the order of the program."""
        # Gradients look for reads in the graph that they are asked in.
        graph = current() if is_open(self.graph) else self.graph
        return [
            Tensor(graph, Port(node.id))
            for node in graph.nodes
            if node.op == "read_variable" and node.attrs["resource"] == self.name
        ]

    def version(self) -> Tensor:
        """How many writes the variable has seen, an int64 scalar."""
        return self._use("variable_version", "version")

    def is_initialised(self) -> Tensor:
        """Whether the variable has a value, a bool scalar."""
        return self._use("is_initialised", "is_initialised")

    def assign(self, value: Any) -> Tensor:
        """Replaces the value; gives a snapshot of the new one."""
        return self._write("assign", value)

    def assign_add(self, delta: Any) -> Tensor:
        """Adds `delta`, which has the variable's shape; gives a snapshot of the new value."""
        return self._write("assign_add", delta)

    def assign_sub(self, delta: Any) -> Tensor:
        """Subtracts `delta`, which has the variable's shape; gives a snapshot of the new value."""
        return self._write("assign_sub", delta)

    def _use(self, op_name: str, verb: str) -> Tensor:
        return build_one(op_name, [], self._attrs(), name=f"{self._local}/{verb}")

    def _write(self, op_name: str, value: Any) -> Tensor:
        check_itself(self.graph, self.name)
        attrs = self._attrs()
        return build_one(
            op_name, [as_typed_tensor(value, self.dtype)], attrs, name=f"{self._local}/{op_name}"
        )

    def _build(self, op_name: str, inputs: Sequence[Tensor], **attrs: Attr) -> Tensor:
        check_itself(self.graph, self.name)
        return super()._build(op_name, inputs, **attrs)

    def _attrs(self) -> dict[str, Attr]:
        self._check_graph()
        return {"resource": self.name, "shape": self.shape, "dtype": self.dtype.name}

    @property
    def _local(self) -> str:
        """The name as the open name scope sees it: its nodes are named after it."""
        return self.name.removeprefix(current().scope.name)

    def _check_graph(self) -> Graph:
        graph = current()
        if self.graph is not root_of(graph):
            message = f"{self!r} belongs to another graph"
            hint = "build both inside one `with Graph()`"
            raise GraphError(message, where=Where(defined_at=self.definition.defined_at), hint=hint)
        return graph

    def place(self) -> Where | None:
        """Where it was declared."""
        return Where(defined_at=self.definition.defined_at)


HANDLES["variable"] = Variable.existing


def trainable_variables(graph: Graph | None = None) -> list[Variable]:
    """Returns the trainable floating variables of `graph`, or of the current one, in order."""
    return (current() if graph is None else graph).trainable


def check_variables(rule: str, variables: Any) -> None:
    """Raises GraphError, beginning with `rule`, unless it is a list or tuple of variables of this graph."""
    where = Where(defined_at=source_line())
    if not isinstance(variables, list | tuple):
        hint = "put it in a list" if isinstance(variables, Variable) else None
        message = f"{rule} a list of variables, got {type(variables).__name__} {variables!r:.60}"
        raise GraphError(message, where=where, hint=hint)
    for variable in variables:
        if not isinstance(variable, Variable):
            message = f"{rule} variables, got {type(variable).__name__} {variable!r:.60}"
            raise GraphError(message, where=where, hint=advice(variable))
        if variable.graph is not root_of(current()):
            message = f"{rule} variables of the current graph, {variable!r} belongs to another graph"
            raise GraphError(message, where=where, hint="build both inside one `with Graph()`")


@dataclass(slots=True)
class _SeenReads:
    """What a variable knows of a graph: how many nodes, and reads since the last write, by controls."""

    nodes: int = 0
    reads: dict[frozenset[NodeId], NodeId] = field(default_factory=dict)


def _writes(node: Node, resource: str) -> bool:
    """Tells whether a node changes the variable `resource`."""
    effect = lookup(node.op).effect
    if effect is Effect.COMMIT:
        # A commit writes several at once.
        return resource in node.attrs["resources"]
    if effect is Effect.FUNCTION:
        # A functional node writes what its bodies write.
        return resource in node.attrs["writes"]
    return effect is Effect.WRITE and node.attrs["resource"] == resource


def _own_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    """The spec that the variable's values fit."""
    return (spec(attrs["dtype"], attrs["shape"]),)


def _written_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (own,) = _own_spec(inputs, attrs)
    check_fits(inputs[0], own, f"a value of variable {attrs['resource']!r}")
    return (own,)


def _scalar(dtype: str) -> Callable[[Sequence[Spec], Mapping[str, Attr]], Sequence[Spec]]:
    found = (spec(dtype),)
    return lambda inputs, attrs: found


def _leaf(use: Use, *grads: Tensor | None) -> Sequence[Tensor | None]:
    """A read has no inputs: gradients end there, and `Variable.reads` finds them."""
    return ()


@op("read_variable", spec=_own_spec, gradient=_leaf, effect=Effect.READ)
def read_variable(variable: Variable) -> Tensor:
    """`Variable.read`: an immutable snapshot; UninitialisedError in the step when there is no value."""
    return variable.read()


@op("variable_version", spec=_scalar("int64"), gradient=NOT_DIFFERENTIABLE, effect=Effect.READ)
def variable_version(variable: Variable) -> Tensor:
    """`Variable.version`: how many writes the variable has seen."""
    return variable.version()


@op("is_initialised", spec=_scalar("bool"), gradient=NOT_DIFFERENTIABLE, effect=Effect.READ)
def is_initialised(variable: Variable) -> Tensor:
    """`Variable.is_initialised`: whether the variable has a value."""
    return variable.is_initialised()


# No gradient rules: the value after a write depends on the value before it, which is no input, so
# a rule for the input alone would give half a gradient. Differentiate what was assigned instead.


@op("assign", spec=_written_spec, effect=Effect.WRITE)
def assign(variable: Variable, value: Any) -> Tensor:
    """`Variable.assign`: replaces the value.

    Shapes:   value that of the variable -> the same, the new value
    Dtypes:   that of the variable
    Raises:   SpecError when the value can never fit; in the step when that was unknown.
    """
    return variable.assign(value)


@op("assign_add", spec=_written_spec, effect=Effect.WRITE)
def assign_add(variable: Variable, delta: Any) -> Tensor:
    """`Variable.assign_add`: adds `delta`; specs as in `assign`."""
    return variable.assign_add(delta)


@op("assign_sub", spec=_written_spec, effect=Effect.WRITE)
def assign_sub(variable: Variable, delta: Any) -> Tensor:
    """`Variable.assign_sub`: subtracts `delta`; specs as in `assign`."""
    return variable.assign_sub(delta)
