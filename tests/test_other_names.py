"""Names of numpy, PyTorch, TensorFlow and Keras: every hint leads to something that there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

import actorflow as af
from actorflow.errors import UnknownArgument
from actorflow.graph.opdef import table
from actorflow.other_names import FUNCTIONS, KEYWORDS, LAYERS, OPTIMIZERS


@pytest.mark.parametrize("written", sorted({*FUNCTIONS.values(), *LAYERS.values(), *OPTIMIZERS.values()}))
def test_what_a_hint_says_is_there(written: str) -> None:
    for name in re.findall(r"af\.([a-zA-Z0-9_.]+)", written):
        found: Any = af
        for part in name.rstrip(".").split("."):
            found = getattr(found, part)


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (af, "reduce_mean", "here it is af.mean"),
        (af, "Linear", "here it is af.nn.Dense"),
        (af, "concatenate", "here it is af.concat"),
        (af, "cat", "here it is af.concat"),
        (af, "ReLU", "write af.relu"),
        (af, "matMul", "write af.matmul"),
        (af, "softmx", "write af.softmax"),
        (af, "GradientTape", "here it is af.gradients(ys, xs)"),
        (af, "variable", "write af.Variable"),
        (af, "float32", 'here it is the text "float32"'),
        (af.nn, "Linear", "here it is af.nn.Dense"),
        (af.nn, "Conv2d", "here it is af.nn.Conv"),
        (af.nn, "dense", "write af.nn.Dense"),
        (af.nn, "conv", "write af.nn.Conv"),
        (af.nn, "attention", "here it is af.nn.MultiHeadAttention"),
        (af.nn, "ReLU", "here it is af.relu"),
        (af.nn, "CrossEntropyLoss", "here it is af.softmax_cross_entropy"),
        (af.nn, "Batchnorm", "write af.nn.BatchNorm"),
        (af.optim, "Adam", "write af.optim.adam"),
        (af.optim, "SGD", "write af.optim.sgd"),
        (af.optim, "RMSprop", "write af.optim.rmsprop"),
        (af.optim, "GradientDescentOptimizer", "here it is af.optim.sgd"),
    ],
)
def test_a_name_that_others_use_is_told_by_ours(module: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)

    assert str(caught.value).splitlines() == [
        f"module {module.__name__!r} has no attribute {name!r}",
        f"  try:   {hint}",
    ]
    assert not hasattr(module, name)


@pytest.mark.parametrize("module", [af, af.nn, af.optim])
def test_a_name_that_is_near_nothing_gets_no_hint(module: Any) -> None:
    for name in ("zzqqxx", "__wrapped__"):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert "try:" not in str(caught.value)


def test_the_files_of_layers_can_still_be_imported() -> None:
    from actorflow.nn import dense
    from actorflow.nn.dense import Dense

    assert dense.Dense is Dense is af.nn.Dense


def x() -> af.Tensor:
    return af.placeholder("float32", (2, 3))


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "sum, dim": (lambda: af.sum(x(), dim=1), "write axis="),  # type: ignore[call-arg]
    "softmax, dim": (lambda: af.softmax(x(), dim=-1), "write axis="),  # type: ignore[call-arg]
    "concat, dim": (lambda: af.concat([x(), x()], dim=1), "write axis="),  # type: ignore[call-arg]
    "mean, keepdim": (lambda: af.mean(x(), 1, keepdim=True), "write keepdims="),  # type: ignore[call-arg]
    "max, keep_dims": (lambda: af.max(x(), 1, keep_dims=True), "write keepdims="),  # type: ignore[call-arg]
    "exp, input": (lambda: af.exp(input=x()), "write x="),  # type: ignore[call-arg]
    "std, ddof": (lambda: af.std(x(), ddof=1), "write correction="),  # type: ignore[call-arg]
    "sum, axes": (lambda: af.sum(x(), axes=1), "write axis="),  # type: ignore[call-arg]
    "sum, keepdimz": (lambda: af.sum(x(), keepdimz=True), "write keepdims="),  # type: ignore[call-arg]
    "a method": (lambda: x().mean(dim=1), "write axis="),
    "Dense, activation": (
        lambda: af.nn.Dense(3, 4, activation="relu"),  # type: ignore[call-arg]
        "call it on the output, as in af.relu(layer(x)), or put it after the layer in af.nn.Sequential",
    ),
    "Dense, in_features": (lambda: af.nn.Dense(in_features=3), "write inputs="),  # type: ignore[call-arg]
    "Conv, kernel_size": (lambda: af.nn.Conv(1, 2, kernel_size=3), "write size="),  # type: ignore[call-arg]
    "LSTMCell, hidden_size": (lambda: af.nn.LSTMCell(3, hidden_size=3), "write units="),  # type: ignore[call-arg]
    "Dropout, p": (lambda: af.nn.Dropout(p=0.5), "write rate="),  # type: ignore[call-arg]
    "a call of a layer": (lambda: af.nn.Dense(3, 4)(input=x()), "write x="),  # type: ignore[call-arg]
    "adam, learning_rate": (lambda: af.optim.adam(learning_rate=1e-3), "write lr="),  # type: ignore[call-arg]
    "sgd, momentums": (lambda: af.optim.adam(beta_1=0.5), "write beta1="),  # type: ignore[call-arg]
    "Variable, initial_value": (lambda: af.Variable(initial_value=1.0), "write initial="),  # type: ignore[call-arg]
    "Variable, requires_grad": (lambda: af.Variable(1.0, requires_grad=True), "write trainable="),  # type: ignore[call-arg]
    "minimize, var_list": (
        lambda: af.minimize(af.sum(x()), af.optim.sgd(0.1), var_list=[]),  # type: ignore[call-arg]
        "write variables=",
    ),
    "sum, nonsense": (lambda: af.sum(x(), nonsense=1), ""),  # type: ignore[call-arg]
}


@pytest.mark.parametrize(("build", "hint"), WRONG.values(), ids=WRONG)
def test_an_argument_that_others_have_is_told_by_our_name(build: Callable[[], Any], hint: str) -> None:
    with af.Graph(), pytest.raises(UnknownArgument, match="takes no argument '.*'; it takes") as caught:
        build()

    assert (caught.value.hint or "") == hint
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, af.errors.SpecError)


def test_every_verb_with_an_axis_answers_dim() -> None:
    asked = 0
    with af.Graph():
        for name in set(af.__all__) & set(table()):
            verb = getattr(af, name)
            if "axis" not in signature(verb).parameters:
                continue
            with pytest.raises(UnknownArgument) as caught:
                verb(dim=0)
            assert caught.value.hint == "write axis=", name
            asked += 1
    assert asked > 30


def test_a_wrong_argument_of_run_is_told_before_anything_runs() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            y = x() * 2
        async with af.Session(graph) as session:
            with pytest.raises(UnknownArgument) as caught:
                await session.run(y, feed_dict={})  # type: ignore[call-overload]
            assert caught.value.hint == "write feeds="

    af.run(main())


def test_names_of_arguments_do_not_lead_in_a_circle() -> None:
    assert all(name != ours for name, ours in KEYWORDS.items())
