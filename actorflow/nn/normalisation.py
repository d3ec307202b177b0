"""Layers of normalisation: a scale and an offset for each channel, and for batches moving averages."""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor, control_dependencies
from actorflow.nn.init import ones, zeros
from actorflow.nn.layer import Layer
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.identity import cast, identity
from actorflow.ops.array.shape_queries import size
from actorflow.ops.math.elementwise import divide, maximum, multiply, subtract
from actorflow.ops.math.logic import greater, where
from actorflow.ops.nn.normalisation import batch_norm, batch_norm_with, group_norm, layer_norm, rms_norm
from actorflow.ops.nn.normalise import EPSILON
from actorflow.ops.state.variable import Variable
from actorflow.values.arrays import wide_dtype

HINT = "channels are the last axis; make the layer with the channels that x has"


class _Affine(Layer):
    """A layer with a scale that begins as ones and an offset that begins as zeros, for each channel."""

    def __init__(
        self,
        kind: str,
        channels: int,
        epsilon: float,
        scale: bool,
        offset: bool,
        dtype: Any,
        name: str | None,
    ) -> None:
        super().__init__(kind, name)
        self.check_positive(channels=channels)
        self.check_flags(scale=scale, offset=offset)
        self.check_not_negative(epsilon=epsilon)
        self.channels, self.epsilon = channels, float(epsilon)
        self.dtype = self.floating(dtype)
        self.scale = self.variable("scale", ones((channels,), self.dtype)) if scale else None
        self.offset = self.variable("offset", zeros((channels,), self.dtype)) if offset else None

    def fitting(self, x: Any) -> Tensor:
        """Returns `x` as a tensor with the channels of the layer."""
        return self.check_input(x, (self.channels,), self.dtype, HINT)


class BatchNorm(_Affine):
    """Values of each channel less their mean, over their deviation, times scale, plus offset.

    In training these are of the batch, and moving averages of them are updated in every step that
    computes the result: nobody has to ask for it. In evaluation they are the moving averages. A batch of
    no examples leaves the averages as they are.

    Args:
        channels: Size of the last axis of x.
        decay: The part of a moving average that stays at an update: it follows 1 / (1 - decay) batches.
        epsilon: What is added to variances.
        scale: Whether there is a scale; none is needed before a relu and a product.
        offset: Whether there is an offset.
        dtype: Of scale, offset and x; averages are float32 for halves.
        name: Of the layer; by default `batch_norm`, `batch_norm_1`, …

    Shapes:   (n, …, channels) -> the same; two axes at least
    Raises:   SpecError for another x, and unless 0 <= decay < 1.

    The variance that is averaged is n/(n - 1) of the batch's, which is what it is of all data.
    Source: Ioffe, Szegedy, "Batch normalization", ICML 2015, algorithm 2.

    >>> with af.Graph():
    ...     norm = af.nn.BatchNorm(16)
    ...     norm(af.placeholder("float32", (None, 16), name="x"), training=False)
    <Tensor batch_norm/add_1:0 (None, 16) float32>
    """

    def __init__(
        self,
        channels: int,
        *,
        decay: float = 0.9,
        epsilon: float = EPSILON,
        scale: bool = True,
        offset: bool = True,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("batch_norm", channels, epsilon, scale, offset, dtype, name)
        self.check_part("0.9 follows ten batches", decay=decay)
        self.decay = float(decay)
        # A moving average of halves would not move: what is added is below their last digit.
        held = wide_dtype(self.dtype)
        # Not trained: gradients do not reach them, updates do.
        self.moving_mean = self.variable("moving_mean", zeros((channels,), held), trainable=False)
        self.moving_variance = self.variable("moving_variance", ones((channels,), held), trainable=False)

    def __call__(self, x: Any, *, training: bool) -> Tensor:
        """Builds the values, and in training the updates of the averages before them; see the class."""
        self.check_flags(training=training)
        x = self.fitting(x)
        self.check_rank(x)
        with self.scope():
            if not training:
                averages = self.moving_mean, self.moving_variance
                return batch_norm_with(x, *averages, self.scale, self.offset, self.epsilon)
            # The statistics of the batch are results of the same node as the values.
            y, mean, variance = batch_norm(x, self.scale, self.offset, epsilon=self.epsilon)
            # Elements a channel: of images pixels count as well.
            n = divide(cast(size(x), mean.dtype), self.channels)
            # n/(n - 1), and of one element 0/1 and not 0/0.
            spread = multiply(variance, divide(n, maximum(subtract(n, 1), 1)))
            # A batch that cannot be empty saves the question.
            held = n if not x.spec.is_static or 0 in (x.shape or ()) else None
            updates = [
                self._follow(self.moving_mean, mean, held),
                self._follow(self.moving_variance, spread, held),
            ]
            # ORDER: the values come after the updates, so that whoever computes them has updated.
            with control_dependencies(updates):
                return identity(y)

    def _follow(self, average: Variable, value: Tensor, n: Tensor | None) -> Tensor:
        """The average after a batch of n; an empty one has no mean, and leaves it as it is."""
        # A difference, so that updates of steps that run side by side all count.
        delta = multiply(subtract(average, value), 1 - self.decay)
        if n is not None:
            # Chosen in the delta and not in the value: NaN of an empty batch never reaches the variable.
            delta = where(greater(n, 0), delta, zeros_like(delta))
        return average.assign_sub(delta)


class LayerNorm(_Affine):
    """The values of each example by itself less their mean, over their deviation, times scale, plus offset.

    Args:
        channels: Size of the last axis of x, which is folded.
        epsilon: What is added to variances.
        scale: Whether there is a scale.
        offset: Whether there is an offset.
        dtype: Of the variables, and of x.
        name: Of the layer; by default `layer_norm`, `layer_norm_1`, …

    Shapes:   (…, channels) -> the same
    Raises:   SpecError for another x.
    """

    def __init__(
        self,
        channels: int,
        *,
        epsilon: float = EPSILON,
        scale: bool = True,
        offset: bool = True,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("layer_norm", channels, epsilon, scale, offset, dtype, name)

    def __call__(self, x: Any) -> Tensor:
        """Builds the values; see the class."""
        x = self.fitting(x)
        with self.scope():
            return layer_norm(x, self.scale, self.offset, epsilon=self.epsilon)


class RMSNorm(_Affine):
    """Each example by itself over the root of the mean of its squares, times scale.

    Args:
        channels: Size of the last axis of x, which is folded.
        epsilon: What is added to the mean of squares.
        scale: Whether there is a scale.
        dtype: Of the variables, and of x.
        name: Of the layer; by default `rms_norm`, `rms_norm_1`, …

    Shapes:   (…, channels) -> the same
    Raises:   SpecError for another x.
    """

    def __init__(
        self,
        channels: int,
        *,
        epsilon: float = EPSILON,
        scale: bool = True,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("rms_norm", channels, epsilon, scale, False, dtype, name)

    def __call__(self, x: Any) -> Tensor:
        """Builds the values; see the class."""
        x = self.fitting(x)
        with self.scope():
            return rms_norm(x, self.scale, epsilon=self.epsilon)


class GroupNorm(_Affine):
    """Each group of channels of each example by itself, as `af.nn.group_norm` does, with scale and offset.

    Args:
        channels: Size of the last axis of x.
        groups: How many equal groups they are in.
        epsilon: What is added to variances.
        scale: Whether there is a scale.
        offset: Whether there is an offset.
        dtype: Of the variables, and of x.
        name: Of the layer; by default `group_norm`, `group_norm_1`, …

    Shapes:   (n, …, channels) -> the same; two axes at least
    Raises:   SpecError for another x, and unless the groups divide the channels evenly.
    """

    def __init__(
        self,
        channels: int,
        groups: int,
        *,
        epsilon: float = EPSILON,
        scale: bool = True,
        offset: bool = True,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("group_norm", channels, epsilon, scale, offset, dtype, name)
        self.check_positive(groups=groups)
        if channels % groups:
            what = f"needs groups that divide its {channels} channels evenly, got {groups}"
            raise self.refusal(what)
        self.groups = groups

    def __call__(self, x: Any) -> Tensor:
        """Builds the values; see the class."""
        x = self.fitting(x)
        with self.scope():
            return group_norm(x, self.groups, self.scale, self.offset, self.epsilon)
