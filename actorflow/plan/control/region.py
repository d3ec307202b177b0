"""A region of a flat graph: the nodes that come of one graph, or of one use of a body.

All nodes of a region fire together or are dead together, once a turn for those of a loop. What they are given
may be live when the region is not: constants, and what is the same in all turns. So a node that depends on
nothing else gets a control edge from the region's pivot, which is live exactly when the region is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.plan.control.program_order import Order, is_stateful
from actorflow.plan.control_flow_ops import MERGE, PASS
from actorflow.plan.flat_graph import Flat, Path
from actorflow.values.spec import Spec, spec

INDEX = spec("int32", ())
TOKEN = spec("bool", ())
ASKED = "\0asked"
"""What stands, as if it were one resource, for code of the user that is asked in any order."""


class Region:
    """One region in the making.

    Args:
        flat: Where its nodes go.
        graph: The graph or body that it comes of.
        frame: Its frame.
        value: Gives what stands for an argument of the body.
        pivot: Gives a node that is live exactly when the region is; None for one that always is.
        loose: Nodes that may be live when the region is not.
        entry: For what the region waits as a whole.
        around: The region around it, None for the outermost.

    Attributes:
        values: What stands for the outputs of its nodes.
        after: For a node: those that have fired when it has.
        controls_in: For a functional node and a resource: the node after which that is done with it.
        tokens: For a resource: the node after which it is the turn of this region.
        names: What its nodes are called here.
        besides: Further nodes for which a node waits.
    """

    def __init__(
        self,
        flat: Flat,
        graph: Graph,
        frame: Path = (),
        *,
        value: Callable[[Port], Port] | None = None,
        pivot: Callable[[], NodeId] | None = None,
        loose: set[NodeId] | None = None,
        entry: tuple[NodeId, ...] = (),
        around: Region | None = None,
    ) -> None:
        self.flat, self.graph, self.frame = flat, graph, frame
        self.pivot, self.entry, self.around = pivot, entry, around
        self.loose: set[NodeId] = set() if loose is None else loose
        self.values: dict[Port, Port] = {}
        self.after: dict[NodeId, tuple[NodeId, ...]] = {}
        self.controls_in: dict[tuple[NodeId, str], NodeId] = {}
        self.tokens: dict[str, NodeId] = {}
        self.names: dict[str, str] = {}
        self.order = Order(graph, ())
        self.waiters: dict[str, list[NodeId]] = {}
        self.besides: dict[NodeId, tuple[NodeId, ...]] = {}
        self._argument = value
        self._mine: set[NodeId] = set()
        self._pivot: NodeId | None = None

    # -- what stands for what ---------------------------------------------------------------------------

    def value(self, port: Port) -> Port:
        """Returns what stands for an output of a node of the graph."""
        found = self.values.get(port)
        if found is None:
            # Not made here: an argument of the body, which stands for something outside.
            assert self._argument is not None
            found = self.values[port] = self._argument(port)
        return found

    def is_constant(self, port: Port) -> bool:
        """Tells whether a port of the flat graph is that of a constant, for which no token travels."""
        return opdef.lookup(self.flat.nodes[port.node].op).effect is Effect.CONSTANT

    def spec_of(self, port: Port) -> Spec:
        """Returns the spec of a port of the flat graph."""
        return self.flat.nodes[port.node].outputs[port.index]

    # -- adding nodes -----------------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        name: str,
        inputs: Iterable[Port],
        outputs: Sequence[Spec],
        of: Node,
        *,
        attrs: Mapping[str, Attr] | None = None,
        controls: Iterable[NodeId] = (),
    ) -> NodeId:
        """Adds a node on behalf of a node of the graph: at its place, and dead where the region is dead."""
        ports, before = tuple(inputs), list(dict.fromkeys(controls))
        # Who takes something of the region waits with that; others wait for the entry by themselves.
        if self.entry and not any(p.node in self._mine for p in ports):
            before.extend(self.entry)
        # All that it takes may be live when the region is dead: constants, and what is the same in all turns.
        # The pivot is not.
        if self.pivot is not None and not any(
            i not in self.loose and opdef.lookup(self.flat.nodes[i].op).effect is not Effect.CONSTANT
            for i in (*(p.node for p in ports), *before)
        ):
            before.append(self.pivot_node())
        made = self.flat.put(
            op,
            name,
            ports,
            before,
            attrs or {},
            tuple(outputs),
            frame=self.frame,
            inner=self.pivot is not None,
            device=of.device,
            colocate=self.place(of.colocate),
            defined_at=of.defined_at,
        )
        self._mine.add(made)
        return made

    def pivot_node(self) -> NodeId:
        """Returns a node that is live exactly when the region is, which has one."""
        # One for a region, and only where a node needs it.
        if self._pivot is None:
            assert self.pivot is not None
            self._pivot = self.pivot()
        return self._pivot

    def pass_on(self, port: Port, name: str, of: Node, controls: Iterable[NodeId] = ()) -> Port:
        """Returns a port that gives the same value, later; it is live as the region is."""
        return Port(self.emit(PASS, name, [port], [self.spec_of(port)], of, controls=controls))

    def token(self, name: str, of: Node, controls: Iterable[NodeId]) -> Port:
        """Returns a port that says that some nodes have fired."""
        return self.pass_on(self.flat.constant(True, TOKEN.dtype), name, of, controls)

    def alive(self, port: Port, name: str, of: Node) -> Port:
        """Returns a port along which a token travels, for what must not be given a constant."""
        return self.pass_on(port, name, of) if self.is_constant(port) or port.node in self.loose else port

    def merge(self, ports: Sequence[Port], out: Spec, name: str, of: Node, after: Iterable[NodeId]) -> Port:
        """Returns the one of some ports that is live, once other nodes have fired."""
        return Port(self.emit(MERGE, name, ports, [out, INDEX], of, controls=after))

    def place(self, colocate: str | None) -> str | None:
        """Returns what a node that is to be beside another has to name here."""
        # A resource has one name in all graphs.
        if colocate is None or colocate in self.graph.resources:
            return colocate
        if colocate in self.names:
            return self.names[colocate]
        beside = self.graph.find(colocate)
        if beside is None:
            # Made by a graph further out, or nowhere.
            return colocate if self.around is None else self.around.place(colocate)
        stub = self.flat.put(  # nobody needs it: it only says where others are
            beside.op,
            beside.name,
            (),
            (),
            beside.attrs,
            beside.outputs,
            device=beside.device,
            colocate=self.place(beside.colocate),
            defined_at=beside.defined_at,
        )
        self.names[colocate] = self.flat.nodes[stub].name
        return self.names[colocate]

    def copy(self, node: Node) -> None:
        """Adds a node of the graph as it is."""
        inputs = [self.value(port) for port in node.inputs]
        if opdef.lookup(node.op).effect is Effect.CONSTANT:
            # For a constant no token travels: it waits for nothing and is dead nowhere.
            made = self.flat.put(
                node.op, node.name, (), (), node.attrs, node.outputs, defined_at=node.defined_at
            )
        else:
            before = (*self.controls(node), *self.fired_nodes(self.besides.get(node.id, ())))
            made = self.emit(
                node.op, node.name, inputs, node.outputs, node, attrs=node.attrs, controls=before
            )
            self.after[node.id] = (made,)
        self.names[node.name] = self.flat.nodes[made].name
        for k in range(len(node.outputs)):
            # `setdefault`: what is fed stays fed.
            self.values.setdefault(Port(node.id, k), Port(made, k))

    # -- order ------------------------------------------------------------------------------------------

    def begin(self, needed: Sequence[NodeId]) -> None:
        """Takes note of the order in which nodes of the graph touch state."""
        self.order = Order(self.graph, needed)
        for i in needed:
            for name in waits(self.graph.nodes[i]):
                self.waiters.setdefault(name, []).append(i)

    def fired_nodes(self, nodes: Iterable[NodeId]) -> list[NodeId]:
        """Returns the nodes that have fired when these nodes of the graph have."""
        return [found for i in nodes for found in self.after.get(i, ())]

    def before(self, node: Node, name: str) -> list[NodeId]:
        """Returns what has to have fired before a node may touch a resource."""
        # For code that is asked in any order not even turns decide.
        if name == ASKED:
            return []
        found = self.order.before.get(node.id, {}).get(name, ())
        made = [c for i in found for c in self._done_nodes(i, name)]
        # The first here to touch it waits for the region's token.
        return made if found or name not in self.tokens else [self.tokens[name]]

    def controls(self, node: Node) -> list[NodeId]:
        """Returns what has to have fired before a node that stays one node."""
        made = self.fired_nodes(node.controls)
        for name in (*self.order.before.get(node.id, {}), *waits(node)):
            made.extend(self.before(node, name))
        return made

    def last(self, name: str) -> list[NodeId]:
        """Returns the nodes after which the region is done with a resource."""
        found = dict.fromkeys((*self.order.last(name), *self.waiters.get(name, ())))
        return [c for i in found for c in self._done_nodes(i, name)]

    def _done_nodes(self, i: NodeId, name: str) -> tuple[NodeId, ...]:
        # A functional node may be done with one resource long before it has ended.
        gate = self.controls_in.get((i, name))
        return self.after.get(i, ()) if gate is None else (gate,)


def waits(node: Node) -> tuple[str, ...]:
    """Returns the resources at which a node may wait: in which order it comes there, turns alone decide.

    Code of the user that is asked in any order is one of them, for which not even turns decide.
    """
    effect = opdef.lookup(node.op).effect
    if effect is Effect.WAIT:
        return (node.attrs["resource"],)
    if effect is Effect.ASK:
        # An ordered call is a write, and stands in the order of the program: see `is_stateful`.
        return () if node.attrs.get("ordered") else (ASKED,)
    if effect is Effect.FUNCTION:
        return (*node.attrs["waits"], ASKED) if node.attrs["asks"] else tuple(node.attrs["waits"])
    return ()


def resources(node: Node) -> tuple[str, ...]:
    """Returns all resources that a functional node touches."""
    return tuple(dict.fromkeys((*is_stateful(node), *waits(node))))
