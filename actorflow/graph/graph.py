"""A graph: frozen nodes that are only ever added, tables beside them, and scopes while building.

Nodes hold plain data. What is too large or not data lies out of line: arrays in `constants`,
stateful resources by name in `resources`, Python objects (optimizers, custom gradients) by key in
`objects`, subgraphs by key in `bodies`. Since nodes change in nothing but new outputs (`Graph.grow`), and
ids grow, a plan made for some fetches stays valid when the graph grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from actorflow.errors import GraphError, InternalError
from actorflow.graph.atomic_block import Block
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.resource import HANDLES, ResourceDef, VariableDef
from actorflow.runtime.name_hints import GRAPHS, missing_method
from actorflow.values.arrays import Array
from actorflow.values.fingerprint import fingerprint
from actorflow.values.spec import Spec


@dataclass(frozen=True, slots=True)
class Scope:
    """What the `with` blocks around a constructor say about the nodes that it makes.

    Attributes:
        container: The container of shared names.
        block: The atomic block that is being built, if one is.
        defined_at: The source line that the nodes claim; None for the caller's.
    """

    name: str = ""
    device: str = ""
    colocate: str | None = None
    controls: tuple[NodeId, ...] = ()
    container: str = ""
    block: Block | None = None
    defined_at: str | None = None


OPEN_A_GRAPH = "put it under `with g:`, the graph it belongs to, or under `with af.Graph() as g:`, a new one"
"""What to try where no graph is open, and no input says which is meant."""

_current: ContextVar[Graph | None] = ContextVar("actorflow_graph", default=None)


class Graph:
    """What is to be computed. Build inside `with Graph() as g:`; fetch with a Session.

    Args:
        seed: Where the graph's random ops draw from; the same seed gives the same run.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        self.nodes: list[Node] = []
        self.constants: list[Array] = []
        self.resources: dict[str, ResourceDef] = {}
        self.objects: dict[str, Any] = {}
        self.likenesses: dict[str, str] = {}
        self.bodies: dict[str, Any] = {}
        self.salt = 0
        self.told: set[str] = set()  # what the user has been warned of, of the outermost graph
        self.scope = Scope()
        self._by_name: dict[str, NodeId] = {}
        self._counts: dict[str, int] = {}
        self._tokens: list[Token[Graph | None]] = []

    def __enter__(self) -> Self:
        # A stack of tokens: blocks of one graph may be nested.
        self._tokens.append(_current.set(self))
        return self

    def check_free(self) -> None:
        """Raises GraphError where a block that is none of this context builds it: both would add nodes."""
        # Open, and not in this context: another thread or task has it.
        if self._tokens and _current.get() is None:
            message = "a graph is built in one thread or task at a time, and `with g:` is open in another"
            raise GraphError(message, hint="build there, or once that block has ended")

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._tokens.pop())

    if not TYPE_CHECKING:  # type checkers would take any name for one that there is

        def __getattr__(self, name: str) -> Any:
            raise missing_method(self, name, GRAPHS, "use af.{0}(...) under `with graph:`")

    def __repr__(self) -> str:
        held = f"{len(self.nodes)} nodes, {len(self.resources)} resources, seed {self.seed}"
        return f"<{type(self).__name__} of {held}>"

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def variables(self) -> list[Any]:
        """Its variables, in the order in which they were made."""
        return [HANDLES["variable"](self, d.name) for d in self._variables()]

    @property
    def trainable(self) -> list[Any]:
        """Its trainable floating variables, in that order: what `minimize` trains where nobody says."""
        return [HANDLES["variable"](self, d.name) for d in self._variables() if d.is_trained]

    def _variables(self) -> list[VariableDef]:
        return [d for d in self.resources.values() if isinstance(d, VariableDef)]

    def node(self, name: str | NodeId) -> Node:
        """Returns the node of that name or id; raises GraphError when there is none."""
        if isinstance(name, int):
            return self.nodes[name]
        found = self._by_name.get(name)
        if found is None:
            message = f"the graph has no node named {name!r}"
            # Near by the first letters of the last part of their names.
            near = [n for n in self._by_name if n.split("/")[-1][:3] == name.split("/")[-1][:3]]
            raise GraphError(message, hint=f"near it are {', '.join(near[:8])}" if near else None)
        return self.nodes[found]

    def find(self, name: str) -> Node | None:
        """Returns the node of that name, None when there is none."""
        found = self._by_name.get(name)
        return None if found is None else self.nodes[found]

    def add(
        self,
        op: str,
        *,
        name: str,
        inputs: tuple[Port, ...],
        attrs: Mapping[str, Attr],
        outputs: tuple[Spec, ...],
        defined_at: str,
        exact_name: bool = False,
        controls: tuple[NodeId, ...] = (),
    ) -> Node:
        """Adds a node under the current scope and returns it.

        `name` is the wanted name inside the name scope; when it is taken, `_1`, `_2`, … is
        appended, or GraphError raised if it must be the `exact_name`.
        """
        scope = self.scope
        node = Node(
            id=NodeId(len(self.nodes)),
            name=self.unique(name, exact=exact_name),
            op=op,
            inputs=inputs,
            controls=tuple(dict.fromkeys(scope.controls + controls)),
            attrs=attrs,
            outputs=outputs,
            device=scope.device,
            colocate=scope.colocate,
            defined_at=defined_at,
        )
        self.restore(node)
        return node

    def restore(self, node: Node) -> None:
        """Adds a complete node as it is, scopes aside: for graphs that are read or copied.

        Raises:
            GraphError: when its name is taken or its id is not the next one.
        """
        if node.id != len(self.nodes) or node.name in self._by_name:
            message = f"nodes are added in order under fresh names, got {node.name!r} with id {node.id}"
            raise GraphError(message, where=node.where)
        self.nodes.append(node)
        self._by_name[node.name] = node.id

    def grow(self, node: NodeId, attrs: Mapping[str, Attr], outputs: tuple[Spec, ...]) -> Node:
        """Gives a node more outputs, and the attributes that say so; those it has stay what they are.

        The one change that a node may undergo: a gradient asks a functional node for values of its bodies.
        """
        before = self.nodes[node]
        # Plans that were made before do not ask for the new outputs, so they stay right.
        if outputs[: len(before.outputs)] != before.outputs:
            message = f"a node that grows keeps the outputs it has, {before.name!r} would not"
            raise InternalError(message, where=before.where)
        self.nodes[node] = replace(before, attrs=attrs, outputs=outputs)
        return self.nodes[node]

    def unique(self, name: str, *, exact: bool = False) -> str:
        """Returns `name` inside the scope, made unique among nodes; raises instead when `exact`."""
        wanted = f"{self.scope.name}{name}"
        if wanted not in self._by_name:
            return wanted
        if exact:
            taken = self.node(wanted)
            message = f"names are unique, {wanted!r} is taken by the {taken.op} defined at {taken.defined_at}"
            raise GraphError(message, hint="choose another name, or open a name scope")
        while True:
            # Counted by name, or the n-th of one name would try n of them.
            n = self._counts[wanted] = self._counts.get(wanted, 0) + 1
            if (found := f"{wanted}_{n}") not in self._by_name:
                return found

    def add_constant(self, value: Array) -> int:
        """Stores a frozen array out of line and returns its index."""
        self.constants.append(value)
        return len(self.constants) - 1

    def check_resource(self, name: str) -> None:
        """Raises GraphError when other state has that name."""
        taken = self.resources.get(name)
        if taken is not None:
            line = taken.defined_at
            message = f"resource names are unique, {name!r} is taken by the one defined at {line}"
            raise GraphError(message, hint="choose another name, or open a name scope")

    def check_shared(self, container: str, shared_name: str | None) -> None:
        """Raises GraphError when the graph declares the state of that shared name already."""
        for taken in self.resources.values():
            if shared_name is not None and (taken.container, taken.shared_name) == (container, shared_name):
                line = taken.defined_at
                message = (
                    f"a graph declares shared state once, {shared_name!r} is {taken.name!r} defined at {line}"
                )
                raise GraphError(message, hint="use that one, or share under another name or container")

    def add_resource(self, resource: ResourceDef) -> None:
        """Adds state; raises GraphError when the name is taken, or that under which it is shared."""
        self.check_resource(resource.name)
        self.check_shared(resource.container, resource.shared_name)
        self.resources[resource.name] = resource

    def add_object(self, key: str, value: Any) -> str:
        """Stores a Python object out of line under a fresh key that begins with `key`."""
        n, found = 0, key
        while found in self.objects:
            n += 1
            found = f"{key}_{n}"
        self.keep_object(found, value)
        return found

    def keep_object(self, key: str, value: Any) -> None:
        """Stores a Python object under this key, with its fingerprint now, before anything runs."""
        self.objects[key] = value
        # Now, before anything runs: an object of the user's may change later.
        self.likenesses[key] = fingerprint(value)

    @contextmanager
    def use_scope(self, scope: Scope) -> Iterator[None]:
        """Makes `scope` current for the length of the block."""
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before


def current_or_none() -> Graph | None:
    """Returns the graph that is being built, None when none is."""
    return _current.get()


def current() -> Graph:
    """Returns the graph that is being built; raises GraphError when no `with Graph()` is open."""
    graph = _current.get()
    if graph is None:
        raise GraphError("ops are built inside a graph, and none is open", hint=OPEN_A_GRAPH)
    return graph
