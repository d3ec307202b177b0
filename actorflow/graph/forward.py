"""Directional derivatives, made of gradients: Jacobian times vector, and Hessian times vector.

A reverse sweep gives u ↦ Jᵀu, which is linear in u; the gradient of that for u, started from v, is
Jv. So forward mode needs no rules of its own, and its results can be differentiated again.

Source: Townsend, "A new trick for calculating Jacobian vector products", 2017; Pearlmutter, "Fast
exact multiplication by the Hessian", Neural Computation 1994, by two reverse sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.errors import GradientError
from actorflow.graph import opdef
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.slices import Gradient, IndexedSlices


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
        GradientError, SpecError: as from `gradients`; and unless there is a v for each x.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (3,), name="x")
    ...     af.jvp(x * x, x, af.ones((3,)))[0].shape
    (3,)
    """
    targets, sources, along = [as_tensor(y) for y in _listed(ys)], _listed(xs), _paired("jvp", xs, vs)
    zeros_like = opdef.lookup("zeros_like").constructor
    duals = [zeros_like(y) for y in targets]
    pulled = [gradients([y], sources, [dual]) for y, dual in zip(targets, duals, strict=True)]
    moved = []
    for dual, grads in zip(duals, pulled, strict=True):
        pairs = [_dense_pair(g, v) for g, v in zip(grads, along, strict=True) if g is not None]
        (pushed,) = gradients([g for g, _ in pairs], [dual], [v for _, v in pairs])
        moved.append(None if pushed is None else as_tensor(pushed))
    return moved


def hessian_vector_product(y: Any, xs: Any, vs: Any) -> list[Gradient | None]:
    """Returns the Hessian of `y` for `xs` times the vector `vs`, a part for each x.

    About as costly as two gradients. None for an x on which the slope of y along `vs` does not depend.
    Sparse where a gradient would be.

    Args:
        y: A floating tensor, a scalar or else summed.
        xs: A tensor or variable, or a sequence of them.
        vs: For each x a direction, of its spec.

    Raises:
        GradientError, SpecError: as from `gradients`; and unless there is a v for each x.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (3,), name="x")
    ...     af.hessian_vector_product(af.sum(x * x * x), x, af.ones((3,)))[0].shape
    (3,)
    """
    sources, along = _listed(xs), _paired("hessian_vector_product", xs, vs)
    grads = gradients([y], sources)
    pairs = [_dense_pair(g, v) for g, v in zip(grads, along, strict=True) if g is not None]
    return gradients([g for g, _ in pairs], sources, [v for _, v in pairs])


def _dense_pair(grad: Gradient, v: Any) -> tuple[Tensor, Any]:
    """A gradient and its direction as tensors of one shape: those of the rows, when it is sparse."""
    if not isinstance(grad, IndexedSlices):
        return grad, v
    gather = opdef.lookup("gather").constructor
    return grad.values, gather(as_tensor(v, dtype=grad.dtype), grad.indices)


def _paired(name: str, xs: Any, vs: Any) -> Sequence[Any]:
    sources, along = _listed(xs), _listed(vs)
    if len(sources) != len(along):
        message = f"{name} takes one v for each x, got {len(along)} for {len(sources)}"
        raise GradientError(message)
    return along


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]
