"""Which device runs a node changes no value: scopes over /cpu:0 to /cpu:2 against none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.sim.engine.schedulers import Schedule
from tests.graph.programs import programs
from tests.support.reference import evaluate
from tests.support.strategies import examples, run_drawn

DEVICES = ("/cpu:0", "/cpu:1", "/cpu:2")
devices = st.lists(st.sampled_from(DEVICES), min_size=1, max_size=30)


def placed(graph: Graph, names: Sequence[str]) -> Graph:
    """The same graph, the devices of its nodes taken from `names` in turns."""
    copy = Graph(seed=graph.seed)
    copy.constants, copy.objects = graph.constants, graph.objects
    for node in graph.nodes:
        copy.restore(replace(node, device=names[node.id % len(names)], colocate=None))
    return copy


@settings(deadline=None)
@given(drawn=programs(), names=devices, schedule=sim.schedules())
def test_device_scopes_change_no_value(drawn: Any, names: Sequence[str], schedule: Schedule) -> None:
    graph = placed(drawn.graph, names)
    told = evaluate(drawn.graph, drawn.loss, drawn.feeds)
    feeds = {x.name: value for x, value in drawn.feeds.items()}

    found = run_drawn(graph, schedule, lambda s: s.run(drawn.loss.name, feeds), devices=DEVICES)

    assert np.asarray(found).tobytes() == np.asarray(told).tobytes()


def network(names: list[str]) -> tuple[Graph, Tensor, Tensor]:
    """A small network whose parts stand on `names` in turns, its loss and its training step."""
    at = iter(names * 8)
    with Graph(seed=3) as graph:
        x = af.constant(np.linspace(-1, 1, 24, dtype="float32").reshape(6, 4))
        y = af.constant(np.arange(6, dtype="int32") % 3)
        with af.device(next(at)):
            w = af.Variable(af.random.normal((4, 5)), name="w")
            h = af.nn.relu(x @ w.read())
        with af.device(next(at)):
            v = af.Variable(af.random.normal((5, 3)), name="v")
            h = af.nn.dropout(h, 0.25) @ v.read()
        with af.device(next(at)):
            loss = af.mean(af.nn.softmax_cross_entropy(h, y))
        with af.device(next(at)):
            train = af.minimize(loss, af.optim.adam(0.1))
    return graph, loss, train


async def trained(names: list[str]) -> list[bytes]:
    graph, loss, train = network(names)
    async with af.Session(graph, threads=1, devices=DEVICES) as session:
        losses = [(await session.run([loss, train]))[0] for _ in range(4)]
        weights = await session.run(["w", "v"])
    return [np.asarray(a).tobytes() for a in (*losses, *weights)]


@settings(max_examples=examples(15), deadline=None)
@given(names=st.lists(st.sampled_from(DEVICES), min_size=4, max_size=4))
def test_training_over_several_devices_gives_the_same_bits(names: list[str]) -> None:
    assert asyncio.run(trained(names)) == asyncio.run(trained(["/cpu:0"]))


def test_an_error_on_another_device_names_node_and_device() -> None:
    with Graph() as graph:
        x = af.placeholder("float32", (2,), name="x")
        with af.device("/cpu:1"):
            y = af.math.check_numerics(x, "the input")

    async def main() -> None:
        async with af.Session(graph, devices=["/cpu:1"]) as session:
            await session.run(y, {x: [np.nan, 1.0]})

    with pytest.raises(af.errors.NumericError) as caught:
        asyncio.run(main())

    assert caught.value.where is not None
    assert (caught.value.where.node, caught.value.where.device) == ("check_numerics", "/cpu:1")
