"""Convolutions; torch's images and filters are turned to ours, (…, in, out)."""

from __future__ import annotations

from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import batched, maps, numbers, rank

FORWARD = {1: af.nn.conv1d, 2: af.nn.conv2d, 3: af.nn.conv3d}
BACK = {1: af.nn.conv1d_transpose, 2: af.nn.conv2d_transpose, 3: af.nn.conv3d_transpose}


def _filters(w: Tensor) -> Tensor:
    """torch's (a, b, …) as ours (…, b, a)."""
    return af.transpose(w, (*range(2, rank(w)), 1, 0))


def _convolution(axes: int) -> None:
    def build(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        images, back = batched(x, axes)
        margins = (
            padding.upper() if isinstance(padding, str) else tuple((p, p) for p in numbers(padding, axes))
        )
        y = FORWARD[axes](
            images, _filters(weight), numbers(stride, axes), margins, numbers(dilation, axes), groups
        )
        return back(y if bias is None else y + bias)

    maps(f"nn.functional.conv{axes}d", f"conv{axes}d")(build)


def _transposed(axes: int) -> None:
    def build(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        images, back = batched(x, axes)
        y = BACK[axes](
            images,
            _filters(weight),
            numbers(stride, axes),
            tuple((p, p) for p in numbers(padding, axes)),
            numbers(output_padding, axes),
            numbers(dilation, axes),
            groups,
        )
        return back(y if bias is None else y + bias)

    maps(f"nn.functional.conv_transpose{axes}d", f"conv{axes}d_transpose")(build)


for spatial in (1, 2, 3):
    _convolution(spatial)
    _transposed(spatial)
