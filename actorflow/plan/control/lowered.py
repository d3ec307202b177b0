"""What the forms of functional nodes have in common when they become nodes of a region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from actorflow.graph.body import Body, bodies_of
from actorflow.graph.node import Node, NodeId, Port
from actorflow.plan.control.region import Region, resources, waits

Fill = Callable[[Region, Body, Iterable[Port]], None]


class Lowered:
    """One functional node that becomes several.

    Args:
        fill: Adds the nodes of a body: what the ports need, and whatever has an effect.
        region: Where it is.
        node: It.
        wanted: The ports of its graph that somebody asks for.

    Attributes:
        inputs: What stands for its inputs.
        kept: Which output is the first that is kept for gradients.
        wanted: Whether somebody asks for each output.
        controls: For what it waits.
        touched: The resources that it touches.
        effects: Those of them of which it is to be done before it gives anything.
        tokens: For each resource the port that says that it is its turn.
    """

    def __init__(self, fill: Fill, region: Region, node: Node, wanted: Set[Port]) -> None:
        self.fill, self.region, self.node = fill, region, node
        self.flat, self.attrs = region.flat, node.attrs
        self.bodies = bodies_of(region.graph, node)
        self.inputs = [region.value(port) for port in node.inputs]
        # The last outputs are what is kept for gradients.
        self.saved: tuple[tuple[int, ...], ...] = node.attrs["saved"]
        self.kept = len(node.outputs) - len(self.saved)
        self.wanted = [Port(node.id, k) in wanted for k in range(len(node.outputs))]
        # For what the node waits: each of the nodes that come of it waits for that where it begins.
        self.controls = region.fired_nodes(node.controls)
        self.touched = resources(node)
        # Reading leaves no mark: nobody who waits for an output has to wait until it is done.
        self.effects = frozenset((*node.attrs["writes"], *waits(node)))
        # After what came before the node in the program it is its turn at the resource; what comes after
        # waits for the token to leave.
        self.tokens = {
            name: region.token(
                self.name_node(f"order/{name}"), node, [*self.controls, *region.before(node, name)]
            )
            for name in self.touched
        }

    def name_node(self, what: str) -> str:
        """Returns a name for one of its nodes."""
        # The marks of `program_order` are no part of a name that a user sees.
        return f"{self.node.name}/{what}".replace("\0", "")

    def is_kept(self, k: int) -> bool:
        """Tells whether somebody asks for what is kept at `saved[k]`."""
        return self.wanted[self.kept + k]

    def give(self, outputs: dict[int, Port], tokens: dict[str, NodeId]) -> None:
        """Notes what stands for outputs, and after which nodes resources are free again."""
        node, region = self.node, self.region
        for k, port in outputs.items():
            # What is fed in place of an output stays.
            region.values.setdefault(Port(node.id, k), port)
        for name, token in tokens.items():
            region.controls_in[node.id, name] = token
        # Whoever waits for the node waits for its outputs and for the ends of what it does.
        region.after[node.id] = tuple(dict.fromkeys((*(p.node for p in outputs.values()), *tokens.values())))
        if region.after[node.id]:
            # By the first of them others find it that are to be beside it.
            region.names[node.name] = self.flat.nodes[region.after[node.id][0]].name


def of_arguments(body: Body, argument: Callable[[int], Port]) -> Callable[[Port], Port]:
    """Returns how a region gets what stands for an argument of its body."""
    number = {port: k for k, port in enumerate(body.arguments)}
    return lambda port: argument(number[port])
