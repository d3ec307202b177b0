"""`custom_gradient`: what a function builds, with a gradient of the user's own.

One node stands between the function's values and whoever uses them. It passes them on as they are; its
gradient rule is the user's, and no other gradient flows through it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from actorflow.errors import GradientError, Where
from actorflow.graph import opdef
from actorflow.graph.autodiff import Use, as_list, fits
from actorflow.graph.builder import NO_RETURN, Tensor, as_tensor, build
from actorflow.graph.graph import current
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.graph.node import Attr
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.runtime.call_site import line_at, source_line
from actorflow.values.spec import Spec


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what `function` builds another gradient.

    The decorated function takes tensors and returns `(ys, rule)`: one tensor or a tuple, and a
    function that takes the gradient of each y and returns that of each positional argument: a tensor, or
    a list of them, with None for none. No other gradient flows through what it builds, so whatever
    should get one, variables included, has to be a positional argument. What it takes by keyword reaches
    `function` as it is.

    Raises:
        GradientError: when `function` returns something else, its rule takes another number of
            gradients, or a tensor is passed by keyword; from `gradients`, when the rule gives a gradient
            that does not fit.

    >>> @af.autodiff.custom_gradient
    ... def straight_through(x):
    ...     return af.floor(x), lambda grad: grad
    >>> with af.Graph():
    ...     x = af.placeholder("float32", (3,), name="x")
    ...     af.gradients(straight_through(x), x)
    [<Tensor gradients/straight_through/ones_like:0 (3,) float32>]
    """
    given: Any = function
    if not callable(given):
        message = f"custom_gradient decorates a function, got {type(given).__name__} {given!r:.60}"
        raise GradientError(message, where=Where(defined_at=source_line()))
    name = getattr(function, "__name__", type(function).__name__)

    @in_graph_of_inputs
    @wraps(function)
    def constructor(*args: Any, **settings: Any) -> Any:
        # ORDER: before the function runs, which would build what nobody gets a gradient for.
        _check_settings(function, settings)
        xs = [as_tensor(a) for a in args]
        ys, rule = _parts(function, function(*xs, **settings))
        key = current().add_object(f"custom_gradient/{name}", rule)
        many = as_list(ys)
        # One node that passes the ys on. The xs are its inputs too, so that gradients for them go by its
        # rule.
        outputs = build("custom_gradient", (*many, *xs), {"object": key, "outputs": len(many)}, name=name)
        return outputs if isinstance(ys, list | tuple) else outputs[0]

    return constructor


NO_RULE_RETURN = f"{NO_RETURN}; [None] stands for no gradient"
"""What to try with the None that a gradient rule gave."""


def _check_settings(function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raises GradientError when a tensor comes by keyword: it would get no gradient."""
    for key, value in settings.items():
        within = value.values() if isinstance(value, dict) else as_list(value)
        for v in within:
            if isinstance(v, Tensor) or hasattr(v, "as_tensor"):
                message = (
                    f"custom_gradient {_describe(function)} takes tensors by position, got {key}={v!r:.60}"
                )
                hint = "pass it by position, and let the rule return its gradient, or None"
                raise GradientError(message, where=Where(defined_at=source_line()), hint=hint)


def _parts(function: Callable[..., Any], made: Any) -> tuple[Any, Callable[..., Any]]:
    """The ys and the rule that the function returned; GradientError when they are something else."""
    where, hint = Where(defined_at=source_line()), "return (ys, rule), with rule a function of gradients"
    if not isinstance(made, tuple) or len(made) != 2 or not callable(made[1]) or not as_list(made[0]):
        got = f"({', '.join(_kind(m) for m in made)})" if isinstance(made, tuple) else _kind(made)
        message = f"custom_gradient {_describe(function)} must return (ys, rule), got {got}"
        raise GradientError(message, where=where, hint=hint)
    ys, rule = made
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):  # of some builtins none is known
        return ys, rule
    # While the graph is built, not in the gradient: there the user's line is another one.
    try:
        signature.bind(*as_list(ys))
    except TypeError as error:
        count = len(as_list(ys))
        message = f"the rule of {_describe(function)} takes the gradient of each y, {count} in all: {error}"
        raise GradientError(message, where=where, hint="give it one parameter for each y") from None
    return ys, rule


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _describe(function: Callable[..., Any]) -> str:
    """`'name' (file:line)`, as far as they are known."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(inspect.unwrap(function), "__code__", None)
    line = "" if code is None else f" ({line_at(code.co_filename, code.co_firstlineno)})"
    return f"{name!r}{line}"


def _first_outputs(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return inputs[: attrs["outputs"]]


def _rule(use: Use, *grads: Tensor | None) -> Sequence[Gradient | None]:
    zeros = opdef.lookup("zeros_like").constructor
    # The rule is the user's: it gets tensors, and zeros where no gradient comes.
    filled = [zeros(y) if g is None else g for y, g in zip(use.outputs, grads, strict=True)]
    made = use.graph.objects[use.attrs["object"]](*filled)
    back, xs = as_list(made), use.inputs[len(grads) :]
    if made is None:
        message = f"the rule of {use.node.name!r} returns gradients, got None"
        raise GradientError(message, where=use.node.where, hint=NO_RULE_RETURN)
    if len(back) != len(xs):
        message = (
            f"the rule of {use.node.name!r} returns one gradient for each of its {len(xs)} arguments, "
            f"got {len(back)}"
        )
        raise GradientError(message, where=use.node.where, hint="None stands for no gradient")
    # The ys are only passed on: no other gradient flows through them.
    found: list[Gradient | None] = [None for _ in grads]
    for i, (x, g) in enumerate(zip(xs, back, strict=True)):
        grad = g if g is None or isinstance(g, IndexedSlices) else as_tensor(g, dtype=x.dtype)
        # What nobody needs may be of any shape.
        if grad is not None and use.needs[len(grads) + i] and not fits(grad.spec, x.spec):
            message = f"the gradient of argument {i} of {use.node.name!r} must fit {x.spec}, got {grad.spec}"
            raise GradientError(message, where=use.node.where)
        found.append(grad)
    return found


opdef.op("custom_gradient", spec=_first_outputs, gradient=_rule)(custom_gradient)
