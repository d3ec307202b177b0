"""Which devices a constraint allows, and of which process a device is."""

from __future__ import annotations

import pytest

from actorflow.errors import ConfigError
from actorflow.plan.placement.devices import canonical, device_in, matching, process_of, within_process

CLUSTER = (
    "/job:worker/task:0/device:cpu:0",
    "/job:worker/task:0/device:gpu:0",
    "/job:worker/task:1/device:cpu:0",
    "/job:ps/task:0/device:cpu:0",
    "/job:ps/task:1/device:cpu:0",
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", CLUSTER),
        ("/job:ps", CLUSTER[3:]),
        ("/task:1", (CLUSTER[2], CLUSTER[4])),
        ("/job:ps/task:0", (CLUSTER[3],)),
        ("/job:ps/gpu:*", ()),
        ("/job:*/gpu:0", (CLUSTER[1],)),
        ("cpu:0", (CLUSTER[0],)),  # the own process: that of the first device
        ("/gpu:*", (CLUSTER[1],)),
        ("/job:*", CLUSTER),
    ],
)
def test_a_constraint_allows_what_agrees_in_every_named_field(wanted: str, found: tuple[str, ...]) -> None:
    assert matching(wanted, CLUSTER) == found


def test_short_names_mean_devices_of_the_own_process() -> None:
    devices = ("/cpu:0", "/cpu:1", "/job:ps/task:0/device:cpu:1")

    assert matching("cpu:1", devices) == ("/cpu:1",)
    assert matching("/job:*/cpu:1", devices) == ("/cpu:1", "/job:ps/task:0/device:cpu:1")


def test_a_device_belongs_to_a_process() -> None:
    assert process_of("/job:ps/task:1/device:gpu:0") == "/job:ps/task:1"
    assert process_of("/cpu:0") == ""
    assert within_process("/job:ps/task:1/device:gpu:0") == "/gpu:0"
    assert device_in("/job:ps/task:1", "/gpu:0") == "/job:ps/task:1/device:gpu:0"
    assert device_in("", "/gpu:0") == "/gpu:0"


@pytest.mark.parametrize("text", ["/job:ps/cpu:0", "/cpu:*", "/job:ps/task:0", ""])
def test_a_device_of_a_plan_has_a_whole_name(text: str) -> None:
    with pytest.raises(ConfigError, match="one device is meant"):
        canonical(text)
