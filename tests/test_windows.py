from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.windows import adaptive, along, count_along, spatial
from tests.strategies import examples

LAW = settings(max_examples=examples(200), deadline=None)
few = st.integers(1, 4)
PADDINGS = st.sampled_from(["SAME", "VALID"]) | st.tuples(st.integers(0, 3), st.integers(0, 3))


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


@LAW
@given(st.integers(1, 9), few, few, few, PADDINGS, st.booleans())
def test_windows_are_those_counted_one_by_one(size, window, stride, dilation, padding, ceil_mode) -> None:
    want = starts(size, window, stride, dilation, padding, ceil_mode)
    places = [[p for p in range(s, s + window * dilation, dilation) if 0 <= p < size] for s in want]
    try:
        found = along(size, window, stride, dilation, padding, ceil_mode)
    except SpecError:
        assert not want or not all(places)
        return

    assert [found.places(w) for w in range(found.count)] == places
    assert found.counts(margin=False) == [len(p) for p in places]
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
    found = along(6, 3, 3, 1, (1, 1), ceil_mode=True)

    assert found.counts(margin=True) == [3, 3, 2]
    assert found.counts(margin=False) == [2, 3, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: along(2, 3, 1, 1, "VALID", False), "got a window of 3 on a size of 2"),
        (
            lambda: along(2, 3, 1, 2, (1, 1), False),
            "got a window of 5 on a size of 2 with margins of 1 and 1",
        ),
        (lambda: along(0, 1, 1, 1, (2, 2), False), "got a window of 1 on a size of 0"),
        (lambda: along(3, 1, 1, 1, (1, 0), False), "got none for window 0 of 4: size 3, margins 1 and 0"),
        (lambda: along(1, 2, 1, 3, (1, 2), False), "got none for window 0 of 1"),
        (lambda: adaptive(0, 2), "an empty axis has no windows, got a size of 0 for 2 of them"),
        (lambda: spatial((2, 3), 1), r"sequences have the three axes \(n, length, channels\), got \(2, 3\)"),
        (lambda: spatial((2, 3), 3), r"the five axes \(n, depth, height, width, channels\), got \(2, 3\)"),
        (lambda: spatial((2, 3), 4), r"4 spatial axes lie between the first axis and the last, got \(2, 3\)"),
    ],
)
def test_windows_that_do_not_lie_on_their_axis_are_refused(call, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        call()


@LAW
@given(st.integers(1, 40), st.integers(1, 50))
def test_adaptive_windows_cover_their_axis_evenly(size: int, count: int) -> None:
    found = adaptive(size, count)

    assert [(w.start, w.stop) for w in found] == [
        (math.floor(i * size / count), math.ceil((i + 1) * size / count)) for i in range(count)
    ]
    assert set().union(*found) == set(range(size))
    assert max(map(len, found)) - min(map(len, found)) <= 2
