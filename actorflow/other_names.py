"""What numpy, PyTorch, TensorFlow and Keras call the things that there are here under another name.

Whoever knows one of them writes its word first. An error that only says that there is no such name leaves
him to search; these tables have the word to write instead. They translate and promise no equality: where
the meaning differs, the text says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from actorflow.errors import UnknownArgument

P = ParamSpec("P")
R = TypeVar("R")

FETCH = "fetch it: value = await session.run(tensor)"
"""What to do for the value of a tensor."""

FUNCTIONS: Mapping[str, str] = {
    **{f"reduce_{n}": f"af.{n}" for n in ("sum", "mean", "max", "min", "prod", "all", "any", "logsumexp")},
    **{f"arc{n}": f"af.a{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{n: f"af.{n.removeprefix('a')}" for n in ("amax", "amin")},
    **{f"random_{n}": f"af.random_{n}" for n in ("normal", "uniform")},
    "absolute": "af.abs", "concatenate": "af.concat", "cat": "af.concat",
    "hstack": "af.concat(..., axis=1)", "vstack": "af.concat(..., axis=0)", "power": "af.pow",
    "dot": "af.matmul", "mm": "af.matmul", "bmm": "af.matmul", "arctan2": "af.atan2",
    "cumsum": "af.cumulative_sum", "cumprod": "af.cumulative_prod", "cummax": "af.cumulative_max",
    "cummin": "af.cumulative_min", "permute": "af.transpose(x, axes)",
    "permute_dims": "af.transpose(x, axes)", "view": "af.reshape", "unsqueeze": "af.expand_dims",
    "clamp": "af.clip", "clip_by_value": "af.clip", "sub": "af.subtract", "mul": "af.multiply",
    "div": "af.divide", "true_divide": "af.divide", "neg": "af.negative", "mod": "af.remainder",
    "floormod": "af.remainder", "floordiv": "af.floor_divide", "multinomial": "af.random_categorical",
    "trace": "af.matrix_trace", "eq": "af.equal", "ne": "af.not_equal", "lt": "af.less", "gt": "af.greater",
    "le": "af.less_equal", "ge": "af.greater_equal", "t": "af.matrix_transpose",
    "invert": "af.bitwise_invert", "left_shift": "af.bitwise_left_shift",
    "right_shift": "af.bitwise_right_shift", "rint": "af.round", "fabs": "af.abs", "fix": "af.trunc",
    "broadcast": "af.broadcast_to", "expand": "af.broadcast_to", "unstack": "af.unstack",
    "unbind": "af.unstack", "chunk": "af.split", "array_split": "af.split", "array": "af.constant",
    "tensor": "af.constant", "as_tensor": "af.constant", "asarray": "af.constant",
    "from_numpy": "af.constant", "convert_to_tensor": "af.constant", "top_k": "af.topk",
    "norm": "af.vector_norm", "rand": "af.random_uniform", "randn": "af.random_normal",
    "randint": "af.random_integers", "randperm": "af.random_permutation",
    "random": "af.random_uniform, af.random_normal and others", "permutation": "af.random_permutation",
    "shuffle": "af.random_shuffle", "bernoulli": "af.random_bernoulli",
    "unique": "af.unique_values and its kin", "grad": "af.gradients(ys, xs)",
    "gradient": "af.gradients(ys, xs)", "gradienttape": "af.gradients(ys, xs)",
    "backward": "af.gradients(ys, xs), or af.minimize(loss, optimizer)",
    "function": "af.Graph: what is built under `with af.Graph() as g:` runs as a whole",
    "get_variable": "af.Variable", "parameter": "af.Variable", "no_grad": "af.stop_gradient(x)",
    "detach": "af.stop_gradient(x)", "interactivesession": "af.Session", "print": "a fetch",
    "global_variables_initializer": "nothing: a session gives variables their first values by itself",
    "to": "af.cast for a dtype, af.device for a place", "type": "af.cast", "astype": "af.cast",
    "cpu": "af.device", "cuda": "af.device", "float": "af.cast(x, 'float32')",
    "double": "af.cast(x, 'float64')", "half": "af.cast(x, 'float16')", "long": "af.cast(x, 'int64')",
    "int": "af.cast(x, 'int32')", "while": "af.while_loop", "for": "af.map_fn, af.scan or af.while_loop",
    "matrix_inverse": "af.inv", "nansum": "af.sum(af.nan_to_num(x))", "ravel": "af.flatten",
    "squared": "af.square", "softmax_cross_entropy_with_logits": "af.softmax_cross_entropy",
    "average": "af.weighted_mean", "sparse_softmax_cross_entropy_with_logits": "af.softmax_cross_entropy",
    "sigmoid_cross_entropy_with_logits": "af.sigmoid_cross_entropy", "masked_fill": "af.where",
    "dataset": "af.from_data, af.data", "train": "af.optim", "optimizers": "af.optim", "losses": "af",
    "layers": "af.nn", "keras": "af.nn and af.optim", "module": "af.nn.Layer",
    "linalg": "af: af.inv, af.solve", "float32": 'the text "float32"', "float64": 'the text "float64"',
    "float16": 'the text "float16"', "int32": 'the text "int32"', "int64": 'the text "int64"',
    "bfloat16": 'the text "bfloat16"', "bool": 'the text "bool"', "uint8": 'the text "uint8"',
}  # fmt: skip
"""Functions elsewhere, in lower case -> ours."""

LAYERS: Mapping[str, str] = {
    "linear": "af.nn.Dense", "fullyconnected": "af.nn.Dense", "lazylinear": "af.nn.Dense",
    "conv1d": "af.nn.Conv", "conv2d": "af.nn.Conv", "conv3d": "af.nn.Conv", "convolution": "af.nn.Conv",
    "batchnorm1d": "af.nn.BatchNorm", "batchnorm2d": "af.nn.BatchNorm",
    "batchnormalization": "af.nn.BatchNorm", "layernormalization": "af.nn.LayerNorm",
    "groupnormalization": "af.nn.GroupNorm", "lstm": "af.nn.LSTMCell, and af.nn.rnn(cell, x)",
    "gru": "af.nn.GRUCell, and af.nn.rnn(cell, x)", "simplernn": "af.nn.RNNCell, and af.nn.rnn(cell, x)",
    "module": "af.nn.Layer", "model": "af.nn.Layer", "modulelist": "a list of layers", "relu": "af.relu",
    "gelu": "af.gelu", "silu": "af.silu", "tanh": "af.tanh", "sigmoid": "af.sigmoid",
    "softmax": "af.softmax", "leakyrelu": "af.leaky_relu", "elu": "af.elu",
    "activation": "af.relu and others, called on the output",
    "crossentropyloss": "af.softmax_cross_entropy", "bceloss": "af.binary_cross_entropy",
    "bcewithlogitsloss": "af.sigmoid_cross_entropy", "mseloss": "af.mean(af.squared_difference(a, b))",
    "maxpool2d": "af.max_pool", "avgpool2d": "af.avg_pool", "maxpooling2d": "af.max_pool",
    "averagepooling2d": "af.avg_pool", "multihead_attention": "af.nn.MultiHeadAttention",
    "multiheadedattention": "af.nn.MultiHeadAttention", "attention": "af.nn.MultiHeadAttention",
    "functional": "af: af.relu, af.softmax, af.conv2d", "parameter": "af.Variable", "upsample": "af.resize",
}  # fmt: skip
"""Layers elsewhere, in lower case -> ours."""

OPTIMIZERS: Mapping[str, str] = {
    "optimizer": "af.optim.sgd and others", "gradientdescentoptimizer": "af.optim.sgd",
    "adamoptimizer": "af.optim.adam", "lr_scheduler": "af.optim.schedules",
}  # fmt: skip
"""Optimizers elsewhere, in lower case -> ours; those that differ in case alone are found without."""

KEYWORDS: Mapping[str, str] = {
    "dim": "axis", "dims": "axis", "axes": "axis", "reduction_indices": "axis", "axis": "axes",
    "keepdim": "keepdims", "keep_dims": "keepdims", "input": "x", "inputs": "x", "a": "x", "tensor": "x",
    "feed_dict": "feeds", "feed": "feeds", "shape": "size", "newshape": "shape", "learning_rate": "lr",
    "beta_1": "beta1", "beta_2": "beta2", "epsilon": "eps", "alpha": "lr", "in_features": "inputs",
    "out_features": "outputs", "units": "outputs", "in_channels": "inputs", "out_channels": "outputs",
    "filters": "outputs", "input_dim": "inputs", "output_dim": "outputs", "input_shape": "inputs",
    "input_size": "inputs", "hidden_size": "units", "kernel_size": "size", "stride": "strides",
    "dilation": "dilations", "use_bias": "bias", "kernel_initializer": "weights", "num_embeddings": "count",
    "embedding_dim": "depth", "embed_dim": "depth", "num_heads": "heads", "dropout": "rate", "p": "rate",
    "initial_value": "initial", "initializer": "initial", "value": "initial", "requires_grad": "trainable",
    "timeout": "deadline_s", "var_list": "variables", "params": "variables", "other": "y",
    "min_value": "min", "max_value": "max", "a_min": "min", "a_max": "max", "ddof": "correction",
    "tensors": "values", "num_workers": "workers", "axes_": "perm", "permutation": "perm", "type": "dtype",
    "seed_": "seed",
}  # fmt: skip
"""Names of arguments elsewhere -> ours, where a function has one of that name."""


def hint_of(name: str, ours: Collection[str], prefix: str, table: Mapping[str, str]) -> str | None:
    """Returns what to write for a name that a module does not have; None where nothing is near.

    Args:
        name: What was written.
        ours: The names that there are.
        prefix: What stands before them, such as `af.nn.`.
        table: What others call them.
    """
    low = name.lower()
    same = [n for n in ours if n.lower().replace("_", "") == low.replace("_", "")]
    if same:
        return f"write {prefix}{same[0]}"
    if (known := table.get(low) or table.get(low.replace("_", ""))) is not None:
        return f"here it is {known}"
    if name in ours:
        return f"here it is {prefix}{name}"
    near = get_close_matches(name, ours, n=1, cutoff=0.8)
    return f"write {prefix}{near[0]}" if near else None


def said(message: str, hint: str | None) -> str:
    """Returns the text of an AttributeError, with what to try as the errors of ours have it."""
    return message if hint is None else f"{message}\n  try:   {hint}"


def missing(module: ModuleType, name: str, ours: Collection[str]) -> AttributeError:
    """Returns the error for a name that a public module of ours does not have."""
    message = f"module {module.__name__!r} has no attribute {name!r}"
    prefix, table = _TABLES[module.__name__]
    hint = None if name.startswith("__") else hint_of(name, ours, prefix, table)
    return AttributeError(said(message, hint), name=name, obj=module)


_TABLES = {
    "actorflow": ("af.", {**LAYERS, **FUNCTIONS}),
    "actorflow.nn": ("af.nn.", {**FUNCTIONS, **LAYERS}),
    "actorflow.optim": ("af.optim.", OPTIMIZERS),
}


def unknown_argument(callee: str, name: str, known: Collection[str]) -> UnknownArgument:
    """Returns the error for an argument that a function does not take, with the name that it has here."""
    listed = ", ".join(known) or "none"
    message = f"{callee} takes no argument {name!r}; it takes {listed}"
    ours = KEYWORDS.get(name)
    if ours in known:
        hint: str | None = f"write {ours}="
    elif name == "activation":
        hint = "call it on the output, as in af.relu(layer(x)), or put it after the layer in af.nn.Sequential"
    else:
        near = get_close_matches(name, known, n=1, cutoff=0.75)
        hint = f"write {near[0]}=" if near else None
    return UnknownArgument(message, hint=hint)


def keywords_of(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Returns the names by which arguments may be given, `self` aside; None where any may."""
    parameters = list(signature(function).parameters.values())
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        return None
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return tuple(p.name for p in parameters if p.kind in named and p.name != "self")


def checked_keywords(callee: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has a function answer an argument that it does not take with the name that it has here."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = keywords_of(function)
        if known is None:
            return function

        @wraps(function)
        def called(*args: P.args, **named: P.kwargs) -> R:
            for name in named:
                if name not in known:
                    raise unknown_argument(callee, name, known)
            return function(*args, **named)

        return called

    return decorate
