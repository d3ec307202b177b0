"""How a loop becomes a frame: what enters it, what a turn does, what comes back, and what leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actorflow.graph.body import Body
from actorflow.graph.node import Attr, NodeId, Port
from actorflow.plan.control.lowered import Lowered, of_arguments
from actorflow.plan.control.region import INDEX, TOKEN, Region
from actorflow.plan.control_flow_ops import ENTER, EXIT, LOOP_COND, NEXT, SWITCH
from actorflow.values.arrays import name_of
from actorflow.values.spec import ListSpec, Spec


class LoweredLoop:
    """A node that runs a body turn after turn."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered, self.region, self.node = lowered, lowered.region, lowered.node
        self.flat, self.named = lowered.flat, lowered.name_node
        self.test, self.turn = lowered.bodies
        self.count: int = self.node.attrs["count"]
        self.most: int | None = self.node.attrs["max_iterations"]
        self.frame = self.flat.new_frame(self.region.frame, self.node)
        self.trips: int | None = None
        self.lists: dict[int, int] = {}
        self.tokens: dict[str, int] = {}
        self.entered: dict[int, Port] = {}
        self.constants: set[NodeId] = set()

    def add(self) -> None:
        """Adds the nodes, and notes what stands for the outputs."""
        # ORDER: variables, merges, condition, switches, turn, and last what leads back, which needs the
        # merges.
        self.variables()
        merges = [self.merge(j, start) for j, start in enumerate(self.starts)]
        test, decides = self.add_condition(merges)
        here = [Port(merge) for merge in merges]
        # What the condition does to a resource is done before the turn gets its token.
        for name, j in self.tokens.items():
            if last := test.last(name):
                here[j] = test.pass_on(here[j], self.named(f"order/{name}/tested"), self.node, last)
        switches = [
            test.emit(SWITCH, self.named(f"switch_{j}"), [port, decides], [out, out], self.node)
            for j, (port, out) in enumerate(zip(here, self.specs, strict=True))
        ]

        # Made when needed: only a turn with nodes that take nothing of the turn needs it.
        def pivot() -> NodeId:
            going = test.emit(SWITCH, self.named("going"), [decides, decides], [TOKEN, TOKEN], self.node)
            return test.pass_on(Port(going, 1), self.named("pivot"), self.node).node

        turn = self.inside(self.turn, [Port(switch, 1) for switch in switches], pivot, self.constants)
        # The edge that leads back is no input of the merge, so that ids go on ascending along inputs.
        for j, port in enumerate(self.add_turn(turn, switches)):
            back = turn.emit(NEXT, self.named(f"next_iteration_{j}"), [port], [self.specs[j]], self.node)
            self.flat.lead_back(merges[j], back)
        self.leave(switches)

    def variables(self) -> None:
        """Finds the variables that are carried: the loop's own, its turns, what is kept, and tokens."""
        lowered, node = self.lowered, self.node
        self.starts = list(lowered.inputs[: self.count])
        self.specs: list[Spec] = list(node.outputs[: self.count])
        # Counted only where somebody asks, or a limit does.
        if lowered.wanted[self.count] or self.most is not None:
            self.trips = self.variable(self.flat.constant(0, INDEX.dtype), INDEX)
        for k in filter(lowered.is_kept, range(len(lowered.saved))):
            self.lists[k] = self.variable(self.empty(k), node.outputs[lowered.kept + k])
        # The order of state is a variable like others, without data.
        for name, token in lowered.tokens.items():
            self.tokens[name] = self.variable(token, TOKEN)

    def variable(self, start: Port, out: Spec) -> int:
        """Adds a variable that begins so."""
        self.starts.append(start)
        self.specs.append(out)
        return len(self.starts) - 1

    def add_condition(self, merges: Sequence[NodeId]) -> tuple[Region, Port]:
        """Adds the condition; returns its region, and whether there is another turn."""
        node = self.node
        # Its pivot is any merge: one fires in each turn, the last one included.
        test = self.inside(self.test, [Port(merge) for merge in merges], lambda: merges[0], set())
        test.tokens = {name: merges[j] for name, j in self.tokens.items()}
        self.lowered.fill(test, self.test, self.test.results)
        going = test.value(self.test.results[0])
        # The limit is a second condition.
        if self.trips is not None and self.most is not None:
            limits = [Port(merges[self.trips]), self.flat.constant(self.most, INDEX.dtype)]
            less = test.emit("less", self.named("is_less"), limits, [TOKEN], node)
            going = Port(test.emit("logical_and", self.named("goes_on"), [going, Port(less)], [TOKEN], node))
        return test, Port(test.emit(LOOP_COND, self.named("loop_cond"), [going], [TOKEN], node))

    def add_turn(self, turn: Region, switches: Sequence[NodeId]) -> list[Port]:
        """Adds a turn; returns what the variables are after it."""
        lowered, node = self.lowered, self.node
        for name, j in self.tokens.items():
            turn.tokens[name] = turn.pass_on(
                Port(switches[j], 1), self.named(f"order/{name}/turn"), node
            ).node
        # Values kept for gradients are pushed onto lists that are carried.
        kept = {k: Port(NodeId(lowered.saved[k][0]), lowered.saved[k][1]) for k in self.lists}
        lowered.fill(turn, self.turn, [*self.turn.results, *kept.values()])
        after = [turn.value(port) for port in self.turn.results]
        if self.trips is not None:
            more = [Port(switches[self.trips], 1), self.flat.constant(1, INDEX.dtype)]
            after.append(Port(turn.emit("add", self.named("next_trip"), more, [INDEX], node)))
        # Each turn adds what it is to keep.
        for k, j in self.lists.items():
            pushed = [Port(switches[j], 1), turn.value(kept[k])]
            after.append(Port(turn.emit("list_push", self.named(f"keep_{k}"), pushed, [self.specs[j]], node)))
        for name in self.tokens:
            token, last = Port(turn.tokens[name]), turn.last(name)
            # The next turn gets it when this one is done with the resource: turns overlap in everything else.
            after.append(turn.pass_on(token, self.named(f"order/{name}/next"), node, last) if last else token)
        return after

    def merge(self, j: int, start: Port) -> NodeId:
        """Adds the entry of a variable, and where it meets what comes back."""
        enter = self.enter(start, self.specs[j], f"enter_{j}", constant=False)
        # Without a pivot: a merge waits for one of its inputs and is live by itself.
        inside = Region(self.flat, self.turn, self.frame, around=self.region)
        return inside.merge([enter], self.specs[j], self.named(f"merge_{j}"), self.node, ()).node

    def enter(self, port: Port, out: Spec, name: str, *, constant: bool) -> Port:
        """Returns what comes into the frame: in its first turn, or in all."""
        attrs = {"frame": self.frame[-1], "is_constant": constant}
        controls = self.lowered.controls
        # Outside of the frame, so it waits there for what the loop waits for.
        made = self.region.emit(
            ENTER, self.named(name), [port], [out], self.node, attrs=attrs, controls=controls
        )
        return Port(made)

    def empty(self, k: int) -> Port:
        """The list in which values of the turns are kept, as it begins."""
        made = self.node.outputs[self.lowered.kept + k]
        assert isinstance(made, ListSpec)
        name = self.named(f"kept_{k}")
        return Port(self.region.emit("list_new", name, [], [made], self.node, attrs=_attrs_of_list(made)))

    def inside(
        self, body: Body, given: Sequence[Port], pivot: Callable[[], NodeId], loose: set[NodeId]
    ) -> Region:
        """Returns the region of a body, which is given loop variables and what is the same in all turns."""

        def argument(k: int) -> Port:
            # The first are loop variables, then what the bodies capture.
            return given[k] if k < self.count else self.constant(k)

        return Region(
            self.flat,
            body,
            self.frame,
            value=of_arguments(body, argument),
            pivot=pivot,
            loose=loose,
            around=self.region,
        )

    def constant(self, k: int) -> Port:
        """Returns what a capture is inside the frame."""
        # Enters once, however often both bodies use it, and is the same in all turns.
        if k not in self.entered:
            port = self.lowered.inputs[k]
            if not self.region.is_constant(port):
                port = self.enter(port, self.region.spec_of(port), f"capture_{k - self.count}", constant=True)
                # Live in every turn that begins, also in one that is not taken: see `Region.loose`.
                self.constants.add(port.node)
            self.entered[k] = port
        return self.entered[k]

    def leave(self, switches: Sequence[NodeId]) -> None:
        """Adds the exits."""
        lowered, node = self.lowered, self.node
        inside = Region(self.flat, self.turn, self.frame, around=self.region)

        def out(j: int) -> Port:
            return Port(
                inside.emit(EXIT, self.named(f"exit_{j}"), [Port(switches[j], 0)], [self.specs[j]], node)
            )

        # ORDER: tokens first: outputs wait for those of resources that were changed.
        ends = {name: out(j).node for name, j in self.tokens.items()}
        after = [end for name, end in ends.items() if name in lowered.effects]
        leaving = {k: k for k in range(self.count)}
        if self.trips is not None and lowered.wanted[self.count]:
            leaving[self.count] = self.trips
        leaving.update((lowered.kept + k, j) for k, j in self.lists.items())
        outputs = {k: out(j) for k, j in leaving.items()}
        # Without effects the exits themselves are the outputs.
        if after:
            outputs = {
                k: self.region.pass_on(port, self.named(f"output_{k}"), node, after)
                for k, port in outputs.items()
            }
        lowered.give(outputs, ends)


def _attrs_of_list(made: ListSpec) -> dict[str, Attr]:
    """Returns the attributes of `list_new` for a list of that spec."""
    within: list[Attr] = []
    # A list of lists: its sizes from the outside in.
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
