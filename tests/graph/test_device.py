"""Names of devices: how they are written, what two scopes ask together, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import ConfigError
from actorflow.graph.device import ANY, DeviceName, merge

numbers = st.integers(0, 12).map(str) | st.just(ANY)
names = st.builds(
    lambda job, task, device: DeviceName(job, task, *device),
    st.none() | st.sampled_from(["ps", "worker", "a.b-c_1", ANY]),
    st.none() | numbers,
    st.just((None, None)) | st.tuples(st.sampled_from(["cpu", "gpu", "tpu"]), numbers),
)


@given(names)
def test_the_canonical_form_reads_back(name: DeviceName) -> None:
    assert DeviceName.parse(str(name)) == name


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/job:ps/task:0/device:cpu:0", "/job:ps/task:0/device:cpu:0"),
        ("/job:ps/task:00/cpu:0", "/job:ps/task:0/device:cpu:0"),
        ("device:GPU:3/job:ps", "/job:ps/device:gpu:3"),
        ("cpu:0", "/cpu:0"),
        ("/device:gpu:*", "/gpu:*"),
        ("/gpu", "/gpu:*"),
        ("/task:1", "/task:1"),
        ("", ""),
    ],
)
def test_a_name_has_one_canonical_form(text: str, canonical: str) -> None:
    assert str(DeviceName.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/job:", "'job:' is no part of the name of a device, got '/job:'"),
        ("/job:ps/task:x", "'task:x' is no part"),
        ("/cpu:-1", "'cpu:-1' is no part"),
        ("/replica:0/cpu:0", "says its device once, got '/replica:0/cpu:0'"),
        ("//cpu:0", "'' is no part"),
        ("/", "'' is no part"),
        ("/cpu:0/gpu:0", "says its device once"),
        ("/job:a/job:b", "says its job once"),
        (7, "named by a text, got 7"),
    ],
)
def test_what_is_no_name_is_refused_at_the_users_line(text: str, said: str) -> None:
    with af.Graph(), pytest.raises(ConfigError, match=said) as caught, af.device(text):
        pass

    assert caught.value.where is not None
    assert caught.value.where.defined_at is not None
    assert "test_device.py" in caught.value.where.defined_at


@given(names, names)
def test_of_two_scopes_the_inner_one_counts_field_by_field(inner: DeviceName, outer: DeviceName) -> None:
    both = DeviceName.parse(merge(str(inner), str(outer)))

    assert both.job == (outer.job if inner.job is None else inner.job)
    assert both.task == (outer.task if inner.task is None else inner.task)
    from_ = outer if inner.kind is None else inner
    assert (both.kind, both.index) == (from_.kind, from_.index)


@given(names, names, names)
def test_scopes_add_up_in_any_grouping(a: DeviceName, b: DeviceName, c: DeviceName) -> None:
    assert a.inside(b).inside(c) == a.inside(b.inside(c))


def test_scopes_nest_and_none_forgets_those_around() -> None:
    with af.Graph(), af.device("/job:ps"):
        with af.device("/task:1"), af.device("cpu:0"):
            x = af.constant(1.0)
            with af.device("/gpu:*"):
                y = af.constant(1.0)
            with af.device(None), af.device("cpu:2"):
                z = af.constant(1.0)
        w = af.constant(1.0)

    assert x.node.device == "/job:ps/task:1/device:cpu:0"
    assert y.node.device == "/job:ps/task:1/device:gpu:*"
    assert z.node.device == "cpu:2"
    assert w.node.device == "/job:ps"


def test_state_made_beside_a_target_asks_for_the_device_of_the_target() -> None:
    with af.Graph():
        with af.device("/job:ps/task:1"):
            w = af.Variable(1.0, name="w")
        with af.device("/job:worker"), af.colocate_with(w):
            v = af.Variable(1.0, name="v")
            with af.device("cpu:0"):
                y = af.exp(2.0)

    assert v.definition.device == "/job:ps/task:1"
    assert (y.node.device, y.node.colocate) == ("/job:ps/task:1/device:cpu:0", "w")


@pytest.mark.parametrize(
    ("text", "whole"),
    [("/cpu:0", True), ("/job:a/task:1/cpu:0", True), ("/job:a/cpu:0", False), ("/cpu:*", False)],
)
def test_a_whole_name_leaves_nothing_open(text: str, whole: bool) -> None:
    assert DeviceName.parse(text).is_whole is whole
