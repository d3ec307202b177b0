"""Normalisation and attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import channels_first, channels_last, composes, maps, need, rank, sizes

NO_STATISTICS = "torch tells of statistics as well, in other shapes"
EPS = float(np.finfo(np.float64).eps)


def _some(eps: float | None) -> float:
    """How large epsilon is; torch's own samples have a negative one."""
    need(eps is None or eps >= 0, "a negative eps: ours refuses it")
    return EPS if eps is None else eps


def _last(shape: Sequence[int]) -> tuple[int, ...]:
    """The axes that torch names by their sizes."""
    return tuple(range(-len(shape), 0))


@maps("nn.functional.layer_norm", "layer_norm")
def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    return af.nn.layer_norm(x, weight, bias, _last(normalized_shape), _some(eps))


@composes("native_layer_norm", "normalise, rsqrt(variance + eps)")
def _native_layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> list[Tensor]:
    y, mean, variance = af.nn.normalise(x, weight, bias, _last(normalized_shape), _some(eps))
    return [y, mean, af.math.rsqrt(variance + eps)]


@maps("nn.functional.rms_norm", "rms_norm")
def _rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    return af.nn.rms_norm(x, weight, _last(normalized_shape), _some(eps))


@maps("nn.functional.group_norm", "group_norm")
def _group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    return channels_first(af.nn.group_norm(channels_last(x), num_groups, weight, bias, _some(eps)))


@maps("native_group_norm", "group_norm", first=1, left_out=NO_STATISTICS)
def _native_group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    c: int,
    pixels: int,
    groups: int,
    eps: float,
) -> Tensor:
    return channels_first(af.nn.group_norm(channels_last(x), groups, weight, bias, _some(eps)))


@maps("nn.functional.instance_norm", "instance_norm")
def _instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    need(use_input_stats, "given statistics of instance_norm: ours has batch_norm_with for those")
    return channels_first(af.nn.instance_norm(channels_last(x), weight, bias, eps))


def _batch(
    x: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    eps: float,
) -> Tensor:
    need(rank(x) > 1, "batch_norm of one axis: ours has a batch and channels")
    images = channels_last(x) if rank(x) > 2 else x
    if training or mean is None or variance is None:
        y = af.nn.batch_norm(images, weight, bias, None, eps)[0]
    else:
        y = af.nn.batch_norm_with(images, mean, variance, weight, bias, eps)
    return channels_first(y) if rank(x) > 2 else y


@maps("nn.functional.batch_norm", "batch_norm, batch_norm_with")
def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    return _batch(x, running_mean, running_var, weight, bias, training, eps)


@maps("native_batch_norm", "batch_norm, batch_norm_with", first=1, left_out=NO_STATISTICS)
def _native_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    return _batch(x, mean, variance, weight, bias, training, eps)


@maps("nn.functional.normalize", "l2_normalise")
def _normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    need(rank(x) > 0, "a dim of a scalar: ours has no axis there")
    if p == 2:
        return af.nn.l2_normalise(x, dim, eps)
    return x / af.maximum(af.linalg.vector_norm(x, dim, True, p), eps)


@maps("nn.functional.scaled_dot_product_attention", "scaled_dot_product_attention")
def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    need(dropout_p == 0, "attention that drops: chance is another one, tested by its own laws")
    need(not enable_gqa, "enable_gqa: ours has as many heads of keys as of queries")
    return af.nn.scaled_dot_product_attention(q, k, v, attn_mask, is_causal, scale)


@composes("nn.functional.embedding_bag", "embedding_bag of searchsorted(offsets, places)")
def _embedding_bag(
    weight: Tensor,
    ids: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    need(max_norm is None, "max_norm: ours leaves the table as it is")
    need(padding_idx is None, "padding_idx of bags: ours counts every id")
    need(not scale_grad_by_freq, "scale_grad_by_freq: ours adds gradients up")
    flat = af.arrays.flatten(ids)
    if offsets is None:
        bags, each = sizes(ids)
        segments = af.repeat(af.arange(bags, dtype="int64"), each, 0)
    else:
        need(not include_last_offset, "include_last_offset: ours takes the bag of each id")
        bags = sizes(offsets)[0]
        places = af.arange(prod(sizes(ids)), dtype=offsets.dtype)
        segments = af.searchsorted(offsets, places, side="right") - 1
    weights = None if per_sample_weights is None else af.arrays.flatten(per_sample_weights)
    return af.nn.embedding_bag(weight, flat, segments, bags, mode, weights)
