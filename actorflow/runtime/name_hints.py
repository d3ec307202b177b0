"""Hints at the names here of what numpy, PyTorch, TensorFlow and Keras call otherwise.

Whoever knows one of them writes its word first. An error that only says that there is no such name leaves
him to search; these tables have the word to write instead. They translate and promise no equality: where
the meaning differs, the text says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache, wraps
from inspect import Parameter, signature
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from actorflow.errors import UnknownArgument
from actorflow.runtime.public_names import ELSEWHERE, NAMESPACES, ON_TOP

P = ParamSpec("P")
R = TypeVar("R")

FETCH = "fetch it: value = await session.run(tensor)"
"""What to do for the value of a tensor."""

FUNCTIONS: Mapping[str, str] = {
    **{f"reduce_{n}": f"af.{n}" for n in ("sum", "mean", "max", "min", "prod", "all", "any")},
    **{f"arc{n}": f"af.a{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{n: f"af.{n.removeprefix('a')}" for n in ("amax", "amin")},
    "reduce_logsumexp": "af.math.logsumexp", "absolute": "af.abs", "concatenate": "af.concat",
    "cat": "af.concat", "hstack": "af.concat(..., axis=1)", "vstack": "af.concat(..., axis=0)",
    "power": "af.pow", "dot": "af.matmul", "mm": "af.matmul", "bmm": "af.matmul", "arctan2": "af.atan2",
    "cumsum": "af.cumulative_sum", "cumprod": "af.cumulative_prod", "cummax": "af.math.cumulative_max",
    "cummin": "af.math.cumulative_min", "permute": "af.transpose(x, axes)",
    "permute_dims": "af.transpose(x, axes)", "view": "af.reshape", "unsqueeze": "af.expand_dims",
    "clamp": "af.clip", "clip_by_value": "af.clip", "sub": "af.subtract", "mul": "af.multiply",
    "div": "af.divide", "true_divide": "af.divide", "neg": "af.negative", "mod": "af.remainder",
    "floormod": "af.remainder", "floordiv": "af.floor_divide", "multinomial": "af.random.categorical",
    "trace": "af.linalg.matrix_trace", "eq": "af.equal", "ne": "af.not_equal", "lt": "af.less",
    "gt": "af.greater", "le": "af.less_equal", "ge": "af.greater_equal", "t": "af.matrix_transpose",
    "invert": "af.bitwise_invert", "left_shift": "af.bitwise_left_shift",
    "right_shift": "af.bitwise_right_shift", "rint": "af.round", "fabs": "af.abs", "fix": "af.trunc",
    "broadcast": "af.broadcast_to", "expand": "af.broadcast_to", "unbind": "af.unstack",
    "chunk": "af.arrays.split", "array_split": "af.arrays.split", "array": "af.constant",
    "as_tensor": "af.constant", "asarray": "af.constant", "from_numpy": "af.constant",
    "convert_to_tensor": "af.constant", "top_k": "af.arrays.topk", "norm": "af.linalg.vector_norm",
    "rand": "af.random.uniform", "randn": "af.random.normal", "randint": "af.random.integers",
    "randperm": "af.random.permutation", "random": "af.random.uniform, af.random.normal and others",
    "permutation": "af.random.permutation", "shuffle": "af.random.shuffle",
    "bernoulli": "af.random.bernoulli", "unique": "af.unique_values and its kin",
    "grad": "af.gradients(ys, xs)", "gradient": "af.gradients(ys, xs)",
    "gradienttape": "af.gradients(ys, xs)",
    "backward": "af.gradients(ys, xs), or af.minimize(loss, optimizer)",
    "function": "af.Graph: what is built under `with af.Graph() as g:` runs as a whole",
    "get_variable": "af.Variable", "parameter": "af.Variable", "no_grad": "af.stop_gradient(x)",
    "detach": "af.stop_gradient(x)", "interactivesession": "af.Session",
    "to": "af.cast for a dtype, af.device for a place", "type": "af.cast", "astype": "af.cast",
    "cpu": "af.device", "cuda": "af.device", "float": "af.cast(x, 'float32')",
    "double": "af.cast(x, 'float64')", "half": "af.cast(x, 'float16')", "long": "af.cast(x, 'int64')",
    "int": "af.cast(x, 'int32')", "while": "af.while_loop", "for": "af.map_fn, af.scan or af.while_loop",
    "matrix_inverse": "af.linalg.inv", "nansum": "af.sum(af.math.nan_to_num(x))",
    "ravel": "af.arrays.flatten", "squared": "af.square",
    "softmax_cross_entropy_with_logits": "af.nn.softmax_cross_entropy", "average": "af.nn.weighted_mean",
    "sparse_softmax_cross_entropy_with_logits": "af.nn.softmax_cross_entropy",
    "sigmoid_cross_entropy_with_logits": "af.nn.sigmoid_cross_entropy", "masked_fill": "af.where",
    "dataset": "af.data.arrays and others", "train": "af.optim", "optimizers": "af.optim",
    "losses": "af.nn.softmax_cross_entropy, af.nn.huber_loss and others", "layers": "af.nn.Dense and others",
    "keras": "af.nn for layers, af.optim for optimizers", "module": "af.nn.Layer",
    "metrics": "af.nn.in_top_k, af.equal and others", "initializers": "af.init",
    "optimizer": "af.optim.sgd, af.optim.adam and others",
    "feeder": "af.state.QueueRunner",
    "queue": "af.state.FIFOQueue, af.state.PriorityQueue and others", "vmap": "af.map_fn", "map": "af.map_fn",
    "vectorized_map": "af.map_fn", "pmap": "af.map_fn", "fori_loop": "af.while_loop",
    "value_and_grad": "af.gradients(ys, xs), fetched with the value", "variable_scope": "af.name_scope",
    "mse": "af.mean(af.math.squared_difference(a, b))",
    "mse_loss": "af.mean(af.math.squared_difference(a, b))",
    "mean_squared_error": "af.mean(af.math.squared_difference(a, b))", "l1_loss": "af.nn.absolute_difference",
    "mae": "af.nn.absolute_difference", "cross_entropy": "af.nn.softmax_cross_entropy",
    "epochend": "af.types.EpochDone", "stepend": "af.types.StepDone", "estimator": "af.Trainer",
    "unravel_index": "af.floor_divide and af.remainder", "float32": 'the text "float32"',
    "float64": 'the text "float64"', "float16": 'the text "float16"', "int32": 'the text "int32"',
    "int64": 'the text "int64"', "bfloat16": 'the text "bfloat16"', "bool": 'the text "bool"',
    "uint8": 'the text "uint8"',
}  # fmt: skip
"""Functions elsewhere, in lower case -> ours."""

_SEED = "give the graph its seed: with af.Graph(seed=0) as graph: ..."
_KEEP = "checkpoints are not built yet: fetch the variables, and keep the arrays with np.savez"
_BY_ITSELF = "leave it out: a session makes what it runs cheaper by itself"
_STARTED = "leave it out: a session gives variables their first values by itself"

ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("manual_seed", "set_random_seed", "set_seed", "seed", "random_seed"), _SEED),
    **dict.fromkeys(("save", "load", "saver", "checkpoint", "savez"), _KEEP),
    **dict.fromkeys(("jit", "compile", "tf_function"), _BY_ITSELF),
    **dict.fromkeys(("global_variables_initializer", "initialize_all_variables"), _STARTED),
    **dict.fromkeys(("assign", "assign_add", "assign_sub"), "write variable.{0}(value)"),
    **dict.fromkeys(("global_variables", "all_variables"), "write graph.variables"),
    "trainable_variables": "write graph.trainable",
    "tensor": "write af.constant(value), or af.placeholder(dtype, shape) for what is fed",
    "print": "fetch the tensor, and print what comes: print(await session.run(tensor))",
    "summary": "read losses and metrics from what a trainer yields: af.types.StepDone and af.types.EpochDone",
    "get_default_graph": "keep the graph of `with af.Graph() as graph:`; every tensor has it: tensor.graph",
    "enable_eager_execution": "fetch values: there is nothing that computes them at once",
}
"""What elsewhere is a function and here something else, in lower case -> what to do; {0} is the name."""

METHODS: Mapping[str, str] = {
    **dict.fromkeys(
        ("assign", "assign_add", "assign_sub"),
        "a variable can be written and a tensor cannot: variable = af.Variable(0.0), variable.{0}(value)",
    ),
    **dict.fromkeys(("get_shape", "set_shape"), "use tensor.shape, or af.arrays.ensure_shape(tensor, shape)"),
    **dict.fromkeys(("dim", "rank"), "use tensor.ndim"),
    **dict.fromkeys(("copy", "clone"), "leave it out: no step changes a tensor"),
    "contiguous": "leave it out: kernels take any array",
    **dict.fromkeys(("read_value", "initialized_value"), "use variable.read()"),
    **dict.fromkeys(("initializer", "initialize"), _STARTED),
    "device": "build it under `with af.device(name):`; a session places what is left open",
    "op": "use tensor.node",
    **dict.fromkeys(("requires_grad", "requires_grad_"), "use af.gradients(ys, [tensor])"),
    "grad": "use af.gradients(ys, [tensor])",
    "numel": "use af.arrays.size(tensor)",
    "trainable": "use graph.trainable",
}
"""Methods of tensors and variables elsewhere -> what to do, where no function of af stands for them."""

GRAPHS: Mapping[str, str] = {
    "as_default": "write `with graph:`",
    **dict.fromkeys(
        ("get_tensor_by_name", "get_operation_by_name"),
        "fetch it by its name: await session.run(name); its node is graph.node(name)",
    ),
    "get_operations": "use graph.nodes",
    **dict.fromkeys(("global_variables", "get_collection", "parameters"), "use graph.variables"),
    "trainable_variables": "use graph.trainable",
    "run": "open a session: async with af.Session(graph) as session: await session.run(tensor)",
    "finalize": "leave it out: a session takes a graph that is done, and one that grows",
    "set_random_seed": _SEED,
}
"""Methods of graphs elsewhere -> what to do; the functions of af are found without."""

RULES: Mapping[str, str] = {
    "minimize": "use af.minimize(loss, optimizer)",
    "apply_gradients": "use af.apply_gradients(grads, variables, optimizer)",
    **dict.fromkeys(("compute_gradients", "get_gradients"), "use af.gradients(loss, variables)"),
    **dict.fromkeys(
        ("step", "zero_grad"),
        "fetch the update: train = af.minimize(loss, optimizer), and await session.run(train)",
    ),
    **dict.fromkeys(("learning_rate", "lr", "param_groups"), "say it to the rule: af.optim.sgd(lr=...)"),
    "state_dict": _KEEP,
}
"""Methods of optimizers elsewhere -> what to do."""

LAYERS: Mapping[str, str] = {
    "linear": "af.nn.Dense", "fullyconnected": "af.nn.Dense", "lazylinear": "af.nn.Dense",
    "conv1d": "af.nn.Conv", "conv2d": "af.nn.Conv", "conv3d": "af.nn.Conv", "convolution": "af.nn.Conv",
    "batchnorm1d": "af.nn.BatchNorm", "batchnorm2d": "af.nn.BatchNorm",
    "batchnormalization": "af.nn.BatchNorm", "layernormalization": "af.nn.LayerNorm",
    "groupnormalization": "af.nn.GroupNorm", "lstm": "af.nn.LSTMCell, and af.nn.rnn(cell, x)",
    "gru": "af.nn.GRUCell, and af.nn.rnn(cell, x)", "simplernn": "af.nn.RNNCell, and af.nn.rnn(cell, x)",
    "module": "af.nn.Layer", "model": "af.nn.Layer", "modulelist": "a list of layers", "relu": "af.nn.relu",
    "gelu": "af.nn.gelu", "silu": "af.nn.silu", "tanh": "af.tanh", "sigmoid": "af.nn.sigmoid",
    "softmax": "af.nn.softmax", "leakyrelu": "af.nn.leaky_relu", "elu": "af.nn.elu",
    "activation": "af.nn.relu and others, called on the output",
    "crossentropyloss": "af.nn.softmax_cross_entropy", "bceloss": "af.nn.binary_cross_entropy",
    "bcewithlogitsloss": "af.nn.sigmoid_cross_entropy",
    "mseloss": "af.mean(af.math.squared_difference(a, b))", "maxpool2d": "af.nn.max_pool",
    "avgpool2d": "af.nn.avg_pool", "maxpooling2d": "af.nn.max_pool", "averagepooling2d": "af.nn.avg_pool",
    "multihead_attention": "af.nn.MultiHeadAttention", "multiheadedattention": "af.nn.MultiHeadAttention",
    "attention": "af.nn.MultiHeadAttention", "functional": "af.nn: af.nn.relu, af.nn.softmax, af.nn.conv2d",
    "parameter": "af.Variable", "upsample": "af.image.resize",
}  # fmt: skip
"""Layers elsewhere, in lower case -> ours."""

OPTIMIZERS: Mapping[str, str] = {
    "optimizer": "af.optim.sgd and others", "gradientdescentoptimizer": "af.optim.sgd",
    "adamoptimizer": "af.optim.adam", "lr_scheduler": "af.optim.schedules",
    "minimize": "af.minimize(loss, optimizer)", "learning_rate_schedule": "af.optim.schedules",
}  # fmt: skip
"""Optimizers elsewhere, in lower case -> ours; those that differ in case alone are found without."""

DATA: Mapping[str, str] = {
    "dataset": "af.data.arrays, af.data.generator and others", "dataloader": "af.data.arrays(...).batch(n)",
    "from_tensor_slices": "af.data.arrays", "tensordataset": "af.data.arrays", "range": "af.data.numbers",
    "from_generator": "af.data.generator", "tfrecorddataset": "af.data.tfrecord",
    "textlinedataset": "af.data.text_lines", "concat": "af.data.concatenate",
}  # fmt: skip
"""Sources of data elsewhere, in lower case -> ours."""

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
    # First what is something else here: advice, and no name to write.
    if (advice := ADVICE.get(low)) is not None and (prefix == "af." or table is FUNCTIONS):
        return advice.format(name)
    # Then what has a place elsewhere in `af`, exactly.
    if (place := ELSEWHERE.get(name)) is not None:
        return f"it is af.{place}"
    known = table.get(low) or table.get(low.replace("_", ""))
    if known is not None and name[:1].isupper():  # a class: the layer before the function
        return f"here it is {known}"
    # Then this module's own in another spelling.
    same = [n for n in ours if n.lower().replace("_", "") == low.replace("_", "")]
    if same:
        return f"write {prefix}{same[0]}"
    if known is not None:
        return f"here it is {known}"
    # What users write behind the last dot, where only one place has it.
    if (place := _last_parts().get(name)) is not None:
        return f"it is af.{place}"
    # A slip of the pen, here first and then anywhere.
    if near := get_close_matches(name, ours, n=1, cutoff=0.8):
        return f"write {prefix}{near[0]}"
    near = get_close_matches(name, _last_parts(), n=1, cutoff=0.8)
    return f"write af.{_last_parts()[near[0]]}" if near else None


@cache
def _last_parts() -> Mapping[str, str]:
    """What users write behind the last dot -> behind `af.`, where only one place has it; on top first."""
    places = [*ELSEWHERE.values()]
    last = Counter(place.rpartition(".")[2] for place in places)
    inner = {place.rpartition(".")[2]: place for place in places}
    # A name that two places have would send half of the users to the wrong one.
    return {n: place for n, place in inner.items() if last[n] == 1} | {name: name for name in ON_TOP}


def _place(name: str) -> str | None:
    """What users write behind `af.` for a function of this name; None where there is none."""
    place = ELSEWHERE.get(name) or _last_parts().get(name)
    return None if place in NAMESPACES else place


def describe(message: str, hint: str | None) -> str:
    """Returns the text of an AttributeError, with what to try as the errors of ours have it."""
    return message if hint is None else f"{message}\n  try:   {hint}"


def without(message: str, hint: str | None, name: str, obj: object) -> AttributeError:
    """Returns the error for a name that an object does not have.

    With a hint it does not name the object: where it does, Python looks for a near name itself, and writes
    `Did you mean: 'zeros'?` behind what to try.
    """
    if hint is None:
        return AttributeError(message, name=name, obj=obj)
    return AttributeError(describe(message, hint), name=name)


def missing(module: ModuleType, name: str, ours: Collection[str]) -> AttributeError:
    """Returns the error for a name that a public module of ours does not have."""
    message = f"module {module.__name__!r} has no attribute {name!r}"
    prefix, table = _TABLES.get(module.__name__) or (f"af.{module.__name__.rpartition('.')[2]}.", FUNCTIONS)
    hint = None if name.startswith("__") else hint_of(name, ours, prefix, table)
    return without(message, hint, name, module)


def missing_method(obj: object, name: str, table: Mapping[str, str], verb: str = "") -> AttributeError:
    """Returns the error for a method that an object of ours does not have.

    Args:
        obj: The object.
        name: What was asked of it.
        table: What others call its methods -> what to do.
        verb: How to write a function of `af` of that name instead; empty where none stands for a method.
    """
    message = f"{type(obj).__name__!r} object has no attribute {name!r}"
    # Protocols ask for names that begin so all the time; nobody has mistyped them.
    if name.startswith("_"):
        hint = None
    elif (known := table.get(name.lower())) is not None:
        hint = known.format(name)
    else:
        kind: Any = type(obj)
        hint = _method_hint(name, kind, verb)
    return without(message, hint, name, obj)


@lru_cache(1024)  # whether an object has a method is often asked: 4 µs against 40
def _method_hint(name: str, kind: type, verb: str) -> str | None:
    low = name.lower()
    # PyTorch's names that end with _ change a tensor in place.
    if verb and low.endswith("_") and (low[:-1] in FUNCTIONS or _place(low[:-1]) is not None):
        what = FUNCTIONS.get(low[:-1], f"af.{_place(low[:-1])}")
        return f"nothing is changed in place: use what {what} returns; a variable has variable.assign(value)"
    if verb and (known := FUNCTIONS.get(low)) is not None:
        return f"use {known}"
    if verb and (place := _place(low)) is not None:
        return verb.format(place)
    public = [other for other in dir(kind) if not other.startswith("_")]
    near = get_close_matches(low, public, n=1, cutoff=0.75)
    return f"write .{near[0]}" if near else None


_TABLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "actorflow": ("af.", {**LAYERS, **FUNCTIONS}),
    "actorflow.nn": ("af.nn.", {**FUNCTIONS, **LAYERS}),
    "actorflow.optim": ("af.optim.", OPTIMIZERS),
    "actorflow.data": ("af.data.", DATA),
    "actorflow.sim": ("sim.", {}),
}


def unknown_argument(callee: str, name: str, known: Collection[str]) -> UnknownArgument:
    """Returns the error for an argument that a function does not take, with the name that it has here."""
    listed = ", ".join(known) or "none"
    message = f"{callee} takes no argument {name!r}; it takes {listed}"
    ours = KEYWORDS.get(name)
    # In the order of how sure each is: the table, one known case, and a near name.
    if ours in known:
        hint: str | None = f"write {ours}="
    elif name == "activation":
        hint = (
            "call it on the output, as in af.nn.relu(layer(x)), or put it after the layer in af.nn.Sequential"
        )
    else:
        near = get_close_matches(name, known, n=1, cutoff=0.75)
        hint = f"write {near[0]}=" if near else None
        # feed_dict's habit of one argument a tensor.
        if hint is None and "feeds" in known:
            hint = f"feeds are one dict, by tensor: run(fetches, {{{name}: value}})"
    return UnknownArgument(message, hint=hint)


def keywords_of(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Returns the names by which arguments may be given, `self` aside; None where any may."""
    parameters = list(signature(function).parameters.values())
    # Whoever takes any has no unknown ones.
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        return None
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return tuple(p.name for p in parameters if p.kind in named and p.name != "self")


def check_keywords(callee: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has a function answer an argument that it does not take with the name that it has here."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = keywords_of(function)
        if known is None:
            return function

        @wraps(function)
        def called(*args: P.args, **named: P.kwargs) -> R:
            # The usual call has few names, and each costs a look in a short tuple.
            for name in named:
                if name not in known:
                    raise unknown_argument(callee, name, known)
            return function(*args, **named)

        return called

    return decorate
