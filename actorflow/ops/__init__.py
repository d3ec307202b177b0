"""The user's verbs: what can be computed. Importing the package fills the table of `graph.opdef`."""

from __future__ import annotations

from actorflow.graph.autodiff import custom_gradient, gradients
from actorflow.ops.array import concat, gather, one_hot, slice
from actorflow.ops.broadcast import broadcast_like, broadcast_to, sum, sum_to
from actorflow.ops.contraction import einsum, tensordot
from actorflow.ops.conv import conv2d
from actorflow.ops.elementwise import (
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
from actorflow.ops.factor import cholesky, eigh, eigvalsh, qr, svd, svdvals
from actorflow.ops.linalg import cross, matmul, matrix_band_part, matrix_transpose, outer, trace, vecdot
from actorflow.ops.logic import (
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
from actorflow.ops.nn import dropout, log_softmax, softmax, softmax_cross_entropy
from actorflow.ops.passing import cast, check_numerics, identity, stop_gradient
from actorflow.ops.pool import max_pool
from actorflow.ops.powers import matrix_exp, matrix_power
from actorflow.ops.queue import FIFOQueue
from actorflow.ops.random import random_normal, random_uniform
from actorflow.ops.rank import lstsq, matrix_norm, matrix_rank, pinv
from actorflow.ops.reduce import argmax, count, max, mean, min
from actorflow.ops.shape import expand_dims, reshape, reshape_like, squeeze, transpose
from actorflow.ops.source import constant, ones_like, placeholder, zeros_like
from actorflow.ops.state import Variable, apply_gradients
from actorflow.ops.systems import cholesky_solve, det, inv, slogdet, solve, triangular_solve

__all__ = [
    "FIFOQueue",
    "Variable",
    "abs",
    "add",
    "apply_gradients",
    "argmax",
    "broadcast_like",
    "broadcast_to",
    "cast",
    "check_numerics",
    "cholesky",
    "cholesky_solve",
    "concat",
    "constant",
    "conv2d",
    "count",
    "cross",
    "custom_gradient",
    "det",
    "divide",
    "dropout",
    "eigh",
    "eigvalsh",
    "einsum",
    "equal",
    "exp",
    "expand_dims",
    "floor",
    "gather",
    "gradients",
    "greater",
    "greater_equal",
    "identity",
    "inv",
    "less",
    "less_equal",
    "log",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "lstsq",
    "matmul",
    "matrix_band_part",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "max",
    "max_pool",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "one_hot",
    "ones_like",
    "outer",
    "pinv",
    "placeholder",
    "pow",
    "qr",
    "random_normal",
    "random_uniform",
    "relu",
    "reshape",
    "reshape_like",
    "sigmoid",
    "sign",
    "slice",
    "slogdet",
    "softmax",
    "softmax_cross_entropy",
    "solve",
    "sqrt",
    "square",
    "squeeze",
    "stop_gradient",
    "subtract",
    "sum",
    "sum_to",
    "svd",
    "svdvals",
    "tanh",
    "tensordot",
    "trace",
    "transpose",
    "triangular_solve",
    "vecdot",
    "where",
    "zeros_like",
]
