"""Local response normalisation: each element over a power of what the channels around it hold."""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor, as_tensor
from actorflow.ops.array.arrange import flatten
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.shape import expand_dims, reshape_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.elementwise import multiply, pow, square
from actorflow.ops.nn.average_pool import avg_pool


@api_function
def local_response_normalisation(
    x: Any,
    depth_radius: int | tuple[int, int] = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    *,
    name: str | None = None,
) -> Tensor:
    """`x / (bias + alpha * s) ** beta`, s the sum of squares over the channels around each one.

    They are the `depth_radius` before it, itself, and as many after it, or (before, after); channels
    that do not exist count as zeros. Torch's and ONNX's `size` counts all of them, and their alpha is
    divided by it: depth_radius = (size - 1) // 2, alpha = alpha / size, bias = k. Of an even size,
    torch takes size // 2 before and one less after, ONNX the other way round.

    Shapes:   (..., channels), kept; at least one axis
    Dtypes:   floating
    Gradient: that of the formula
    Raises:   SpecError for other dtypes, no axis or no channel, an unknown rank, a negative radius.

    >>> with af.Graph():
    ...     af.nn.local_response_normalisation(af.placeholder("float32", (None, 8, 8, 16), name="x"), 2).shape
    (None, 8, 8, 16)

    Source: Krizhevsky, Sutskever and Hinton, ImageNet classification with deep convolutional neural
    networks, NIPS 2012, section 3.3.
    """
    x = as_tensor(x)
    both: Any = depth_radius if isinstance(depth_radius, tuple) else (depth_radius, depth_radius)
    if len(both) != 2 or not all(isinstance(r, int) and r >= 0 for r in both):
        message = f"depth_radius is a number of channels, or (before, after), got {depth_radius!r}"
        raise spec_error(message)
    if not x.shape:
        message = f"local_response_normalisation needs a known rank with channels last, got {x.spec}"
        raise spec_error(message, "name it with af.arrays.ensure_shape" if x.shape is None else None)
    with error_context("local_response_normalisation"):
        check_dtypes("local_response_normalisation", DtypeClass.FLOATING, x.spec)
    wide = widen_half(x)
    squares = square(wide)
    # Channels become the one spatial axis, of images with one channel: then a window is the neighbourhood.
    rows = expand_dims(flatten(squares, 0, -2) if len(x.shape) > 1 else expand_dims(squares, 0), -1)
    # The margins are zeros, and the mean with a divisor of 1 is the sum.
    sums = avg_pool(rows, size=(sum(both) + 1,), strides=1, padding=(both,), divisor=1)
    scale = as_tensor(float(bias), dtype=wide.dtype) + as_tensor(float(alpha), dtype=wide.dtype) * sums
    powers = pow(scale, as_tensor(-float(beta), dtype=wide.dtype))
    return cast(multiply(wide, reshape_like(powers, x), name=name), x.dtype)
