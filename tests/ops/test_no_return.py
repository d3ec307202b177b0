"""A function of the user's that forgets its `return` is refused with the line, and with what to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import actorflow as af
from actorflow import errors


def nothing(*args: Any) -> Any:
    """Builds what it was asked for, and forgets to return it."""


def a_zero() -> Any:
    return af.constant(0.0)


class Own(af.nn.Cell):
    """A cell of the user's; what a step returns is given."""

    def __init__(
        self, returns: Callable[[Any, Any], Any], begins: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__("own", 3, 3, "float32", None)
        self.returns, self.begins = returns, begins

    def initial(self, rows: Any) -> Any:
        return self.zeros(rows) if self.begins is None else self.begins(rows)

    def step(self, projected: Any, state: Any) -> Any:
        return self.returns(projected, state)


def decoded(verb: Any, step: Any, **settings: Any) -> Any:
    return verb(step, [1, 2], af.zeros((2, 3)), end=0, longest=3, **settings)


def stateless(tokens: Any, state: Any) -> Any:
    return af.zeros((2, 5)), None


def of_rule(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: af.gradients(build(x), x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "map_fn": lambda x: af.map_fn(nothing, x),
    "map_fn, outputs": lambda x: af.map_fn(nothing, x, outputs=af.Spec((), "float32")),  # type: ignore[arg-type]
    "scan": lambda x: af.scan(nothing, x, 0.0),
    "fold": lambda x: af.fold(nothing, x, 0.0),
    "while_loop, cond": lambda x: af.while_loop(nothing, lambda i: i + 1, 0),
    "while_loop, body": lambda x: af.while_loop(lambda i: i < 3, nothing, 0),
    "cond, one": lambda x: af.cond(True, nothing, a_zero),
    "cond, both": lambda x: af.cond(True, nothing, nothing),
    "case": lambda x: af.case([(True, nothing)], nothing),
    "switch_case": lambda x: af.switch_case(1, [nothing, nothing]),
    "cond in a body": lambda x: af.while_loop(
        lambda i: i < 3, lambda i: (af.cond(i > 1, nothing, nothing), i + 1)[1], 0
    ),
    "recompute": lambda x: af.autodiff.recompute(nothing)(x),
    "gradient rule": of_rule(af.autodiff.custom_gradient(lambda a: (a, nothing))),
    "gradient of py_actor": of_rule(
        lambda x: af.py_actor(abs, x, af.Spec((3,), "float32"), gradient=nothing)  # type: ignore[arg-type]
    ),
    "first value": lambda x: af.Variable(nothing),
    "first value of a dtype": lambda x: af.Variable(nothing, dtype="float32"),
    "first value of a layer": lambda x: af.nn.Dense(3, 4, weights=nothing),
    "rnn": lambda x: af.nn.rnn(Own(nothing), af.zeros((2, 4, 3))),
    "rnn, the state": lambda x: af.nn.rnn(Own(lambda y, s: (y, None)), af.zeros((2, 4, 3))),
    "rnn, the output": lambda x: af.nn.rnn(Own(lambda y, s: (None, s)), af.zeros((2, 4, 3))),
    "rnn, first state": lambda x: af.nn.rnn(Own(lambda y, s: (y, s), nothing), af.zeros((2, 4, 3))),
    "rnn, unrolled": lambda x: af.nn.rnn(Own(nothing), af.zeros((2, 4, 3)), unroll=True),
    "rnn, recomputed": lambda x: af.nn.rnn(Own(nothing), af.zeros((2, 4, 3)), recompute=True),
    "a cell": lambda x: Own(nothing)(af.zeros((2, 3))),
    "stacked cells": lambda x: af.nn.stack_cells([Own(nothing)])(af.zeros((2, 3))),
    "activation": lambda x: af.nn.RNNCell(3, 3, activation=nothing)(af.zeros((2, 3))),
    "Sequential": lambda x: af.nn.Sequential([af.nn.relu, nothing])(x),
    "greedy": lambda x: decoded(af.nn.greedy, nothing),
    "greedy, the state": lambda x: decoded(af.nn.greedy, stateless),
    "beam_search": lambda x: decoded(af.nn.beam_search, nothing, width=2),
    "beam_search, the state": lambda x: decoded(af.nn.beam_search, stateless, width=2),
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_a_forgotten_return_is_told_while_the_graph_is_built(what: str) -> None:
    with af.Graph():
        x = af.placeholder("float32", (3,), name="x")

        with pytest.raises(errors.ActorflowError) as caught:
            FUNCTIONS[what](x)

    assert str(caught.value.hint).startswith("a function without a return gives None")
    assert "None" in caught.value.what or "nothing" in caught.value.what
    assert "test_no_return.py:" in str(caught.value.where)


@pytest.mark.parametrize("empty", [(), [], {}])
def test_what_holds_no_tensor_is_no_result_either(empty: Any) -> None:
    with af.Graph(), pytest.raises(errors.GraphError, match="returns a tensor, or a structure of some"):
        af.map_fn(lambda row: empty, af.zeros((2,)))
    with af.Graph(), pytest.raises(errors.GraphError, match="returns a tensor, or a structure of some"):
        af.cond(True, lambda: empty, lambda: empty)


def test_an_effect_that_nobody_could_ask_for_is_refused_outside_of_bodies_only() -> None:
    with af.Graph() as graph:
        v = af.Variable(0.0, name="v")

        def maybe(i: Any) -> None:
            af.cond(i > 1, lambda: (v.assign_add(1.0), None)[1], nothing)

        with pytest.raises(errors.GraphError, match="a branch of 'cond' returns a tensor") as caught:
            maybe(af.constant(2))
        last = af.while_loop(lambda i: i < 5, lambda i: (maybe(i), i + 1)[1], 0)
        with af.control_dependencies([last]):
            end = v.read()

    async def main() -> Any:
        async with af.Session(graph, threads=0) as session:
            return await session.run(end)

    assert "let it return what that gives" in str(caught.value.hint)
    assert af.run(main()) == 3.0


def test_the_state_of_a_step_keeps_its_names_in_whatever_order_they_come() -> None:
    with af.Graph() as graph:
        logits, count = af.constant([[0.0, 9.0, 0.0]]), af.zeros((1,), "int32")

        def step(tokens: Any, state: Any) -> Any:
            return state["logits"], {"n": state["n"] + 1, "logits": state["logits"]}

        found = af.nn.greedy(step, [2], {"logits": logits, "n": count}, end=None, longest=2)

    async def main() -> Any:
        async with af.Session(graph, threads=0) as session:
            return await session.run(found.tokens)

    assert af.run(main()).tolist() == [[1, 1]]


@pytest.mark.parametrize("outputs", [af.Spec((), "float32"), (af.Spec((), "float32"),)])  # type: ignore[arg-type]
def test_what_forgets_its_return_in_a_step_is_told_so_too(outputs: Any) -> None:
    with af.Graph() as graph:
        y = af.py_actor(nothing, 1.0, outputs)

    async def main() -> Any:
        async with af.Session(graph) as session:
            await session.run(y)

    with pytest.raises(errors.SpecError, match="must return what its outputs say") as caught:
        af.run(main())
    assert str(caught.value.hint).startswith("a function without a return gives None")
