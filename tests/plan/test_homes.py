"""Where nodes lie when there are several processes: their scopes say, and state rules."""

from __future__ import annotations

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import PlacementError
from actorflow.plan.homes import homes, resource_home

DEVICES = ("/job:chief/task:0/device:cpu:0", "/job:ps/task:0/device:cpu:0", "/job:ps/task:1/device:cpu:0")
CHIEF, PS0, PS1 = DEVICES


def placed(graph: af.Graph) -> dict[str, str]:
    found = homes(graph, range(len(graph.nodes)), DEVICES)  # type: ignore[arg-type]
    return {graph.nodes[i].name: device for i, device in found.items()}


def test_a_scope_that_leaves_something_open_means_the_first_device_that_fits() -> None:
    with af.Graph() as graph:
        af.random_normal((), name="none")
        with af.device("/job:ps"):
            af.random_normal((), name="some")
        with af.device("/job:ps/task:1"):
            af.random_normal((), name="one")
        with af.device("cpu:0"):
            af.random_normal((), name="own")

    assert placed(graph) == {"none": CHIEF, "some": PS0, "one": PS1, "own": CHIEF}


def test_what_asks_state_goes_where_that_lives() -> None:
    with af.Graph() as graph:
        with af.device("/job:ps/task:1"):
            v = af.Variable(np.float32(1), name="v")
        read, train = v.read(), af.minimize(af.square(v), af.optim.sgd(0.1))

    found = placed(graph)

    assert found[read.name.partition(":")[0]] == PS1
    assert found[train.name.partition(":")[0]] == PS1
    assert resource_home(graph, "v", DEVICES) == PS1


def test_what_is_colocated_goes_where_its_target_goes() -> None:
    with af.Graph() as graph:
        with af.device("/job:ps/task:1"):
            v = af.Variable(np.float32(1), name="v")
        with af.device("/job:ps/task:0"):
            y = af.random_normal((), name="y")
        with af.colocate_with(v):
            af.random_normal((), name="with_v")
        with af.colocate_with(y):
            af.random_normal((), name="with_y")

    assert placed(graph)["with_v"] == PS1
    assert placed(graph)["with_y"] == PS0


def test_a_device_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    with af.Graph() as graph, af.device("/job:worker"):
        af.random_normal((), name="y")

    with pytest.raises(PlacementError, match=r"no device fits '/job:worker'; there are /job:chief") as caught:
        placed(graph)
    assert caught.value.where is not None and caught.value.where.node == "y"


def test_variables_of_two_processes_have_no_optimizer_together() -> None:
    with af.Graph() as graph:
        with af.device("/job:ps/task:0"):
            a = af.Variable(np.float32(1), name="a")
        with af.device("/job:ps/task:1"):
            b = af.Variable(np.float32(1), name="b")
        af.minimize(a * b, af.optim.sgd(0.1))

    with pytest.raises(PlacementError, match=f"got 'a' on {PS0}, 'b' on {PS1}"):
        placed(graph)
