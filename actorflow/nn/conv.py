"""The convolution layer: filters that slide over images; as many axes as its size has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actorflow.graph.builder import Tensor
from actorflow.nn import init
from actorflow.nn.layer import Layer
from actorflow.ops.math.elementwise import add
from actorflow.ops.nn.convolutions import conv1d, conv2d, conv3d
from actorflow.ops.nn.sliding import Padding, Sizes, plain_padding, sizes

CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: conv1d, 2: conv2d, 3: conv3d}
"""The function for each number of axes that filters slide along."""


class Conv(Layer):
    """`conv2d(x, w) + b`, or `conv1d`, or `conv3d`: cross-correlation with `outputs` filters.

    Channels are the last axis.

    Args:
        inputs: Channels of x.
        outputs: Channels of the result, the number of filters.
        size: Size of the filters along each axis, for instance (3, 3): says how many axes there are.
        strides: By how many elements windows are apart, one number or one for each axis.
        padding: "SAME", "VALID", or margins, see `conv2d`.
        dilations: By how many elements the pixels of a filter are apart.
        groups: Into how many groups the channels are parted, which do not see each other.
        bias: Whether there is a b; none is needed before a normalisation.
        weights: First values of `w`, (*size, inputs / groups, outputs).
        biases: First values of `b`, (outputs,).
        dtype: Of the variables, and of x.
        name: Of the layer; by default `conv`, `conv_1`, …

    Shapes:   (n, height, width, inputs) -> (n, rows, columns, outputs), and likewise with one spatial
              axis or three
    Raises:   SpecError for another x, for a size of other than one to three axes, and for groups that
              do not part the channels evenly.

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
        strides: Sizes = 1,
        padding: Padding = "SAME",
        dilations: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        weights: init.Maker = init.he,
        biases: init.Maker = init.zeros,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("conv", name)
        axes: Any = size
        if not isinstance(axes, tuple | list) or len(axes) not in CONVOLUTIONS:
            known = " or ".join(map(str, sorted(CONVOLUTIONS)))
            hint = "for instance (3, 3) for images"
            what = f"needs a size of {known} axes, got {size!r}"
            raise self.refusal(what, hint)
        each = {f"size[{i}]": s for i, s in enumerate(axes)}
        self.check_positive(inputs=inputs, outputs=outputs, groups=groups, **each)
        self.check_flags(bias=bias)
        if inputs % groups or outputs % groups:
            what = f"needs inputs and outputs that {groups} groups part evenly, got {inputs} and {outputs}"
            raise self.refusal(what, "with as many groups as inputs each channel has filters of its own")
        self.inputs, self.outputs, self.size = inputs, outputs, tuple(axes)
        self.options = {
            "strides": sizes(strides, len(axes), "strides"),
            "padding": plain_padding(padding, len(axes)),
            "dilations": sizes(dilations, len(axes), "dilations"),
            "groups": groups,
        }
        self.dtype = self.floating(dtype)
        filters = (*self.size, inputs // groups, outputs)
        self.w = self.add_variable("w", weights, filters, self.dtype, "weights")
        self.b = self.add_variable("b", biases, (outputs,), self.dtype, "biases") if bias else None

    def __call__(self, x: Any) -> Tensor:
        """Builds the convolution; see the class."""
        # As many spatial axes as the size has.
        shape = (None,) * (len(self.size) + 1) + (self.inputs,)
        hint = "channels are the last axis; make the layer with the inputs that x has"
        x = self.check_input(x, shape, self.dtype, hint)
        with self.scope():
            y = CONVOLUTIONS[len(self.size)](x, self.w, **self.options)
            return y if self.b is None else add(y, self.b)
