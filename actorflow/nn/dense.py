"""The dense layer: every output is a weighted sum of all inputs."""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor
from actorflow.nn import init
from actorflow.nn.layer import Layer
from actorflow.ops.array.arrange import flatten
from actorflow.ops.linalg.products import matmul
from actorflow.ops.math.elementwise import add
from actorflow.ops.nn.channels import reshape_channels


class Dense(Layer):
    """`x @ w + b` over the last axis.

    Args:
        inputs: Size of the last axis of x.
        outputs: Size of the last axis of the result.
        bias: Whether there is a b.
        weights: First values of `w`, (inputs, outputs).
        biases: First values of `b`, (outputs,).
        dtype: Of the variables, and of x.
        name: Of the layer; by default `dense`, `dense_1`, …

    Shapes:   (…, inputs) -> (…, outputs), of known rank
    Raises:   SpecError for another x.

    >>> with af.Graph():
    ...     dense = af.nn.Dense(64, 10, name="logits")
    ...     print(dense)
    ...     dense(af.placeholder("float32", (None, 64), name="x"))
    <Dense logits: w (64, 10) float32, b (10,) float32>
    <Tensor logits/add:0 (None, 10) float32>
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        weights: init.Maker = init.he,
        biases: init.Maker = init.zeros,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("dense", name)
        self.check_positive(inputs=inputs, outputs=outputs)
        self.check_flags(bias=bias)
        self.inputs, self.outputs = inputs, outputs
        self.dtype = self.floating(dtype)
        self.w = self.add_variable("w", weights, (inputs, outputs), self.dtype, "weights")
        self.b = self.add_variable("b", biases, (outputs,), self.dtype, "biases") if bias else None

    def __call__(self, x: Any) -> Tensor:
        """Builds the product; see the class."""
        x = self.check_input(x, (self.inputs,), self.dtype, "make the layer with the inputs that x has")
        shape = self.check_rank(x)
        with self.scope():
            # One product of matrices: with more axes there would be one for each leading index.
            flat = x if len(shape) == 2 else flatten(x, 0, -2) if len(shape) > 2 else x[None]
            y = matmul(flat, self.w)
            if self.b is not None:
                y = add(y, self.b)
            return y if len(shape) == 2 else reshape_channels(y, x, (self.outputs,))
