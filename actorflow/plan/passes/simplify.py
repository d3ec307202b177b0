"""Arithmetic simplification: nodes whose value is, bit for bit, one of their inputs or a constant.

Exact rules only. No rule lets go of an input that others may not need: what lies behind it would
not be run any more, and could not fail. Two reshapes stay two: the first one copies a matrix that lies
transposed, and what adds up elements does so in the order in which they lie. What the rules take away is
mostly what gradients and imported models leave behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from actorflow.plan.passes.rewrite import Rewriting, Source, is_free
from actorflow.plan.program import Constant, Edge, PlanNode, Program
from actorflow.values import arrays
from actorflow.values.dtypes import can_cast
from actorflow.values.spec import Spec

Rule = Callable[[Rewriting, PlanNode], Source | PlanNode | None]
"""(rewriting, node) -> what gives the value instead, or a cheaper node; None to leave it."""


def simplify(program: Program) -> Program:
    """Returns the program with cheaper sources for the nodes that a rule applies to."""
    rewriting = Rewriting(program)
    for i, node in rewriting:
        rule = _RULES.get(node.op)
        if rule is None or not is_free(node):
            continue
        found = rule(rewriting, node)
        if isinstance(found, PlanNode):
            rewriting.change(i, found)
        elif found is not None:
            rewriting.put(i, found)
    return rewriting.result()


_RULES: dict[str, Rule] = {}


def _rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update((op, rule) for op in ops)
        return rule

    return register


def _same(a: Spec, b: Spec) -> bool:
    """Tells whether two tensors surely have one shape, and one dtype."""
    return a.is_static and a == b


@_rule("identity", "positive", "stop_gradient")
def _input(rewriting: Rewriting, node: PlanNode) -> Source:
    return node.inputs[0]


@_rule(
    "reshape", "reshape_like", "broadcast_to", "broadcast_like", "sum_to", "ensure_shape", "cast", "concat"
)
def _nothing_to_do(rewriting: Rewriting, node: PlanNode) -> Source | PlanNode | None:
    """The one that changes shape or dtype, where both are there already."""
    # Shapes that are computed, or further arrays: it may fail by them, or join something.
    if any(isinstance(source, Edge) for source in node.inputs[1:]):
        return None
    if _same(rewriting.spec(node.inputs[0]), node.outputs[0]):
        return node.inputs[0]
    return _STEPS[node.op](rewriting, node) if node.op in _STEPS else None


def _back_and_forth(rewriting: Rewriting, node: PlanNode) -> Source | None:
    """`cast(cast(x))` back to the dtype of x, where the dtype between them holds all its values."""
    inner = rewriting.maker(node.inputs[0], "cast")
    if inner is None:
        return None
    first, between = rewriting.spec(inner.inputs[0]).dtype, inner.outputs[0].dtype
    # What lies between holds all values: only then nothing was lost on the way there.
    kept = first == node.outputs[0].dtype and can_cast(first, between)
    return inner.inputs[0] if kept else None


_STEPS: dict[str, Rule] = {"cast": _back_and_forth}


@_rule("transpose")
def _one_transpose(rewriting: Rewriting, node: PlanNode) -> Source | PlanNode | None:
    rank = node.outputs[0].rank
    if rank is None:
        return None
    perm = _permutation(node, rank)
    if perm == tuple(range(rank)):
        return node.inputs[0]
    inner = rewriting.maker(node.inputs[0], "transpose")
    if inner is None:
        return None
    before = _permutation(inner, rank)
    # Two in one, and none where the second undoes the first.
    both = tuple(before[p] for p in perm)
    if both == tuple(range(rank)):
        return inner.inputs[0]
    return replace(node, inputs=inner.inputs, attrs={"perm": both})


def _permutation(node: PlanNode, rank: int) -> tuple[int, ...]:
    perm: Iterable[int] | None = node.attrs["perm"]
    return tuple(reversed(range(rank))) if perm is None else tuple(p % rank for p in perm)


@_rule("negative", "logical_not", "bitwise_invert", "conj")
def _undone(rewriting: Rewriting, node: PlanNode) -> Source | None:
    """`f(f(x))` is x."""
    inner = rewriting.maker(node.inputs[0], node.op)
    return None if inner is None else inner.inputs[0]


@_rule("abs", "ceil", "floor", "round", "trunc", "relu")
def _done_already(rewriting: Rewriting, node: PlanNode) -> Source | None:
    """`f(f(x))` is `f(x)`."""
    inner = rewriting.maker(node.inputs[0], node.op)
    same = inner is not None and inner.outputs == node.outputs
    return node.inputs[0] if same else None


_NEUTRAL: dict[str, tuple[tuple[int, float], ...]] = {
    # `x + 0` is not x where x is -0.0, and `x * 0` is not 0 where x is infinite, or complex.
    "add": ((0, -0.0), (1, -0.0)),  # an integer has one zero
    "subtract": ((1, 0.0),),
    "multiply": ((0, 1.0), (1, 1.0)),
    "divide": ((1, 1.0),),
    "pow": ((1, 1.0),),
    "logical_and": ((0, True), (1, True)),
    "logical_or": ((0, False), (1, False)),
    "logical_xor": ((0, False), (1, False)),
}
"""(input, value) with which an op of two inputs gives the other one."""


@_rule(*_NEUTRAL)
def _neutral(rewriting: Rewriting, node: PlanNode) -> Source | None:
    (made,) = node.outputs
    if made.dtype.kind == "c":  # (inf + 0j) * 1 has a part that is NaN
        return None
    for port, value in _NEUTRAL[node.op]:
        one, other = node.inputs[port], node.inputs[1 - port]
        if not isinstance(one, Constant) or not arrays.is_filled(one.value, value):
            continue
        spec = rewriting.spec(other)
        # The constant must not give shape or dtype either: then the other one alone is the value.
        if spec.dtype == made.dtype and (one.value.ndim == 0 or _same(spec, made)):
            return other
    return None
