"""Gradients and updates refuse what is no tensor, variable or gradient: what it was, where, what to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.testing import check_gradients

with af.Graph():
    FOREIGN = {
        "tensor": af.constant(1.0),
        "variable": af.Variable(1.0, name="foreign"),
        "slices": af.IndexedSlices(np.ones((1, 2), "float32"), [0], (3, 2)),
    }

WRONG: dict[str, Any] = {
    "None": None,
    "text": "w",
    "bytes": b"w",
    "object": object(),
    "mapping": {"w": 1},
    "set": {1},
    "list of lists": [[1.0, 2.0], [3.0]],
    "list of text": ["w"],
    "list of None": [None],
    "foreign tensor": FOREIGN["tensor"],
    "foreign variable": FOREIGN["variable"],
    "foreign slices": FOREIGN["slices"],
    "list of a foreign tensor": [FOREIGN["tensor"]],
    "list of a foreign variable": [FOREIGN["variable"]],
}


@dataclass
class Program:
    """Two variables and a loss of each."""

    graph: af.Graph
    w: Any
    v: Any
    y: Any
    loss: Any
    key: str


def program() -> Program:
    with af.Graph() as graph:
        w, v = af.Variable(np.ones(2), name="w"), af.Variable(1.0, name="v")
        key = graph.add_object("rule", af.optim.sgd(0.1))
        return Program(graph, w, v, af.sum(af.square(w), name="loss"), v * v, key)


def check(*args: Any, **options: Any) -> Any:
    return af.run(check_gradients(*args, **options))


ONE = np.ones(2)
CALLS: dict[str, Callable[[Program, Any], Any]] = {
    "gradients, ys": lambda p, bad: af.gradients(bad, p.w),
    "gradients, xs": lambda p, bad: af.gradients(p.y, bad),
    "gradients, grad_ys": lambda p, bad: af.gradients(p.y, p.w, bad),
    "gradients, stop_gradients": lambda p, bad: af.gradients(p.y, p.w, stop_gradients=bad),
    "jvp, ys": lambda p, bad: af.autodiff.jvp(bad, p.w, ONE),
    "jvp, xs": lambda p, bad: af.autodiff.jvp(p.y, bad, ONE),
    "jvp, vs": lambda p, bad: af.autodiff.jvp(p.y, p.w, bad),
    "hessian_vector_product, y": lambda p, bad: af.autodiff.hessian_vector_product(bad, p.w, ONE),
    "hessian_vector_product, xs": lambda p, bad: af.autodiff.hessian_vector_product(p.y, bad, ONE),
    "hessian_vector_product, vs": lambda p, bad: af.autodiff.hessian_vector_product(p.y, p.w, bad),
    "minimize, loss": lambda p, bad: af.minimize(bad, af.optim.sgd(0.1)),
    "minimize, optimizer": lambda p, bad: af.minimize(p.loss, bad),
    "minimize, variables": lambda p, bad: af.minimize(p.loss, af.optim.sgd(0.1), bad),
    "minimize, name": lambda p, bad: af.minimize(p.loss, af.optim.sgd(0.1), name=bad),
    "apply_gradients, grads": lambda p, bad: af.apply_gradients(bad, [p.v], p.key),
    "apply_gradients, one of grads": lambda p, bad: af.apply_gradients([bad], [p.v], p.key),
    "apply_gradients, variables": lambda p, bad: af.apply_gradients([1.0], bad, p.key),
    "apply_gradients, one of variables": lambda p, bad: af.apply_gradients([1.0], [bad], p.key),
    "apply_gradients, optimizer": lambda p, bad: af.apply_gradients([1.0], [p.v], bad),
    "check_gradients, ys": lambda p, bad: check(bad, p.w),
    "check_gradients, xs": lambda p, bad: check(p.y, bad),
    "check_gradients, feeds": lambda p, bad: check(p.y, p.w, bad),
    "check_gradients, order": lambda p, bad: check(p.y, p.w, order=bad),
    "check_gradients, directions": lambda p, bad: check(p.y, p.w, directions=bad),
    "check_gradients, step": lambda p, bad: check(p.y, p.w, step=bad),
    "check_gradients, session": lambda p, bad: check(p.y, p.w, session=bad),
}
MEANT = {
    ("gradients, grad_ys", "None"),
    ("gradients, grad_ys", "list of None"),
    ("minimize, variables", "None"),
    ("minimize, name", "text"),
    ("check_gradients, feeds", "None"),
    ("check_gradients, directions", "None"),
    ("check_gradients, step", "None"),
    ("check_gradients, session", "None"),
    *((f"{verb}, ys", "list of lists") for verb in ("gradients", "jvp")),  # two constants
}
"""What is no misuse: a default, a name, constants."""


@pytest.mark.parametrize("bad", WRONG)
@pytest.mark.parametrize("call", CALLS)
def test_every_argument_of_a_wrong_kind_gives_an_error_of_ours_with_its_place(call: str, bad: str) -> None:
    made = program()
    with made.graph:
        if (call, bad) in MEANT:
            CALLS[call](made, WRONG[bad])
            return
        with pytest.raises(errors.ActorflowError) as caught:
            CALLS[call](made, WRONG[bad])

    error = caught.value
    assert not isinstance(error, errors.InternalError | errors.GradientMismatch)
    assert len(error.what.splitlines()[0]) > 15
    if call != "check_gradients, ys":  # then there is no place, not even a graph
        assert error.where is not None or isinstance(error, errors.FeedError)
    if "foreign" in bad and "another graph" in error.what:
        assert error.hint == "build both inside one `with Graph()`"


@pytest.mark.parametrize(
    ("call", "bad", "what", "hint"),
    [
        ("gradients, xs", "text", "gradients go to tensors and variables, got str 'w'", "and not its name"),
        ("gradients, xs", "foreign variable", "<Variable foreign () float32> belongs to another graph", "build both"),
        ("gradients, stop_gradients", "None", "stop_gradients are tensors and variables, got NoneType None", "leave it out"),
        ("gradients, stop_gradients", "foreign slices", "stop_gradients are tensors and variables, got IndexedSlices", "pass its values"),
        ("gradients, stop_gradients", "foreign tensor", "belongs to another graph", "build both"),
        ("jvp, xs", "foreign variable", "<Variable foreign () float32> belongs to another graph", "build both"),
        ("jvp, vs", "None", "jvp needs a direction for 'w' (2,) float64, got None", "give zeros"),
        ("minimize, loss", "None", "a loss is a tensor of the graph, got NoneType None", "build it of variables"),
        ("minimize, variables", "foreign variable", "minimize trains a list of variables, got Variable <Variable foreign", "put it in a list"),
        ("minimize, variables", "list of a foreign variable", "minimize trains variables of the current graph, <Variable foreign () float32> belongs", "build both"),
        ("minimize, variables", "list of text", "minimize trains variables, got str 'w'", "and not its name"),
        ("apply_gradients, one of grads", "None", "an update takes a gradient for each variable, got None for 'v'", "leave out variables"),
        ("apply_gradients, one of variables", "foreign variable", "an update takes variables of the current graph", "build both"),
        ("apply_gradients, optimizer", "list of text", "or the key of one in the graph, got ['w']", "af.optim.adam"),
        ("check_gradients, xs", "None", "xs must be tensors or variables, got NoneType None", "leave it out"),
        ("check_gradients, feeds", "text", "feeds are a mapping from tensors to values, got str 'w'", "{x: array}"),
        ("check_gradients, session", "text", "the session is one on the graph of ys, got str 'w'", "leave it out"),
    ],
)  # fmt: skip
def test_the_text_says_what_is_wrong_and_what_to_try(call: str, bad: str, what: str, hint: str) -> None:
    made = program()

    with made.graph, pytest.raises(errors.ActorflowError) as caught:
        CALLS[call](made, WRONG[bad])

    assert what in caught.value.what
    assert hint in str(caught.value.hint)


def test_slices_of_another_graph_are_no_gradient() -> None:
    with af.Graph() as graph:
        t = af.Variable(np.zeros((3, 2), "float32"), name="t")
        key = graph.add_object("rule", af.optim.sgd(0.1))
        with pytest.raises(errors.GraphError, match="belongs to another graph"):
            af.apply_gradients([FOREIGN["slices"]], [t], key)


def test_a_session_on_another_graph_is_refused_before_anything_runs() -> None:
    made, other = program(), af.Graph()

    async def main() -> None:
        async with af.Session(other) as session:
            await check_gradients(made.y, made.w, session=session)

    with pytest.raises(errors.ConfigError, match="the session is one on the graph of ys, got Session"):
        af.run(main())
    assert not len(other)


def test_a_tensor_is_no_value_to_feed() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2,), name="x")
        y, c = af.sum(x * x), af.constant(ONE)

    with pytest.raises(
        errors.FeedError, match=r"feed 'x' must fit .*, got the symbolic <Tensor constant:0"
    ) as caught:
        check(y, x, {x: c})

    assert caught.value.hint == "a feed is a value: run the tensor first, and feed what it gives"


def test_a_stopped_variable_is_a_constant_in_all_its_reads() -> None:
    with af.Graph() as graph:
        w, b = af.Variable(np.array(3.0), name="w"), af.Variable(np.array(2.0), name="b")
        y = w.read() * w.read() * b
        grads = af.gradients(y, [w, b], stop_gradients=w)

    async def main() -> Any:
        async with af.Session(graph) as session:
            return await session.run(grads)

    assert [float(g) for g in af.run(main())] == [12, 9]
