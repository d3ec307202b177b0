"""Arguments of the methods of handles: what they may be, and what is said of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import SpecError
from actorflow.ops.definition import argument_checks
from actorflow.values.spec import spec


@pytest.mark.parametrize("value", [3, np.int8(3), np.array(3)])
def test_integers_of_python_and_numpy_are_whole(value: Any) -> None:
    found = argument_checks.whole(value, "n", 3)

    assert type(found) is int and found == 3


@pytest.mark.parametrize("value", [2, True, np.bool_(True), 3.0, "3", None, [3], 2**63, -(2**63) - 1])
def test_what_is_not_whole_or_too_small_is_refused_with_its_value(value: Any) -> None:
    with pytest.raises(SpecError, match="n is an integer of at least 3, got ") as caught:
        argument_checks.whole(value, "n", 3)
    assert f"{value!r:.60}" in caught.value.what
    assert "test_argument_checks.py:" in str(caught.value)


def test_a_tensor_is_told_that_it_comes_too_late() -> None:
    with af.Graph(), pytest.raises(SpecError, match="give a number of Python"):
        argument_checks.whole(af.constant(3), "n")


def test_a_limit_is_none_or_at_least_one() -> None:
    assert (argument_checks.limit(None, "the limit"), argument_checks.limit(1, "the limit")) == (None, 1)
    with pytest.raises(SpecError, match="None is no limit"):
        argument_checks.limit(0, "the limit")


@pytest.mark.parametrize("value", [1, None, "True", np.array([True])])
def test_a_flag_is_true_or_false(value: Any) -> None:
    assert argument_checks.flag(False, "it") is False
    with pytest.raises(SpecError, match="it is True or False, got"):
        argument_checks.flag(value, "it")


@pytest.mark.parametrize("value", ["mode", None, 3, ["mean"]])
def test_a_choice_is_one_of_its_texts(value: Any) -> None:
    assert argument_checks.choice("sum", "it", ("mean", "sum")) == "sum"
    with pytest.raises(SpecError, match="it is 'mean' or 'sum', got"):
        argument_checks.choice(value, "it", ("mean", "sum"))


def test_what_is_held_has_a_dtype_and_a_shape() -> None:
    assert argument_checks.check_spec("a box", "float32", [2, None]) == spec("float32", (2, None))
    for float32 in (np.float32, np.dtype("float32"), spec("float32").dtype):
        assert argument_checks.check_spec("a box", float32, ()) == spec("float32", ())
    for dtype, shape in ((None, ()), (spec("int8"), ()), ("text", ()), ("int8", (-1,)), ("int8", 3)):
        with pytest.raises(SpecError) as caught:
            argument_checks.check_spec("a box", dtype, shape)  # type: ignore[arg-type]
        assert "test_argument_checks.py:" in str(caught.value)


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
