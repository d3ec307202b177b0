"""What stands on top of `af`, loaded when the first name is asked for.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

# ruff: noqa: I001, RUF022  the order of the table of public names

from __future__ import annotations

import actorflow.data as data
import actorflow.datasets as datasets
import actorflow.errors as errors
import actorflow.nn.init as init
import actorflow.nn as nn
import actorflow.optim as optim
import actorflow.actors.supervision as supervision
import actorflow.testing as testing
from actorflow.public import arrays, autodiff, image, io, linalg, math, random, state, strings, types
from actorflow.actors.actor import Actor
from actorflow.actors.many import ask_all, tell_all
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.cluster.cluster import Cluster
from actorflow.cluster.trainer import Trainer
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor, colocate_with, control_dependencies, device, name_scope
from actorflow.graph.graph import Graph
from actorflow.graph.slices import IndexedSlices
from actorflow.ops.array.arrange import flip, moveaxis, repeat, roll, tile
from actorflow.ops.array.broadcast import broadcast_to, sum
from actorflow.ops.array.constants import constant, ones_like, placeholder, zeros_like
from actorflow.ops.array.fill import arange, eye, full, full_like, linspace, ones, zeros
from actorflow.ops.array.identity import cast, stop_gradient
from actorflow.ops.array.indexing import gather, take_along_axis
from actorflow.ops.array.join import broadcast_arrays, meshgrid, stack, unstack
from actorflow.ops.array.sets import nonzero, unique_all, unique_counts, unique_inverse, unique_values
from actorflow.ops.array.shape import expand_dims, reshape, squeeze, transpose
from actorflow.ops.array.slicing import concat
from actorflow.ops.array.sort import argsort, searchsorted, sort
from actorflow.ops.control.branches import case, cond, switch_case
from actorflow.ops.control.loops import while_loop
from actorflow.ops.control.mapping import fold, map_fn, scan
from actorflow.ops.control.tensor_array import TensorArray
from actorflow.ops.control.user_code_ops import actor, call, py_actor
from actorflow.ops.linalg.contraction import tensordot
from actorflow.ops.linalg.diagonal import tril, triu
from actorflow.ops.linalg.products import matmul, matrix_transpose, vecdot
from actorflow.ops.math.arithmetic import clip, floor_divide, hypot, positive, reciprocal, remainder
from actorflow.ops.math.bits import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    logical_xor,
)
from actorflow.ops.math.complex import conj, imag, real
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
    sign,
    sqrt,
    square,
    subtract,
    tanh,
)
from actorflow.ops.math.exponential import expm1, log10, log1p, log2, logaddexp
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
from actorflow.ops.math.reduce import all, any, argmax, argmin, count_nonzero, max, mean, min, prod
from actorflow.ops.math.rounding import (
    ceil,
    copysign,
    isfinite,
    isinf,
    isnan,
    nextafter,
    round,
    signbit,
    trunc,
)
from actorflow.ops.math.scan import cumulative_prod, cumulative_sum, diff
from actorflow.ops.math.statistics import std, var
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
    sin,
    sinh,
    tan,
)
from actorflow.ops.state.atomic import atomic
from actorflow.ops.state.partitioned import PartitionedVariable
from actorflow.ops.state.updates import apply_gradients
from actorflow.ops.state.variable import Variable
from actorflow.runtime.event_loop import run
from actorflow.session.session import Session
from actorflow.training.minimize import minimize
from actorflow.training.program import Program
from actorflow.values.dtypes import can_cast, finfo, iinfo, result_type
from actorflow.values.spec import Spec

__all__ = [
    "Actor", "ActorSystem", "Async", "Backup", "Cluster", "Graph", "IndexedSlices", "OptimizerActor",
    "PartitionedVariable", "Policy", "Program", "Ref", "Session", "Spec", "StaleSync", "Sync", "Tensor",
    "TensorArray", "Trainer", "Variable", "abs", "acos", "acosh", "actor", "add", "all", "any",
    "apply_gradients", "arange", "argmax", "argmin", "argsort", "arrays", "asin", "asinh", "ask_all", "atan",
    "atan2", "atanh", "atomic", "autodiff", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_arrays", "broadcast_to", "call",
    "can_cast", "case", "cast", "ceil", "clip", "colocate_with", "concat", "cond", "conj", "constant",
    "control_dependencies", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum",
    "data", "datasets", "device", "diff", "divide", "equal", "errors", "exp", "expand_dims", "expm1", "eye",
    "finfo", "flip", "floor", "floor_divide", "fold", "full", "full_like", "gather", "gradients", "greater",
    "greater_equal", "hypot", "iinfo", "imag", "image", "init", "io", "isfinite", "isinf", "isnan", "less",
    "less_equal", "linalg", "linspace", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "map_fn", "math", "matmul", "matrix_transpose", "max",
    "maximum", "mean", "meshgrid", "min", "minimize", "minimum", "moveaxis", "multiply", "name_scope",
    "negative", "nextafter", "nn", "nonzero", "not_equal", "ones", "ones_like", "optim", "placeholder",
    "positive", "pow", "prod", "py_actor", "random", "real", "reciprocal", "remainder", "repeat", "reshape",
    "result_type", "roll", "round", "run", "scan", "searchsorted", "sign", "signbit", "sin", "sinh", "sort",
    "sqrt", "square", "squeeze", "stack", "state", "std", "stop_gradient", "strings", "subtract", "sum",
    "supervision", "switch_case", "take_along_axis", "tan", "tanh", "tell_all", "tensordot", "testing",
    "tile", "transpose", "tril", "triu", "trunc", "types", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip
