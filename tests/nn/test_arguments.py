"""What layers are given by mistake: every argument of every layer, and what the refusals say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import ops
from tests.support.sessions import run_step

WRONG: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "flag": lambda: True,
    "zero": lambda: 0,
    "negative": lambda: -3,
    "huge": lambda: 10**30,
    "fraction": lambda: 0.5,
    "nan": lambda: float("nan"),
    "infinite": lambda: float("inf"),
    "imaginary": lambda: 1j,
    "text": lambda: "no",
    "empty text": lambda: "",
    "dtype of bytes": lambda: "bytes",
    "bytes": lambda: b"no",
    "empty tuple": lambda: (),
    "tuple": lambda: (1, 2),
    "mixed tuple": lambda: (1, None, "a"),
    "open": lambda: (None, None),
    "ragged": lambda: [[1.0], [2.0, 3.0]],
    "dict": lambda: {"a": 1},
    "array": lambda: np.zeros((4, 8)),
    "scalar of numpy": lambda: np.float32(0.5),
    "tensor": lambda: af.constant(1.0),
    "variable": lambda: af.Variable(1.0),
    "object": object,
    "class": lambda: int,
    "spec": lambda: af.Spec((), np.dtype("float32")),
    "function of one": lambda: lambda x: x,
    "function of none": lambda: lambda: 1.0,
    "maker of initialisers": lambda: af.init.normal,
    "initialiser": lambda: af.init.he,
    "initialised": lambda: af.init.he((4, 8)),
}

# A layer, its arguments, the spec of what it is called with, and the arguments of the call.
LAYERS: dict[str, tuple[type[Any], dict[str, Any], tuple[int | None, ...], dict[str, Any]]] = {
    "Dense": (af.nn.Dense, {"inputs": 4, "outputs": 8}, (None, 4), {}),
    "Conv": (af.nn.Conv, {"inputs": 4, "outputs": 8, "size": (3, 3)}, (None, 5, 5, 4), {}),
    "Embedding": (af.nn.Embedding, {"count": 4, "depth": 8}, (None,), {}),
    "BatchNorm": (af.nn.BatchNorm, {"channels": 4}, (None, 4), {"training": True}),
    "LayerNorm": (af.nn.LayerNorm, {"channels": 4}, (None, 4), {}),
    "RMSNorm": (af.nn.RMSNorm, {"channels": 4}, (None, 4), {}),
    "GroupNorm": (af.nn.GroupNorm, {"channels": 4, "groups": 2}, (None, 4), {}),
    "MultiHeadAttention": (
        af.nn.MultiHeadAttention,
        {"depth": 4, "heads": 2},
        (None, 3, 4),
        {"training": True},
    ),
    "Dropout": (af.nn.Dropout, {"rate": 0.5}, (None, 4), {"training": True}),
    "Flatten": (af.nn.Flatten, {}, (None, 2, 2), {}),
    "Sequential": (af.nn.Sequential, {"layers": [af.nn.relu]}, (None, 4), {"training": True}),
    "RNNCell": (af.nn.RNNCell, {"inputs": 4, "units": 8}, (None, 4), {}),
    "LSTMCell": (af.nn.LSTMCell, {"inputs": 4, "units": 8}, (None, 4), {}),
    "GRUCell": (af.nn.GRUCell, {"inputs": 4, "units": 8}, (None, 4), {}),
}
NOT_HERE = {
    "Layer",
    "apply",
    "Cell",
    "Decoded",
    "rnn",
    "bidirectional",
    "stack_cells",
    "greedy",
    "sample",
    "beam_search",
}
"""What one subclasses or is given, and the verbs, which `test_recurrent_arguments` and `test_functional` try."""


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


MADE = [(layer, p) for layer, (kind, *_) in LAYERS.items() for p in parameters(kind)]
CALLED = [(layer, p) for layer, (kind, *_) in LAYERS.items() for p in parameters(kind.__call__)]


def use(layer: str, made: dict[str, Any], called: dict[str, Any]) -> Any:
    """Makes a layer and calls it."""
    kind, arguments, shape, told = LAYERS[layer]
    x = af.placeholder("int32" if kind is af.nn.Embedding else "float32", shape)
    call = {"x" if "x" in parameters(kind.__call__) else "ids": x, **told, **called}
    return kind(**{**arguments, **made})(**call)


def test_every_layer_is_tried() -> None:
    functions = {*ops.__all__}  # tests/ops/definition/test_arguments.py tries these
    wanted = {*af.nn.__all__} - NOT_HERE - functions
    untried = wanted - LAYERS.keys()

    assert not untried, (
        f"add arguments and a call of {sorted(untried)} to LAYERS in tests/nn/test_arguments.py"
    )
    assert LAYERS.keys() == wanted


def faults(build: Callable[[Any], Any]) -> list[str]:
    """What comes of wrong values that is neither a tensor nor an error of ours, each with its value."""
    found = []
    for value, wrong in WRONG.items():
        with af.Graph():
            try:
                made = build(wrong())
            except af.errors.ActorflowError:
                continue
            except Exception as error:  # noqa: BLE001  all of them are told at once
                found.append(f"{value}: {type(error).__name__}: {error}")
                continue
        first = made[0] if isinstance(made, tuple) else made
        if not isinstance(first, af.Tensor):
            found.append(f"{value}: it gives {made!r}")
    return found


@pytest.mark.parametrize(("layer", "argument"), MADE)
def test_a_layer_is_made_and_called_or_refuses(layer: str, argument: str) -> None:
    assert faults(lambda wrong: use(layer, {argument: wrong}, {})) == []


@pytest.mark.parametrize(("layer", "argument"), CALLED)
def test_a_call_is_built_or_refused(layer: str, argument: str) -> None:
    assert faults(lambda wrong: use(layer, {}, {argument: wrong})) == []


FLAGS = [(layer, p, True) for layer, p in MADE if p in ("bias", "scale", "offset", "reset_after")]
FLAGS += [(layer, p, False) for layer, p in CALLED if p in ("training", "is_causal")]


@pytest.mark.parametrize("value", ["False", "no", 0, 1, 0.0, None])
@pytest.mark.parametrize(("layer", "flag", "of_layer"), FLAGS)
def test_a_flag_is_a_bool(layer: str, flag: str, of_layer: bool, value: Any) -> None:
    given = {flag: value}
    if layer == "Sequential" and value is None:
        pytest.skip("what it hands on may be left open")
    with (
        af.Graph(),
        pytest.raises(af.errors.SpecError, match=f"takes {flag}=True or {flag}=False, got {value!r}"),
    ):
        use(layer, given if of_layer else {}, {} if of_layer else given)


WEIGHTS = [(layer, p) for layer, p in MADE if p in ("weights", "biases")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.zeros((4, 8)), r"ndarray \(4, 8\)"),
        ("he", "'he'"),
        (0.5, "0.5"),
        (lambda shape: 0.0, r"a function of shape and dtype, got function .*<lambda>"),
    ],
    ids=["array", "text", "number", "function of one"],
)
@pytest.mark.parametrize(("layer", "argument"), WEIGHTS)
def test_first_values_come_from_an_initialiser(layer: str, argument: str, value: Any, shown: str) -> None:
    with (
        af.Graph(),
        pytest.raises(af.errors.SpecError, match=f"takes {argument} as an initialiser, .*{shown}") as caught,
    ):
        use(layer, {argument: value}, {})

    assert caught.value.hint == "for values of your own: lambda shape, dtype: array"


def test_an_initialiser_that_lacks_its_parameters_is_told_apart() -> None:
    maker: Any = af.init.normal

    error = refusal(lambda: af.nn.Dense(4, 8, weights=maker))

    assert "takes weights as an initialiser, got function normal, which gives" in error.what
    assert error.hint == "call it with its parameters first, for instance af.init.normal()"


def test_values_of_ones_own_are_taken_and_must_have_the_shape() -> None:
    own = np.arange(8, dtype="float32").reshape(4, 2)
    with af.Graph() as graph:
        dense = af.nn.Dense(4, 2, weights=lambda shape, dtype: own)
        with pytest.raises(
            af.errors.SpecError, match=r"takes weights that give w \(4, 3\) float32, got \(4, 2\)"
        ):
            af.nn.Dense(4, 3, weights=lambda shape, dtype: own)

    np.testing.assert_array_equal(run_step(graph, dense.w), own)


def refusal(layer: Callable[[], Any]) -> af.errors.ActorflowError:
    with af.Graph(), pytest.raises(af.errors.SpecError) as caught:
        layer()
    return caught.value


@pytest.mark.parametrize(
    ("layer", "shape", "told"),
    [
        (lambda: af.nn.Conv(3, 8, (3, 3)), (None, 3, 32, 32), "(0, 2, 3, 1)"),
        (lambda: af.nn.Conv(3, 8, (3,)), (None, 3, 32), "(0, 2, 1)"),
        (lambda: af.nn.Conv(3, 8, (3, 3, 3)), (None, 3, 8, 9, 10), "(0, 2, 3, 4, 1)"),
        (lambda: af.nn.GroupNorm(8, 2), (None, 8, 5, 5), "(0, 2, 3, 1)"),
    ],
)
def test_channels_first_are_recognised(layer: Callable[[], Any], shape: Any, told: str) -> None:
    error = refusal(lambda: layer()(af.placeholder("float32", shape)))

    assert error.hint == f"this looks like channels first; af.transpose(x, {told})"


def test_the_op_recognises_channels_first_too() -> None:
    error = refusal(
        lambda: af.nn.conv2d(af.placeholder("float32", (None, 3, 32, 32)), np.zeros((5, 5, 3, 8), "float32"))
    )

    assert error.hint == "this looks like channels first; af.transpose(x, (0, 2, 3, 1))"


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        ("bytes", "make numbers of bytes first, with af.strings.to_number or af.io.decode_raw"),
        ("int32", "convert x with af.cast"),
        ("bool", "convert x with af.cast"),
        ("float64", 'convert x with af.cast, or make the layer with dtype="float64"'),
    ],
)
def test_another_dtype_is_told_what_to_do(dtype: str, hint: str) -> None:
    assert refusal(lambda: af.nn.Dense(4, 8)(af.placeholder(dtype, (None, 4)))).hint == hint


def test_bytes_are_no_numbers_of_rows() -> None:
    error = refusal(lambda: af.nn.Embedding(4, 8)(af.placeholder("bytes", (None,))))

    assert error.hint == "make numbers of bytes first, with af.strings.to_number or af.strings.hash_bucket"
