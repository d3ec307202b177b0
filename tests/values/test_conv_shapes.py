from __future__ import annotations

import pytest

from actorflow.errors import SpecError
from actorflow.values.conv_shapes import (
    conv_shape,
    conv_transpose_shape,
    counts,
    filter_axes,
    image_axes,
    spatial,
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spatial((2, 3), 1), r"sequences have the three axes \(n, length, channels\), got \(2, 3\)"),
        (
            lambda: spatial((2, 3), 3),
            r"volumes have the five axes \(n, depth, height, width, channels\), got",
        ),
        (
            lambda: image_axes((2, 3), 4),
            r"4 spatial axes lie between the first axis and the last, got \(2, 3\)",
        ),
        (
            lambda: filter_axes((2, 3), 2),
            r"filters have the four axes \(height, width, in, out\), got \(2, 3\)",
        ),
    ],
)
def test_other_ranks_are_refused_with_the_axes_by_name(call, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        call()


def test_an_unknown_rank_has_unknown_sizes() -> None:
    assert image_axes(None, 2) == (None,) * 4
    assert spatial(None, 3) == (None,) * 3
    assert filter_axes(None, 1) == (None,) * 3


def test_padding_is_counted_axis_by_axis() -> None:
    assert counts((8, None, 9), (3, 3, 3), (1, 1, 2), (1, 1, 3), ((1, 0), (0, 0), (2, -1))) == (7, None, 2)
    assert counts((8, 9), (None, 3), (3, 2), (1, 1), "SAME") == (3, 5)
    assert counts((5, 5), (2, 2), (2, 2), (1, 1), "VALID", True) == (3, 3)


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 0), (0, 2))])
def test_a_convolution_makes_of_what_it_is_transposed_to_as_many_windows(padding) -> None:
    slide = (2, 3), padding, (1, 2), 2
    made = conv_transpose_shape((None, 4, 5, 6), (3, 2, 7, 6), *slide)

    assert made is not None
    assert made[-1] == 14
    assert conv_shape(made, (3, 2, 7, 6), *slide) == (None, 4, 5, 6)
