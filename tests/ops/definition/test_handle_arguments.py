"""Arguments of the methods of handles: what they may be, and what is said of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import SpecError
from actorflow.ops.definition import handle_arguments
from actorflow.values.spec import spec


@pytest.mark.parametrize("value", [3, np.int8(3), np.array(3)])
def test_integers_of_python_and_numpy_are_whole(value: Any) -> None:
    found = handle_arguments.whole(value, "n", 3)

    assert type(found) is int and found == 3


@pytest.mark.parametrize("value", [2, True, np.bool_(True), 3.0, "3", None, [3], 2**63, -(2**63) - 1])
def test_what_is_not_whole_or_too_small_is_refused_with_its_value(value: Any) -> None:
    with pytest.raises(SpecError, match="n is an integer of at least 3, got ") as caught:
        handle_arguments.whole(value, "n", 3)
    assert f"{value!r:.60}" in caught.value.what
    assert "test_handle_arguments.py:" in str(caught.value)


def test_a_tensor_is_told_that_it_comes_too_late() -> None:
    with af.Graph(), pytest.raises(SpecError, match="give a number of Python"):
        handle_arguments.whole(af.constant(3), "n")


def test_a_limit_is_none_or_at_least_one() -> None:
    assert (handle_arguments.limit(None, "the limit"), handle_arguments.limit(1, "the limit")) == (None, 1)
    with pytest.raises(SpecError, match="None is no limit"):
        handle_arguments.limit(0, "the limit")


@pytest.mark.parametrize("value", [1, None, "True", np.array([True])])
def test_a_flag_is_true_or_false(value: Any) -> None:
    assert handle_arguments.flag(False, "it") is False
    with pytest.raises(SpecError, match="it is True or False, got"):
        handle_arguments.flag(value, "it")


@pytest.mark.parametrize("value", ["mode", None, 3, ["mean"]])
def test_a_choice_is_one_of_its_texts(value: Any) -> None:
    assert handle_arguments.choice("sum", "it", ("mean", "sum")) == "sum"
    with pytest.raises(SpecError, match="it is 'mean' or 'sum', got"):
        handle_arguments.choice(value, "it", ("mean", "sum"))


def test_what_is_held_has_a_dtype_and_a_shape() -> None:
    assert handle_arguments.check_spec("a box", "float32", [2, None]) == spec("float32", (2, None))
    for float32 in (np.float32, np.dtype("float32"), spec("float32").dtype):
        assert handle_arguments.check_spec("a box", float32, ()) == spec("float32", ())
    for dtype, shape in ((None, ()), (spec("int8"), ()), ("text", ()), ("int8", (-1,)), ("int8", 3)):
        with pytest.raises(SpecError) as caught:
            handle_arguments.check_spec("a box", dtype, shape)  # type: ignore[arg-type]
        assert "test_handle_arguments.py:" in str(caught.value)


@pytest.mark.parametrize("float32", [np.float32, np.dtype("float32")])
def test_every_resource_takes_the_dtypes_that_tensors_have(float32: Any) -> None:
    with af.Graph():
        made = [
            af.TensorArray(float32),
            af.state.FIFOQueue(1, float32, ()),
            af.state.Stack(float32),
            af.state.ConditionalAccumulator(float32, ()),
            af.state.HashTable("bytes", float32, 0.0),
            af.state.Barrier(float32, ()),
        ]
    assert len(made) == 6
