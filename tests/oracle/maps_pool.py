"""Pooling, resizing, windows of images."""

from __future__ import annotations

from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import (
    batched,
    channels_first,
    channels_last,
    composes,
    maps,
    numbers,
    rank,
    sizes,
)

OVERWRITTEN = (
    "where two elements go to one place, torch gives both a gradient, ours that which stays; "
    "the variant grad has no such places"
)


def _margins(padding: Any, axes: int) -> tuple[tuple[int, int], ...]:
    return tuple((p, p) for p in numbers(padding, axes))


def _max_pool(axes: int) -> None:
    def build(
        x: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        images, back = batched(x, axes)
        how = (
            numbers(kernel_size, axes),
            None if stride in (None, ()) else numbers(stride, axes),
            _margins(padding, axes),
            numbers(dilation, axes),
            ceil_mode,
        )
        values = back(af.nn.max_pool(images, *how))
        return [values, back(af.nn.max_pool_places(images, *how))] if return_indices else values

    maps(f"nn.functional.max_pool{axes}d", "max_pool, max_pool_places")(build)


def _avg_pool(axes: int) -> None:
    def build(
        x: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        images, back = batched(x, axes)
        return back(
            af.nn.avg_pool(
                images,
                numbers(kernel_size, axes),
                None if stride in (None, ()) else numbers(stride, axes),
                _margins(padding, axes),
                1,
                ceil_mode,
                count_include_pad,
                divisor_override,
            )
        )

    maps(f"nn.functional.avg_pool{axes}d", "avg_pool")(build)


def _asked(images: Tensor, size: Any, axes: int) -> tuple[int, ...]:
    """The size of adaptive pooling; torch keeps that of the image for None."""
    given: tuple[int | None, ...] = numbers(size, axes)
    return tuple(own if g is None else g for g, own in zip(given, sizes(images)[1:-1], strict=True))


def _adaptive(axes: int) -> None:
    def mean(x: Tensor, output_size: Any) -> Tensor:
        images, back = batched(x, axes)
        return back(af.nn.adaptive_avg_pool(images, _asked(images, output_size, axes)))

    def largest(x: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        images, back = batched(x, axes)
        size = _asked(images, output_size, axes)
        values = back(af.nn.adaptive_max_pool(images, size))
        return [values, back(af.nn.adaptive_max_pool_places(images, size))] if return_indices else values

    maps(f"nn.functional.adaptive_avg_pool{axes}d", "adaptive_avg_pool")(mean)
    maps(f"nn.functional.adaptive_max_pool{axes}d", "adaptive_max_pool, adaptive_max_pool_places")(largest)


def _max_unpool(axes: int) -> None:
    def build(
        x: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        images, back = batched(x, axes)
        places, _ = batched(indices, axes)
        steps = numbers(stride or kernel_size, axes)
        size = tuple(
            (n - 1) * step - 2 * p + k
            for n, step, p, k in zip(
                sizes(images)[1:-1], steps, numbers(padding, axes), numbers(kernel_size, axes), strict=True
            )
        )
        return back(
            af.nn.max_unpool(images, places, size if output_size is None else tuple(output_size)[-axes:])
        )

    maps(f"nn.functional.max_unpool{axes}d grad", "max_unpool")(build)
    maps(f"nn.functional.max_unpool{axes}d", "max_unpool", forward_only=OVERWRITTEN)(build)


for spatial in (1, 2, 3):
    _max_pool(spatial)
    _avg_pool(spatial)
    _adaptive(spatial)
    _max_unpool(spatial)

# ---------------------------------------------------------------------------------- resizing


def _resize(names: str, method: str, **more: Any) -> None:
    """Entries that resize; torch names a way of counting pixels by its mode."""

    def build(
        x: Tensor,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        antialias: bool = False,
    ) -> Tensor:
        axes, images = rank(x) - 2, channels_last(x)
        how, corners = dict(more), align_corners or more.get("coordinates") == "align_corners"
        if corners:
            how["coordinates"] = "align_corners"
        if antialias:
            how["antialias"] = True
        scale = None if scale_factor is None else tuple(float(s) for s in numbers(scale_factor, axes))
        if scale is not None and (recompute_scale_factor or corners):  # torch counts by the size then
            size, scale = [int(n * s) for n, s in zip(sizes(images)[1:-1], scale, strict=True)], None
        wanted = None if size is None else numbers(size, axes)
        return channels_first(af.image.resize(images, wanted, method, scale=scale, **how))

    maps(names, "resize")(build)


_resize("nn.functional.interpolate nearest", "nearest", coordinates="asymmetric", rounding="floor")
_resize("nn.functional.upsample_nearest", "nearest", coordinates="asymmetric", rounding="floor")
_resize("nn.functional.interpolate nearest-exact", "nearest")
_resize("nn.functional.interpolate linear, nn.functional.interpolate bilinear", "linear")
_resize("nn.functional.interpolate trilinear", "linear")
_resize("nn.functional.interpolate bicubic", "cubic")
_resize("nn.functional.upsample_bilinear", "linear", coordinates="align_corners")


@maps("nn.functional.interpolate area", "adaptive_avg_pool")
def _area(x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "area", **_: Any) -> Tensor:
    axes, images = rank(x) - 2, channels_last(x)
    if size is None:
        factors = numbers(scale_factor, axes)
        size = [int(n * f) for n, f in zip(sizes(images)[1:-1], factors, strict=True)]
    return channels_first(af.nn.adaptive_avg_pool(images, numbers(size, axes)))


# ----------------------------------------------------------------------------------- windows


@maps("nn.functional.local_response_norm", "local_response_normalisation")
def _local_response(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    around = (size // 2, (size - 1) // 2)
    return channels_first(af.nn.local_response_normalisation(channels_last(x), around, k, alpha / size, beta))


@composes("nn.functional.unfold", "extract_patches of pad")
def _unfold(x: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    images = channels_last(x if rank(x) == 4 else af.expand_dims(x, 0))
    margins = [(0, 0), *_margins(padding, 2), (0, 0)]
    size, steps = numbers(kernel_size, 2), numbers(stride, 2)
    patches = af.image.extract_patches(
        af.arrays.pad(images, margins), size, steps, dilations=numbers(dilation, 2)
    )
    n, rows, columns, _ = sizes(patches)
    channels = sizes(images)[-1]
    apart = af.reshape(patches, (n, rows * columns, size[0] * size[1], channels))
    made = af.reshape(af.transpose(apart, (0, 3, 2, 1)), (n, channels * size[0] * size[1], rows * columns))
    return made if rank(x) == 4 else af.squeeze(made, 0)
