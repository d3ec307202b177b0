"""Where values come from: placeholders, constants, and the likes of another tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.body import Body
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, op
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import unary
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype, convert_numbers, name_of
from actorflow.values.spec import Dim, Spec, spec


def _spec_from_attrs(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (spec(attrs["dtype"], attrs["shape"]),)


@op("placeholder", spec=_spec_from_attrs, gradient=NOT_DIFFERENTIABLE, effect=Effect.FEED, takes_bytes=True)
@api_function
def placeholder(dtype: Any, shape: Iterable[Dim] | None = (), name: str | None = None) -> Tensor:
    """A value that is fed with each step.

    Shapes:   `shape`; None in it for sizes that differ from feed to feed, None for any rank
    Dtypes:   any
    Gradient: none flows further; a placeholder may be an `x` of `gradients`.
    Raises:   SpecError for a dtype or shape that no tensor has; GraphError when `name` is taken:
              the name is what feeds and errors call it. GraphError inside a loop or branch.

    >>> with af.Graph():
    ...     af.placeholder("float32", (None, 784), name="x")
    <Tensor x:0 (None, 784) float32>
    """
    try:
        wanted = spec(dtype, shape)
    except SpecError as error:
        raise SpecError(error.what, where=Where(defined_at=source_line()), hint=error.hint) from None
    # A body runs many times a step, and a feed comes once.
    graph = current()
    if isinstance(graph, Body):
        message = f"a placeholder is fed once a step, outside of loops and branches, got one in {graph.what}"
        where = Where(defined_at=source_line())
        raise GraphError(message, where=where, hint="build it before, and use it here")
    attrs = {"dtype": name_of(wanted.dtype), "shape": wanted.shape}
    # The name is what feeds are given by: taken as it is, or refused.
    (tensor,) = build("placeholder", (), attrs, name=name, exact_name=name is not None)
    return tensor


@op("constant", spec=_spec_from_attrs, gradient=NOT_DIFFERENTIABLE, effect=Effect.CONSTANT, takes_bytes=True)
@api_function
def constant(value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """A value that is part of the graph; copied, so later changes of `value` do not show.

    Shapes:   that of `value`
    Dtypes:   `dtype`, else that of `value`; Python floats are float32, integers int32. Floats are
              rounded to the digits of `dtype`
    Gradient: none flows further; a constant may be an `x` of `gradients`.
    Raises:   SpecError when no tensor can hold it, a float as an integer or a number out of range.

    >>> with af.Graph():
    ...     af.constant([1.0, 2.0])
    <Tensor constant:0 (2,) float32>
    """
    # With loss, af.cast does it: a constant is what was meant.
    if dtype is not None:
        try:
            value = convert_numbers(value, as_dtype(dtype))
        except (TypeError, ValueError, OverflowError) as error:
            message = f"no tensor of dtype {dtype} can hold {value!r:.60}: {error}"
            where = Where(defined_at=source_line())
            raise SpecError(message, where=where, hint="af.cast converts with loss, on purpose") from None
    return as_tensor(value, name=name or "constant")


@op("zeros_like", spec=unary("zeros_like"), gradient=NOT_DIFFERENTIABLE)
@api_function
def zeros_like(x: Any, *, name: str | None = None) -> Tensor:
    """Zeros with the shape and dtype of `x`; no gradient flows to it."""
    return build_one("zeros_like", [x], name=name)


@op("ones_like", spec=unary("ones_like"), gradient=NOT_DIFFERENTIABLE)
@api_function
def ones_like(x: Any, *, name: str | None = None) -> Tensor:
    """Ones with the shape and dtype of `x`; no gradient flows to it."""
    return build_one("ones_like", [x], name=name)
