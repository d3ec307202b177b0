"""Max-pooling on numpy: one pass over the images for every place of the window.

Windows that hang over an edge are taken only where they lie on the image, so that no padded copy
is made. `kernels.nn.max_pool_portable` has the same for every other library.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.nn.max_pool_portable import least
from actorflow.kernels.nn.sliding import Windows, check_gradient, pool_cost, slides
from actorflow.values.arrays import Array


def _maxima(x: Array, at: Windows) -> Array:
    out: Array | None = None
    for _, those, pixels in at.pieces():
        if out is None:
            whole = x[pixels]
            if whole.shape == at.pooled:  # the first pixel of every window lies on the image
                out = whole.copy()
                continue
            # Some windows begin over the edge: the rest starts from what nothing is below.
            out = np.full(at.pooled, least(x.dtype, np), x.dtype)
        np.maximum(out[those], x[pixels], out=out[those])
    # No window has a place on the image.
    return np.full(at.pooled, least(x.dtype, np), x.dtype) if out is None else out


def _first_maxima(x: Array, at: Windows) -> Array:
    """Returns the place in x of the first maximum of each window, or of its last NaN, flat.

    Each pixel of the window is worth a number, the first the most;
    the largest worth among those that equal the maximum tells the place. So nearly all of the
    work is in bytes: 20 ms for the gradient of 3x3/2 windows on 16 x 55 x 55 x 64, against 77 ms
    with masks that go through the ufuncs' `where=`.
    """
    maxima = _maxima(x, at)
    # The first place is worth most, so that among equal ones `maximum` keeps the first.
    most = prod(at.size)
    steps = [prod(x.shape[axis + 1 :]) for axis in range(x.ndim)]  # from one element to the next, in elements
    worth = np.zeros(maxima.shape, np.min_scalar_type(most))
    places = np.zeros(most + 1, np.intp)  # relative to the window's first pixel, by worth
    for place, those, pixels in at.pieces():
        # As bytes: a bool times the worth is the worth or 0.
        equal = np.equal(x[pixels], maxima[those]).view(np.uint8)
        np.maximum(worth[those], np.multiply(equal, worth.dtype.type(most)), out=worth[those])
        # INVARIANT: `places` has for each worth how far that place lies from the window's first pixel.
        places[most] = sum(k * a.dilation * s for k, a, s in zip(place, at.axes, steps[1:], strict=False))
        most -= 1
    # A maximum that is NaN equals nothing, itself included.
    if not worth.all():
        _mark_nans(x, at, worth)
    starts = np.arange(x.shape[-1])
    # The first pixel of each window, axis by axis from the last.
    for a, step in zip(reversed(at.axes), reversed(steps[1:-1]), strict=True):
        starts = np.add.outer((np.arange(a.count) * a.stride - a.before) * step, starts)
    found = places[worth]
    np.add(found, starts, out=found)
    batch = np.arange(x.shape[0]) * steps[0]
    np.add(found, batch.reshape(-1, *(1,) * (x.ndim - 1)), out=found)
    return found.reshape(-1)


def _mark_nans(x: Array, at: Windows, worth: Array) -> None:
    """Writes the worth of the last NaN to windows that have one, which equal nothing else."""
    most = prod(at.size)
    for _, those, pixels in at.pieces():
        # Later places write over earlier ones: the last NaN stays, as `maximum` would find it.
        np.copyto(worth[those], worth.dtype.type(most), where=np.isnan(x[pixels]))
        most -= 1


@kernel("max_pool", only="numpy", cost=pool_cost)
def max_pool(x: Array, **attrs: Any) -> Array:
    """The largest element of every window, channel by channel; NaN where a window holds one.

    Shapes:  x (n, h, w, c) -> (n, rows, columns, c); see `windows.sliding_window`.
    Dtypes:  integers or floating.
    Cost:    one comparison for every element of every window; allocates the result only.
    Raises:  SpecError when an image turns out smaller than a window.
    """
    return _maxima(x, slides(x.shape, **attrs))


@kernel("max_pool_grad", only="numpy", cost=pool_cost)
@in_float32
def max_pool_grad(x: Array, dy: Array, **attrs: Any) -> Array:
    """Hands the gradient of every window to its first maximum, counted along rows, or its last NaN.

    Shapes:  x (n, h, w, c), dy (n, rows, columns, c) -> that of x.
    Dtypes:  floating, the same for both; halves are added up in float32.
    Cost:    four passes over every element of every window, three of them in bytes.
    """
    at = slides(x.shape, **attrs)
    check_gradient(dy.shape, at.pooled)
    places, grads = _first_maxima(x, at), dy.reshape(-1)
    out = np.zeros(x.size, dy.dtype)
    if all(a.stride >= (a.window - 1) * a.dilation + 1 for a in at.axes):
        out[places] = grads  # a pixel belongs to one window at most
    else:
        # Windows overlap: a pixel may have several gradients, which an assignment would lose.
        np.add.at(out, places, grads)
    return out.reshape(x.shape)


@kernel("max_pool_gather", only="numpy", cost=pool_cost)
def max_pool_gather(x: Array, values: Array, **attrs: Any) -> Array:
    """Takes from `values` the element where `x` has the first maximum of each window, or its last NaN.

    Shapes:  x and values (n, h, w, c) -> (n, rows, columns, c).
    Dtypes:  floating, the same for both.
    Cost:    four passes over every element of every window, three of them in bytes.
    """
    at = slides(x.shape, **attrs)
    check_gradient(values.shape, x.shape)
    taken: Array = values.reshape(-1)[_first_maxima(x, at)]
    return taken.reshape(at.pooled)
