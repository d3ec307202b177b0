"""`apply_gradients`: the update that trains many variables at once, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, op
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.state.handle import as_typed_tensor, check_fits
from actorflow.ops.state.variable import Variable, check_variables
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import is_floating
from actorflow.values.checks import is_whole
from actorflow.values.spec import Spec, spec


def _count(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    """How many updates have been applied."""
    return (spec("int64"),)


@op("apply_gradients", spec=_count, gradient=NOT_DIFFERENTIABLE, effect=Effect.COMMIT)
@api_function
def apply_gradients(
    grads: Sequence[Any],
    variables: Sequence[Variable],
    optimizer: Any,
    *,
    max_not_finite: int | None = 0,
    name: str | None = None,
) -> Tensor:
    """Updates all variables at once: every delta is applied, or none.

    Args:
        grads: One gradient for each variable, of its spec. Of an `IndexedSlices` only the rows that
            it names are updated, if the optimizer takes that; see `af.optim.Transform`.
        variables: The variables to update, each once, floating, of the current graph.
        optimizer: What `minimize` takes: a rule of `af.optim`, or what makes an optimizer actor; or the
            key in the graph's `objects` of one that other updates share, with its state.
        max_not_finite: What happens when a gradient holds NaN or infinity. 0: the step fails, and nothing is
            updated. More: so many updates are dropped and counted, and then one fails. None: nobody looks,
            and the optimizer gets it as it is.
        name: Name of the node.

    Shapes:   gradients those of the variables -> (): the number of updates applied so far
    Dtypes:   gradients those of the variables -> int64
    Raises:   SpecError when a gradient does not fit; GraphError for no variable, one that comes
              twice or belongs to another graph, a gradient that is None, or an unknown optimizer. In the
              step NumericError for a gradient that is not finite, with the variable.
    """
    graph, where = current(), Where(defined_at=source_line())
    check_variables("an update takes", variables)
    names = tuple(v.name for v in variables)
    if not isinstance(grads, list | tuple):
        message = f"an update takes a list of gradients, got {type(grads).__name__} {grads!r:.60}"
        raise GraphError(message, where=where, hint="put it in a list: one gradient for each variable")
    if not names or len(set(names)) < len(names) or len(grads) != len(names):
        message = f"apply_gradients takes distinct variables and as many grads, got {len(grads)} for {names}"
        raise GraphError(message, where=where)
    _check_most(max_not_finite, where)
    # A rule has both functions; what makes an actor is called.
    is_rule = callable(optimizer) or (hasattr(optimizer, "init") and hasattr(optimizer, "update"))
    if not is_rule and (not isinstance(optimizer, str) or optimizer not in graph.objects):
        message = f"an update takes an optimizer, or the key of one in the graph, got {optimizer!r:.60}"
        raise GraphError(message, where=where, hint="for example af.optim.adam(1e-3)")
    for grad, variable in zip(grads, variables, strict=True):
        if not is_floating(variable.dtype):
            message = f"an update takes floating variables, got {variable!r}"
            raise GraphError(message, where=where)
        if grad is None:
            message = f"an update takes a gradient for each variable, got None for {variable.name!r}"
            raise GraphError(message, where=where, hint="leave out variables without a gradient")
    given: list[Gradient] = [
        # Slices of another graph are brought here.
        g.here() if isinstance(g, IndexedSlices) else as_typed_tensor(g, v.dtype)
        for g, v in zip(grads, variables, strict=True)
    ]
    for grad, variable in zip(given, variables, strict=True):
        try:
            check_fits(grad.spec, variable.spec, f"the gradient of variable {variable.name!r}")
        except SpecError as error:
            raise error.at(where) from None
    sparse = tuple(isinstance(g, IndexedSlices) for g in given)
    # Told before the node is built, while the user's line is at hand.
    _tell_of_rows(graph.objects[optimizer] if isinstance(optimizer, str) else optimizer, given, names)
    # A new optimizer has state of its own; a key shares it.
    key = optimizer if isinstance(optimizer, str) else graph.add_object(name or "update", optimizer)
    attrs: dict[str, Attr] = {"resources": names, "optimizer": key, "sparse": sparse}
    if max_not_finite != 0:
        attrs["max_not_finite"] = max_not_finite
    tensors: list[Tensor] = []
    for g in given:
        # Duplicate rows are summed here: the optimizer gets each row once.
        tensors.extend(g.sum_duplicates() if isinstance(g, IndexedSlices) else (g,))
    return build_one("apply_gradients", tensors, attrs, name=name)


def _tell_of_rows(optimizer: Any, grads: Sequence[Gradient], names: Sequence[str]) -> None:
    """Tells whose rows become dense since the rule takes dense gradients only; an actor says it in a step."""
    rule = getattr(optimizer, "takes_dense", "")
    for grad, name in zip(grads, names, strict=True):
        if rule and isinstance(grad, IndexedSlices):
            grad.with_origin(name).tell_of(f"optimizer {rule!r}")


def _check_most(most: Any, where: Where) -> None:
    if most is not None and not is_whole(most, 0, plain=True):
        message = f"max_not_finite is a number of updates, at least 0, or None, got {most!r:.60}"
        raise GraphError(message, where=where, hint="0 fails at the first gradient that is not finite")
