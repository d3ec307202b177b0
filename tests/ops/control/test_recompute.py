"""`recompute`: the same values and gradients, with less kept from the forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GradientError
from tests.support.sessions import run_step


def of_order(function: Callable[..., Any], wrap: Callable[..., Any]) -> list[Any]:
    """Value, gradient and second gradient of a function of x and a variable."""
    with af.Graph(seed=5) as graph:
        x = af.placeholder("float64", (3,), "x")
        v = af.Variable(0.5, dtype="float64", name="v")
        y = af.sum(wrap(lambda a: function(a, v))(x))
        first = af.gradients(y, [x, v])
        second = af.gradients(af.sum(first[0]) * first[1], [x, v])
    return [np.asarray(a) for a in run_step(graph, [y, *first, *second], {x: np.array([0.25, 0.5, 1.0])})]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "smooth": lambda x, v: af.exp(af.sin(x * v)) * v,
    "random": lambda x, v: af.sin(x * af.random.uniform((3,), dtype="float64")) * v,
    "dropped": lambda x, v: af.nn.dropout(x * v, 0.5) * x,
    "a branch": lambda x, v: af.cond(af.sum(x) > v, lambda: x * x * v, lambda: x),
    "a loop": lambda x, v: af.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, af.sin(y) * v), (0, x))[1],
    "again": lambda x, v: af.autodiff.recompute(lambda y: af.sin(y) * v)(x) * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_have_the_bits_of_the_function_itself(name: str) -> None:
    if name == "dropped" and not hasattr(af, "dropout"):
        pytest.skip("no dropout")

    again = of_order(FUNCTIONS[name], af.autodiff.recompute)
    kept = of_order(FUNCTIONS[name], lambda function: function)

    if name in ("random", "dropped"):  # a body draws numbers of its own
        assert all(np.isfinite(a).all() for a in again)
        return
    for one, other in zip(again, kept, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_random_number_is_the_same_one_in_the_gradient() -> None:
    with af.Graph(seed=1) as graph:
        x = af.placeholder("float64", (4,), "x")
        y = af.autodiff.recompute(lambda a: a * af.random.uniform((4,), dtype="float64"))(x)
        (slope,) = af.gradients(y, x)

    value, slopes = run_step(graph, [y, slope], {x: np.ones(4)})

    np.testing.assert_array_equal(value, slopes)


def test_nothing_that_can_be_computed_again_is_kept() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (4,), "x")

        @af.autodiff.recompute
        def layer(a: Any) -> Any:
            """What it computes."""
            return af.exp(af.sin(a) * af.random.uniform((4,)))

        y = layer(x)
        af.gradients(y, x)

    (kept,) = graph.node("layer").attrs["saved"]
    assert graph.bodies["layer/body"].nodes[kept[0]].op == "random_uniform"
    assert layer.__doc__ == "What it computes."


def test_a_loop_keeps_only_what_its_recomputed_turns_begin_with() -> None:
    def saved(wrap: Callable[..., Any]) -> int:
        with af.Graph() as graph:
            x = af.placeholder("float32", (4,), "x")
            turn = wrap(lambda y: af.exp(af.sin(af.tanh(y))))
            _, y = af.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, turn(y)), (0, x))
            af.gradients(y, x)
        return len(graph.node("while_loop").attrs["saved"])

    assert saved(af.autodiff.recompute) == 1
    assert saved(lambda f: f) > 1


def test_it_is_computed_again_only_after_the_gradient_has_come() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (4,), "x")
        y = af.autodiff.recompute(lambda a: af.exp(af.sin(a)))(x)
        af.gradients(y * y, x)

    again = [n for n in graph.nodes if n.op == "sin" and n.name.startswith("gradients")]
    assert [graph.nodes[c].op for c in again[0].controls] == ["add"] or again[0].controls


def test_structures_and_settings_go_through() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        made = af.autodiff.recompute(lambda a, *, scale: {"s": a * scale, "t": (a, None)})(x, scale=3.0)

    assert run_step(graph, made, {x: 2.0}) == {"s": 6, "t": (2, None)}


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(GradientError, match="recompute takes a function, got int 3") as caught:
        af.autodiff.recompute(3)  # type: ignore[arg-type]

    assert "test_recompute.py:" in str(caught.value.where)
