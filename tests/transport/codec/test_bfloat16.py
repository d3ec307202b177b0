"""float32 may travel as bfloat16, where the sender says so, and loses what it may lose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from actorflow.transport.codec.bfloat16 import NARROW_BYTES, narrow, widen
from actorflow.transport.codec.message_codec import decode, encode, join, size
from actorflow.transport.codec.types import Lossy
from tests.transport.values import Point, same

floats = arrays(np.uint32, st.integers(1, 40)).map(lambda bits: bits.view("<f4"))
N = NARROW_BYTES // 4


def through(array: Any) -> Any:
    return widen(narrow(array)).reshape(array.shape)


def sent(value: Any) -> Any:
    return decode(join(encode(value, lossy=Lossy.BFLOAT16)))


@given(floats)
def test_a_number_loses_less_than_its_128th_and_never_grows(x: Any) -> None:
    read = through(x)
    normal = np.isfinite(x) & (np.abs(x) >= np.finfo("f4").tiny)

    kept, lost = x[normal].astype("f8"), read[normal].astype("f8")

    assert np.all(np.abs(kept - lost) < np.abs(kept) * 2.0**-7)
    assert np.all(np.abs(lost) <= np.abs(kept))
    assert np.array_equal(np.signbit(x), np.signbit(read))


@given(floats)
def test_numbers_too_small_to_be_normal_lose_less_than_the_smallest_bfloat16(x: Any) -> None:
    small = x[np.abs(x) < np.finfo("f4").tiny].astype("f8")
    read = through(small.astype("f4"))

    assert np.all(np.abs(small - read) < 2.0**-133)


@given(floats)
def test_what_was_cut_once_stays(x: Any) -> None:
    once = through(x)

    assert once.tobytes() == through(once).tobytes()


@given(floats)
def test_infinities_and_nans_stay_what_they_are(x: Any) -> None:
    read = through(x)

    assert np.array_equal(np.isnan(x), np.isnan(read))
    assert np.array_equal(x[np.isinf(x)], read[np.isinf(read)])


def test_a_nan_of_low_bits_alone_does_not_become_an_infinity() -> None:
    x = np.array([0x7F800001, 0xFF800001, 0x7F800000, 0xFF800000], np.uint32).view("<f4")

    read = through(x)

    assert np.isnan(read).tolist() == [True, True, False, False]
    assert read[2:].tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("layout", ["plain", "rank 64", "fortran", "gaps", "reversed"])
def test_a_large_array_takes_half_the_bytes_and_keeps_its_shape(layout: str) -> None:
    x = np.linspace(-3, 3, 4 * N, dtype="f4").reshape(4, N)
    laid = {
        "plain": x,
        "fortran": np.asfortranarray(x),
        "gaps": np.repeat(x, 2, 1)[:, ::2],
        "reversed": x[::-1],
        "rank 64": x.reshape(*[1] * 62, *x.shape),
    }
    value = laid[layout]

    read = sent(value)

    assert same(read, through(np.ascontiguousarray(value)))
    assert not same(read, value)
    assert read.flags.writeable
    assert size(encode(value, lossy=Lossy.BFLOAT16)) == size(encode(value)) - value.nbytes // 2


def test_rows_and_fields_are_narrowed_as_well() -> None:
    x = np.full(N, np.pi, "f4")
    value = [Point(x, {"w": x}), [x, x], ({"x": x}, {"x": x})]

    assert same(
        sent(value), decode(join(encode([Point(y := through(x), {"w": y}), [y, y], ({"x": y}, {"x": y})])))
    )


@pytest.mark.parametrize(
    "exact",
    [
        np.full(N - 1, np.pi, "f4"),
        np.full(N, np.pi, ">f4"),
        np.full(N, np.pi, "f8"),
        np.arange(N, dtype="i4"),
        [np.full(N - 1, np.pi, "f4")] * 3,
        np.float32(np.pi),
        np.pi,
    ],
)
def test_small_arrays_and_other_dtypes_arrive_exactly(exact: Any) -> None:
    assert same(sent(exact), exact)


def test_nothing_is_lost_unless_it_is_said() -> None:
    x = np.full(4 * N, np.pi, "f4")

    assert same(decode(join(encode(x))), x)
