"""Where state lives when there are several processes: its scope says, then the caller, then the first device."""

from __future__ import annotations

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import ConfigError, PlacementError
from actorflow.plan.placement.state_placement import check_names, check_state, place_state

DEVICES = ("/job:chief/task:0/device:cpu:0", "/job:ps/task:0/device:cpu:0", "/job:ps/task:1/device:cpu:0")
CHIEF, PS0, PS1 = DEVICES


def home(scope: str, **state: str) -> str:
    with af.Graph() as graph, af.device(scope):
        af.Variable(np.float32(1), name="v")
    return place_state(graph.resources["v"], DEVICES, state)


@pytest.mark.parametrize(
    ("scope", "expected"), [("", CHIEF), ("/job:ps", PS0), ("/job:ps/task:1", PS1), ("cpu:0", CHIEF)]
)
def test_a_scope_that_leaves_something_open_means_the_first_device_that_fits(
    scope: str, expected: str
) -> None:
    assert home(scope) == expected


def test_a_caller_chooses_where_the_scope_leaves_a_choice_and_nowhere_else() -> None:
    assert home("", v=PS1) == PS1
    assert home("/job:ps", v="/job:ps/task:1") == PS1
    assert home("/job:ps", v=CHIEF) == PS0
    assert home("/job:ps", another=PS1) == PS0


def test_a_device_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(PlacementError, match=r"unknown device '/job:worker'; this session has /job:chief"):
        home("/job:worker")
    with pytest.raises(PlacementError, match="unknown device '/job:worker'"):
        check_state({"v": "/job:worker"}, DEVICES)


def test_state_that_names_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="the graph has none named 'w'"):
        check_names({"w": PS0}, {})
    with pytest.raises(ConfigError, match="a dict of names and devices, got 3"):
        check_state(3, DEVICES)
    with pytest.raises(ConfigError):
        check_state({"v": "no device:"}, DEVICES)
