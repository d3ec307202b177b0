"""The gradient of a branch: another node that takes the same branch.

Values of the forward pass that it needs are outputs of the forward node: of the branch that was taken,
and stand-ins that nobody looks at for those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.body import Body
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import current
from actorflow.graph.node import NodeId, Port
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.array.fill import zeros
from actorflow.ops.control.branch_builder import build_branch
from actorflow.ops.control.saved_for_backward import (
    Backward,
    argument_of,
    carries,
    fit_gradient,
    save_for_backward,
    saved_key,
    zeros_for,
)
from actorflow.values.arrays import name_of


def gradient_of_branches(use: Use, *grads: Gradient | None) -> Sequence[Gradient | None]:
    """Returns the gradients of what the branches captured; None for the index."""
    node, graph = use.node, use.graph
    branches: list[Body] = [graph.bodies[key] for key in use.attrs["branches"]]
    saved = use.attrs["saved"]
    count = len(node.outputs) - len(saved)
    # Gradients of the results; those of kept values come below, by branch.
    active = [j for j in range(count) if grads[j] is not None and carries(node.outputs[j])]
    starts = [as_tensor(grads[j]) for j in active]
    # From 1 on: no gradient goes to the index.
    wanted = [c for c in range(1, len(node.inputs)) if use.needs[c]]
    drafts: list[Backward] = []
    seeds: list[list[Tensor]] = []
    # ORDER: all drafts first: which captures any branch reaches decides what all of them return.
    try:
        for b, branch in enumerate(branches):
            # Kept values of this branch, of which a gradient of the gradient has one.
            of_saved = [k for k, entry in enumerate(saved) if entry[0] == b and grads[count + k] is not None]
            seeds.append([as_tensor(grads[count + k]) for k in of_saved])
            ys = [branch.results[j] for j in active]
            ys += [Port(NodeId(saved[k][1]), saved[k][2]) for k in of_saved]
            xs = [branch.arguments[c - 1] for c in wanted]
            drafts.append(Backward(branch, ys, xs, current().unique("branch"), node.defined_at))
        # A gradient that no branch has is none; one that some have is zeros in the others.
        reached = [k for k in range(len(wanted)) if any(d.found[k] is not None for d in drafts)]
        if not reached:
            return [None] * len(node.inputs)
        # Rows stay rows only if they are in every branch that has a gradient.
        sparse = {
            k: rows
            for k in reached
            if (rows := _rows(use.inputs[wanted[k]], [d.found[k] for d in drafts])) is not None
        }
        functions = []
        for b, (branch, draft) in enumerate(zip(branches, drafts, strict=True)):
            # Values are kept by the forward node: made before the new one is built, which captures them.
            values = [None if port is None else _value(use, b, branch, port) for port in draft.values]
            functions.append(_branch(use, draft, [*starts, *seeds[b]], values, wanted, reached, sparse))
        names = [branch.key.rpartition("/")[2] for branch in branches]
        made = build_branch(
            current(), "case", use.inputs[0], functions, names, use.attrs["lower"], None, node.defined_at
        )
    # A draft's nodes have been copied by now, or nobody wants them.
    finally:
        for draft in drafts:
            draft.forget()
    found: list[Gradient | None] = [None] * len(node.inputs)
    for k, grad in zip(reached, made, strict=True):
        found[wanted[k]] = _rows_of(use.inputs[wanted[k]], grad) if k in sparse else grad
    return found


def _rows(x: Tensor, grads: Sequence[Gradient | None]) -> IndexedSlices | None:
    """One of the gradients of `x`, if all that there are are rows; those of no branch can be told as none."""
    found = [grad for grad in grads if grad is not None]
    rows = [g for g in found if isinstance(g, IndexedSlices) and not isinstance(g.rows, Tensor)]
    # Without rows a branch needs the shape of none: all sizes behind the first.
    known = len(found) == len(grads) or (x.shape is not None and None not in x.shape[1:])
    return rows[0] if len(rows) == len(found) and known else None


def _rows_of(x: Tensor, parts: Sequence[Tensor]) -> IndexedSlices:
    return IndexedSlices(parts[0], parts[1], x.shape or ())


def _no_rows(x: Tensor, like: IndexedSlices) -> list[Tensor]:
    assert x.shape is not None
    # Zero rows of the same dtypes: an empty gradient.
    shape = (0, *(n or 0 for n in x.shape[1:]))
    return [zeros(shape, name_of(like.values.dtype)), zeros((0,), name_of(like.indices.dtype))]


def _value(use: Use, b: int, branch: Body, port: Port) -> Tensor:
    """What a port of branch `b` is outside: an input of the node, or an output that is kept."""
    argument = argument_of(branch, port)
    # A capture is an input of the node: it needs no keeping.
    if argument is not None:
        return use.inputs[1 + argument]
    return save_for_backward(
        use.graph, use.node.id, (b, *saved_key(port)), branch.nodes[port.node].outputs[port.index]
    )


def _branch(
    use: Use,
    draft: Backward,
    starts: Sequence[Tensor],
    values: Sequence[Tensor | None],
    wanted: Sequence[int],
    reached: Sequence[int],
    sparse: Mapping[int, IndexedSlices],
) -> Callable[[], list[Any]]:
    """What builds the gradient of one branch: for each x that is reached its gradient, or zeros."""

    def build() -> list[Any]:
        made = draft.copy(
            [as_tensor(s) for s in starts], [None if v is None else as_tensor(v) for v in values]
        )
        found: list[Any] = []
        # ORDER: the same results in the same order in every branch.
        for k in reached:
            grad = made[k]
            if grad is None and k in sparse:
                found.append(_no_rows(use.inputs[wanted[k]], sparse[k]))
            elif grad is None:
                found.append(zeros_for(as_tensor(use.inputs[wanted[k]])))
            elif k in sparse:
                assert isinstance(grad, IndexedSlices)
                found.append([grad.values, grad.indices])
            else:
                # As well known as the value, so that the branches' specs agree.
                found.append(fit_gradient(as_tensor(grad), use.inputs[wanted[k]].spec))
        return found

    return build
