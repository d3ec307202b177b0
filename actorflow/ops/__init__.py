"""The user's verbs: what can be computed. Importing the package fills the table of `graph.opdef`."""

from __future__ import annotations

from actorflow.graph.autodiff import custom_gradient, gradients
from actorflow.ops.arrange import flatten, flip, moveaxis, repeat, roll, swapaxes, tile
from actorflow.ops.array import concat, gather, one_hot, slice
from actorflow.ops.broadcast import broadcast_like, broadcast_to, sum, sum_to
from actorflow.ops.conv import conv2d
from actorflow.ops.diagonal import diag_embed, diagonal, trace, tril, triu
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
from actorflow.ops.facts import ensure_shape, rank, shape, size
from actorflow.ops.fill import arange, eye, full, full_like, linspace, ones, zeros
from actorflow.ops.join import broadcast_arrays, meshgrid, split, stack, unstack
from actorflow.ops.linalg import matmul
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
from actorflow.ops.padding import pad
from actorflow.ops.passing import cast, check_numerics, identity, stop_gradient
from actorflow.ops.pool import max_pool
from actorflow.ops.queue import FIFOQueue
from actorflow.ops.random import random_normal, random_uniform
from actorflow.ops.reduce import argmax, count, max, mean, min
from actorflow.ops.shape import expand_dims, reshape, reshape_like, squeeze, transpose
from actorflow.ops.source import constant, ones_like, placeholder, zeros_like
from actorflow.ops.state import Variable, apply_gradients

__all__ = [
    "FIFOQueue",
    "Variable",
    "abs",
    "add",
    "apply_gradients",
    "arange",
    "argmax",
    "broadcast_arrays",
    "broadcast_like",
    "broadcast_to",
    "cast",
    "check_numerics",
    "concat",
    "constant",
    "conv2d",
    "count",
    "custom_gradient",
    "diag_embed",
    "diagonal",
    "divide",
    "dropout",
    "ensure_shape",
    "equal",
    "exp",
    "expand_dims",
    "eye",
    "flatten",
    "flip",
    "floor",
    "full",
    "full_like",
    "gather",
    "gradients",
    "greater",
    "greater_equal",
    "identity",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "max",
    "max_pool",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "negative",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "placeholder",
    "pow",
    "random_normal",
    "random_uniform",
    "rank",
    "relu",
    "repeat",
    "reshape",
    "reshape_like",
    "roll",
    "shape",
    "sigmoid",
    "sign",
    "size",
    "slice",
    "softmax",
    "softmax_cross_entropy",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "sum_to",
    "swapaxes",
    "tanh",
    "tile",
    "trace",
    "transpose",
    "tril",
    "triu",
    "unstack",
    "where",
    "zeros",
    "zeros_like",
]
