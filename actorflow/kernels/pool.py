"""Max-pooling on numpy: one pass over the images for every pixel of the window.

Windows that hang over an edge are taken only where they lie on the image, so that no padded copy
is made.
"""

from __future__ import annotations

import numpy as np

from actorflow.arrays import Array
from actorflow.kernels.conv import Windows, check_gradient, windows_of
from actorflow.kernels.registry import kernel

Pair = tuple[int, int]


def pool_cost(x: Array, *others: Array, size: Pair, strides: Pair, padding: str) -> float:
    """One comparison for every element of every window; the gradients three more."""
    at = windows_of(x.shape, size, strides, padding)
    return float(x.shape[0] * at.rows * at.columns * x.shape[3] * size[0] * size[1]) * (1 + 3 * len(others))


def _maxima(x: Array, at: Windows) -> Array:
    out = np.full((x.shape[0], at.rows, at.columns, x.shape[3]), -np.inf, x.dtype)
    for i in range(at.size[0]):
        for j in range(at.size[1]):
            those, pixels = at.overlap(i, j)
            np.maximum(out[those], x[pixels], out=out[those])
    return out


def _first_maxima(x: Array, at: Windows) -> tuple[Array, Array]:
    """Returns (place of the first maximum of each window in x, whether it has one), both flat.

    A window with a NaN has none. Each pixel of the window is worth a number, the first the most;
    the largest worth among those that equal the maximum tells the place. So nearly all of the
    work is in bytes: 20 ms for the gradient of 3x3/2 windows on 16 x 55 x 55 x 64, against 77 ms
    with masks that go through the ufuncs' `where=`.
    """
    n, height, width, channels = x.shape
    maxima = _maxima(x, at)
    high, wide = at.size
    worth = np.zeros(maxima.shape, np.min_scalar_type(high * wide))
    places = np.zeros(high * wide + 1, np.intp)  # relative to the window's first pixel, by worth
    most = high * wide
    for i in range(high):
        for j in range(wide):
            those, pixels = at.overlap(i, j)
            equal = np.equal(x[pixels], maxima[those]).view(np.uint8)
            np.maximum(worth[those], np.multiply(equal, worth.dtype.type(most)), out=worth[those])
            places[most] = (i * width + j) * channels
            most -= 1
    rows = (np.arange(at.rows) * at.strides[0] - at.top) * width * channels
    columns = (np.arange(at.columns) * at.strides[1] - at.left) * channels
    starts = np.add.outer(np.add.outer(rows, columns), np.arange(channels))
    found = places[worth]
    np.add(found, starts, out=found)
    np.add(found, (np.arange(n) * height * width * channels).reshape(n, 1, 1, 1), out=found)
    return found.reshape(-1), np.not_equal(worth, 0).reshape(-1)


@kernel("max_pool", only="numpy", cost=pool_cost)
def max_pool(x: Array, *, size: Pair, strides: Pair, padding: str) -> Array:
    """The largest element of every window, channel by channel; NaN where a window holds one.

    Shapes:  x (n, h, w, c) -> (n, rows, columns, c); see `spec.windows`.
    Dtypes:  floating.
    Cost:    one comparison for every element of every window; allocates the result only.
    Raises:  SpecError when an image turns out smaller than a window.
    """
    return _maxima(x, windows_of(x.shape, size, strides, padding))


@kernel("max_pool_grad", only="numpy", cost=pool_cost)
def max_pool_grad(x: Array, dy: Array, *, size: Pair, strides: Pair, padding: str) -> Array:
    """Hands the gradient of every window to its first maximum, counted along rows.

    Shapes:  x (n, h, w, c), dy (n, rows, columns, c) -> that of x.
    Dtypes:  floating, the same for both.
    Cost:    four passes over every element of every window, three of them in bytes.
    """
    at = windows_of(x.shape, size, strides, padding)
    check_gradient(dy.shape, (x.shape[0], at.rows, at.columns, x.shape[3]))
    places, known = _first_maxima(x, at)
    grads = dy.reshape(-1)
    if not known.all():
        places, grads = places[known], grads[known]
    out = np.zeros(x.size, dy.dtype)
    if strides[0] >= size[0] and strides[1] >= size[1]:
        out[places] = grads  # a pixel belongs to one window at most
    else:
        np.add.at(out, places, grads)
    return out.reshape(x.shape)


@kernel("max_pool_gather", only="numpy", cost=pool_cost)
def max_pool_gather(x: Array, values: Array, *, size: Pair, strides: Pair, padding: str) -> Array:
    """Takes from `values` the element where `x` has the first maximum of each window.

    Shapes:  x and values (n, h, w, c) -> (n, rows, columns, c); 0 where the maximum is NaN.
    Dtypes:  floating, the same for both.
    Cost:    four passes over every element of every window, three of them in bytes.
    """
    at = windows_of(x.shape, size, strides, padding)
    check_gradient(values.shape, x.shape)
    places, known = _first_maxima(x, at)
    out = np.zeros(places.shape, values.dtype)
    out[known] = values.reshape(-1)[places[known]]
    return out.reshape(x.shape[0], at.rows, at.columns, x.shape[3])
