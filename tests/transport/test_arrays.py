"""Arrays of every dtype and layout come back, one by one: what the drawn values may miss in a short run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from actorflow.transport.codec.message_codec import decode, encode, join
from actorflow.transport.codec.types import DTYPES, MessageLimits
from actorflow.values.arrays import NAMES
from tests.transport.values import same

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "0-d": lambda x: x[0, 0, ...],
    "a view of one": lambda x: x[1:2, 2:3],
    "empty": lambda x: x[:0],
    "empty within": lambda x: x[:, 2:2],
    "fortran": np.asfortranarray,
    "transposed": lambda x: x.T,
    "gaps": lambda x: x[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "rank 64": lambda x: x.reshape(*[1] * 62, *x.shape),
    "large": lambda x: np.tile(x, (40, 30)),
}


def test_every_dtype_of_the_project_is_here_and_the_other_byte_order_of_each_that_has_one() -> None:
    assert {dtype.name for dtype in DTYPES} == set(NAMES)
    assert sum(not dtype.isnative for dtype in DTYPES) == len(NAMES) - len(
        ["bool", "int8", "uint8", "bfloat16"]
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: f"{'' if d.isnative else 'swapped-'}{d.name}")
def test_an_array_comes_back(dtype: Any, layout: str) -> None:
    x = np.asarray(
        np.arange(5 * 7).reshape(5, 7) % 2 if dtype.kind == "b" else np.arange(35).reshape(5, 7) - 9
    )
    value = LAYOUTS[layout](x.astype(dtype))

    read = decode(join(encode(value)))

    assert same(read, value)
    assert read.flags.c_contiguous or read.flags.f_contiguous
    assert read.flags.aligned
    assert same(decode(join(encode([value, value]))), [value, value])


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("steps", [1, 2, -1])
def test_axes_arrive_in_the_order_in_which_they_lie(axes: tuple[int, ...], steps: int) -> None:
    value = np.arange(4.0 * 5 * 6).reshape(4, 5, 6).transpose(axes)[:, ::steps]

    read = decode(join(encode(value)))

    assert same(read, value)
    assert read.strides == value.copy(order="K").strides


def test_what_a_kernel_makes_of_an_array_does_not_depend_on_the_way_it_came() -> None:
    """Sums add along the memory, and their last bit tells in which order."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(n, n + 3)).T for n in range(2, 40)]

    there = [decode(join(encode(value))) for value in values]

    assert [v.sum() for v in values] == [v.sum() for v in there]
    assert [v.sum() for v in values] != [np.ascontiguousarray(v).sum() for v in values]


def test_a_turned_array_may_lie_as_deep_as_any_other() -> None:
    limits = MessageLimits(depth=2)
    value = [[np.arange(6.0).reshape(2, 3).T, 1]]

    assert same(decode(join(encode(value, limits)), limits), value)
