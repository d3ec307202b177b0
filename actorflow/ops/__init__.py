"""The API functions that users build graphs of; each op is a constructor, a spec rule and a gradient rule."""

# ruff: noqa: RUF022  log10 is sorted before log2

from __future__ import annotations

import actorflow.ops.array.indexed_slices
import actorflow.ops.nn.recurrent  # noqa: F401  fills the table
from actorflow.graph.autodiff import gradients
from actorflow.graph.custom import custom_gradient
from actorflow.ops.array.arrange import flatten, flip, moveaxis, repeat, roll, swapaxes, tile
from actorflow.ops.array.broadcast import broadcast_like, broadcast_to, sum, sum_to
from actorflow.ops.array.constants import constant, ones_like, placeholder, zeros_like
from actorflow.ops.array.fill import arange, eye, full, full_like, linspace, ones, zeros
from actorflow.ops.array.identity import cast, check_numerics, identity, stop_gradient
from actorflow.ops.array.indexing import gather, gather_nd, take_along_axis
from actorflow.ops.array.join import broadcast_arrays, meshgrid, split, stack, unstack
from actorflow.ops.array.padding import pad
from actorflow.ops.array.scatter import (
    put_along_axis,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_nd,
    scatter_nd_add,
    scatter_nd_max,
    scatter_nd_min,
    scatter_nd_update,
    scatter_update,
    slice_update,
)
from actorflow.ops.array.select import (
    argwhere,
    boolean_mask,
    dynamic_partition,
    dynamic_stitch,
    invert_permutation,
    select,
)
from actorflow.ops.array.sets import (
    bincount,
    histogram,
    nonzero,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from actorflow.ops.array.shape import expand_dims, reshape, reshape_like, squeeze, transpose
from actorflow.ops.array.shape_queries import ensure_shape, rank, shape, size
from actorflow.ops.array.slicing import concat, one_hot, slice
from actorflow.ops.array.sort import argsort, in_top_k, searchsorted, sort, topk
from actorflow.ops.control.branches import case, cond, switch_case
from actorflow.ops.control.loops import while_loop
from actorflow.ops.control.mapping import fold, map_fn, scan
from actorflow.ops.control.recompute import recompute
from actorflow.ops.control.tensor_array import TensorArray
from actorflow.ops.control.user_code_ops import actor, call, py_actor
from actorflow.ops.linalg.contraction import einsum, kron, tensordot
from actorflow.ops.linalg.diagonal import diag_embed, diagonal, tril, triu
from actorflow.ops.linalg.factorisations import cholesky, eigh, eigvalsh, qr, svd, svdvals
from actorflow.ops.linalg.powers import matrix_exp, matrix_power
from actorflow.ops.linalg.products import (
    cross,
    matmul,
    matrix_band_part,
    matrix_trace,
    matrix_transpose,
    outer,
    vecdot,
)
from actorflow.ops.linalg.spectrum import lstsq, matrix_norm, matrix_rank, pinv
from actorflow.ops.linalg.systems import cholesky_solve, det, inv, slogdet, solve, triangular_solve
from actorflow.ops.math.arithmetic import (
    clip,
    divide_no_nan,
    floor_divide,
    fmod,
    hypot,
    lerp,
    multiply_no_nan,
    positive,
    reciprocal,
    remainder,
    rsqrt,
    squared_difference,
)
from actorflow.ops.math.bits import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    logical_xor,
)
from actorflow.ops.math.complex import angle, complex, conj, imag, real
from actorflow.ops.math.elementwise import (
    abs,
    add,
    divide,
    exp,
    floor,
    log,
    maximum,
    minimum,
    multiply,
    negative,
    pow,
    relu,
    sigmoid,
    sign,
    sqrt,
    square,
    subtract,
    tanh,
)
from actorflow.ops.math.exponential import cbrt, exp2, expm1, log1p, log2, log10, logaddexp
from actorflow.ops.math.logic import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    where,
)
from actorflow.ops.math.random import (
    random_exponential,
    random_normal,
    random_truncated_normal,
    random_uniform,
)
from actorflow.ops.math.random_choices import (
    random_bernoulli,
    random_categorical,
    random_integers,
    random_permutation,
    random_shuffle,
)
from actorflow.ops.math.reduce import all, any, argmax, argmin, count, count_nonzero, max, mean, min, prod
from actorflow.ops.math.rounding import (
    ceil,
    copysign,
    isfinite,
    isinf,
    isnan,
    nan_to_num,
    nextafter,
    round,
    signbit,
    trunc,
)
from actorflow.ops.math.scan import (
    cumulative_max,
    cumulative_min,
    cumulative_prod,
    cumulative_sum,
    diff,
    linear_recurrence,
    trapezoid,
)
from actorflow.ops.math.segment import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sum,
)
from actorflow.ops.math.special import digamma, erf, erfc, erfinv, lgamma, polygamma
from actorflow.ops.math.statistics import logsumexp, median, quantile, std, var, vector_norm
from actorflow.ops.math.trigonometry import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    deg2rad,
    rad2deg,
    sin,
    sinc,
    sinh,
    tan,
)
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
from actorflow.ops.nn.patches import extract_patches
from actorflow.ops.nn.resize import resize
from actorflow.ops.nn.sequence import reverse_sequence, sequence_mask
from actorflow.ops.nn.softmax import alpha_dropout, dropout, log_softmax, softmax, softmax_cross_entropy
from actorflow.ops.nn.space_depth import batch_to_space, depth_to_space, space_to_batch, space_to_depth
from actorflow.ops.state.accumulator import ConditionalAccumulator, SparseConditionalAccumulator
from actorflow.ops.state.atomic import atomic
from actorflow.ops.state.barrier import Barrier
from actorflow.ops.state.counter import Counter
from actorflow.ops.state.hash_table import HashTable
from actorflow.ops.state.partitioned import PartitionedVariable
from actorflow.ops.state.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from actorflow.ops.state.stack import Stack
from actorflow.ops.state.updates import apply_gradients
from actorflow.ops.state.variable import Variable
from actorflow.ops.text.encoding import (
    as_bytes,
    decode_base64,
    decode_raw,
    decode_utf8,
    encode_base64,
    encode_raw,
    to_number,
)
from actorflow.ops.text.records import parse_csv, parse_example
from actorflow.ops.text.strings import (
    bytes_join,
    bytes_length,
    bytes_lower,
    bytes_slice,
    bytes_split,
    bytes_strip,
    bytes_upper,
    hash_bucket,
    regex_match,
    regex_replace,
)

__all__ = [
    "Barrier", "ConditionalAccumulator", "Counter", "FIFOQueue", "HashTable", "PaddingFIFOQueue",
    "PartitionedVariable", "PriorityQueue", "RandomShuffleQueue", "SparseConditionalAccumulator", "Stack",
    "TensorArray", "Variable", "abs", "absolute_difference", "acos", "acosh", "actor", "adaptive_avg_pool",
    "adaptive_max_pool", "adaptive_max_pool_places", "add", "all", "alpha_dropout", "angle", "any",
    "apply_gradients", "arange", "argmax", "argmin", "argsort", "argwhere", "as_bytes", "asin", "asinh",
    "atan", "atan2", "atanh", "atomic", "avg_pool", "batch_norm", "batch_norm_with", "batch_to_space",
    "binary_cross_entropy", "bincount", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "boolean_mask", "broadcast_arrays", "broadcast_like",
    "broadcast_to", "bytes_join", "bytes_length", "bytes_lower", "bytes_slice", "bytes_split", "bytes_strip",
    "bytes_upper", "call", "case", "cast", "cbrt", "ceil", "celu", "check_numerics", "cholesky",
    "cholesky_solve", "clip", "complex", "concat", "cond", "conj", "constant", "conv1d", "conv1d_transpose",
    "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "copysign", "cos", "cosh",
    "cosine_embedding_loss", "cosine_similarity", "count", "count_nonzero", "cross", "ctc_loss",
    "cumulative_max", "cumulative_min", "cumulative_prod", "cumulative_sum", "custom_gradient",
    "decode_base64", "decode_raw", "decode_utf8", "deg2rad", "depth_to_space", "depthwise_conv2d", "det",
    "diag_embed", "diagonal", "diff", "digamma", "divide", "divide_no_nan", "dropout", "dynamic_partition",
    "dynamic_stitch", "eigh", "eigvalsh", "einsum", "elu", "embedding_bag", "embedding_lookup",
    "encode_base64", "encode_raw", "ensure_shape", "equal", "erf", "erfc", "erfinv", "exp", "exp2",
    "expand_dims", "expm1", "extract_patches", "eye", "flatten", "flip", "floor", "floor_divide", "fmod",
    "fold", "full", "full_like", "gather", "gather_nd", "gaussian_nll", "gelu", "global_avg_pool",
    "global_max_pool", "gradients", "greater", "greater_equal", "group_norm", "hardsigmoid", "hardswish",
    "hardtanh", "hash_bucket", "hinge_loss", "histogram", "huber_loss", "hypot", "identity", "imag",
    "in_top_k", "instance_norm", "inv", "invert_permutation", "isfinite", "isinf", "isnan", "kl_divergence",
    "kron", "l2_normalise", "layer_norm", "leaky_relu", "lerp", "less", "less_equal", "lgamma",
    "linear_recurrence", "linspace", "local_response_normalisation", "log", "log10", "log1p", "log2",
    "log_sigmoid", "log_softmax", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logsumexp", "lp_pool", "lstsq", "map_fn", "margin_ranking_loss", "matmul", "matrix_band_part",
    "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "matrix_trace", "matrix_transpose", "max",
    "max_pool", "max_pool_places", "max_unpool", "maximum", "mean", "median", "meshgrid", "min", "minimum",
    "mish", "moveaxis", "multiply", "multiply_no_nan", "nan_to_num", "negative", "nextafter", "nonzero",
    "normalise", "not_equal", "one_hot", "ones", "ones_like", "outer", "pad", "parse_csv", "parse_example",
    "pinv", "placeholder", "poisson_nll", "polygamma", "positive", "pow", "prod", "put_along_axis",
    "py_actor", "qr", "quantile", "rad2deg", "random_bernoulli", "random_categorical", "random_exponential",
    "random_integers", "random_normal", "random_permutation", "random_shuffle", "random_truncated_normal",
    "random_uniform", "rank", "real", "reciprocal", "recompute", "regex_match", "regex_replace", "relu",
    "relu6", "remainder", "repeat", "reshape", "reshape_like", "resize", "reverse_sequence", "rms_norm",
    "roll", "round", "rsqrt", "scaled_dot_product_attention", "scan", "scatter_add", "scatter_max",
    "scatter_min", "scatter_nd", "scatter_nd_add", "scatter_nd_max", "scatter_nd_min", "scatter_nd_update",
    "scatter_update", "searchsorted", "segment_max", "segment_mean", "segment_min", "segment_prod",
    "segment_sum", "select", "selu", "separable_conv2d", "sequence_mask", "shape", "sigmoid",
    "sigmoid_cross_entropy", "sign", "signbit", "silu", "sin", "sinc", "sinh", "size", "slice",
    "slice_update", "slogdet", "smooth_l1_loss", "softmax", "softmax_cross_entropy", "softplus", "softsign",
    "solve", "sort", "space_to_batch", "space_to_depth", "split", "sqrt", "square", "squared_difference",
    "squeeze", "stack", "std", "stop_gradient", "subtract", "sum", "sum_to", "svd", "svdvals", "swapaxes",
    "switch_case", "take_along_axis", "tan", "tanh", "tensordot", "threshold", "tile", "to_number", "topk",
    "transpose", "trapezoid", "triangular_solve", "tril", "triplet_loss", "triu", "trunc", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unsorted_segment_max", "unsorted_segment_mean",
    "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sum", "unstack", "var", "vecdot",
    "vector_norm", "weighted_mean", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip
