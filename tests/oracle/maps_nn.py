"""Activations, softmax, losses, windows: what torch keeps in nn.functional. Images are turned to channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import (
    channels_first,
    channels_last,
    composes,
    maps,
    need,
    one_axis,
    rank,
    sizes,
)

# ------------------------------------------------------------------------------- activations


def _activation(name: str, function: Callable[..., Tensor], ours: str, **how: Any) -> None:
    """Entries of one input that torch may write its result over, which changes no value."""

    def build(x: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        return function(x, *args, **kwargs)

    maps(f"nn.functional.{name}", ours, **how)(build)


_activation("relu", af.nn.relu, "relu")
_activation("relu6", af.nn.relu6, "relu6")
_activation("selu", af.nn.selu, "selu")
_activation("silu", af.nn.silu, "silu")
_activation("mish", af.nn.mish, "mish")
_activation("hardswish", af.nn.hardswish, "hardswish")
_activation(
    "hardsigmoid",
    af.nn.hardsigmoid,
    "hardsigmoid",
    rtol=1e-7,
    because="torch has 1/6 of its gradient in float32",
)
_activation("softsign", af.nn.softsign, "softsign")
_activation("logsigmoid", af.nn.log_sigmoid, "log_sigmoid")
_activation("celu", lambda x, alpha=1.0: af.nn.celu(x, alpha), "celu")
_activation("elu", lambda x, alpha=1.0: af.nn.elu(x, alpha), "elu")
_activation("leaky_relu", lambda x, negative_slope=0.01: af.nn.leaky_relu(x, negative_slope), "leaky_relu")
_activation("hardtanh", lambda x, min_val=-1.0, max_val=1.0: af.nn.hardtanh(x, min_val, max_val), "hardtanh")
_activation("threshold", lambda x, threshold, value: af.nn.threshold(x, threshold, value), "threshold")
_activation("gelu", lambda x, approximate="none": af.nn.gelu(x, approximate == "tanh"), "gelu")


@composes("nn.functional.softplus", "softplus(beta·x) / beta, x where beta·x is above a threshold")
def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return af.where(x * beta > threshold, x, af.nn.softplus(x * beta) / beta)


@composes("nn.functional.tanhshrink", "x - tanh(x)")
def _tanhshrink(x: Tensor) -> Tensor:
    return x - af.tanh(x)


@composes("nn.functional.hardshrink", "where(abs(x) > lambd, x, 0)")
def _hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    return af.where(af.abs(x) > lambd, x, af.zeros_like(x))


@composes("nn.functional.softshrink", "x - clip(x, -lambd, lambd)")
def _softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    return x - af.nn.hardtanh(x, -lambd, lambd) if lambd else af.arrays.identity(x)


@composes("nn.functional.prelu", "where(x > 0, x, slope·x)")
def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    if rank(weight) == 1:
        weight = af.reshape(weight, (-1,) + (1,) * (rank(x) - 2) if rank(x) > 1 else ())
    return af.where(x > 0, x, weight * x)


@composes("nn.functional.glu", "a·sigmoid(b) of two halves")
def _glu(x: Tensor, dim: int = -1) -> Tensor:
    a, b = af.arrays.split(x, 2, dim)
    return a * af.nn.sigmoid(b)


# ----------------------------------------------------------------------------------- softmax


def _softmax(name: str, function: Callable[..., Tensor], ours: str, how: Any = maps) -> None:
    def build(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
        _some(x, dim)
        return function(x if dtype is None else af.cast(x, dtype), dim)

    how(name, ours)(build)


def _some(x: Tensor, dim: int) -> None:
    one_axis(x, dim)
    need(sizes(x)[dim] > 0, "softmax of no elements: ours refuses it")


_softmax("softmax", af.nn.softmax, "softmax")
_softmax("softmax with_dtype", af.nn.softmax, "softmax")
_softmax("log_softmax", af.nn.log_softmax, "log_softmax")
_softmax("log_softmax with_dtype", af.nn.log_softmax, "log_softmax")
_softmax("nn.functional.softmin", lambda x, dim: af.nn.softmax(-x, dim), "softmax(-x)", composes)
_softmax("nn.functional.softmin with_dtype", lambda x, dim: af.nn.softmax(-x, dim), "softmax(-x)", composes)


# ------------------------------------------------------------------------------------ layers


@composes("nn.functional.linear", "x @ wᵀ + b")
def _linear(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    product = af.tensordot(x, w, ([-1], [-1]))
    return product if b is None else product + b


@composes("nn.functional.bilinear", "einsum + b")
def _bilinear(x: Tensor, y: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    product = af.linalg.einsum("...i,oij,...j->...o", x, w, y)
    return product if b is None else product + b


@maps("nn.functional.dropout, nn.functional.dropout2d, nn.functional.dropout3d", "dropout")
def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    need(not training or p == 0, "dropout that drops: chance is another one, tested by its own laws")
    need(p < 1, "dropout of rate 1: ours refuses it")
    return af.nn.dropout(x, p, training=training)


@maps("nn.functional.pixel_shuffle", "depth_to_space")
def _pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    factor, (n, c, h, w) = upscale_factor, sizes(x)
    apart = af.reshape(x, (n, c // factor**2, factor**2, h, w))  # torch's channels come first in a pixel
    images = af.reshape(af.transpose(apart, (0, 3, 4, 2, 1)), (n, h, w, c))
    return channels_first(af.nn.depth_to_space(images, factor))


@maps("nn.functional.pixel_unshuffle", "space_to_depth")
def _pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    factor, (n, c, h, w) = downscale_factor, sizes(x)
    blocks = af.nn.space_to_depth(channels_last(x), factor)
    apart = af.reshape(blocks, (n, h // factor, w // factor, factor**2, c))
    return af.reshape(af.transpose(apart, (0, 4, 3, 1, 2)), (n, c * factor**2, h // factor, w // factor))


@composes("nn.functional.channel_shuffle", "reshape, swapaxes, reshape")
def _channel_shuffle(x: Tensor, groups: int) -> Tensor:
    n, c, *rest = sizes(x)
    return af.reshape(af.arrays.swapaxes(af.reshape(x, (n, groups, c // groups, *rest)), 1, 2), (n, c, *rest))
