"""Which nodes must share a device, and which devices each group of them may have.

What asks state goes where the state is; what is colocated goes where its target is: union-find, and each
group may have the devices that all its members allow. Looser ties bind to a process: the variables of an
atomic block are held by one, and an optimizer's node is with its variables if one process has them all.
A first value is computed wherever there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from actorflow.errors import ConfigError, PlacementError, Where
from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import ResourceDef
from actorflow.plan.devices import matching, process_of

HasKernel = Callable[[str, str], bool]
"""(op, device) -> whether that device can compute that op."""

_COMPUTES = frozenset({Effect.PURE, Effect.RANDOM})
_UNPLACED = frozenset({Effect.CONSTANT, Effect.FEED})  # each device has its own; what is fed is on the host
_TIED = frozenset({Effect.LOCK, Effect.UNLOCK})
_COLOCATED = "what is colocated shares a device"


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
class _Ask:
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
        self._asks: dict[Hashable, list[_Ask]] = {}
        self._allowed: dict[Hashable, tuple[str, ...]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._parent

    def add(self, key: Hashable, ask: _Ask | None = None) -> None:
        """Adds a key that is alone."""
        self._parent[key] = key
        self._asks[key] = [] if ask is None else [ask]
        self._allowed[key] = self._everything if ask is None else ask.allowed

    def find(self, key: Hashable) -> Hashable:
        """Returns the key that stands for the set of `key`."""
        root = key
        while self._parent[root] != root:
            root = self._parent[root]
        while key != root:
            self._parent[key], key = root, self._parent[key]
        return root

    def allowed(self, key: Hashable) -> tuple[str, ...]:
        """Returns what the set of `key` may have."""
        return self._allowed[self.find(key)]

    def asks(self, key: Hashable) -> list[_Ask]:
        """Returns who has limited the set of `key`."""
        return self._asks[self.find(key)]

    def join(self, one: Hashable, other: Hashable, why: str) -> None:
        """Makes one set of two; raises PlacementError when nothing is left that it may have."""
        a, b = self.find(one), self.find(other)
        if a == b:
            return
        kept = frozenset(self._allowed[b])
        both = tuple(d for d in self._allowed[a] if d in kept)
        if not both:
            raise _contradiction(self._asks[a], self._asks[b], why)
        self._parent[b] = a
        self._asks[a].extend(self._asks.pop(b))
        self._allowed[a] = both
        del self._allowed[b]


def _contradiction(first: Sequence[_Ask], second: Sequence[_Ask], why: str) -> PlacementError:
    """Returns the error that names two asks which cannot both be met."""
    pairs = [(a, b) for a in first for b in second if not set(a.allowed) & set(b.allowed)]
    a, b = pairs[0] if pairs else (first[-1], second[-1])
    message = f"{why}, got {a} and {b}"
    return PlacementError(message, where=b.where, hint="drop one of the two scopes, or make them agree")


def colocated(
    graph: Graph, needed: Iterable[NodeId], devices: Sequence[str], has_kernel: HasKernel | None = None
) -> Groups:
    """Returns the groups of the nodes that a step needs, and the devices that each may have.

    Args:
        graph: Where they are.
        needed: The nodes of the step.
        devices: All there are, the host first.
        has_kernel: Which device computes what; None leaves that to who installs the program.

    Raises:
        PlacementError: when nothing that a node asks for exists, or two that must share a device cannot.
        ConfigError: when a node asks for what is no name of a device.
    """
    return _Grouping(graph, tuple(devices), has_kernel).groups(tuple(needed))


class _Grouping:
    """The groups of one graph in the making; keys are ids of nodes and names of resources."""

    def __init__(self, graph: Graph, devices: tuple[str, ...], has_kernel: HasKernel | None) -> None:
        self.graph, self.devices, self.has_kernel = graph, devices, has_kernel
        self.sets = _Sets(devices)
        self.ties: list[tuple[Hashable, Hashable, str]] = []
        self.processes = tuple(dict.fromkeys(map(process_of, devices)))
        self.matched: dict[str, tuple[str, ...]] = {}

    def groups(self, needed: tuple[NodeId, ...]) -> Groups:
        nodes, roots, state = self.graph.nodes, dict[Hashable, int](), set[Hashable]()
        effects = {i: opdef.lookup(nodes[i].op).effect for i in needed}
        run = tuple(i for i, effect in effects.items() if effect not in _UNPLACED)
        for i in run:
            self.enter(i)
        for tie in self.ties:
            self.sets.join(*tie)
        of: dict[NodeId, int] = {}
        for i in run:
            root = self.sets.find(i)
            of[i] = roots.setdefault(root, len(roots))
            if effects[i] not in _COMPUTES:
                state.add(root)
        allowed = [self.sets.allowed(root) for root in roots]
        if len(self.processes) > 1:
            held = self.within_processes(run, roots)
            allowed = [
                tuple(d for d in devices if process_of(d) in held[root])
                for root, devices in zip(roots, allowed, strict=True)
            ]
        return Groups(of, tuple(allowed), frozenset(roots[root] for root in state))

    def enter(self, first: NodeId) -> None:
        """Adds a node, and whatever it must share a device with."""
        todo = [first]
        while todo:
            i = todo.pop()
            if i in self.sets:
                continue
            node = self.graph.nodes[i]
            owner = self.graph.resources.get(node.attrs["resource"]) if "resource" in node.attrs else None
            if owner is not None:
                self.sets.add(i)
                self.resource(owner, node)
                self.ties.append((owner.name, i, "what asks state is where the state is"))
                continue
            self.sets.add(i, self.ask_of(node))
            if node.colocate is None:
                continue
            target = self.graph.resources.get(node.colocate)
            if target is not None:
                self.resource(target, node)
                self.ties.append((target.name, i, _COLOCATED))
            else:
                beside = self.graph.node(node.colocate).id
                todo.append(beside)
                self.ties.append((beside, i, _COLOCATED))

    def resource(self, owner: ResourceDef, asked_by: Node) -> None:
        if owner.name in self.sets:
            return
        place = Where(device=owner.device or None, defined_at=owner.defined_at)
        allowed = self.matching(owner.device, asked_by)
        self.sets.add(owner.name, _Ask(owner.name, owner.device, place, allowed) if owner.device else None)

    def ask_of(self, node: Node) -> _Ask | None:
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
            if able != allowed:
                wanted, allowed = wanted or f"a kernel for {node.op}", able
        return _Ask(node.name, wanted, node.where, allowed) if wanted else None

    def matching(self, wanted: str, asked_by: Node) -> tuple[str, ...]:
        """Returns the devices that a scope allows."""
        found = self.matched.get(wanted)
        if found is None:
            try:
                found = self.matched[wanted] = matching(wanted, self.devices)
            except ConfigError as error:
                raise error.at(asked_by.where) from None
        if not found:
            message = f"unknown device {wanted!r}; this session has {', '.join(self.devices)}"
            raise PlacementError(message, where=asked_by.where)
        return found

    def within_processes(
        self, needed: tuple[NodeId, ...], roots: Iterable[Hashable]
    ) -> dict[Hashable, tuple[str, ...]]:
        """Returns for each group the processes that it may be in, after ties that bind to a process."""
        ties = _Sets(self.processes)
        for i in needed:
            self.tie(ties, i)
        found: dict[Hashable, tuple[str, ...]] = {}
        for root in roots:
            if root not in ties:
                found[root] = tuple(dict.fromkeys(map(process_of, self.sets.allowed(root))))
            else:
                found[root] = ties.allowed(root)[:1]
        for i in needed:
            self.follow(i, found)
        return found

    def tie(self, ties: _Sets, i: NodeId) -> None:
        """Ties what an atomic block holds."""
        node = self.graph.nodes[i]
        if opdef.lookup(node.op).effect not in _TIED:
            return
        tied = [self.sets.find(i)]
        for name in node.attrs["resources"]:
            self.resource(self.graph.resources[name], node)
            tied.append(self.sets.find(name))
        for root in tied:
            if root not in ties:
                asks = self.sets.asks(root)
                processes = tuple(dict.fromkeys(map(process_of, self.sets.allowed(root))))
                ask = asks[0] if asks else None
                ties.add(root, None if ask is None else _Ask(ask.name, ask.wanted, ask.where, processes))
            ties.join(tied[0], root, "an atomic block holds variables of one process")

    def follow(self, i: NodeId, found: dict[Hashable, tuple[str, ...]]) -> None:
        """Lets an optimizer's node follow its variables if they are in one process."""
        node = self.graph.nodes[i]
        root = self.sets.find(i)
        if opdef.lookup(node.op).effect is not Effect.COMMIT:
            return
        homes: set[str] = set()
        for name in node.attrs["resources"]:
            self.resource(self.graph.resources[name], node)
            of = self.sets.find(name)
            homes.add(found[of][0] if of in found else process_of(self.sets.allowed(of)[0]))
        if len(homes) == 1 and homes <= set(found[root]):
            found[root] = tuple(homes)
