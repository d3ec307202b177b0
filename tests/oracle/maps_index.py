"""Indices: choosing, writing at places, masks, parts by number."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import maps, need, rank, sizes


def _scalar(x: Tensor) -> None:
    need(rank(x) > 0, "a dim of a scalar: ours has no axis there")


def _part(x: Tensor, dim: int, part: Any) -> tuple[Any, ...]:
    """The index that takes `part` along `dim`."""
    _scalar(x)
    return (builtins.slice(None),) * (dim % rank(x)) + (part,)


@maps("select", "slice")
def _select(x: Tensor, dim: int, index: int) -> Tensor:
    return af.arrays.slice(x, _part(x, dim, index))


@maps("narrow, narrow_copy", "slice")
def _narrow(x: Tensor, dim: int, start: Any, length: int) -> Tensor:
    need(not isinstance(start, Tensor), "start as a tensor: ours takes numbers")
    first = start % sizes(x)[dim] if start < 0 else start
    return af.arrays.slice(x, _part(x, dim, builtins.slice(first, first + length)))


@maps("slice", "slice")
def _slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return af.arrays.slice(x, _part(x, dim, builtins.slice(start, end, step)))


@maps("select_scatter", "slice_update")
def _select_scatter(x: Tensor, part: Tensor, dim: int, index: int) -> Tensor:
    return af.arrays.slice_update(x, _part(x, dim, index), part)


@maps("slice_scatter", "slice_update")
def _slice_scatter(
    x: Tensor, part: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return af.arrays.slice_update(x, _part(x, dim, builtins.slice(start, end, step)), part)


@maps("__getitem__", "slice, gather, boolean_mask")
def _getitem(x: Tensor, index: Any) -> Tensor:
    if isinstance(index, Tensor):
        return af.arrays.boolean_mask(x, index) if index.dtype.kind == "b" else af.gather(x, index)
    parts = index if isinstance(index, tuple) else (index,)
    need(
        all(
            p is None or (isinstance(p, int | builtins.slice | type(...)) and not isinstance(p, bool))
            for p in parts
        ),
        "several indices by tensors or lists: ours has gather_nd for vectors of them",
    )
    made: Tensor = x[index]
    return made


@maps("index_select", "gather")
def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    _scalar(x)
    return af.gather(x, index, dim)


@maps("gather", "take_along_axis")
def _gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    _scalar(x)
    need(rank(index) == rank(x), "an index of gather with other axes than x: ours has as many")
    return af.take_along_axis(_cropped(x, index, dim), index, dim)


def _cropped(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """The part of `x` that torch reads: beside `dim` no more than the index has."""
    at = dim % rank(x)
    wanted = [builtins.slice(None if i == at else size) for i, size in enumerate(sizes(index))]
    return x if _fits(x, index, dim) else af.arrays.slice(x, tuple(wanted))


def _fits(x: Tensor, index: Tensor, dim: int) -> bool:
    """Whether both have equal sizes beside `dim`."""
    at = dim % rank(x)
    return all(i == at or a == b for i, (a, b) in enumerate(zip(sizes(x), sizes(index), strict=True)))


@maps("take_along_dim", "take_along_axis")
def _take_along_dim(x: Tensor, index: Tensor, dim: int | None = None) -> Tensor:
    return (
        af.take_along_axis(af.arrays.flatten(x), af.arrays.flatten(index), 0)
        if dim is None
        else af.take_along_axis(x, index, dim)
    )


@maps("take", "gather")
def _take(x: Tensor, index: Tensor) -> Tensor:
    return af.gather(af.arrays.flatten(x), index)


@maps("masked_select", "boolean_mask")
def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    x, mask = af.broadcast_arrays(x, mask)
    need(rank(mask) > 0, "a mask without axes: ours chooses along at least one")
    return af.arrays.boolean_mask(x, mask)


@maps("masked_fill", "where")
def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return af.where(mask, value, x)


@maps("nonzero", "argwhere, nonzero")
def _nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    need(rank(x) > 0 or not as_tuple, "nonzero of a scalar: ours has no axis to tell an index of")
    return af.nonzero(x) if as_tuple else af.arrays.argwhere(x)


@maps("argwhere", "argwhere")
def _argwhere(x: Tensor) -> Tensor:
    return af.arrays.argwhere(x)


# ------------------------------------------------------------------------- writing at places


@maps("index_add", "scatter_add")
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    _scalar(x)
    need(rank(index) == 1, "a scalar index of index_add: ours drops the axis then")
    return af.arrays.scatter_add(x, index, source if alpha == 1 else source * alpha, dim)


@maps("index_copy", "scatter_update")
def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    _scalar(x)
    need(rank(index) == 1, "a scalar index of index_copy: ours drops the axis then")
    return af.arrays.scatter_update(x, index, source, dim)


@maps("index_fill", "scatter_update")
def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    _scalar(x)
    return af.arrays.scatter_update(x, index, value, dim)


def _index_reduce(name: str, function: Any, ours: str) -> None:
    def build(
        x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
    ) -> Tensor:
        _scalar(x)
        need(include_self, "include_self=False: ours folds what was there as well")
        made: Tensor = function(x, index, source, dim)
        return made

    maps(name, ours)(build)


_index_reduce("index_reduce amax", af.arrays.scatter_max, "scatter_max")
_index_reduce("index_reduce amin", af.arrays.scatter_min, "scatter_min")


def _put_along(x: Tensor, dim: int, index: Tensor, source: Any, how: str) -> Tensor:
    _scalar(x)
    need(rank(index) == rank(x), "an index of scatter with other axes than x: ours has as many")
    need(
        _fits(x, index, dim), "an index of scatter that is smaller beside its dim: ours has equal sizes there"
    )
    if isinstance(source, Tensor):
        source = af.arrays.slice(source, tuple(builtins.slice(0, d) for d in sizes(index)))
    return af.arrays.put_along_axis(x, index, source, dim, how)


@maps("scatter", "put_along_axis")
def _scatter(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
    need(reduce != "multiply", "scatter that multiplies: ours updates, adds, or takes the larger or smaller")
    return _put_along(x, dim, index, src, "update" if reduce is None else "add")


@maps("scatter_add", "put_along_axis")
def _scatter_add(x: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    return _put_along(x, dim, index, src, "add")


def _scatter_reduce(name: str, how: str) -> None:
    def build(
        x: Tensor, dim: int, index: Tensor, src: Any, reduce: str, *, include_self: bool = True
    ) -> Tensor:
        need(include_self, "include_self=False: ours folds what was there as well")
        return _put_along(x, dim, index, src, how)

    maps(name, "put_along_axis")(build)


_scatter_reduce("scatter_reduce sum", "add")
_scatter_reduce("scatter_reduce amax", "max")
_scatter_reduce("scatter_reduce amin", "min")


@maps("put", "scatter_update, scatter_add")
def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    write = af.arrays.scatter_add if accumulate else af.arrays.scatter_update
    return af.arrays.reshape_like(
        write(af.arrays.flatten(x), af.arrays.flatten(index), af.arrays.flatten(source)), x
    )


@maps("index_put", "scatter_nd_update, scatter_nd_add")
def _index_put(x: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    need(all(i.dtype.kind != "b" for i in indices), "a mask among indices: ours has boolean_mask and where")
    write = af.arrays.scatter_nd_add if accumulate else af.arrays.scatter_nd_update
    return write(x, af.stack(list(indices), -1), values)


@maps("nn.functional.one_hot", "one_hot")
def _one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    need(num_classes >= 0, "one_hot of as many classes as occur: ours takes their number")
    return af.nn.one_hot(x, num_classes, "int64")


@maps("nn.functional.embedding", "gather")
def _embedding(
    weight: Tensor,
    index: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    need(max_norm is None, "max_norm: ours leaves the table as it is")
    need(padding_idx is None, "padding_idx: ours has a gradient for every row")
    need(not scale_grad_by_freq, "scale_grad_by_freq: ours adds gradients up")
    return af.gather(weight, index)
