"""Which nodes must share a device, and which devices each group of them may have.

What asks state goes where the state is; what is colocated goes where its target is: union-find, and each
group may have the devices that all its members allow. A list of tensors stays where it is made, with what
takes it, but for what scopes keep apart: there it is brought from one to the other as any value. So a list
that grows turn by turn crosses in each turn only where scopes say so of its writes and reads.

Over several processes state has one home, whatever a step needs of the graph
(`plan.placement.state_placement`); an optimizer is with its variables, and what an atomic block computes is
in the process of its variables. A first value is computed wherever there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from actorflow.errors import PlacementError, Where
from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import ResourceDef
from actorflow.plan.flat_graph import Flat, back_of
from actorflow.plan.placement.devices import process_of
from actorflow.plan.placement.state_placement import NOWHERE, State, existing, place_state
from actorflow.values.spec import ListSpec

HasKernel = Callable[[str, str], bool]
"""(op, device) -> whether that device can compute that op."""

_COMPUTES = frozenset({Effect.PURE, Effect.RANDOM, Effect.FUNCTION})
_UNPLACED = frozenset(
    {Effect.CONSTANT, Effect.FEED, Effect.ARGUMENT}
)  # each device has its own; what is fed is on the host
_COLOCATED = "what is colocated shares a device"
_TURNS = "the turns of a loop share a device"


@dataclass(frozen=True, slots=True)
class Groups:
    """The nodes of a step in groups that share a device.

    Attributes:
        of: The group of each needed node that is run.
        allowed: By group: the devices that it may have, at least one, in the order of all devices.
        stays: Groups that hold state, which stay on the first device that they may have.
    """

    of: Mapping[NodeId, int]
    allowed: tuple[tuple[str, ...], ...]
    stays: frozenset[int]

    def first(self, node: NodeId) -> str:
        """Returns the first device that a node may have: where it goes unless somebody places it."""
        return self.allowed[self.of[node]][0]


@dataclass(frozen=True, slots=True)
class _Constraint:
    """What one node or resource asks of its place."""

    name: str
    wanted: str
    where: Where
    allowed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.wanted!r} for {self.name!r} ({self.where.defined_at})"


class _Sets:
    """Union-find over keys, each with what it may have and who asked for that."""

    def __init__(self, everything: tuple[str, ...]) -> None:
        self._everything = everything
        self._parent: dict[Hashable, Hashable] = {}
        self._asks: dict[Hashable, list[_Constraint]] = {}
        self._allowed: dict[Hashable, tuple[str, ...]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._parent

    def add(self, key: Hashable, ask: _Constraint | None = None) -> None:
        """Adds a key that is alone."""
        self._parent[key] = key
        self._asks[key] = [] if ask is None else [ask]
        self._allowed[key] = self._everything if ask is None else ask.allowed

    def find(self, key: Hashable) -> Hashable:
        """Returns the key that stands for the set of `key`."""
        root = key
        while self._parent[root] != root:
            root = self._parent[root]
        # Halves the way for the next question.
        while key != root:
            self._parent[key], key = root, self._parent[key]
        return root

    def allowed_of(self, key: Hashable) -> tuple[str, ...]:
        """Returns what the set of `key` may have."""
        return self._allowed[self.find(key)]

    def asks(self, key: Hashable) -> list[_Constraint]:
        """Returns who has limited the set of `key`."""
        return self._asks[self.find(key)]

    def limit(self, key: Hashable, ask: _Constraint, why: str) -> None:
        """Leaves to the set of `key` what `ask` allows; raises PlacementError when that is nothing."""
        root = self.find(key)
        kept = tuple(d for d in self._allowed[root] if d in ask.allowed)
        # Both are named, with their lines: either may be the one that was not meant.
        if not kept:
            raise _contradiction([ask], self._asks[root], why)
        self._asks[root].append(ask)
        self._allowed[root] = kept

    def join(self, one: Hashable, other: Hashable, why: str) -> None:
        """Makes one set of two; raises PlacementError when nothing is left that it may have."""
        if not self.join_if_possible(one, other):
            raise _contradiction(self.asks(one), self.asks(other), why)

    def join_if_possible(self, one: Hashable, other: Hashable) -> bool:
        """Makes one set of two, unless nothing were left that it may have; tells whether they are one."""
        a, b = self.find(one), self.find(other)
        if a == b:
            return True
        # In the order of the first: that of all devices.
        kept = frozenset(self._allowed[b])
        both = tuple(d for d in self._allowed[a] if d in kept)
        if not both:
            return False
        self._parent[b] = a
        # Whoever asked for what stays known, for the error of a later join.
        self._asks[a].extend(self._asks.pop(b))
        self._allowed[a] = both
        del self._allowed[b]
        return True


def _contradiction(first: Sequence[_Constraint], second: Sequence[_Constraint], why: str) -> PlacementError:
    """Returns the error that names two asks which cannot both be met."""
    # The two that contradict each other, out of all that have come together.
    pairs = [(a, b) for a in first for b in second if not set(a.allowed) & set(b.allowed)]
    a, b = pairs[0] if pairs else (first[-1], second[-1])
    message = f"{why}, got {a} and {b}"
    return PlacementError(message, where=b.where, hint="drop one of the two scopes, or make them agree")


def can_run(node: Node) -> bool:
    """Tells whether a node has a place: constants are everywhere, and what is fed comes with a step."""
    return opdef.lookup(node.op).effect not in _UNPLACED


def colocate(
    graph: Graph,
    needed: Iterable[NodeId],
    devices: Sequence[str],
    has_kernel: HasKernel | None = None,
    state: State = NOWHERE,
) -> Groups:
    """Returns the groups of the nodes that a step needs, and the devices that each may have.

    Args:
        graph: Where they are.
        needed: The nodes of the step, in ascending order.
        devices: All there are, the first one first.
        has_kernel: Which device computes what; None leaves that to who installs the program.
        state: Where state lives that no scope places, if the devices are those of several processes.

    Raises:
        PlacementError: when nothing that a node asks for exists, two that must share a device cannot, or an
            optimizer or an atomic block deals with variables of several processes.
        ConfigError: when a node asks for what is no name of a device.
    """
    return _Grouping(graph, tuple(devices), has_kernel, state).groups(tuple(needed))


class _Grouping:
    """The groups of one graph in the making; keys are ids of nodes and names of resources."""

    def __init__(
        self, graph: Graph, devices: tuple[str, ...], has_kernel: HasKernel | None, state: State
    ) -> None:
        self.graph, self.devices, self.has_kernel = graph, devices, has_kernel
        self.sets = _Sets(devices)
        self.ties: list[tuple[Hashable, Hashable, str]] = []
        self.lists: list[tuple[int, NodeId, NodeId]] = []  # how far outside, who takes one, who makes it
        self.frames = graph.frames if isinstance(graph, Flat) else {}
        self.state = state
        self.apart = len(set(map(process_of, devices))) > 1
        self.matched: dict[str, tuple[str, ...]] = {}

    def groups(self, needed: tuple[NodeId, ...]) -> Groups:
        nodes, roots, state = self.graph.nodes, dict[Hashable, int](), set[Hashable]()
        effects = {i: opdef.lookup(nodes[i].op).effect for i in needed}
        run = tuple(i for i in needed if can_run(nodes[i]))
        # ORDER: all nodes, then what must be together, then what atomic blocks demand, and lists last, which
        # are together only where nothing forbids it.
        for i in run:
            self.enter(i)
        for tie in self.ties:
            self.sets.join(*tie)
        if self.apart:
            self.limit_blocks(run)
        # The innermost loops first, where a list would cross most often.
        for _, taker, maker in sorted(self.lists):
            self.sets.join_if_possible(maker, taker)
        of: dict[NodeId, int] = {}
        for i in run:
            root = self.sets.find(i)
            of[i] = roots.setdefault(root, len(roots))
            # What asks state stays on the first device that it may have: a placer moves what computes.
            if effects[i] not in _COMPUTES:
                state.add(root)
        allowed = tuple(self.sets.allowed_of(root) for root in roots)
        return Groups(of, allowed, frozenset(roots[root] for root in state))

    def enter(self, first: NodeId) -> None:
        """Adds a node, and whatever it must share a device with."""
        nodes, todo = self.graph.nodes, [first]
        while todo:
            i = todo.pop()
            if i in self.sets:
                continue
            node = nodes[i]
            # It is where its state is, whatever its own scope says.
            owner = self.graph.resources.get(node.attrs["resource"]) if "resource" in node.attrs else None
            if owner is not None:
                self.sets.add(i)
                self.resource(owner, node)
                self.ties.append((owner.name, i, "what asks state is where the state is"))
                continue
            if self.apart and "resources" in node.attrs:  # it is with its variables, whatever its scope says
                self.sets.add(i)
                owner = self.graph.resources[self.together(node)[0]]
                self.resource(owner, node)
                self.ties.append((owner.name, i, "what asks state is where the state is"))
                continue
            makers = [p.node for p in node.inputs if isinstance(nodes[p.node].outputs[p.index], ListSpec)]
            todo.extend(makers)
            depth = len(self.frames.get(i, ()))
            self.lists.extend((-depth, i, maker) for maker in makers)
            # Whatever only hands a list on goes with those who write and read it: its scope says nothing.
            if makers and opdef.lookup(node.op).effect is Effect.FLOW:
                self.sets.add(i)
                if (back := back_of(node)) is not None:
                    todo.append(back)
                    self.ties.append((back, i, _TURNS))
                continue
            self.sets.add(i, self.ask_of(node))
            if node.colocate is None:
                continue
            target = self.graph.resources.get(node.colocate)
            if target is not None:
                self.resource(target, node)
                self.ties.append((target.name, i, _COLOCATED))
            # It may not be needed otherwise: it only says where others are.
            else:
                beside = self.graph.node(node.colocate).id
                todo.append(beside)
                self.ties.append((beside, i, _COLOCATED))

    def resource(self, owner: ResourceDef, asked_by: Node) -> None:
        if owner.name in self.sets:
            return
        place = Where(device=owner.device or None, defined_at=owner.defined_at)
        wanted, allowed = owner.device, self.matching(owner.device, asked_by)
        if self.apart:
            # Over several processes state has one home, whatever a step needs of the graph.
            home = self.home(owner, asked_by)
            wanted, allowed = wanted if allowed == (home,) else home, (home,)
        self.sets.add(owner.name, _Constraint(owner.name, wanted, place, allowed) if wanted else None)

    def home(self, owner: ResourceDef, asked_by: Node) -> str:
        """Returns where state lives, which no single step decides."""
        return place_state(owner, self.devices, self.state, asked_by.where)

    def ask_of(self, node: Node) -> _Constraint | None:
        """Returns what a node asks of its place: its scope, and a kernel; None where nothing."""
        wanted = node.device
        if not wanted and self.has_kernel is None:
            return None
        allowed = self.matching(wanted, node)
        if self.has_kernel is not None and opdef.lookup(node.op).effect in _COMPUTES:
            able = tuple(d for d in allowed if self.has_kernel(node.op, d))
            if not able:
                have = [d for d in self.devices if self.has_kernel(node.op, d)]
                on = f"{wanted!r} allows {', '.join(allowed)}" if wanted else "no device"
                message = f"no kernel for {node.op!r} where it may run: {on}"
                hint = f"there is one on {', '.join(have)}" if have else None
                raise PlacementError(message, where=node.where, hint=hint)
            # Fewer than its scope allows: the error of a contradiction must say that it is for want of a
            # kernel.
            if able != allowed:
                wanted, allowed = wanted or f"a kernel for {node.op}", able
        return _Constraint(node.name, wanted, node.where, allowed) if wanted else None

    def matching(self, wanted: str, asked_by: Node) -> tuple[str, ...]:
        """Returns the devices that a scope allows."""
        found = self.matched.get(wanted)
        if found is None:
            found = self.matched[wanted] = existing(wanted, self.devices, asked_by.where)
        return found

    def together(self, node: Node) -> tuple[str, ...]:
        """Returns the names of what a node deals with, once they are known to be in one process."""
        names: tuple[str, ...] = node.attrs["resources"]
        homes = {name: self.home(self.graph.resources[name], node) for name in names}
        if len(set(map(process_of, homes.values()))) > 1:
            told = ", ".join(f"{name!r} on {device}" for name, device in homes.items())
            trains = opdef.lookup(node.op).effect is Effect.COMMIT
            who = f"{node.op!r}" if trains else "an atomic block"
            message = f"{who} deals with variables of one process, got {told}"
            hint = "place them in one process"
            if trains:
                hint += ", train each process's with an optimizer, or train all on a cluster with af.Trainer"
            raise PlacementError(message, where=node.where, hint=hint)
        return names

    def limit_blocks(self, run: tuple[NodeId, ...]) -> None:
        """Keeps what atomic blocks compute in the processes of their variables.

        A block is what lies between its first lock and its end, which have ids in a row.
        """
        within: _Constraint | None = None
        # Ids of a block lie in a row, from its first lock to its end.
        for i in run:
            node = self.graph.nodes[i]
            effect = opdef.lookup(node.op).effect
            if effect is Effect.LOCK and within is None:
                within = self.block_of(node)
            if within is not None:
                self.sets.limit(i, within, "an atomic block is computed in the process of its variables")
            if effect is Effect.UNLOCK:
                within = None

    def block_of(self, lock: Node) -> _Constraint:
        """Returns where a block may be, asked by the first of its variables."""
        owner = self.graph.resources[self.together(lock)[0]]
        process = process_of(self.home(owner, lock))
        place = Where(defined_at=owner.defined_at)
        return _Constraint(
            owner.name, process, place, tuple(d for d in self.devices if process_of(d) == process)
        )
