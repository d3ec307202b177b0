"""How bodies become regions of a flat graph: loops, branches and calls; see `plan.flatten`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from actorflow.arrays import name_of
from actorflow.graph import opdef
from actorflow.graph.body import Body, bodies_of
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.plan.flow import ENTER, EXIT, LOOP_COND, NEXT, SWITCH
from actorflow.plan.forms import Forms
from actorflow.plan.prune import prune
from actorflow.plan.region import INDEX, TOKEN, Region, resources, waits
from actorflow.spec import ListSpec, Spec

_HAPPENS = frozenset({Effect.WRITE, Effect.WAIT})


class Lowering:
    """Fills regions of one flat graph.

    Args:
        forms: Says which functional nodes are lowered.
    """

    def __init__(self, forms: Forms) -> None:
        self.forms = forms

    def fill(self, region: Region, needed: Sequence[NodeId], wanted: Set[Port]) -> None:
        """Adds nodes for those that are needed of a region's graph.

        Args:
            region: The region.
            needed: The nodes, in ascending order.
            wanted: The ports that somebody asks for.
        """
        region.begin(needed)
        for i in needed:
            node = region.graph.nodes[i]
            effect = opdef.lookup(node.op).effect
            if effect is Effect.ARGUMENT:
                continue
            if self.forms.is_lowered(region.graph, node):
                _Lowered(self, region, node, wanted).add()
            else:
                region.copy(node)

    def body(self, region: Region, body: Body, ports: Iterable[Port]) -> None:
        """Adds the nodes of a body: what the ports need, and whatever has an effect."""
        asked = [*ports, *(Port(node.id) for node in body.nodes if happens(node))]
        needed = prune(body, asked, body.arguments)
        wanted = frozenset((*asked, *(p for i in needed for p in body.nodes[i].inputs)))
        self.fill(region, needed, wanted)


def happens(node: Node) -> bool:
    """Tells whether a node of a body runs although nobody needs what it gives."""
    effect = opdef.lookup(node.op).effect
    if effect is Effect.FUNCTION:
        return bool(node.attrs["writes"] or node.attrs["waits"])
    return effect in _HAPPENS


class _Lowered:
    """One functional node that becomes several."""

    def __init__(self, lowering: Lowering, region: Region, node: Node, wanted: Set[Port]) -> None:
        self.lowering, self.region, self.node = lowering, region, node
        self.flat, self.attrs = region.flat, node.attrs
        self.bodies = bodies_of(region.graph, node)
        self.inputs = [region.value(port) for port in node.inputs]
        self.saved: tuple[tuple[int, ...], ...] = node.attrs["saved"]
        self.kept = len(node.outputs) - len(self.saved)
        self.wanted = [Port(node.id, k) in wanted for k in range(len(node.outputs))]
        self.controls = region.fired(node.controls)
        self.touched = resources(node)
        self.effects = frozenset((*node.attrs["writes"], *waits(node)))

    def add(self) -> None:
        """Adds the nodes, and notes what stands for the outputs."""
        self.tokens = {
            name: self.region.token(self.named(f"order/{name}"), self.node, self.before(name))
            for name in self.touched
        }
        match self.node.op:
            case "while_loop":
                _Loop(self).add()
            case "case" if len(self.bodies) > 1:
                _Branch(self).add()
            case _:
                self.call()

    def before(self, name: str) -> list[NodeId]:
        return [*self.controls, *self.region.before(self.node, name)]

    def named(self, what: str) -> str:
        return f"{self.node.name}/{what}"

    def is_kept(self, k: int) -> bool:
        """Tells whether somebody asks for what is kept at `saved[k]`."""
        return self.wanted[self.kept + k]

    def give(self, outputs: dict[int, Port], tokens: dict[str, NodeId]) -> None:
        """Notes what stands for outputs, and after which nodes resources are free again."""
        node, region = self.node, self.region
        for k, port in outputs.items():
            region.values.setdefault(Port(node.id, k), port)
        for name, token in tokens.items():
            region.gates[node.id, name] = token
        region.after[node.id] = tuple(dict.fromkeys((*(p.node for p in outputs.values()), *tokens.values())))
        if region.after[node.id]:
            region.names[node.name] = self.flat.nodes[region.after[node.id][0]].name

    # -- calls --------------------------------------------------------------------------------------------

    def call(self) -> None:
        region, body = self.region, self.bodies[0]
        given = self.inputs[len(self.inputs) - len(body.arguments) :]
        inner = Region(
            self.flat,
            body,
            region.frame,
            value=_of_arguments(body, lambda k: given[k]),
            pivot=region.pivot,
            loose=region.loose,
            entry=(*region.entry, *self.controls),
            around=region,
        )
        inner.tokens = {name: token.node for name, token in self.tokens.items()}
        saved = {
            self.kept + k: Port(NodeId(entry[-3]), entry[-2])
            for k, entry in enumerate(self.saved)
            if self.is_kept(k)
        }
        ports = {**dict(enumerate(body.results)), **saved}
        self.lowering.body(inner, body, ports.values())
        tokens = {
            name: region.passed(token, self.named(f"order/{name}/after"), self.node, inner.last(name)).node
            for name, token in self.tokens.items()
        }
        after = [*self.controls, *(token for name, token in tokens.items() if name in self.effects)]
        outputs = {
            k: region.passed(inner.value(port), self.named(f"output_{k}"), self.node, after)
            for k, port in ports.items()
        }
        self.give(outputs, tokens)


class _Branch:
    """A node that runs one of several bodies: what they capture goes through a chain of switches.

    At each link of the chain stands the question whether it is the turn of one branch; the last has none.
    """

    def __init__(self, lowered: _Lowered) -> None:
        self.lowered, self.region, self.node = lowered, lowered.region, lowered.node
        self.index = lowered.inputs[0]
        self.count = len(lowered.bodies)
        self.predicates: list[Port] = []
        self.switches: dict[tuple[Port, int], NodeId] = {}
        self.is_bool = self.region.spec_of(self.index).dtype.kind == "b"

    def add(self) -> None:
        lowered, node, region = self.lowered, self.node, self.region
        regions = [self.branch(b, body) for b, body in enumerate(lowered.bodies)]
        tokens: dict[str, NodeId] = {}
        for name, token in lowered.tokens.items():
            ends: list[Port] = []
            for b, inner in enumerate(regions):
                here = Port(inner.tokens[name]) if name in inner.tokens else self.chosen(token, b)
                last = inner.last(name)
                end = inner.passed(here, lowered.named(f"order/{name}/after_{b}"), node, last)
                ends.append(end if last else here)
            tokens[name] = region.merged(ends, TOKEN, lowered.named(f"order/{name}/after"), node, ()).node
        after = [token for name, token in tokens.items() if name in lowered.effects]
        outputs: dict[int, Port] = {}
        for k in range(lowered.kept):
            ports = [
                inner.alive(inner.value(body.results[k]), lowered.named(f"branch_{b}/output_{k}"), node)
                for b, (inner, body) in enumerate(zip(regions, lowered.bodies, strict=True))
            ]
            outputs[k] = region.merged(ports, node.outputs[k], lowered.named(f"output_{k}"), node, after)
        for k, (taken, maker, index, _) in enumerate(lowered.saved):
            if lowered.is_kept(k):
                at = lowered.kept + k
                ports = [
                    self.kept(inner, b == taken, Port(NodeId(maker), index), f"branch_{b}/output_{at}")
                    for b, inner in enumerate(regions)
                ]
                outputs[at] = region.merged(
                    ports, node.outputs[at], lowered.named(f"output_{at}"), node, after
                )
        lowered.give(outputs, tokens)

    def branch(self, b: int, body: Body) -> Region:
        """Adds one branch."""
        lowered, node = self.lowered, self.node
        inner = Region(
            lowered.flat,
            body,
            self.region.frame,
            value=_of_arguments(body, lambda k: self.chosen(lowered.inputs[1 + k], b)),
            pivot=lambda: self.pivot(b),
            around=self.region,
        )
        touched = frozenset(name for inside in body.nodes for name in resources(inside))
        for name, token in lowered.tokens.items():
            if name in touched:
                here = lowered.named(f"order/{name}/branch_{b}")
                inner.tokens[name] = inner.passed(self.chosen(token, b), here, node).node
        saved = [
            Port(NodeId(maker), index)
            for k, (taken, maker, index, _) in enumerate(lowered.saved)
            if taken == b and lowered.is_kept(k)
        ]
        lowered.lowering.body(inner, body, [*body.results, *saved])
        return inner

    def pivot(self, b: int) -> NodeId:
        """Adds a node that is live exactly when a branch is taken."""
        index = self.chosen(self.index, b, force=True)
        return self.region.passed(index, self.lowered.named(f"branch_{b}/pivot"), self.node).node

    def kept(self, inner: Region, here: bool, port: Port, name: str) -> Port:
        """What is kept in a branch, or a stand-in where another one is taken."""
        lowered = self.lowered
        if here:
            return inner.alive(inner.value(port), lowered.named(name), self.node)
        return inner.passed(lowered.flat.held(False, TOKEN.dtype), lowered.named(name), self.node)

    def chosen(self, port: Port, b: int, *, force: bool = False) -> Port:
        """Returns what stands for a value in a branch: live only where that is taken."""
        if self.region.is_constant(port) and not force:
            return port
        if self.is_bool:
            return Port(self.switch(port, 0), b)
        for link in range(min(b, self.count - 2)):
            port = Port(self.switch(port, link), 0)
        return Port(self.switch(port, b), 1) if b < self.count - 1 else Port(self.switch(port, b - 1), 0)

    def switch(self, port: Port, link: int) -> NodeId:
        if (port, link) not in self.switches:
            predicate = self.predicate(link)
            value = self.region.spec_of(port)
            name = self.lowered.named(f"switch_{len(self.switches)}")
            self.switches[port, link] = self.region.emit(
                SWITCH, name, [port, predicate], [value, value], self.node, controls=self.entry(link)
            )
        return self.switches[port, link]

    def entry(self, link: int) -> Sequence[NodeId]:
        return () if link else self.lowered.controls

    def predicate(self, link: int) -> Port:
        """Whether the branch of a link is taken."""
        while len(self.predicates) <= link:
            at = len(self.predicates)
            if self.is_bool:
                self.predicates.append(self.index)
                continue
            index = self.index
            for before in range(at):
                index = Port(self.switch(index, before), 0)
            dtype = self.region.spec_of(self.index).dtype
            made = self.region.emit(
                "equal",
                self.lowered.named(f"is_{at}"),
                [index, self.lowered.flat.held(at, dtype)],
                [TOKEN],
                self.node,
                controls=self.entry(at),
            )
            self.predicates.append(Port(made))
        return self.predicates[link]


class _Loop:
    """A node that runs a body turn after turn."""

    def __init__(self, lowered: _Lowered) -> None:
        self.lowered, self.region, self.node = lowered, lowered.region, lowered.node
        self.flat = lowered.flat
        self.test, self.turn = lowered.bodies
        self.count: int = self.node.attrs["count"]
        self.most: int | None = self.node.attrs["max_iterations"]
        self.frame = self.flat.new_frame(self.region.frame, self.node)
        self.entered: dict[int, Port] = {}
        self.constants: set[NodeId] = set()

    def add(self) -> None:
        lowered, node, named = self.lowered, self.node, self.lowered.named
        starts = list(lowered.inputs[: self.count])
        specs = list(node.outputs[: self.count])
        trips = len(starts) if lowered.wanted[self.count] or self.most is not None else None
        if trips is not None:
            starts.append(self.flat.held(0, INDEX.dtype))
            specs.append(INDEX)
        lists: dict[int, int] = {}
        for k in filter(lowered.is_kept, range(len(lowered.saved))):
            lists[k] = len(starts)
            starts.append(self.empty(k))
            specs.append(node.outputs[lowered.kept + k])
        tokens: dict[str, int] = {}
        for name, token in lowered.tokens.items():
            tokens[name] = len(starts)
            starts.append(token)
            specs.append(TOKEN)

        merges = [self.merge(j, start, out) for j, (start, out) in enumerate(zip(starts, specs, strict=True))]
        test = self.inside(self.test, [Port(m) for m in merges], lambda: merges[0], set())
        test.tokens = {name: merges[j] for name, j in tokens.items()}
        lowered.lowering.body(test, self.test, self.test.results)
        going = test.value(self.test.results[0])
        if self.most is not None:
            assert trips is not None
            limit = self.flat.held(self.most, INDEX.dtype)
            less = test.emit("less", named("is_less"), [Port(merges[trips]), limit], [TOKEN], node)
            going = Port(test.emit("logical_and", named("goes_on"), [going, Port(less)], [TOKEN], node))
        decides = Port(test.emit(LOOP_COND, named("loop_cond"), [going], [TOKEN], node))
        here = [Port(m) for m in merges]
        for name, j in tokens.items():
            last = test.last(name)
            if last:
                here[j] = test.passed(here[j], named(f"order/{name}/tested"), node, last)
        switches = [
            test.emit(SWITCH, named(f"switch_{j}"), [port, decides], [out, out], node)
            for j, (port, out) in enumerate(zip(here, specs, strict=True))
        ]
        gone = [Port(s, 1) for s in switches]

        def pivot() -> NodeId:
            live = test.emit(SWITCH, named("going"), [decides, decides], [TOKEN, TOKEN], node)
            return test.passed(Port(live, 1), named("pivot"), node).node

        turn = self.inside(self.turn, gone, pivot, self.constants)
        for name, j in tokens.items():
            turn.tokens[name] = turn.passed(gone[j], named(f"order/{name}/turn"), node).node
        kept = {k: Port(NodeId(lowered.saved[k][0]), lowered.saved[k][1]) for k in lists}
        lowered.lowering.body(turn, self.turn, [*self.turn.results, *kept.values()])
        after = [turn.value(port) for port in self.turn.results]
        if trips is not None:
            one = self.flat.held(1, INDEX.dtype)
            after.append(Port(turn.emit("add", named("next_trip"), [gone[trips], one], [INDEX], node)))
        for k, j in lists.items():
            pushed = [gone[j], turn.value(kept[k])]
            after.append(Port(turn.emit("list_push", named(f"keep_{k}"), pushed, [specs[j]], node)))
        for name in tokens:
            token = Port(turn.tokens[name])
            last = turn.last(name)
            after.append(turn.passed(token, named(f"order/{name}/next"), node, last) if last else token)
        for j, (merge, port) in enumerate(zip(merges, after, strict=True)):
            back = turn.emit(NEXT, named(f"next_iteration_{j}"), [port], [specs[j]], node)
            self.flat.lead_back(merge, back)
        self.leave(switches, specs, trips, lists, tokens)

    def merge(self, j: int, start: Port, out: Spec) -> NodeId:
        """Adds the entry of a loop variable, and where it meets what comes back."""
        enter = self.enter(start, out, f"enter_{j}", constant=False)
        inside = Region(self.flat, self.turn, self.frame, around=self.region)
        return inside.merged([enter], out, self.lowered.named(f"merge_{j}"), self.node, ()).node

    def enter(self, port: Port, out: Spec, name: str, *, constant: bool) -> Port:
        attrs = {"frame": self.frame[-1], "is_constant": constant}
        controls = self.lowered.controls
        made = self.region.emit(
            ENTER, self.lowered.named(name), [port], [out], self.node, attrs=attrs, controls=controls
        )
        return Port(made)

    def empty(self, k: int) -> Port:
        """The list in which values of the turns are kept, as it begins."""
        made = self.node.outputs[self.lowered.kept + k]
        assert isinstance(made, ListSpec)
        name = self.lowered.named(f"kept_{k}")
        return Port(self.region.emit("list_new", name, [], [made], self.node, attrs=_attrs_of_list(made)))

    def inside(
        self, body: Body, given: Sequence[Port], pivot: Callable[[], NodeId], loose: set[NodeId]
    ) -> Region:
        """Returns the region of a body, which is given loop variables and what is the same in all turns."""

        def argument(k: int) -> Port:
            return given[k] if k < self.count else self.constant(k)

        return Region(
            self.flat,
            body,
            self.frame,
            value=_of_arguments(body, argument),
            pivot=pivot,
            loose=loose,
            around=self.region,
        )

    def constant(self, k: int) -> Port:
        """Returns what a capture is inside the frame."""
        if k not in self.entered:
            port = self.lowered.inputs[k]
            if not self.region.is_constant(port):
                port = self.enter(port, self.region.spec_of(port), f"capture_{k - self.count}", constant=True)
                self.constants.add(port.node)
            self.entered[k] = port
        return self.entered[k]

    def leave(
        self,
        switches: Sequence[NodeId],
        specs: Sequence[Spec],
        trips: int | None,
        lists: dict[int, int],
        tokens: dict[str, int],
    ) -> None:
        """Adds the exits of what somebody asks for."""
        lowered, node = self.lowered, self.node
        inside = Region(self.flat, self.turn, self.frame, around=self.region)

        def out(j: int) -> Port:
            name = lowered.named(f"exit_{j}")
            return Port(inside.emit(EXIT, name, [Port(switches[j], 0)], [specs[j]], node))

        ends = {name: out(j).node for name, j in tokens.items()}
        after = [end for name, end in ends.items() if name in lowered.effects]
        leaving = {k: k for k in range(self.count)}
        if trips is not None and lowered.wanted[self.count]:
            leaving[self.count] = trips
        leaving.update((lowered.kept + k, j) for k, j in lists.items())
        outputs: dict[int, Port] = {}
        for k, j in leaving.items():
            port = out(j)
            if after:
                port = self.region.passed(port, lowered.named(f"output_{k}"), node, after)
            outputs[k] = port
        lowered.give(outputs, ends)


def _of_arguments(body: Body, argument: Callable[[int], Port]) -> Callable[[Port], Port]:
    """Returns how a region gets what stands for an argument of its body."""
    number = {port: k for k, port in enumerate(body.arguments)}
    return lambda port: argument(number[port])


def _attrs_of_list(made: ListSpec) -> dict[str, Attr]:
    """Returns the attributes of `list_new` for a list of that spec."""
    within: list[Attr] = []
    element = made.element
    while isinstance(element, ListSpec):
        within.append(element.size)
        element = element.element
    return {
        "dtype": name_of(element.dtype),
        "shape": element.shape,
        "within": tuple(within),
        "size": made.size,
    }
