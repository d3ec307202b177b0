from __future__ import annotations

import numpy as np
import pytest

from actorflow.errors import NumericError
from actorflow.kernels.definition.registry import find
from actorflow.values.tensor_list import TensorList


@pytest.mark.parametrize("op", ["identity", "stop_gradient"])
def test_passing_on_copies_nothing(op: str) -> None:
    x = np.ones(3)

    assert find(op).function(x) is x


def test_a_copy_between_devices_keeps_the_order_of_the_axes_in_memory() -> None:
    x = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)

    made = find("copy").function(x)

    assert made.strides == x.strides
    assert not np.shares_memory(made, x)
    np.testing.assert_array_equal(made, x)


def test_a_list_is_handed_from_one_device_of_the_host_to_the_other() -> None:
    many = TensorList.of([np.ones(1000)] * 100)

    copy = find("copy")

    assert copy.function(many) is many
    assert copy.cost(many) == 1.0


def test_a_scalar_is_copied() -> None:
    assert find("copy").function(np.float64(1.5)) == 1.5


def test_finite_values_pass_the_check_uncopied() -> None:
    x = np.ones(3)

    assert find("check_numerics").function(x, message="loss") is x


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("loss", "loss: values must be finite, got 1 NaN and 2 infinite of 6"),
        ("", "values must be finite, got 1 NaN and 2 infinite of 6"),
    ],
)
def test_a_failed_check_says_how_many_of_how_many(message: str, said: str) -> None:
    x = np.array([[1, np.nan, np.inf], [-np.inf, 2, 3]])

    with pytest.raises(NumericError) as caught:
        find("check_numerics").function(x, message=message)

    assert str(caught.value) == said


def test_a_cast_to_its_own_dtype_copies_nothing() -> None:
    x = np.ones(3, "float32")

    assert find("cast").function(x, dtype="float32") is x


def test_floats_round_towards_zero_to_integers() -> None:
    assert find("cast").function(np.array([-1.7, 1.7]), dtype="int32").tolist() == [-1, 1]
