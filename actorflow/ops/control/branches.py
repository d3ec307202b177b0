"""Branches: `cond`, `case` and `switch_case`, nodes that run one of several bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.body import as_spec
from actorflow.graph.builder import as_tensor
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect, lookup, op
from actorflow.ops.control.bodies import line_of
from actorflow.ops.control.branch_builder import build_branch
from actorflow.ops.control.branch_gradients import gradient_of_branches
from actorflow.ops.definition.arguments import api_function
from actorflow.values.spec import Spec


@api_function
def cond(
    pred: Any,
    true_fn: Any,
    false_fn: Any,
    *,
    lower: bool | None = None,
    name: str | None = None,
) -> Any:
    """What `true_fn` builds where `pred` is true in the step, else what `false_fn` builds.

    Both are called once, to build; only what is built inside them is conditional. What they use from
    outside is computed whatever happens, and a variable that is used as a tensor is read there.

    Shapes:   of a result what both have in common, None for sizes in which they differ
    Dtypes:   any; those of both the same
    Gradient: through the branch that was taken, of any order
    Raises:   SpecError when `pred` is no bool scalar, or the results of the branches do not agree: names
              both lines. GraphError when they return different structures, or one captures what has an
              effect and nobody else uses: it would happen whichever branch is taken.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", name="x")
    ...     y = af.cond(x < 0.0, lambda: -x, lambda: x * 2.0)
    ...     print(y)
    <Tensor cond:0 () float32>
    """
    graph = current()
    line = line_of(graph)
    index = as_tensor(pred)
    if index.dtype.kind != "b" or index.shape not in ((), None):
        message = f"cond takes a bool scalar, got {index.spec}"
        raise SpecError(
            message, where=Where(defined_at=line), hint="compare, or reduce with af.all or af.any"
        )
    # False is index 0.
    return build_branch(graph, "cond", index, [false_fn, true_fn], ["false", "true"], lower, name, line)


@api_function
def switch_case(
    index: Any, branches: Sequence[Any], *, lower: bool | None = None, name: str | None = None
) -> Any:
    """What branch number `index` builds; the last one for a number that no branch has.

    Otherwise as `cond`.

    Shapes:   index scalar
    Dtypes:   index an integer
    Gradient: as for `cond`
    Raises:   as `cond`; GraphError for no branches.
    """
    graph = current()
    line = line_of(graph)
    found = as_tensor(index)
    if found.dtype.kind not in "iu" or found.shape not in ((), None):
        message = f"switch_case takes an integer scalar, got {found.spec}"
        raise SpecError(message, where=Where(defined_at=line))
    if not isinstance(branches, list | tuple) or not branches:
        message = f"switch_case takes a list of functions, one or more, got {branches!r:.60}"
        raise GraphError(message, where=Where(defined_at=line))
    names = [f"branch_{k}" for k in range(len(branches))]
    return build_branch(graph, "switch_case", found, list(branches), names, lower, name, line)


@api_function
def case(
    pairs: Sequence[Any],
    default: Any,
    *,
    lower: bool | None = None,
    name: str | None = None,
) -> Any:
    """What the function beside the first true predicate builds, `default` when none is true.

    Shapes:   each predicate a scalar
    Dtypes:   each predicate bool
    Gradient: as for `cond`
    Raises:   as `cond`; GraphError for what is no list of pairs.
    """
    graph = current()
    line = line_of(graph)
    if not isinstance(pairs, list | tuple) or not all(map(_is_pair, pairs)):
        message = f"case takes a list of pairs (predicate, function), got {pairs!r:.60}"
        raise GraphError(message, where=Where(defined_at=line))
    # Behind all predicates: the default.
    index = as_tensor(len(pairs))
    # From the last to the first, so that the first true one is chosen.
    for k, (pred, _) in reversed(list(enumerate(pairs))):
        tensor = as_tensor(pred)
        if tensor.dtype.kind != "b" or tensor.shape not in ((), None):
            message = f"case takes bool scalars, got {tensor.spec} as predicate {k}"
            raise SpecError(message, where=Where(defined_at=line))
        # By the table, since `where` is built of modules that this one does not import.
        index = lookup("where").constructor(tensor, k, index)
    functions = [*(function for _, function in pairs), default]
    names = [*(f"branch_{k}" for k in range(len(pairs))), "default"]
    return build_branch(graph, "case", index, functions, names, lower, name, line)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, tuple | list) and len(pair) == 2


def _outputs(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    """The results, and the values that are kept of branches."""
    kept = [as_spec(spec_attr) for _, _, _, spec_attr in attrs["saved"]]
    return (*(as_spec(attr) for attr in attrs["outputs"]), *kept)


op(
    "case",
    spec=_outputs,
    gradient=gradient_of_branches,
    effect=Effect.FUNCTION,
    takes_bytes=True,
    takes_lists=True,
    sparse=True,
)(case)
