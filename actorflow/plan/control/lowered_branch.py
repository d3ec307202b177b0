"""How a node that runs one of several bodies becomes switches and merges."""

from __future__ import annotations

from collections.abc import Sequence

from actorflow.graph.body import Body
from actorflow.graph.node import NodeId, Port
from actorflow.plan.control.lowered import Lowered, of_arguments
from actorflow.plan.control.region import TOKEN, Region, resources
from actorflow.plan.control_flow_ops import SWITCH


class LoweredBranch:
    """A node that runs one of several bodies: what they capture goes through a chain of switches.

    At each link of the chain stands the question whether it is the turn of one branch; the last has none.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.lowered, self.region, self.node = lowered, lowered.region, lowered.node
        self.index = lowered.inputs[0]
        self.count = len(lowered.bodies)
        self.predicates: list[Port] = []
        self.switches: dict[tuple[Port, int], NodeId] = {}
        # A boolean needs no comparison: its switch has both sides.
        self.is_bool = self.region.spec_of(self.index).dtype.kind == "b"

    def add(self) -> None:
        """Adds the nodes, and notes what stands for the outputs."""
        lowered, node, region = self.lowered, self.node, self.region
        regions = [self.branch(b, body) for b, body in enumerate(lowered.bodies)]
        tokens: dict[str, NodeId] = {}
        for name, token in lowered.tokens.items():
            ends: list[Port] = []
            for b, inner in enumerate(regions):
                # A branch that does not touch the resource hands the token through.
                here = Port(inner.tokens[name]) if name in inner.tokens else self.choose(token, b)
                last = inner.last(name)
                end = inner.pass_on(here, lowered.name_node(f"order/{name}/after_{b}"), node, last)
                ends.append(end if last else here)
            # Done with the resource is the one branch that was taken.
            tokens[name] = region.merge(ends, TOKEN, lowered.name_node(f"order/{name}/after"), node, ()).node
        # What the node gives comes when all its effects have happened.
        after = [token for name, token in tokens.items() if name in lowered.effects]
        outputs: dict[int, Port] = {}
        for k in range(lowered.kept):
            ports = [
                inner.alive(inner.value(body.results[k]), lowered.name_node(f"branch_{b}/output_{k}"), node)
                for b, (inner, body) in enumerate(zip(regions, lowered.bodies, strict=True))
            ]
            outputs[k] = region.merge(ports, node.outputs[k], lowered.name_node(f"output_{k}"), node, after)
        for k, (taken, maker, index, _) in enumerate(lowered.saved):
            if lowered.is_kept(k):
                at = lowered.kept + k
                # In branches that were not taken a stand-in, so that the merge has a live input in any case.
                ports = [
                    self.keep(inner, b == taken, Port(NodeId(maker), index), f"branch_{b}/output_{at}")
                    for b, inner in enumerate(regions)
                ]
                outputs[at] = region.merge(
                    ports, node.outputs[at], lowered.name_node(f"output_{at}"), node, after
                )
        lowered.give(outputs, tokens)

    def branch(self, b: int, body: Body) -> Region:
        """Adds one branch."""
        lowered, node = self.lowered, self.node
        inner = Region(
            lowered.flat,
            body,
            self.region.frame,
            value=of_arguments(body, lambda k: self.choose(lowered.inputs[1 + k], b)),
            pivot=lambda: self.pivot(b),
            around=self.region,
        )
        # Only what it touches itself: of other resources the token goes past the branch.
        touched = frozenset(name for inside in body.nodes for name in resources(inside))
        for name, token in lowered.tokens.items():
            if name in touched:
                here = lowered.name_node(f"order/{name}/branch_{b}")
                inner.tokens[name] = inner.pass_on(self.choose(token, b), here, node).node
        saved = [
            Port(NodeId(maker), index)
            for k, (taken, maker, index, _) in enumerate(lowered.saved)
            # Each value that is kept comes of one branch.
            if taken == b and lowered.is_kept(k)
        ]
        lowered.fill(inner, body, [*body.results, *saved])
        return inner

    def pivot(self, b: int) -> NodeId:
        """Adds a node that is live exactly when a branch is taken."""
        # Forced through the switches even if it is a constant, which would be live in every branch.
        index = self.choose(self.index, b, force=True)
        return self.region.pass_on(index, self.lowered.name_node(f"branch_{b}/pivot"), self.node).node

    def keep(self, inner: Region, here: bool, port: Port, name: str) -> Port:
        """What is kept in a branch, or a stand-in where another one is taken."""
        lowered = self.lowered
        if here:
            return inner.alive(inner.value(port), lowered.name_node(name), self.node)
        return inner.pass_on(lowered.flat.constant(False, TOKEN.dtype), lowered.name_node(name), self.node)

    def choose(self, port: Port, b: int, *, force: bool = False) -> Port:
        """Returns what stands for a value in a branch: live only where that is taken."""
        # A constant is everywhere; the region's pivot sees to it that who takes nothing else is dead.
        if self.region.is_constant(port) and not force:
            return port
        # false takes the first branch, on output 0
        if self.is_bool:
            return Port(self.switch(port, 0), b)
        # Down the chain: past each link whose branch is not taken. The last branch is what is left, and asks
        # nothing.
        for link in range(min(b, self.count - 2)):
            port = Port(self.switch(port, link), 0)
        return Port(self.switch(port, b), 1) if b < self.count - 1 else Port(self.switch(port, b - 1), 0)

    def switch(self, port: Port, link: int) -> NodeId:
        """Returns the switch of a value at a link of the chain."""
        # One switch for a value and link, however many branches ask.
        if (port, link) not in self.switches:
            predicate = self.predicate(link)
            value = self.region.spec_of(port)
            name = self.lowered.name_node(f"switch_{len(self.switches)}")
            self.switches[port, link] = self.region.emit(
                SWITCH, name, [port, predicate], [value, value], self.node, controls=self.entry(link)
            )
        return self.switches[port, link]

    def entry(self, link: int) -> Sequence[NodeId]:
        """Returns for what the nodes of a link wait."""
        # Those of later links wait for the switches before them.
        return () if link else self.lowered.controls

    def predicate(self, link: int) -> Port:
        """Whether the branch of a link is taken."""
        while len(self.predicates) <= link:
            at = len(self.predicates)
            if self.is_bool:
                self.predicates.append(self.index)
                continue
            index = self.index
            # Compared only where the links before have not taken it, so as not to be live where others are.
            for before in range(at):
                index = Port(self.switch(index, before), 0)
            dtype = self.region.spec_of(self.index).dtype
            made = self.region.emit(
                "equal",
                self.lowered.name_node(f"is_{at}"),
                [index, self.lowered.flat.constant(at, dtype)],
                [TOKEN],
                self.node,
                controls=self.entry(at),
            )
            self.predicates.append(Port(made))
        return self.predicates[link]
