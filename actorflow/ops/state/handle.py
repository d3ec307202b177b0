"""What variables, queues and other state share: names in the graph, and values that have to fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, Generic, TypeVar

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.body import root_of
from actorflow.graph.builder import NO_RETURN, Tensor, as_tensor, build, build_one
from actorflow.graph.graph import Graph, current
from actorflow.graph.inputs_graph import methods_in_own_graph
from actorflow.graph.node import Attr
from actorflow.graph.resource import ResourceDef
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import DType, convert_numbers, name_of
from actorflow.values.spec import Spec, merge

Definition = TypeVar("Definition", bound=ResourceDef)


class Handle(Generic[Definition]):
    """What a program holds of state that an actor owns: builds the nodes that ask it.

    Subclasses make the definition and give the methods.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        """Has the methods of a kind of state build into its graph where none is open."""
        # As ops do, which have the graph of their inputs.
        super().__init_subclass__(**settings)
        methods_in_own_graph(cls)

    def __init__(self, definition: Definition) -> None:
        """Declares the state in the current graph."""
        self.definition = definition
        self.graph = root_of(current())
        # At once: the graph refuses a name that is taken before any node has it.
        self.graph.add_resource(definition)

    @property
    def name(self) -> str:
        """The name of the resource, name scopes included."""
        return self.definition.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.definition.description}>"

    def _ask(self, op_name: str, inputs: Sequence[Tensor], **attrs: Attr) -> tuple[Tensor, ...]:
        """Builds a node that asks the actor, and returns its outputs."""
        return build(op_name, inputs, self._attrs(attrs), name=self._local(op_name))

    def _ask_one(self, op_name: str, inputs: Sequence[Tensor], **attrs: Attr) -> Tensor:
        """Builds a node that asks the actor, and returns its only output."""
        return build_one(op_name, inputs, self._attrs(attrs), name=self._local(op_name))

    def _spec_attrs(self) -> Mapping[str, Attr]:
        """The attributes that tell spec rules what the state holds."""
        return {}

    def _attrs(self, extra: Mapping[str, Attr]) -> dict[str, Attr]:
        # Nodes name the resource; the same name in another graph is other state.
        if self.graph is not root_of(current()):
            message = f"{self!r} belongs to another graph"
            hint = "build both inside one `with Graph()`"
            raise GraphError(message, where=Where(defined_at=self.definition.defined_at), hint=hint)
        return {"resource": self.name, **self._spec_attrs(), **extra}

    def _local(self, op_name: str) -> str:
        # Nodes are named after the resource: counter/next.
        verb = op_name.removeprefix(f"{self.definition.kind}_")
        return f"{self.name.removeprefix(current().scope.name)}/{verb}"


def resource_name(graph: Graph, name: str | None, default: str, where: Where) -> str:
    """Returns the full name; a default gets a number when it is taken, for another it is an error."""
    # State that is made inside would begin before the locks and end with them.
    if graph.scope.block is not None:
        message = f"a {default} is made outside of atomic blocks, got one inside {graph.scope.block.name!r}"
        raise GraphError(message, where=where, hint="make it before the block")
    given: Any = name
    if given is not None and (not isinstance(given, str) or not given):
        message = f"the name of a {default} is a text and not empty, got {name!r:.60}"
        raise GraphError(message, where=where)
    # A name that was asked for is taken or refused; a default is numbered.
    if name is not None:
        full = f"{graph.scope.name}{name}"
        try:
            graph.check_resource(full)
        except GraphError as error:
            raise error.at(where) from None
        return full
    plain = found = f"{graph.scope.name}{default}"
    n = 0
    while found in graph.resources:
        n += 1
        found = f"{plain}_{n}"
    return found


def shared_name_of(graph: Graph, shared_name: str | None, kind: str, where: Where) -> dict[str, Any]:
    """Returns the fields of a definition that say under what its state is shared: `**shared_name_of(…)`.

    Raises:
        GraphError: for a shared name that is no text, or that other state of the graph has.
    """
    given: Any = shared_name
    if given is None:
        return {}
    if not isinstance(given, str) or not given:
        message = f"the shared name of a {kind} is a text and not empty, got {shared_name!r:.60}"
        raise GraphError(message, where=where, hint="leave it out to keep the state private")
    # The container that is open here, not where the state is used.
    container = graph.scope.container
    try:
        graph.check_shared(container, given)
    except GraphError as error:
        raise error.at(where) from None
    return {"container": container, "shared_name": given}


def can_be_called(function: Any, *args: Any) -> bool:
    """Tells whether a function takes these arguments, as far as it says what it takes."""
    try:
        signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:  # written in C, and does not say; classes like int make no first values
        return not isinstance(function, type)
    return True


def as_typed_tensor(value: Any, dtype: DType, *, convert: bool = False) -> Tensor:
    """Returns `value` as a tensor; numbers and lists of them take `dtype`, and arrays if `convert`.

    Raises:
        SpecError: when numbers would lose their fraction or their imaginary part, or are too large.
    """
    # Tensors and arrays keep their dtype, and are refused where it does not fit.
    if isinstance(value, Tensor) or hasattr(value, "as_tensor") or (hasattr(value, "dtype") and not convert):
        return as_tensor(value)
    try:
        return as_tensor(convert_numbers(value, dtype))
    except (TypeError, ValueError, OverflowError) as error:
        message = f"no {name_of(dtype)} tensor can hold {value!r:.60}: {error}"
        hint = NO_RETURN if value is None else None
        raise SpecError(message, where=Where(defined_at=source_line()), hint=hint) from None


def check_fits(given: Spec, wanted: Spec, what: str) -> None:
    """Raises SpecError when nothing described by `given` can be one of `wanted`."""
    try:
        merge(given.shape, wanted.shape)
    except SpecError:
        fits = False
    else:
        fits = given.dtype == wanted.dtype
    if not fits:
        message = f"{what} must fit {wanted}, got {given}"
        raise SpecError(message)
