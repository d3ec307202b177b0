"""The convolution layer: filters that slide over images; as many axes as its size has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actorflow.graph.builder import Tensor
from actorflow.nn import init
from actorflow.nn.layer import Layer
from actorflow.ops.convolve import conv2d
from actorflow.ops.elementwise import add

CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {2: conv2d}
"""The op for each number of axes that filters slide along."""


class Conv(Layer):
    """`conv2d(x, w) + b`: cross-correlation with `outputs` filters. Channels are the last axis.

    Args:
        inputs: Channels of x.
        outputs: Channels of the result, the number of filters.
        size: Size of the filters along each axis, for instance (3, 3): says how many axes there are.
        strides: By how many elements windows are apart, one number or one for each axis.
        padding: "SAME" or "VALID", see `conv2d`.
        bias: Whether there is a b; none is needed before a normalisation.
        weights: First values of `w`, (*size, inputs, outputs).
        biases: First values of `b`, (outputs,).
        dtype: Of the variables, and of x.
        name: Of the layer; by default `conv`, `conv_1`, …
        options: Further options of the op.

    Shapes:   (n, height, width, inputs) -> (n, rows, columns, outputs)
    Raises:   SpecError for another x, and for a size of other than two axes.

    >>> with af.Graph():
    ...     conv = af.nn.Conv(3, 16, (3, 3), strides=2)
    ...     conv(af.placeholder("float32", (None, 32, 32, 3), name="images"))
    <Tensor conv/add:0 (None, 16, 16, 16) float32>
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: tuple[int, ...],
        *,
        strides: int | tuple[int, ...] = 1,
        padding: str = "SAME",
        bias: bool = True,
        weights: init.Init = init.he,
        biases: init.Init = init.zeros,
        dtype: Any = "float32",
        name: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__("conv", name)
        axes: Any = size
        if not isinstance(axes, tuple | list) or len(axes) not in CONVOLUTIONS:
            known = " or ".join(map(str, sorted(CONVOLUTIONS)))
            hint = "for instance (3, 3) for images"
            what = f"needs a size of {known} axes, got {size!r}"
            raise self.refusal(what, hint)
        self.check_positive(inputs=inputs, outputs=outputs, **{f"size[{i}]": s for i, s in enumerate(axes)})
        self.inputs, self.outputs, self.size = inputs, outputs, tuple(axes)
        self.options = {"strides": strides, "padding": padding, **options}
        self.dtype = self.floating(dtype)
        self.w = self.variable("w", weights((*self.size, inputs, outputs), self.dtype))
        self.b = self.variable("b", biases((outputs,), self.dtype)) if bias else None

    def __call__(self, x: Any) -> Tensor:
        """Builds the convolution; see the class."""
        shape = (None,) * (len(self.size) + 1) + (self.inputs,)
        hint = "channels are the last axis; make the layer with the inputs that x has"
        x = self.taken(x, shape, self.dtype, hint)
        with self.scope():
            y = CONVOLUTIONS[len(self.size)](x, self.w, **self.options)
            return y if self.b is None else add(y, self.b)
