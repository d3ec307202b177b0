"""Common subexpressions: nodes that compute the same value from the same inputs become one.

Only kernels are merged: nodes that draw random numbers or ask an actor never are.
"""

from __future__ import annotations

from collections.abc import Hashable

from actorflow.plan.passes.rewrite import Rewriting, Source, is_free
from actorflow.plan.program import Constant, Edge, PlanNode, Program
from actorflow.values import arrays

_COMPARED_BYTES = 4096


def cse(program: Program) -> Program:
    """Returns the program with one node in place of each set of equal ones: the first of them."""
    rewriting = Rewriting(program)
    first: dict[Hashable, int] = {}
    for i, node in rewriting:
        # Who has control inputs is to wait, and who is in a loop has inputs of its own in each turn.
        if is_free(node):
            original = first.setdefault(_identity(node), i)
            if original != i:
                rewriting.put(i, *(Edge(original, k) for k in range(len(node.outputs))))
    return rewriting.result()


def _identity(node: PlanNode) -> Hashable:
    attrs = tuple(sorted((name, _exact(value)) for name, value in node.attrs.items()))
    return node.op, attrs, tuple(map(_token, node.inputs)), node.device


def _exact(value: object) -> Hashable:
    """Returns what tells attributes apart that Python holds equal: 1, 1.0 and True, 0.0 and -0.0."""
    if isinstance(value, tuple):
        return "tuple", tuple(map(_exact, value))
    return type(value).__name__, repr(value)


def _token(source: Source) -> Hashable:
    if isinstance(source, Edge):
        return source
    return _bits(source)


def _bits(constant: Constant) -> Hashable:
    value = constant.value
    # Small constants are equal when their bits are, large ones when they are one object.
    if arrays.nbytes(value) > _COMPARED_BYTES or value.dtype.hasobject:
        return "object", id(value)
    return value.dtype.name, value.shape, value.tobytes()
