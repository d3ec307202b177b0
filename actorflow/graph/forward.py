"""Directional derivatives, made of gradients: Jacobian times vector, and Hessian times vector.

Forward mode needs no rules of its own, and its results can be differentiated again.

Source: Townsend, "A new trick for calculating Jacobian vector products", 2017; Pearlmutter, "Fast
exact multiplication by the Hessian", Neural Computation 1994, by two reverse sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.errors import GradientError, SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.autodiff import as_list, check_source, fits, gradients, name_of
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.runtime.call_site import source_line


@in_graph_of_inputs
def jvp(ys: Any, xs: Any, vs: Any) -> list[Tensor | None]:
    """Returns how each of `ys` changes when `xs` move along `vs`: the Jacobian times the vector.

    None for a y that depends on no x, or by paths only that carry no gradient. Rules of ops are taken
    to be linear in the gradients that they are given, as derivatives are; a `custom_gradient` that is
    not, is taken at 0.

    Args:
        ys: A floating tensor, or a sequence of them.
        xs: A tensor or variable, or a sequence of them.
        vs: For each x a direction, of its spec.

    Raises:
        GradientError, SpecError: as from `gradients`; and unless there is a v of its spec for each x.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (3,), name="x")
    ...     af.autodiff.jvp(x * x, x, af.ones((3,)))[0].shape
    (3,)
    """
    targets, sources = [as_tensor(y) for y in as_list(ys)], as_list(xs)
    along = _directions("jvp", sources, vs)
    # u, in which the gradient Jᵀu is linear: its value does not matter, its gradient does.
    zeros_like = opdef.lookup("zeros_like").constructor
    duals = [zeros_like(y) for y in targets]
    pulled = [gradients([y], sources, [dual]) for y, dual in zip(targets, duals, strict=True)]
    moved = []
    for dual, grads in zip(duals, pulled, strict=True):
        pairs = [_dense_pair(g, v) for g, v in zip(grads, along, strict=True) if g is not None]
        # The gradient of that for u, started from v: Jv.
        (pushed,) = gradients([g for g, _ in pairs], [dual], [v for _, v in pairs])
        moved.append(None if pushed is None else as_tensor(pushed))
    return moved


@in_graph_of_inputs
def hessian_vector_product(y: Any, xs: Any, vs: Any) -> list[Gradient | None]:
    """Returns the Hessian of `y` for `xs` times the vector `vs`, a part for each x.

    About as costly as two gradients. None for an x on which the slope of y along `vs` does not depend.
    Sparse where a gradient would be.

    Args:
        y: A floating tensor, a scalar or else summed.
        xs: A tensor or variable, or a sequence of them.
        vs: For each x a direction, of its spec.

    Raises:
        GradientError, SpecError: as from `gradients`; and unless there is a v of its spec for each x.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (3,), name="x")
    ...     af.autodiff.hessian_vector_product(af.sum(x * x * x), x, af.ones((3,)))[0].shape
    (3,)
    """
    sources = as_list(xs)
    along = _directions("hessian_vector_product", sources, vs)
    grads = gradients([y], sources)
    # A reverse sweep over the slope: H v, without H.
    pairs = [_dense_pair(g, v) for g, v in zip(grads, along, strict=True) if g is not None]
    return gradients([g for g, _ in pairs], sources, [v for _, v in pairs])


def _dense_pair(grad: Gradient, v: Tensor) -> tuple[Tensor, Tensor]:
    """A gradient and its direction as tensors of one shape: those of the rows, when it is sparse."""
    if not isinstance(grad, IndexedSlices):
        return grad, v
    # A sparse gradient changes only by what v does to its rows.
    return grad.values, opdef.lookup("gather").constructor(v, grad.indices)


def _directions(verb: str, xs: Sequence[Any], vs: Any) -> list[Tensor]:
    """Returns a direction for each x as a tensor; raises when there is none, or it does not fit."""
    along, where = as_list(vs), Where(defined_at=source_line())
    if len(xs) != len(along):
        message = f"{verb} takes one v for each x, got {len(along)} for {len(xs)}"
        hint = "give [v] where v is itself a list" if len(xs) == 1 else None
        raise GradientError(message, where=where, hint=hint)
    found = []
    for x, v in zip(xs, along, strict=True):
        check_source(x)
        if v is None:
            message = f"{verb} needs a direction for {name_of(x)!r} {x.spec}, got None"
            raise GradientError(message, where=where, hint="give zeros for an x that does not move")
        direction = as_tensor(v, dtype=x.dtype)
        if not fits(direction.spec, x.spec):
            known = isinstance(v, Tensor) or hasattr(v, "name")
            called = f"v {name_of(v)!r}" if known else "v"
            message = f"{verb}: {called} for {name_of(x)!r} must fit {x.spec}, got {direction.spec}"
            raise SpecError(message, where=where, hint=f"give it the shape and dtype of {name_of(x)!r}")
        found.append(direction)
    return found
