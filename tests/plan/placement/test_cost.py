"""What a program is assumed to cost, and what was measured."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import ConfigError
from actorflow.plan.lower import lower
from actorflow.plan.placement.cost import CostModel, has_kernel, units_of_kernels
from actorflow.plan.placement.scheduling_problem import DeviceLink
from actorflow.plan.program import Program
from actorflow.values.spec import ListSpec, Spec, spec
from actorflow.values.tensor_list import TensorList


def product() -> Program:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 100), name="x")
        y = af.matmul(x, af.constant([[1.0] * 7] * 100), name="y")
    return lower(graph, [y.port], [x.port], ["/cpu:0"], passes=())


def test_a_kernel_costs_its_own_units_with_unknown_sizes_assumed() -> None:
    program = product()
    few, many = CostModel(unknown_size=1), CostModel(unknown_size=1000)

    one, thousand = (model.node_units(program.nodes[1], program) for model in (few, many))

    assert (one, thousand) == (2 * 100 * 7, 2 * 1000 * 100 * 7)  # what matmul says of itself


def test_what_was_measured_in_one_process_counts_for_the_like_device_of_each() -> None:
    there, other = "/job:ps/task:0/device:cpu:0", "/job:ps/task:1/device:cpu:0"
    model = (
        CostModel()
        .with_measurements({("y", "/cpu:0"): 2.0, ("y", "/cpu:1"): 3.0})
        .with_measurements({("y", there): 5.0})
    )

    assert [model.node_s("y", 1.0, d) for d in ("/cpu:0", "/cpu:1", there, other)] == [2.0, 3.0, 5.0, 2.0]
    assert model.node_s("z", 0.0, other) == model.overhead_s["cpu"]
    assert CostModel().measured_s == {}


def test_a_session_hands_over_what_its_kernels_took() -> None:
    """Of unknown size, so it is measured; a small one of known size is not, nor is one that did not run."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 64), name="x")
        y = af.matmul(x, af.zeros((64, 64)), name="y")
        small = af.exp(af.random.normal((2,)), name="small")
        af.exp(x, name="other")

    async def main() -> dict[tuple[str, str], float]:
        async with af.Session(graph, threads=0) as session:
            await session.run([y, small], {x: np.ones((256, 64), "float32")})
            return session.kernel_seconds()

    found = asyncio.run(main())

    assert found.keys() == {("y", "/cpu:0")}
    assert found["y", "/cpu:0"] > 0
    assert CostModel().with_measurements(found).node_s("y", 1.0, "/cpu:0") == found["y", "/cpu:0"]


def test_what_calls_no_kernel_costs_only_the_overhead() -> None:
    program, model = product(), CostModel()

    assert [model.node_units(program.nodes[i], program) for i in (0, 2)] == [0.0, 0.0]
    assert model.node_s("x", 0.0, "/cpu:0") == model.overhead_s["cpu"]


def test_a_measured_time_goes_before_an_estimate() -> None:
    model = CostModel(measured_s={("y", "/cpu:1"): 0.5})

    assert model.node_s("y", 10.0, "/cpu:1") == 0.5
    assert model.node_s("y", 10.0, "/cpu:0") == pytest.approx(2e-6 + 10e-9)


@pytest.mark.parametrize(
    ("of", "size"),
    [
        (spec("float32", (2, 3)), 24.0),
        (spec("float64", ()), 8.0),
        (spec("int64", (None, 2)), 160.0),
        (spec("float32", None), 40.0),
        (spec("bytes", (4,)), 400.0),
    ],
)
def test_an_edge_has_the_bytes_of_its_spec_with_what_is_open_assumed(of: Spec, size: float) -> None:
    assert CostModel(unknown_size=10, object_bytes=100).edge_bytes(of) == size


def test_links_within_a_process_and_between_two_differ_unless_one_is_known() -> None:
    known = DeviceLink(1.0, 1.0)
    model = CostModel(links={("/cpu:0", "/job:ps/task:0/device:cpu:0"): known})

    assert model.link("/cpu:0", "/cpu:1") == model.within
    assert model.link("/cpu:0", "/job:ps/task:0/device:cpu:0") == known
    assert model.link("/job:ps/task:0/device:cpu:0", "/cpu:0") == model.between


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"unit_s": {"cpu": -1.0}}, "a node takes a number of seconds, got -1.0 for cpu"),
        ({"measured_s": {("y", "/cpu:0"): float("nan")}}, "got nan for"),
        ({"within": DeviceLink(0.0, 0.0)}, "a link has a latency of seconds and carries some bytes each"),
        ({"links": {("/cpu:0", "/cpu:1"): DeviceLink(-1.0, 1.0)}}, "a link has a latency"),
        ({"unknown_size": 0}, "unknown_size is at least 1, got 0"),
        ({"unit_s": {"cpu": "fast"}}, "a node takes a number of seconds, got 'fast' for cpu"),
        ({"within": DeviceLink(0.0, None)}, "a link has a latency"),  # type: ignore[arg-type]
        ({"object_bytes": True}, "object_bytes is at least 1, got True"),
    ],
)
def test_a_cost_that_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        CostModel(**wrong)


def test_a_kind_of_device_that_the_model_does_not_know_is_told() -> None:
    with pytest.raises(ConfigError, match="knows no device of kind 'tpu'; it knows cpu, gpu"):
        CostModel().node_s("y", 1.0, "/tpu:0")


def test_which_device_has_a_kernel() -> None:
    assert has_kernel("exp", "/cpu:0")
    assert has_kernel("exp", "/job:ps/task:0/device:gpu:0")
    assert not has_kernel("no_such_op", "/cpu:0")
    assert units_of_kernels("no_such_op", [], {}) == 1.0


def test_a_list_weighs_what_its_elements_weigh() -> None:
    model = CostModel(unknown_size=10)

    assert model.edge_bytes(ListSpec(spec("float32", (3,)), 5)) == 60
    assert model.edge_bytes(ListSpec(ListSpec(spec("float64", (None,))), 2)) == 2 * 10 * 10 * 8


def test_what_copies_a_list_is_not_taken_to_be_short() -> None:
    """Its bytes are known in the step: it is measured there, and goes to a thread when it takes long."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (4, 2), name="x")
        y = af.TensorArray.of(x).stack()
    program = lower(graph, [y.port], [x.port], ["/cpu:0"], passes=())
    stack = next(n for n in program.nodes if n.op == "list_stack")

    units = CostModel().node_units(stack, program)

    assert 8192 < units < 1e5
    made = TensorList.of([np.zeros(1000, "float32")] * 100)
    assert units_of_kernels("list_stack", [made], {}) > 1e5
