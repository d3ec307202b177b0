"""Drawn programs: graphs of a dozen ops over small matrices, smooth enough to be differentiated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import actorflow.ops as af
from actorflow.graph.builder import Tensor, control_dependencies, device, name_scope
from actorflow.graph.graph import Graph


@dataclass(frozen=True)
class Program:
    """A graph, values for its placeholders, and a scalar that depends on some of them."""

    graph: Graph
    feeds: dict[Tensor, np.ndarray]
    loss: Tensor


ONE = {
    "tanh": af.tanh,
    "sigmoid": af.sigmoid,
    "square": af.square,
    "negative": af.negative,
    "transpose": af.transpose,
    "halves": lambda x: af.concat([x[:1], x[1:]], axis=0),
    "row": lambda x: x[0],
    "column": lambda x: x[:, :1],
    "mean": lambda x: af.mean(x, axis=-1, keepdims=True),
    "reshape": lambda x: af.reshape(af.reshape(x, (-1,)), (2, 2)),
    "gather": lambda x: af.gather(x, [1, 0]),
}
TWO = {
    "add": af.add,
    "subtract": af.subtract,
    "multiply": af.multiply,
    "matmul": af.matmul,
    "where": lambda a, b: af.where(af.constant([[True, False], [False, True]]), a, b),
}


@st.composite
def programs(
    draw: st.DrawFn,
    min_ops: int = 1,
    max_ops: int = 12,
    devices: tuple[str, ...] = ("", "/cpu:0", "/job:ps/cpu:1"),
) -> Program:
    values = st.integers(-8, 8).map(lambda n: n / 8)
    with Graph(seed=draw(st.integers(0, 2**31))) as graph:
        shape = draw(st.sampled_from([(2, 2), (None, 2), (None, None)]))
        xs = [af.placeholder("float64", shape, f"x{i}") for i in range(draw(st.integers(1, 3)))]
        made = [*xs, af.constant([[0.5, -0.25], [1.0, 0.75]], "float64")]
        for i in range(draw(st.integers(min_ops, max_ops))):
            made.append(_step(draw, i, made, devices))
        loss = af.mean(made[-1], name="loss")
    feeds = {x: np.array(draw(st.lists(values, min_size=4, max_size=4))).reshape(2, 2) for x in xs}
    return Program(graph, feeds, loss)


def _step(draw: st.DrawFn, i: int, made: list[Tensor], devices: tuple[str, ...]) -> Tensor:
    """One more tensor of shape (2, 2), made of earlier ones."""
    a, b = draw(st.sampled_from(made)), draw(st.sampled_from(made))
    with (
        name_scope(f"part{i % 3}"),
        device(draw(st.sampled_from(devices))),
        control_dependencies(draw(st.lists(st.sampled_from(made), max_size=2))),
    ):
        op = draw(st.sampled_from([*ONE, *TWO]))
        made_now: Tensor = TWO[op](a, b) if op in TWO else ONE[op](a)
        if op in ("row", "column", "mean"):
            made_now = af.tanh(made_now + b)
    return made_now
