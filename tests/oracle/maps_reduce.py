"""Reductions, running totals, order: what folds or sorts axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import axes, composes, maps, need, no_dtype, one_axis, rank, sizes

Dims = int | Sequence[int] | None
NO_PLACE = "torch tells where it is as well"


def _folds(names: str, function: Callable[..., Tensor], ours: str, **how: Any) -> None:
    """Entries that fold axes and may be asked for another dtype."""

    def build(x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        no_dtype(dtype)
        return function(x, axes(x, dim), keepdim)

    maps(names, ours, **how)(build)


_folds("sum", af.sum, "sum")
_folds("mean", af.mean, "mean")
_folds("amax", af.max, "max")
_folds("amin", af.min, "min")
_folds("prod", af.prod, "prod")
_folds("all", af.all, "all")
_folds("any", af.any, "any")
_folds("count_nonzero", af.count_nonzero, "count_nonzero")
_folds("logsumexp", af.math.logsumexp, "logsumexp")


@maps("max reduction_no_dim", "max")
def _max(x: Tensor) -> Tensor:
    return af.max(x)


@maps("min reduction_no_dim", "min")
def _min(x: Tensor) -> Tensor:
    return af.min(x)


@composes("max reduction_with_dim", "max, argmax")
def _max_along(x: Tensor, dim: int, keepdim: bool = False) -> list[Tensor]:
    axis = one_axis(x, dim)
    return [af.max(x, axis, keepdim), af.argmax(x, axis, keepdim)]


@composes("min reduction_with_dim", "min, argmin")
def _min_along(x: Tensor, dim: int, keepdim: bool = False) -> list[Tensor]:
    axis = one_axis(x, dim)
    return [af.min(x, axis, keepdim), af.argmin(x, axis, keepdim)]


@composes("aminmax", "min, max")
def _aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> list[Tensor]:
    axis = one_axis(x, dim)
    return [af.min(x, axis, keepdim), af.max(x, axis, keepdim)]


@maps("argmax", "argmax")
def _argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return af.argmax(x, one_axis(x, dim), keepdim)


@maps("argmin", "argmin")
def _argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return af.argmin(x, one_axis(x, dim), keepdim)


@composes("nansum", "sum(where(isnan(x), 0, x))")
def _nansum(x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    no_dtype(dtype)
    return af.sum(af.where(af.isnan(x), af.zeros_like(x), x), axes(x, dim), keepdim)


@composes("nanmean", "sum of numbers / count of them")
def _nanmean(x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    no_dtype(dtype)
    none, axis = af.isnan(x), axes(x, dim)
    total = af.sum(af.where(none, af.zeros_like(x), x), axis, keepdim)
    return total / af.sum(af.cast(af.logical_not(none), x.dtype), axis, keepdim)


# ------------------------------------------------------------------------------------ spread


def _spread(x: Tensor, dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """Axis and correction of torch's two ways to say them."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    given = 1.0 if correction is None else float(correction)
    return axes(x, dim), given if unbiased is None else float(unbiased)


@maps("var, var unbiased", "var")
def _var(
    x: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    axis, less = _spread(x, dim, unbiased, correction)
    return af.var(x, axis, less, keepdim)


@maps("std, std unbiased", "std")
def _std(
    x: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    axis, less = _spread(x, dim, unbiased, correction)
    return af.std(x, axis, less, keepdim)


@composes("var_mean, var_mean unbiased", "var, mean")
def _var_mean(
    x: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> list[Tensor]:
    axis, less = _spread(x, dim, unbiased, correction)
    return [af.var(x, axis, less, keepdim), af.mean(x, axis, keepdim)]


@composes("std_mean, std_mean unbiased", "std, mean")
def _std_mean(
    x: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> list[Tensor]:
    axis, less = _spread(x, dim, unbiased, correction)
    return [af.std(x, axis, less, keepdim), af.mean(x, axis, keepdim)]


# ------------------------------------------------------------------------------------- norms


@maps("linalg.vector_norm", "vector_norm")
def _vector_norm(
    x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    no_dtype(dtype)
    return af.linalg.vector_norm(x, axes(x, dim), keepdim, ord)


def _matrices_last(x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    need(
        not keepdim or tuple(d % rank(x) for d in dim) == (rank(x) - 2, rank(x) - 1),
        "keepdim of other axes than the last: ours folds the last two",
    )
    return af.moveaxis(x, tuple(dim), (-2, -1))


@maps("linalg.matrix_norm", "matrix_norm")
def _matrix_norm(
    x: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    no_dtype(dtype)
    return af.linalg.matrix_norm(_matrices_last(x, dim, keepdim), ord, keepdim)


@maps("linalg.norm", "vector_norm, matrix_norm")
@maps(
    "linalg.norm subgradients_at_zero",
    "vector_norm, matrix_norm",
    second_order="at 0 a norm has no second derivative: torch says NaN, ours 0",
)
def _norm(x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    no_dtype(dtype)
    if ord is None:
        return af.linalg.vector_norm(x, axes(x, dim), keepdim)
    if (dim is None and rank(x) == 2) or (isinstance(dim, Sequence) and len(dim) == 2):
        return af.linalg.matrix_norm(_matrices_last(x, dim or (0, 1), keepdim), ord, keepdim)
    return af.linalg.vector_norm(x, axes(x, dim), keepdim, ord)


@maps("norm, norm fro, norm inf, norm nuc", "vector_norm, matrix_norm")
def _old_norm(
    x: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    no_dtype(dtype)
    if p == "nuc":
        return af.linalg.matrix_norm(_matrices_last(x, dim or (0, 1), keepdim), p, keepdim)
    return af.linalg.vector_norm(x, axes(x, dim), keepdim, 2 if p in ("fro", None) else p)


@composes("dist", "vector_norm(a - b)")
def _dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    return af.linalg.vector_norm(a - b, ord=p)


# -------------------------------------------------------------------------------- quantiles


@maps("quantile", "quantile")
def _quantile(
    x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    need(interpolation == "linear", "another interpolation than linear: ours has that one")
    need(not isinstance(q, Tensor), "q as a tensor: ours takes numbers")
    return af.math.quantile(x, q, one_axis(x, dim), keepdim)


@maps("median", "median", first=1, left_out=NO_PLACE)
def _median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    size = math.prod(sizes(x)) if dim is None or not rank(x) else sizes(x)[dim]
    need(
        size % 2 == 1, "median of an even number: torch takes the lower of two, ours the middle between them"
    )
    return af.math.median(x, one_axis(x, dim), keepdim)


# ---------------------------------------------------------------------------- running totals


@maps("cumsum", "cumulative_sum")
def _cumsum(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    no_dtype(dtype)
    return af.cumulative_sum(x, one_axis(x, dim))


@maps("cumprod", "cumulative_prod")
def _cumprod(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    no_dtype(dtype)
    return af.cumulative_prod(x, one_axis(x, dim))


@maps("cummax", "cumulative_max", first=1, left_out=NO_PLACE)
def _cummax(x: Tensor, dim: int) -> Tensor:
    return af.math.cumulative_max(x, one_axis(x, dim))


@maps("cummin", "cumulative_min", first=1, left_out=NO_PLACE)
def _cummin(x: Tensor, dim: int) -> Tensor:
    return af.math.cumulative_min(x, one_axis(x, dim))


@maps("diff", "diff")
def _diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    return af.diff(x, dim, n=n, prepend=prepend, append=append)


@maps("trapezoid, trapz", "trapezoid")
def _trapezoid(y: Tensor, x: Tensor | None = None, *, dim: int = -1, dx: float = 1.0) -> Tensor:
    return af.math.trapezoid(y, x, dx, dim)


# ------------------------------------------------------------------------------------- order


@composes("sort", "sort, argsort")
def _sort(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> list[Tensor]:
    axis = one_axis(x, dim)
    return [af.sort(x, axis or 0, descending=descending), af.argsort(x, axis or 0, descending=descending)]


@maps("argsort", "argsort")
def _argsort(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    return af.argsort(x, one_axis(x, dim) or 0, descending=descending)


@maps("msort", "sort")
def _msort(x: Tensor) -> Tensor:
    return af.sort(x, 0)


@maps("topk", "topk")
def _topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sequence[Tensor]:
    return af.arrays.topk(x, k, one_axis(x, dim) or 0, largest=largest)


@composes("kthvalue", "the last of topk of the smallest")
def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> list[Tensor]:
    axis = one_axis(x, dim) or 0
    found = [af.gather(t, [k - 1], axis) for t in af.arrays.topk(x, k, axis, largest=False)]
    return found if keepdim else [af.squeeze(t, axis) for t in found]


@maps("searchsorted", "searchsorted")
def _searchsorted(
    x: Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    need(rank(x) == 1, "searchsorted in several rows: ours looks in one sorted axis")
    found = af.searchsorted(x, values, side=side or ("right" if right else "left"), sorter=sorter)
    return af.cast(found, "int32") if out_int32 else found


@maps("bucketize", "searchsorted")
def _bucketize(values: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    found = af.searchsorted(boundaries, values, side="right" if right else "left")
    return af.cast(found, "int32") if out_int32 else found


@maps("unique", "unique_all")
def _unique(
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> list[Tensor]:
    need(dim is None, "unique along a dim: ours finds elements")
    values, _, inverse, counts = af.unique_all(x)
    return [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]


@maps("bincount", "bincount")
def _bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    whole = weights is not None and weights.dtype.kind in "iu"
    need(not whole, "whole weights of bincount: torch adds them in float64, ours asks for a cast")
    return af.math.bincount(x, weights, minlength)


@maps("histogram", "histogram")
def _histogram(
    x: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Sequence[Tensor]:
    need(isinstance(bins, int), "bins as a tensor of edges: ours takes their number")
    need(weight is None and not density, "weights and densities of histogram: ours counts")
    counts, edges = af.math.histogram(x, bins, None if range is None else tuple(range))
    return [af.cast(counts, x.dtype), edges]


@maps("histc", "histogram")
def _histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    counts, _ = af.math.histogram(x, bins, None if min == max == 0 else (float(min), float(max)))
    return af.cast(counts, x.dtype)
