"""Functions of networks, which `af.nn` has beside its layers.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

from actorflow.ops.array.slicing import one_hot
from actorflow.ops.array.sort import in_top_k
from actorflow.ops.math.elementwise import relu, sigmoid
from actorflow.ops.nn.activation import (
    celu,
    elu,
    gelu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    mish,
    relu6,
    selu,
    silu,
    softplus,
    softsign,
    threshold,
)
from actorflow.ops.nn.adaptive_pool import (
    adaptive_avg_pool,
    adaptive_max_pool,
    adaptive_max_pool_places,
    global_max_pool,
)
from actorflow.ops.nn.attention import scaled_dot_product_attention
from actorflow.ops.nn.average_pool import avg_pool, global_avg_pool, lp_pool
from actorflow.ops.nn.convolutions import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    depthwise_conv2d,
    separable_conv2d,
)
from actorflow.ops.nn.ctc import ctc_loss
from actorflow.ops.nn.embedding import embedding_bag, embedding_lookup
from actorflow.ops.nn.local_response_norm import local_response_normalisation
from actorflow.ops.nn.losses import (
    absolute_difference,
    binary_cross_entropy,
    cosine_embedding_loss,
    cosine_similarity,
    gaussian_nll,
    hinge_loss,
    huber_loss,
    kl_divergence,
    margin_ranking_loss,
    poisson_nll,
    sigmoid_cross_entropy,
    smooth_l1_loss,
    triplet_loss,
    weighted_mean,
)
from actorflow.ops.nn.max_pool import max_pool, max_pool_places, max_unpool
from actorflow.ops.nn.normalisation import (
    batch_norm,
    batch_norm_with,
    group_norm,
    instance_norm,
    l2_normalise,
    layer_norm,
    rms_norm,
)
from actorflow.ops.nn.normalise import normalise
from actorflow.ops.nn.sequence import reverse_sequence, sequence_mask
from actorflow.ops.nn.softmax import alpha_dropout, dropout, log_softmax, softmax, softmax_cross_entropy
from actorflow.ops.nn.space_depth import batch_to_space, depth_to_space, space_to_batch, space_to_depth

__all__ = [
    "absolute_difference", "adaptive_avg_pool", "adaptive_max_pool", "adaptive_max_pool_places",
    "alpha_dropout", "avg_pool", "batch_norm", "batch_norm_with", "batch_to_space", "binary_cross_entropy",
    "celu", "conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose",
    "cosine_embedding_loss", "cosine_similarity", "ctc_loss", "depth_to_space", "depthwise_conv2d", "dropout",
    "elu", "embedding_bag", "embedding_lookup", "gaussian_nll", "gelu", "global_avg_pool", "global_max_pool",
    "group_norm", "hardsigmoid", "hardswish", "hardtanh", "hinge_loss", "huber_loss", "in_top_k",
    "instance_norm", "kl_divergence", "l2_normalise", "layer_norm", "leaky_relu",
    "local_response_normalisation", "log_sigmoid", "log_softmax", "lp_pool", "margin_ranking_loss",
    "max_pool", "max_pool_places", "max_unpool", "mish", "normalise", "one_hot", "poisson_nll", "relu",
    "relu6", "reverse_sequence", "rms_norm", "scaled_dot_product_attention", "selu", "separable_conv2d",
    "sequence_mask", "sigmoid", "sigmoid_cross_entropy", "silu", "smooth_l1_loss", "softmax",
    "softmax_cross_entropy", "softplus", "softsign", "space_to_batch", "space_to_depth", "threshold",
    "triplet_loss", "weighted_mean",
]  # fmt: skip
