"""Kernels of `ops.recurrent`: what recurrent cells do behind their products, in one go."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.kernels.precision import is_half
from actorflow.kernels.registry import kernel

Several = Callable[..., tuple[Array, ...]]


def _in_float32(function: Several) -> Several:
    """Makes a kernel take float16 and bfloat16 as float32, and round all that it returns."""

    @wraps(function)
    def widened(*arrays: Array, **attrs: Any) -> tuple[Array, ...]:
        dtype = arrays[0].dtype
        if not is_half(dtype):
            return function(*arrays, **attrs)
        return tuple(x.astype(dtype) for x in function(*(a.astype(np.float32) for a in arrays), **attrs))

    return widened


def _cost(x: Array, *rest: Array, **attrs: Any) -> float:
    """A tanh of each gate, and some steps each."""
    return 12.0 * float(x.size)


def _parts(x: Array, count: int) -> list[Array]:
    """`x` cut in `count` pieces along its last axis, views."""
    size = x.shape[-1] // count
    return [x[..., k * size : (k + 1) * size] for k in range(count)]


@kernel("lstm_step", cost=_cost)
@_in_float32
def lstm_step(gates: Array, c: Array, *, xp: Library = np) -> tuple[Array, ...]:
    """The next (h, c) and the activated gates (i, f, g, o).

    A sigmoid is (1 + tanh(x/2))/2 here, so that one tanh goes over all four gates at once.
    """
    size = c.shape[-1]
    activated = gates * gates.dtype.type(0.5)
    candidate = activated[..., 2 * size : 3 * size]
    candidate += candidate
    activated = xp.tanh(activated)
    for sigmoids in (activated[..., : 2 * size], activated[..., 3 * size :]):
        sigmoids *= 0.5
        sigmoids += 0.5
    i, f, g, o = _parts(activated, 4)
    after = f * c
    after += i * g
    h = xp.tanh(after)
    h *= o
    return h, after, activated


@kernel("lstm_step_grad", cost=_cost)
@_in_float32
def lstm_step_grad(
    activated: Array, c: Array, after: Array, dh: Array, dc: Array, *, xp: Library = np
) -> tuple[Array, ...]:
    """The gradients of gates and c from those of h and the next c."""
    i, f, g, o = _parts(activated, 4)
    t = xp.tanh(after)
    do = dh * t
    t *= t
    ds = dh * o
    ds -= ds * t
    ds += dc
    grads = activated - activated * activated  # the slope of sigmoids; that of the tanh comes below
    gi, gf, gg, go = _parts(grads, 4)
    gi *= ds * g
    gf *= ds * c
    gg[...] = 1 - g * g
    gg *= ds * i
    go *= do
    return grads, ds * f
