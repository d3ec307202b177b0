"""The gradient of a loop: another loop, which goes through the turns from the last to the first.

A turn of it is the gradient of the body. Values of the forward pass that it needs are kept in lists, one
element a turn, unless they are the same in all turns. What gradients flow to: the loop variables, of
which the gradient after the turns becomes that before them; and what the body captured, of which every
turn adds its part. So it does to a loop variable that no turn changes, on top of the gradient after the
turns: what goes through as it is would else be rounded each turn.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018, section 5, in the
functional form (`while_v2` of TensorFlow 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.body import Body
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph, current
from actorflow.graph.node import Node, NodeId, Port
from actorflow.graph.opdef import lookup
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.control.saved_for_backward import (
    Backward,
    argument_of,
    carries,
    fit_gradient,
    save_for_backward,
    saved_key,
    zeros_for,
)
from actorflow.ops.control.tensor_list import list_add, list_new, list_read, list_read_or_zeros, list_write
from actorflow.ops.control.tensor_list_rows import list_concat
from actorflow.ops.math.elementwise import add, subtract
from actorflow.values.spec import ListSpec, Spec


def gradient_of_loop(use: Use, *grads: Gradient | None) -> Sequence[Gradient | None]:
    """Returns the gradients of loop variables and captures; see the module."""
    backward = _Loop(use, grads)
    return backward.result()


class _Loop:
    """One use of the rule."""

    def __init__(self, use: Use, grads: Sequence[Gradient | None]) -> None:
        self.use = use
        self.graph: Graph = use.graph
        self.node: Node = use.node
        self.count: int = use.attrs["count"]
        self.turn: Body = use.graph.bodies[use.attrs["body"]]
        self.carried = use.node.outputs[: self.count]
        self.starts = [g if g is None else as_tensor(g) for g in grads[: self.count]]
        # Outputs: the loop variables, the number of turns, and the lists that are kept.
        kept_grads = grads[self.count + 1 :]
        self.saved = {k: as_tensor(g) for k, g in enumerate(kept_grads) if g is not None}
        # What no turn changes has the same gradient before as after, besides what each turn adds.
        self.same = {j for j in range(self.count) if carries(self.carried[j]) and self._passes(j)}

    def result(self) -> list[Gradient | None]:
        n, nothing = self.count, [None] * len(self.node.inputs)
        asked = [j for j in range(n) if self.starts[j] is not None and carries(self.carried[j])]
        if not asked and not self.saved:
            return list(nothing)
        # Their gradient is a sum and no loop variable of the backward loop.
        active = [j for j in asked if j not in self.same]
        if not active and not self.saved:
            # Nothing else has a gradient: it passes through the loop as it came.
            return [self._start(j) if j in asked else None for j in range(len(self.node.inputs))]
        draft, active, shared = self._draft(active)
        try:
            return self._loop(draft, active, shared)
        finally:
            draft.forget()

    def _draft(self, active: list[int]) -> tuple[Backward, list[int], list[int]]:
        """The gradient of a turn: for which loop variables, until these are all that it leads to.

        Returns it, these variables, and the captures that it leads to.
        """
        n, turn = self.count, self.turn
        loop_vars = [j for j in range(n) if carries(self.carried[j])]
        shared = [c for c in range(n, len(self.node.inputs)) if self.use.needs[c]]
        xs = [turn.arguments[a] for a in (*loop_vars, *shared)]
        # A turn may lead from one loop variable to another: asked again until no new one is reached.
        while True:
            ys = [*(turn.results[j] for j in active), *(self._saved_port(k) for k in self.saved)]
            draft = Backward(turn, ys, xs, current().unique("turn"), self.node.defined_at)
            reached = [j for j, g in zip(loop_vars, draft.found, strict=False) if g is not None]
            # ORDER: sorted, so that the backward loop has one order of variables for one graph.
            more = sorted({*active, *reached} - self.same)
            if more == active:
                found = draft.found[len(loop_vars) :]
                return draft, active, [c for c, g in zip(shared, found, strict=True) if g is not None]
            # The draft is for too few.
            draft.forget()
            active = more

    def _passes(self, j: int) -> bool:
        """Whether every turn leaves loop variable `j` as it is."""
        port = self.turn.results[j]
        # Through identities, as loops write them around what they pass on.
        while (node := self.turn.nodes[port.node]).op == "identity":
            port = node.inputs[0]
        return port == self.turn.arguments[j]

    def _saved_port(self, k: int) -> Port:
        node, index, _ = self.node.attrs["saved"][k]
        return Port(NodeId(node), index)

    def _loop(self, draft: Backward, active: list[int], shared: list[int]) -> list[Gradient | None]:
        n, node, graph = self.count, self.node, self.graph
        loop_vars = [j for j in range(n) if carries(self.carried[j])]
        wanted = [c for c in range(n, len(node.inputs)) if self.use.needs[c]]
        # A value that is kept grows the forward loop, so it is asked for before the backward one is built.
        values = [None if port is None else self._value(port) for port in draft.values]
        forward = [self._forward(k) for k in self.saved]
        # How many turns there were: known to the forward loop alone.
        trips = Tensor(graph, Port(node.id, n))
        first = [self._start(j) for j in active]
        parts = dict(zip([*loop_vars, *wanted], draft.found, strict=True))
        same = [j for j in loop_vars if j in self.same and parts[j] is not None]
        sums = [
            *(_sum_of(self._after(j), parts[j], self._given_gradient(j)) for j in same),
            *(_sum_of(Tensor(graph, node.inputs[c]), parts[c]) for c in shared),
        ]
        # The number of the turn counts down from the last.
        begins = [as_tensor(subtract(trips, 1)), *first, *(t for s in sums for t in s.begins)]
        shapes = [(), *(self.carried[j].shape for j in active), *(sh for s in sums for sh in s.shapes)]

        def body(i: Tensor, *rest: Tensor) -> list[Tensor]:
            # Gradients of the loop variables after this turn.
            starts = [*rest[: len(active)]]
            # Forward values of the same turn.
            read = [None if value is None else value(i) for value in values]
            # Gradients of kept values, of which some turns may have none: zeros then.
            seeds = [
                list_read_or_zeros(grad, i, like(i))
                for grad, like in zip(self.saved.values(), forward, strict=True)
            ]
            made = draft.copy([*starts, *seeds], read)
            of = dict(zip([*loop_vars, *wanted], made, strict=True))
            # A loop variable that no path leads to has zeros before the turn.
            after = [
                zeros_for(start) if of[j] is None else fit_gradient(as_tensor(of[j]), self.carried[j])
                for j, start in zip(active, starts, strict=True)
            ]
            at = len(active)
            # Captures get a part from each turn.
            for c, total in zip([*same, *shared], sums, strict=True):
                size = len(total.begins)
                after.extend(total.plus(i, rest[at : at + size], of[c]))
                at += size
            return [as_tensor(i - 1), *after]

        attrs = node.attrs
        # By the table: the loop's own rule is this gradient, so neither module can import the other.
        ends = lookup("while_loop").constructor(
            # Turn 0 is the last one.
            lambda i, *_: i >= 0,
            body,
            begins,
            shapes=shapes,
            parallel_iterations=attrs["parallel_iterations"],
            lower=attrs["lower"],
        )
        found: list[Gradient | None] = [None] * len(node.inputs)
        for j in self.same:
            # What is not added to in any turn passes as it is.
            found[j] = self._given_gradient(j)
        # The first end is the number of the turn.
        for j, end in zip(active, ends[1:], strict=False):
            found[j] = end
        at = 1 + len(active)
        for c, total in zip([*same, *shared], sums, strict=True):
            found[c] = total.whole(ends[at : at + len(total.begins)])
            at += len(total.begins)
        return found

    def _start(self, j: int) -> Tensor:
        start = self.starts[j]
        if start is None:
            return zeros_for(as_tensor(self._after(j)))
        return fit_gradient(start, self.carried[j])

    def _given_gradient(self, j: int) -> Tensor | None:
        return None if self.starts[j] is None else self._start(j)

    def _after(self, j: int) -> Tensor:
        """Loop variable `j` after the turns."""
        return Tensor(self.graph, Port(self.node.id, j))

    def _value(self, port: Port) -> Callable[[Tensor], Tensor]:
        """How a turn gets a value of the forward pass: turn number -> tensor."""
        argument = argument_of(self.turn, port)
        # A capture is the same in all turns: the input itself, and no list of it.
        if argument is not None and argument >= self.count:
            outside = Tensor(self.graph, self.node.inputs[argument])
            return lambda i: as_tensor(outside)
        # One element a turn.
        values = save_for_backward(self.graph, self.node.id, saved_key(port), self._spec(port))
        return lambda i: list_read(values, i)

    def _forward(self, k: int) -> Callable[[Tensor], Tensor]:
        values = Tensor(self.graph, Port(self.node.id, self.count + 1 + k))
        return lambda i: list_read(values, i)

    def _spec(self, port: Port) -> Spec:
        return self.turn.nodes[port.node].outputs[port.index]


@dataclass(frozen=True, slots=True)
class _Sum:
    """How the parts of a gradient add up over the turns.

    Attributes:
        begins: The loop variables in which they do.
        shapes: Those of these.
        plus: (turn, loop variables, part) -> the loop variables after it.
        whole: What the sum is in the end, of the loop variables.
    """

    begins: tuple[Tensor, ...]
    shapes: tuple[Any, ...]
    plus: Callable[[Tensor, Sequence[Tensor], Any], list[Tensor]]
    whole: Callable[[Sequence[Tensor]], Gradient]


def _sum_of(x: Tensor, part: Gradient | None, start: Tensor | None = None) -> _Sum:
    """The sum of the parts for `x`, on top of `start` where there is one; halves add up in float32."""
    if isinstance(part, IndexedSlices) and not isinstance(part.rows, Tensor) and start is None:
        return _sum_of_rows(part)
    # On top of what comes from behind the loop: added apart, it would be rounded once more.
    begin = zeros_for(as_tensor(x)) if start is None else start
    # Lists add up index by index.
    if isinstance(x.spec, ListSpec):
        return _Sum(
            (begin,),
            (x.shape,),
            lambda i, sums, grad: [list_add(sums[0], as_tensor(grad))],
            lambda sums: sums[0],
        )
    return _Sum(
        # In float32: as many roundings as turns would lose digits of halves.
        (widen_half(begin),),
        (x.shape,),
        lambda i, sums, grad: [add(sums[0], widen_half(fit_gradient(as_tensor(grad), x.spec)))],
        lambda sums: cast(sums[0], x.dtype),
    )


def _sum_of_rows(part: IndexedSlices) -> _Sum:
    """Some rows a turn: they are lined up, and stay sparse."""
    shape = part.shape
    rows = Spec(None if part.values.shape is None else (None, *part.values.shape[1:]), part.values.dtype)
    indices = Spec((None,), part.indices.dtype)

    def whole(lists: Sequence[Tensor]) -> Gradient:
        found = IndexedSlices(list_concat(lists[0]), list_concat(lists[1]), shape or ())
        found.spec = part.spec
        return found

    return _Sum(
        # A list of values and one of indices, an element a turn, joined in the end.
        (list_new(rows), list_new(indices)),
        ((None,), (None,)),
        lambda i, lists, grad: [list_write(lists[0], i, grad.values), list_write(lists[1], i, grad.indices)],
        whole,
    )
