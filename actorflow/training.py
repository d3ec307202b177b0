"""Training: from a loss and an optimizer to the node that updates the variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actorflow.actors.optimizer import OptimizerActor, check_descends
from actorflow.arrays import is_floating
from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor, name_scope, source_line
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.ops.partitioned import PartitionedVariable, parts_of
from actorflow.ops.state import Variable, check_variables, trainable_variables
from actorflow.ops.updates import apply_gradients
from actorflow.optim import Transform
from actorflow.other_names import checked_keywords

Optimizer = Transform | Callable[[], OptimizerActor]
"""A pure rule, or what makes an optimizer actor for one session: a class or a function."""


@checked_keywords("minimize")
@in_graph_of_inputs
def minimize(
    loss: Tensor | Variable | PartitionedVariable,
    optimizer: Optimizer,
    variables: Sequence[Variable | PartitionedVariable] | None = None,
    *,
    max_not_finite: int | None = 0,
    name: str = "train",
) -> Tensor:
    """Returns a tensor that, when fetched, updates the variables against the gradient of `loss`.

    The updates of one step are one commit group: they are staged where the variables live until
    every delta exists and fits, and then applied together. A failure anywhere in the step before
    that leaves every variable and the optimizer's state as they were.

    Of a variable that the loss uses through `af.gather` along its first axis alone, an update touches
    the rows that were gathered, and costs what they cost, if the optimizer takes that; all of
    `af.optim` do.

    Args:
        loss: Scalar, floating; a variable is read.
        optimizer: An `af.optim` rule, or a callable that returns a fresh OptimizerActor.
        variables: What to train; by default every trainable variable that `loss` depends on.
        max_not_finite: What happens when a gradient holds NaN or infinity. 0: the step fails before the
            commit, with the variable, in a cluster with worker and batch. More: so many updates (of a
            cluster: contributions) are dropped and counted, and then one fails. None: nobody looks, and the
            optimizer gets it as it is; for one that deals with that itself, such as a scale of the loss.
        name: Name scope of the new nodes.

    Returns:
        An int64 scalar: the number of updates applied so far, this one included.

    Raises:
        SpecError: when the loss is no floating scalar.
        GraphError: when there is nothing to train, or the loss does not depend on a variable that
            was named; when `loss` is no tensor, `variables` are no variables of its graph, or `optimizer`
            is neither of the two; when it passes gradients, as a limit on them does, and has no rule
            behind it that goes down them.
        GradientError: when a path to a variable cannot be differentiated.
    """
    _check_optimizer(optimizer)
    target = _checked_loss(loss)
    graph = target.graph
    named = parts_of(variables)
    if variables is not None:
        check_variables("minimize trains", named)
    chosen: Sequence[Variable] = trainable_variables(graph) if variables is None else tuple(named)
    with name_scope(name):
        grads = gradients([target], chosen)
        pairs = [(g, v) for g, v in zip(grads, chosen, strict=True) if g is not None]
        missing = [v.name for g, v in zip(grads, chosen, strict=True) if g is None]
        if variables is not None and missing:
            message = f"{target.name} does not depend on {', '.join(map(repr, missing))}"
            raise GraphError(message, where=target.node.where, hint="leave it out of `variables`")
        if not pairs:
            message = f"{target.name} depends on no trainable variable, so there is nothing to minimize"
            raise GraphError(message, where=target.node.where)
        key = graph.add_object(name, optimizer)
        grads, chosen = [g for g, _ in pairs], [v for _, v in pairs]
        return apply_gradients(grads, chosen, key, max_not_finite=max_not_finite)


def _checked_loss(loss: Any) -> Tensor:
    """Returns the loss as a tensor; a variable is read."""
    if not isinstance(loss, Tensor) and hasattr(loss, "as_tensor"):
        loss = loss.as_tensor()
    if not isinstance(loss, Tensor):
        message = f"a loss is a tensor of the graph, got {type(loss).__name__} {loss!r:.60}"
        raise GraphError(
            message, where=Where(defined_at=source_line()), hint="build it of variables with ops"
        )
    if loss.shape not in ((), None) or not is_floating(loss.dtype):
        message = f"a loss is a floating scalar, got {loss.name} {loss.spec}"
        raise SpecError(message, where=loss.node.where, hint="take its mean, and cast it to float32")
    return loss


def _check_optimizer(optimizer: Any) -> None:
    where = Where(defined_at=source_line())
    if isinstance(optimizer, OptimizerActor):
        kind = type(optimizer).__name__
        message = f"an optimizer actor is made anew for every session, got an instance of {kind}"
        raise GraphError(message, where=where, hint="pass its class, or lambda: MyOptimizer(...)")
    if isinstance(optimizer, Transform):
        check_descends(optimizer)
    elif not callable(optimizer):
        message = f"an optimizer is a Transform or makes an OptimizerActor, got {optimizer!r:.60}"
        raise GraphError(message, where=where, hint="for example af.optim.adam(1e-3)")
