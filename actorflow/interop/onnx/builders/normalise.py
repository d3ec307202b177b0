"""ONNX's normalisations and dropout."""

from __future__ import annotations

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.extents import extent, reshape
from actorflow.interop.onnx.proto import dtype_of
from actorflow.values.spec import axis_of


def _per_channel(node: OnnxNode, x: Tensor) -> Tensor:
    """A vector of channels, as it broadcasts to (n, c, …)."""
    return ops.reshape(x, (-1, *(1 for _ in node.shape(0)[2:])))


def standardise(x: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    """(x - mean) / √(variance + ε)."""
    return ops.multiply(ops.subtract(x, mean), ops.rsqrt(ops.add(variance, epsilon)))


@builder("", "BatchNormalization")
def _batch(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, scale, bias, mean, variance = inputs
    epsilon, momentum = node.attr("epsilon", 1e-5), node.attr("momentum", 0.9)
    training = node.attr("training_mode", 0)
    # Before opset 7 a model says by is_test whether it trains.
    if opset < 7 and not node.attr("is_test", 0):
        node.refuse("a model that is being trained cannot be read (is_test=0)", "export it for inference")
    # Each element with statistics of its own: nothing here has that.
    if node.attr("spatial", 1) != 1:
        node.refuse("only statistics of whole channels are there (spatial=1)")
    # Halves may come with statistics of float32: those decide.
    dtype = mean.dtype
    outputs = []
    if training:
        axes = (0, *range(2, len(node.shape(0))))
        found = ops.cast(x, dtype)
        now, spread = ops.mean(found, axes), ops.var(found, axes)
        # ONNX's momentum is the share of the old that stays.
        outputs = [
            ops.add(ops.multiply(old, momentum), ops.multiply(new, 1 - momentum))
            for old, new in ((mean, now), (variance, spread))
        ]
        mean, variance = now, spread
    y = standardise(ops.cast(x, dtype), _per_channel(node, mean), _per_channel(node, variance), epsilon)
    y = _scale(y, _per_channel(node, ops.cast(scale, dtype)), _per_channel(node, ops.cast(bias, dtype)))
    return ops.cast(y, x.dtype), *outputs


def _scale(x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    y = ops.multiply(x, scale)
    return y if bias is None else ops.add(y, bias)


@builder("", "InstanceNormalization")
def _instance(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, scale, bias = inputs
    axes = tuple(range(2, len(node.shape(0))))
    scale, bias = _per_channel(node, scale), _per_channel(node, bias)
    return ops.normalise(x, scale, bias, axes, node.attr("epsilon", 1e-5))[0]


@builder("", "GroupNormalization")
def _group(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, scale, bias = inputs
    groups = node.attr("num_groups")
    node.shape(0)
    parts = reshape(_wide(node, x), (extent(x, 0), groups, -1))
    y = ops.cast(ops.normalise(parts, axis=2, epsilon=node.attr("epsilon", 1e-5))[0], x.dtype)
    # Until opset 21; from then on one for each channel.
    if opset < 21:  # a scale for each group
        y = ops.add(ops.multiply(y, ops.expand_dims(scale, 1)), ops.expand_dims(bias, 1))
        return ops.reshape_like(y, x)
    y = ops.reshape_like(y, x)
    return ops.add(ops.multiply(y, _per_channel(node, scale)), _per_channel(node, bias))


def _wide(node: OnnxNode, x: Tensor) -> Tensor:
    """`x` in the dtype in which the model wants it normalised; halves have their statistics in float32."""
    dtype = dtype_of(node.attr("stash_type", 1))
    return x if dtype.itemsize <= 4 else ops.cast(x, dtype)


def _last_axes(node: OnnxNode, axis: int) -> tuple[int, ...]:
    rank = len(node.shape(0))
    return tuple(range(axis_of(axis, rank), rank))


@builder("", "LayerNormalization")
def _layer(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, scale = inputs[:2]
    epsilon = node.attr("epsilon", 1e-5)
    axes = _last_axes(node, node.attr("axis", -1))
    y, mean, variance = ops.normalise(_wide(node, x), axis=axes, epsilon=epsilon)
    y = ops.multiply(ops.cast(y, x.dtype), scale)
    # The third output is the inverse deviation, not the variance.
    return ops.add(y, inputs[2]) if node.has(2) else y, mean, ops.rsqrt(ops.add(variance, epsilon))


@builder("", "RMSNormalization")
def _rms(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, scale = inputs
    axes = _last_axes(node, node.attr("axis", -1))
    epsilon = node.attr("epsilon", 1e-5)
    y, _, _ = ops.normalise(_wide(node, x), axis=axes, epsilon=epsilon, centre=False)
    return ops.multiply(ops.cast(y, scale.dtype), scale)


@builder("", "MeanVarianceNormalization")
def _mean_variance(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    axes = tuple(node.attr("axes", (0, 2, 3)))
    # ONNX defines it by these ops, epsilon and all.
    less = ops.subtract(x, ops.mean(x, axes, True))
    return ops.divide(less, ops.add(ops.sqrt(ops.mean(ops.square(less), axes, True)), 1e-9))


@builder("", "LpNormalization")
def _lp(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    # A vector of zeros stays zeros.
    return ops.divide_no_nan(x, ops.vector_norm(x, node.attr("axis", -1), True, float(node.attr("p", 2))))


@builder("", "Dropout")
def _dropout(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    seed = node.attr("seed")
    # Before opset 12 there was no attribute that says training.
    if opset < 12:
        node.ignore("ratio", "is_test")
        return ops.identity(x), ops.broadcast_like(True, x)
    node.require(1, 2)
    rate = float(node.value(1).reshape(-1)[0]) if node.has(1) else 0.5
    training = node.has(2) and bool(node.value(2).reshape(-1)[0])
    if not training or rate == 0:
        return ops.identity(x), ops.broadcast_like(True, x)
    # The mask is an output as well: what was dropped of ones is 0.
    kept = ops.dropout(ops.ones_like(x), rate, seed=seed)
    return ops.multiply(x, kept), ops.not_equal(kept, 0)


# ----------------------------------------------------------------------------------- losses


@builder("", "NegativeLogLikelihoodLoss")
def _nll(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return _loss(node, inputs[0], inputs[1], inputs[2] if node.has(2) else None)


@builder("", "SoftmaxCrossEntropyLoss")
def _cross_entropy(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    logs = ops.log_softmax(inputs[0], 1)
    return _loss(node, logs, inputs[1], inputs[2] if node.has(2) else None), logs


def _loss(node: OnnxNode, logs: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """-logs[target] of each example, weighted, and joined as the model wants."""
    ignored = node.attr("ignore_index")
    safe, kept = target, None
    # A target that is ignored may be no class at all: class 0 is looked up in its place.
    if ignored is not None:
        kept = ops.not_equal(target, ignored)
        safe = ops.where(kept, target, ops.zeros_like(target))
    at = ops.expand_dims(safe, 1)
    loss = ops.negative(ops.squeeze(ops.take_along_axis(logs, at, 1), 1))
    weights = ops.ones_like(loss) if weight is None else ops.gather(weight, safe)
    if kept is not None:
        # And it weighs nothing.
        weights = ops.where(kept, weights, ops.zeros_like(weights))
    loss = ops.multiply(loss, weights)
    reduction = node.one_of("reduction", "mean", "sum", "none")
    if reduction == "none":
        return loss
    # ONNX divides by the weights and not by the number of examples.
    return ops.sum(loss) if reduction == "sum" else ops.divide(ops.sum(loss), ops.sum(weights))
