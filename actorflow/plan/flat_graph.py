"""A flat graph: one in which functional nodes have become nodes of their own, in frames where they are loops.

It is made for one plan. It shares the tables of the graph that it was made of, and has constants of its own
behind those of that graph. Its nodes have their control inputs by program order already. The one edge that
leads back, into the merge of a loop variable, is not among the inputs: `attrs["back"]` of the merge names the
node from which it comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from actorflow.graph.graph import Graph
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.plan.control_flow_ops import ENTER, MERGE
from actorflow.values.arrays import frozen_copy, name_of
from actorflow.values.spec import Spec

Path = tuple[str, ...]


class Flat(Graph):
    """A graph in the making, of which nodes lie in frames.

    Args:
        root: The graph that it is made of.

    Attributes:
        frames: The frame in which the inputs of a node meet, for nodes in loops.
        inner: Nodes in loops and branches, which may be dead or fire more than once, and entries of loops.
        parallel: For each frame, how many of its turns may be under way at once.
    """

    def __init__(self, root: Graph) -> None:
        super().__init__(seed=root.seed)
        # Behind those of the root there is room for constants of its own; all else is shared, and read only.
        self.constants = list(root.constants)
        self.resources, self.objects = root.resources, root.objects
        self.likenesses, self.bodies = root.likenesses, root.bodies
        self.frames: dict[NodeId, Path] = {}
        self.inner: set[NodeId] = set()
        self.parallel: dict[Path, int] = {}
        self._held: dict[tuple[str, Any], Port] = {}

    def put(
        self,
        op: str,
        name: str,
        inputs: Iterable[Port],
        controls: Iterable[NodeId],
        attrs: Mapping[str, Attr],
        outputs: tuple[Spec, ...],
        *,
        frame: Path = (),
        inner: bool = False,
        device: str = "",
        colocate: str | None = None,
        defined_at: str = "",
    ) -> NodeId:
        """Adds a node, by that name or one like it."""
        made = NodeId(len(self.nodes))
        # Taken names get a number: what comes of a body may come several times.
        self.restore(
            Node(
                id=made,
                name=self.unique(name),
                op=op,
                inputs=tuple(inputs),
                controls=tuple(dict.fromkeys(controls)),
                attrs=attrs,
                outputs=outputs,
                device=device,
                colocate=colocate,
                defined_at=defined_at,
            )
        )
        if frame:
            self.frames[made] = frame
        # An Enter belongs to the frame that it leaves, and still leads into a loop.
        if frame or inner or op == ENTER:
            self.inner.add(made)
        return made

    def new_frame(self, around: Path, node: Node) -> Path:
        """Returns a frame for a loop: of the name that random numbers know, unless that is taken."""
        name, n = node.name, 0
        # A body that is used twice has two frames.
        while (*around, name) in self.parallel:
            n += 1
            name = f"{node.name}_{n}"
        self.parallel[*around, name] = node.attrs["parallel_iterations"]
        return (*around, name)

    def constant(self, value: Any, dtype: Any) -> Port:
        """Returns a scalar constant."""
        # One node for a value, however often it is asked for.
        key = (name_of(dtype), value)
        if key not in self._held:
            array = frozen_copy(np.asarray(value, dtype))
            attrs = {"constant": self.add_constant(array), "dtype": name_of(dtype), "shape": ()}
            made = self.put("constant", "flow/constant", (), (), attrs, (Spec((), array.dtype),))
            self._held[key] = Port(made)
        return self._held[key]

    def lead_back(self, merge: NodeId, after: NodeId) -> None:
        """Says from which node the value of a loop variable comes back into its merge."""
        node = self.nodes[merge]
        assert node.op == MERGE
        # After the fact, since the node from which it comes needs the merge first.
        self.nodes[merge] = replace(node, attrs={"back": int(after)})


def back_of(node: Node) -> NodeId | None:
    """Returns the node from which an edge leads back into this one, None for all others."""
    if node.op != MERGE or "back" not in node.attrs:
        return None
    return NodeId(node.attrs["back"])
