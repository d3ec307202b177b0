"""A tensor of a body is known only there: whatever else it is handed to says in which body it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.testing import check_gradients
from tests.support.sessions import run_step


class Program:
    """A loop, and tensors of its body that somebody has kept."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            self.x = af.placeholder("float32", (), name="x")
            self.v = af.Variable(np.zeros((3, 1), "float32"), name="v")
            self.queue = af.state.FIFOQueue(2, "float32", (), name="line")
            _, self.out = af.while_loop(lambda i, s: i < 3, self.turn, (0, self.x), name="loop")

    def turn(self, i: Any, s: Any) -> tuple[Any, Any]:
        self.index, self.inner, self.test = i + 1, s * 2.0, s < 0.0
        self.slices = af.IndexedSlices(af.reshape(s, (1, 1)), [0], (3, 1))
        self.array = af.TensorArray("float32", element_shape=())
        return self.index, self.inner


class Echo:
    def say(self, value: Any) -> Any:
        return value


def program_of(p: Program, loss: Any, **metrics: Any) -> Any:
    train = af.minimize(af.sum(p.v.read()), af.optim.sgd(0.1))
    return af.Program(
        graph=p.graph, loss=loss, train=train, batches=lambda epoch: [], epochs=1, metrics=metrics
    )


def within(p: Program, build: Callable[[], Any]) -> Any:
    return af.cond(p.x < 0.0, build, lambda: 1.0)


SCALAR = af.Spec((), "float32")  # type: ignore[arg-type]
PLACES: dict[str, Callable[[Program], Any]] = {
    "fetch": lambda p: run_step(p.graph, p.inner),
    "fetch by name": lambda p: run_step(p.graph, p.inner.name),
    "feed": lambda p: run_step(p.graph, p.out, {p.inner: 1.0}),
    "control_dependencies": lambda p: af.control_dependencies([p.inner]).__enter__(),
    "colocate_with": lambda p: af.colocate_with(p.inner).__enter__(),
    "an op": lambda p: p.inner + 1.0,
    "slices": lambda p: p.slices * 2.0,
    "slices, dense": lambda p: af.square(p.slices),
    "an array": lambda p: p.array.stack(),
    "assign": lambda p: p.v.assign(p.inner),
    "first value": lambda p: af.Variable(p.inner),
    "enqueue": lambda p: p.queue.enqueue(p.inner),
    "py_actor": lambda p: af.py_actor(abs, p.inner, SCALAR),
    "call": lambda p: af.call(af.actor(Echo), "say", p.inner, outputs=SCALAR),
    "loop variable": lambda p: af.while_loop(lambda s: s < 3.0, lambda s: s + 1.0, p.inner),
    "pred": lambda p: af.cond(p.test, lambda: 1.0, lambda: 2.0),
    "case": lambda p: af.case([(p.test, lambda: 1.0)], lambda: 2.0),
    "switch_case": lambda p: af.switch_case(p.index, [lambda: 1.0, lambda: 2.0]),
    "another body": lambda p: within(p, lambda: p.inner),
    "another body, slices": lambda p: within(p, lambda: af.square(p.slices)),
    "recompute": lambda p: af.autodiff.recompute(lambda a: a + p.inner)(p.x),
    "custom_gradient": lambda p: af.gradients(
        af.autodiff.custom_gradient(lambda a: (a, lambda g: g * p.inner))(p.x), p.x
    ),
    "ys": lambda p: af.gradients(p.inner, p.x),
    "xs": lambda p: af.gradients(p.out, p.inner),
    "xs in another body": lambda p: within(p, lambda: af.gradients(p.x * 2.0, p.inner)[0]),
    "grad_ys": lambda p: af.gradients(p.out, p.x, p.inner),
    "grad_ys, slices": lambda p: af.gradients(p.v.read(), p.v, p.slices),
    "stop_gradients": lambda p: af.gradients(p.out, p.x, stop_gradients=p.inner),
    "jvp, xs": lambda p: af.autodiff.jvp(p.out, p.inner, 1.0),
    "jvp, vs": lambda p: af.autodiff.jvp(p.out, p.x, p.inner),
    "minimize": lambda p: af.minimize(p.inner, af.optim.sgd(0.1)),
    "apply_gradients": lambda p: af.apply_gradients([p.inner], [p.v], af.optim.sgd(0.1)),
    "apply_gradients, slices": lambda p: af.apply_gradients([p.slices], [p.v], af.optim.sgd(0.1)),
    "program, loss": lambda p: program_of(p, p.inner),
    "program, metric": lambda p: program_of(p, p.out, kept=p.inner),
    "check_gradients, ys": lambda p: af.run(check_gradients(p.inner, p.x, {p.x: 1.0})),
    "check_gradients, xs": lambda p: af.run(check_gradients(p.out, p.inner, {p.x: 1.0})),
    "check_gradients, feeds": lambda p: af.run(check_gradients(p.out, p.x, {p.inner: 1.0})),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_says_in_which_body_a_tensor_is_made_and_how_it_gets_out(place: str) -> None:
    made = Program()

    with made.graph, pytest.raises(errors.ActorflowError) as caught:
        PLACES[place](made)

    text = str(caught.value)
    assert "computed inside the body of 'loop' (" in text
    assert "test_tensors_of_bodies.py:" in text
    assert "let that return it" in text
    assert "another graph" not in text


def test_what_lies_around_a_body_may_be_used_in_it() -> None:
    with af.Graph() as graph:
        v = af.Variable(np.zeros((3, 1), "float32"), name="v")
        slices = af.IndexedSlices(np.ones((1, 1), "float32"), [2], (3, 1))
        target = af.constant(1.0) * 2.0

        def turn(i: Any) -> Any:
            with af.colocate_with(target), af.control_dependencies([target]):
                after = af.arrays.identity(i + 1)
            with af.control_dependencies([af.apply_gradients([slices], [v], af.optim.sgd(1.0), name="u")]):
                return af.arrays.identity(after)

        last = af.while_loop(lambda i: i < 2, turn, 0)
        with af.control_dependencies([last]):
            end = v.read()

    assert run_step(graph, end).tolist() == [[0.0], [0.0], [-2.0]]


def test_nothing_is_colocated_with_what_another_graph_holds() -> None:
    with af.Graph():
        others = [af.constant(1.0), af.Variable(1.0, name="v")]

    with af.Graph():
        af.Variable(2.0, name="v")
        for other in others:
            with pytest.raises(errors.GraphError, match="belongs to another graph"), af.colocate_with(other):
                pass
