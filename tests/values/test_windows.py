from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.values.windows import adaptive_window, count_along, covered_size, sliding_window
from tests.support.strategies import examples

LAW = settings(max_examples=examples(200), deadline=None)
few = st.integers(1, 4)
PADDINGS = st.sampled_from(["SAME", "VALID"]) | st.tuples(st.integers(-2, 3), st.integers(-2, 3))


def starts(size: int, window: int, stride: int, dilation: int, padding, ceil_mode: bool) -> list[int]:
    """Where windows begin on the axis, counted one by one."""
    span = (window - 1) * dilation + 1
    if padding == "SAME":
        over = max((math.ceil(size / stride) - 1) * stride + span - size, 0)
        return [w * stride - over // 2 for w in range(math.ceil(size / stride))]
    before, after = (0, 0) if padding == "VALID" else padding
    found, at = [], -before
    while at + span <= size + after:
        found.append(at)
        at += stride
    if ceil_mode and at - stride + span < size + after:  # something is left behind the last that fits
        found.append(at)
    return found[:-1] if ceil_mode and found and found[-1] >= size else found


def occupied(*how: Any) -> bool:
    """Whether windows are taken when each must have a place on the axis."""
    try:
        sliding_window(*how, occupied=True)
    except SpecError:
        return False
    return True


@LAW
@given(st.integers(0, 9), few, few, few, PADDINGS, st.booleans())
def test_windows_are_those_counted_one_by_one(size, window, stride, dilation, padding, ceil_mode) -> None:
    want = starts(size, window, stride, dilation, padding, ceil_mode)
    places = [[p for p in range(s, s + window * dilation, dilation) if 0 <= p < size] for s in want]
    try:
        found = sliding_window(size, window, stride, dilation, padding, ceil_mode)
    except SpecError:
        assert not want
        return

    assert found.counts(margin=False).tolist() == [len(p) for p in places]
    first = np.arange(found.count) * stride - found.before + found.lying()[0] * dilation
    assert [int(s) for s, p in zip(first, places, strict=True) if p] == [p[0] for p in places if p]
    reached = {k for s in want for k in range(window) if 0 <= s + k * dilation < size}
    assert reached <= set(found.reaching()) <= set(range(window))
    assert occupied(size, window, stride, dilation, padding, ceil_mode) == all(places)
    if not want:
        return
    low, high = found.rim
    assert all(-low <= s and s + found.reach <= size + high for s in want)
    assert low == max(0, -want[0])
    assert high == max(0, want[-1] + found.reach - size)
    for k in range(window):
        windows, those = found.overlap(k)
        pairs = list(zip(range(found.count)[windows], range(size)[those], strict=True))
        assert pairs == [(w, s + k * dilation) for w, s in enumerate(want) if 0 <= s + k * dilation < size]


def test_a_last_window_hangs_over_the_end_only_if_it_begins_before_it() -> None:
    """Torch's rule, which leaves a window of the margin behind out even where it fits."""
    assert count_along(5, 2, 2, 1, "VALID", ceil_mode=False) == 2
    assert count_along(5, 2, 2, 1, "VALID", ceil_mode=True) == 3
    assert count_along(4, 2, 4, 1, (0, 1), ceil_mode=True) == 1
    assert count_along(2, 3, 2, 1, "VALID", ceil_mode=True) == 1


def test_places_of_the_margin_count_but_not_those_behind_it() -> None:
    found = sliding_window(6, 3, 3, 1, (1, 1), ceil_mode=True)

    assert found.counts(margin=True).tolist() == [3, 3, 2]
    assert found.counts(margin=False).tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sliding_window(2, 3, 1, 1, "VALID"), "got a window of 3 on a size of 2"),
        (
            lambda: sliding_window(2, 3, 1, 2, (1, 1)),
            r"got a window of 3, 5 with a dilation of 2, on a size of 2 padded by \(1, 1\)",
        ),
        (
            lambda: sliding_window(0, 1, 1, 1, (2, 2), occupied=True),
            "got none for window 0 of 4: size 0, margins 2 and 2",
        ),
        (
            lambda: sliding_window(3, 1, 1, 1, (1, 0), occupied=True),
            "got none for window 0 of 4: size 3, margins 1 and 0",
        ),
        (lambda: sliding_window(1, 2, 1, 3, (1, 2), occupied=True), "got none for window 0 of 1"),
        (lambda: sliding_window(3, 0, 1, 1, "SAME"), "an element along every axis, got a window of 0"),
        (lambda: covered_size(0, 3, 1, 1, "VALID"), "there is one at least, got none, with padding 'VALID'"),
        (lambda: covered_size(1, 3, 1, 1, (2, 2)), r"got 3 elements and the padding \(2, 2\)"),
        (lambda: adaptive_window(0, 2), "an empty axis has no windows, got a size of 0 for 2 of them"),
    ],
)
def test_windows_that_do_not_lie_on_their_axis_are_refused(call, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        call()


@LAW
@given(
    size=st.integers(1, 40), window=st.integers(1, 9), stride=st.integers(1, 9), dilation=st.integers(1, 4)
)
def test_windows_with_margins_fit_exactly(size: int, window: int, stride: int, dilation: int) -> None:
    """SAME windows reach over the whole axis, and every one of them touches it."""
    found = sliding_window(size, window, stride, dilation, "SAME")
    count, before, after = found.count, found.before, found.after

    reach = (window - 1) * dilation + 1
    assert (count - 1) * stride + reach <= size + before + after < (count - 1) * stride + reach + stride
    assert 0 <= after - before <= 1
    assert before < reach
    assert (count - 1) * stride < size


@LAW
@given(
    count=st.integers(1, 40),
    window=st.integers(1, 9),
    stride=st.integers(1, 9),
    dilation=st.integers(1, 4),
    padding=st.sampled_from(["SAME", "VALID"]) | st.tuples(st.integers(-9, 0), st.integers(-9, 0)),
)
def test_an_axis_that_windows_cover_holds_as_many(
    count: int, window: int, stride: int, dilation: int, padding: Any
) -> None:
    size = covered_size(count, window, stride, dilation, padding)

    assert size is not None
    assert count_along(size, window, stride, dilation, padding) == count
    if padding == "SAME":
        assert count_along(size + 1, window, stride, dilation, padding) == count + 1


@LAW
@given(st.integers(1, 40), st.integers(1, 50))
def test_adaptive_windows_cover_their_axis_evenly(size: int, count: int) -> None:
    starts, sizes = adaptive_window(size, count).spans()

    found = [range(start, start + n) for start, n in zip(starts, sizes, strict=True)]
    assert [(w.start, w.stop) for w in found] == [
        (math.floor(i * size / count), math.ceil((i + 1) * size / count)) for i in range(count)
    ]
    assert set().union(*found) == set(range(size))
    assert max(map(len, found)) - min(map(len, found)) <= 2


def test_a_window_of_any_size_is_counted_at_once() -> None:
    """Counting place by place would not end."""
    far = 10**30

    found = sliding_window(3, 2 * far + 1, 1, 1, (far, far), occupied=True)

    assert found.counts(margin=False).tolist() == [3, 3, 3]
    assert found.counts(margin=True).tolist() == [2 * far + 1] * 3
    assert len(found.reaching()) == 5
    with pytest.raises(SpecError, match=f"none for window 4 of {far + 4}"):
        sliding_window(4, 1, 1, 1, (0, far), occupied=True)
    with pytest.raises(SpecError, match=f"none for window 0 of {far + 4}"):
        sliding_window(4, 1, 1, 1, (far, 0), occupied=True)
