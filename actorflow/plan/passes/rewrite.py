"""What the passes over a program share: put another source in place of a node, and follow it.

A pass goes through the nodes once, in an order in which every edge leads forward, and replaces some
by what computes the same value for less. Such a node has no control inputs of its own, so that it
has fired as soon as all its inputs have come; whoever waits for it alone waits for those instead, and
for what stands in its place, which may fail in its stead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program
from actorflow.values.spec import Spec, spec

Source = Edge | Constant
"""Where an input port gets its value."""


class Rewriting:
    """A program in the course of one pass.

    Iterate over it: each turn gives the index of a node and the node with its inputs already
    redirected. `put` or `change` it before the next turn, or leave it.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = list(program.nodes)
        self._instead: dict[Edge, Source] = {}
        self._waits: dict[int, tuple[int, ...]] = {}  # for whom to wait in place of a replaced node
        self._changed = False

    def __iter__(self) -> Iterator[tuple[int, PlanNode]]:
        for i in range(len(self.nodes)):
            # Makers lie before their users, so what is in place of them is known by now.
            self._redirect(i)
            yield i, self.nodes[i]

    def put(self, i: int, *sources: Source) -> None:
        """Puts one source in place of each output of node `i`, which nobody asks from now on."""
        node = self.nodes[i]
        # It has fired as soon as all its inputs have come: nobody can wait for it longer than for those.
        assert not node.controls
        self._changed = True
        self._instead.update((Edge(i, k), source) for k, source in enumerate(sources))
        # Whoever waited for it alone waits for its inputs, and for what stands in its place, which may fail
        # in its stead. A feed has fired from the start.
        makers = [source.node for source in (*sources, *node.inputs) if isinstance(source, Edge)]
        self._waits[i] = tuple(dict.fromkeys(m for m in makers if self.nodes[m].kind is not NodeKind.FEED))

    def change(self, i: int, node: PlanNode) -> None:
        """Puts another node in the place of node `i`."""
        self._changed = True
        self.nodes[i] = node

    def spec(self, source: Source) -> Spec:
        """Returns what is known about the value of a source."""
        if isinstance(source, Edge):
            return self.nodes[source.node].outputs[source.output]
        return spec(source.value.dtype, source.value.shape)

    def maker(self, source: Source, *ops: str) -> PlanNode | None:
        """Returns the kernel node behind a source when its op is one of `ops`, else None."""
        if isinstance(source, Constant):
            return None
        node = self.nodes[source.node]
        return node if node.kind is NodeKind.KERNEL and node.op in ops else None

    def result(self) -> Program:
        """Returns the program after the pass, the same object when nothing was changed."""
        return replace(self.program, nodes=tuple(self.nodes)) if self._changed else self.program

    def _redirect(self, i: int) -> None:
        node = self.nodes[i]
        inputs = tuple(self._instead.get(s, s) if isinstance(s, Edge) else s for s in node.inputs)
        controls = node.controls
        if any(c in self._waits for c in controls):
            controls = tuple(dict.fromkeys(w for c in controls for w in self._waits.get(c, (c,))))
        # By identity: to compare constants would compare arrays.
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)) or controls != node.controls:
            self.nodes[i] = replace(node, inputs=inputs, controls=controls)


def is_free(node: PlanNode) -> bool:
    """Tells whether a node computes and nothing else: the same inputs always give the same value.

    Nodes that have control inputs, or are in a loop, are none of those.
    """
    # A control input says that somebody wants it to wait; in a loop inputs come once a turn.
    return node.kind is NodeKind.KERNEL and not node.controls and not node.frame
