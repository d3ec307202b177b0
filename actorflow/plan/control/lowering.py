"""How bodies become regions of a flat graph; see `plan.control.flatten`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from actorflow.graph import opdef
from actorflow.graph.body import Body
from actorflow.graph.node import Node, NodeId, Port
from actorflow.graph.opdef import Effect
from actorflow.plan.control.loop_forms import LoopForms
from actorflow.plan.control.lowered import Lowered
from actorflow.plan.control.lowered_branch import LoweredBranch
from actorflow.plan.control.lowered_call import add_call
from actorflow.plan.control.lowered_loop import LoweredLoop
from actorflow.plan.control.region import Region
from actorflow.plan.prune import prune

_HAPPENS = frozenset({Effect.WRITE, Effect.COMMIT, Effect.WAIT, Effect.ASK})


class Lowering:
    """Fills regions of one flat graph.

    Args:
        loop_forms: Says which functional nodes are lowered.
    """

    def __init__(self, forms: LoopForms) -> None:
        self.loop_forms = forms

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
            # It is given by whoever uses the body.
            if effect is Effect.ARGUMENT:
                continue
            if self.loop_forms.is_lowered(region.graph, node):
                self._add(Lowered(self.body, region, node, wanted))
            else:
                region.copy(node)

    def _add(self, lowered: Lowered) -> None:
        if lowered.node.op == "while_loop":
            LoweredLoop(lowered).add()
        elif len(lowered.bodies) > 1:
            LoweredBranch(lowered).add()
        else:
            add_call(lowered)

    def body(self, region: Region, body: Body, ports: Iterable[Port]) -> None:
        """Adds the nodes of a body: what the ports need, and whatever has an effect."""
        # Effects happen whether or not anybody needs what they give.
        asked = [*ports, *self.effects(body)]
        needed = prune(body, asked, body.arguments)
        wanted = frozenset((*asked, *(p for i in needed for p in body.nodes[i].inputs)))
        self.fill(region, needed, wanted)

    def effects(self, body: Body) -> list[Port]:
        """Returns what runs in a body although nobody may need what it gives."""
        return [Port(node.id) for node in body.nodes if happens(node)]


def happens(node: Node) -> bool:
    """Tells whether a node of a body runs although nobody needs what it gives."""
    effect = opdef.lookup(node.op).effect
    if effect is Effect.FUNCTION:
        return bool(node.attrs["writes"] or node.attrs["waits"] or node.attrs["asks"])
    return effect in _HAPPENS
