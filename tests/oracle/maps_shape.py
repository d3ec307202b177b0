"""Shapes: reshaping, turning, joining, cutting, repeating, margins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import axes, composes, ints, maps, need, rank, sizes

Dims = int | Sequence[int] | None


@maps("reshape, view, view_copy", "reshape")
def _reshape(x: Tensor, *shape: Any) -> Tensor:
    need(not isinstance(shape[0], str), "view as another dtype: ours has no such cast")
    return af.reshape(x, ints(shape))


@maps("reshape_as, view_as", "reshape_like")
def _reshape_as(x: Tensor, like: Tensor) -> Tensor:
    return af.arrays.reshape_like(x, like)


@maps("flatten", "flatten")
def _flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    return af.arrays.flatten(x, start_dim, end_dim)


@maps("ravel", "flatten")
def _ravel(x: Tensor) -> Tensor:
    return af.arrays.flatten(x)


@maps("unflatten", "reshape")
def _unflatten(x: Tensor, dim: int, shape: Sequence[int]) -> Tensor:
    at = dim % rank(x)
    return af.reshape(x, (*sizes(x)[:at], *shape, *sizes(x)[at + 1 :]))


@maps("squeeze, squeeze multiple, squeeze_copy", "squeeze")
def _squeeze(x: Tensor, dim: Dims = None) -> Tensor:
    if dim is None:
        return af.squeeze(x)
    need(rank(x) > 0, "a dim of a scalar: ours has no axis there")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    need(all(sizes(x)[d] == 1 for d in dims), "squeeze of a dim that is not of size 1: ours refuses it")
    return af.squeeze(x, dims)


@maps("unsqueeze, unsqueeze_copy", "expand_dims")
def _unsqueeze(x: Tensor, dim: int) -> Tensor:
    return af.expand_dims(x, dim)


@maps("permute, permute_copy", "transpose")
def _permute(x: Tensor, *dims: Any) -> Tensor:
    return af.transpose(x, ints(dims))


@maps("transpose, transpose_copy", "swapaxes")
def _transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    need(rank(x) > 0, "a dim of a scalar: ours has no axis there")
    return af.arrays.swapaxes(x, dim0, dim1)


@maps("T, t, t_copy", "transpose")
def _t(x: Tensor) -> Tensor:
    return af.transpose(x)


@maps("mT, mH", "matrix_transpose")
def _mt(x: Tensor) -> Tensor:
    return af.matrix_transpose(x)


@maps("H", "transpose")
def _h(x: Tensor) -> Tensor:
    return af.transpose(x)


@maps("movedim", "moveaxis")
def _movedim(x: Tensor, source: Any, destination: Any) -> Tensor:
    return af.moveaxis(x, source, destination)


@maps("expand, expand_copy, broadcast_to", "broadcast_to")
def _expand(x: Tensor, *shape: Any) -> Tensor:
    wanted = ints(shape)
    own = (1,) * (len(wanted) - rank(x)) + sizes(x)
    return af.broadcast_to(x, [o if w == -1 else w for o, w in zip(own, wanted, strict=True)])


@maps("expand_as", "broadcast_like")
def _expand_as(x: Tensor, like: Tensor) -> Tensor:
    return af.arrays.broadcast_like(x, like)


@maps("broadcast_tensors", "broadcast_arrays")
def _broadcast_tensors(*xs: Tensor) -> Sequence[Tensor]:
    return af.broadcast_arrays(*xs)


@maps("sum_to_size", "sum_to")
def _sum_to_size(x: Tensor, *shape: Any) -> Tensor:
    return af.arrays.sum_to(x, af.zeros(ints(shape), x.dtype))


@maps("flip", "flip")
def _flip(x: Tensor, dims: Sequence[int]) -> Tensor:
    return af.flip(x, tuple(dims))


@maps("fliplr", "flip")
def _fliplr(x: Tensor) -> Tensor:
    return af.flip(x, 1)


@maps("flipud", "flip")
def _flipud(x: Tensor) -> Tensor:
    return af.flip(x, 0)


@maps("roll", "roll")
def _roll(x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    return af.roll(x, shifts, axes(x, dims))


@composes("rot90", "flip, swapaxes")
def _rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    first, second = dims
    if k % 4 == 0:
        return af.arrays.identity(x)
    if k % 4 == 2:
        return af.flip(x, (first, second))
    return (
        af.arrays.swapaxes(af.flip(x, second), first, second)
        if k % 4 == 1
        else af.flip(af.arrays.swapaxes(x, first, second), second)
    )


@maps("repeat, tile", "tile")
def _tile(x: Tensor, *repeats: Any) -> Tensor:
    times = ints(repeats)
    return af.tile(x, (1,) * (rank(x) - len(times)) + times)


@maps("repeat_interleave", "repeat")
def _repeat_interleave(
    x: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    need(rank(x) > 0 or dim is None, "a dim of a scalar: ours has no axis there")
    return af.repeat(x, repeats, dim)


# ----------------------------------------------------------------------------------- joining


@maps("stack", "stack")
def _stack(xs: Sequence[Tensor], dim: int = 0) -> Tensor:
    return af.stack(xs, dim)


@maps("cat", "concat")
def _cat(xs: Sequence[Tensor], dim: int = 0) -> Tensor:
    need(len({rank(x) for x in xs}) == 1, "cat with an empty vector among others: ours joins equal ranks")
    return af.concat(xs, dim)


@maps("hstack", "concat")
def _hstack(xs: Sequence[Tensor]) -> Tensor:
    flat = [af.reshape(x, (1,)) if rank(x) == 0 else x for x in xs]
    return af.concat(flat, min(1, rank(flat[0]) - 1))


def _planes(x: Tensor) -> Tensor:
    return af.expand_dims(x, 0) if rank(x) == 1 else af.reshape(x, (1, 1)) if rank(x) == 0 else x


@maps("vstack", "concat")
def _vstack(xs: Sequence[Tensor]) -> Tensor:
    return af.concat([_planes(x) for x in xs], 0)


@maps("dstack", "concat")
def _dstack(xs: Sequence[Tensor]) -> Tensor:
    flat = [_planes(x) for x in xs]
    return af.concat([af.expand_dims(x, 2) if rank(x) == 2 else x for x in flat], 2)


@maps("column_stack", "concat")
def _column_stack(xs: Sequence[Tensor]) -> Tensor:
    return af.concat([x if rank(x) > 1 else af.reshape(x, (-1, 1)) for x in xs], 1)


def _at_least(name: str, least: int) -> None:
    """Entries that give tensors axes of size 1 until they have enough."""

    def one(x: Tensor) -> Tensor:
        shape = {(0, 1): (1,), (0, 2): (1, 1), (1, 2): (1, -1), (0, 3): (1, 1, 1), (1, 3): (1, -1, 1)}.get(
            (rank(x), least)
        )
        if rank(x) == 2 and least == 3:
            return af.expand_dims(x, 2)
        return af.arrays.identity(x) if shape is None else af.reshape(x, shape)

    def build(*xs: Any) -> list[Tensor]:
        return [one(x) for x in (xs[0] if isinstance(xs[0], Sequence) else xs)]

    maps(name, "reshape")(build)


_at_least("atleast_1d", 1)
_at_least("atleast_2d", 2)
_at_least("atleast_3d", 3)


@maps("meshgrid variadic_tensors, meshgrid list_of_tensors", "meshgrid")
def _meshgrid(*xs: Any, indexing: str = "ij") -> Sequence[Tensor]:
    flat = xs[0] if isinstance(xs[0], Sequence) else xs
    return af.meshgrid(*[af.reshape(x, (-1,)) for x in flat], indexing=indexing)


@composes("cartesian_prod", "stack(meshgrid)")
def _cartesian_prod(*xs: Tensor) -> Tensor:
    if len(xs) == 1:
        return af.arrays.identity(xs[0])
    return af.reshape(af.stack(af.meshgrid(*xs, indexing="ij"), -1), (-1, len(xs)))


# ----------------------------------------------------------------------------------- cutting


@maps("unbind, unbind_copy", "unstack")
def _unbind(x: Tensor, dim: int = 0) -> Sequence[Tensor]:
    return af.unstack(x, dim)


@maps("chunk, unsafe_chunk", "split")
def _chunk(x: Tensor, chunks: int, dim: int = 0) -> Sequence[Tensor]:
    size = sizes(x)[dim]
    step = max(1, math.ceil(size / chunks))
    return af.arrays.split(x, [min(step, size - at) for at in range(0, size, step)] or [0], dim)


@maps("split, split list_args, unsafe_split, split_with_sizes, split_with_sizes_copy", "split")
def _split(x: Tensor, parts: Any, dim: int = 0) -> Sequence[Tensor]:
    size = sizes(x)[dim]
    if isinstance(parts, int):
        parts = [min(parts, size - at) for at in range(0, size, parts)]
    return af.arrays.split(x, parts, dim)


def _parts(size: int, sections: Any) -> list[int]:
    """The sizes of pieces, given by their number or by where they begin."""
    if isinstance(sections, int):
        return [size // sections + (i < size % sections) for i in range(sections)]
    bounds = [0, *[min(size, s if s >= 0 else max(0, s + size)) for s in sections], size]
    return [max(0, b - a) for a, b in itertools.pairwise(bounds)]


@maps("tensor_split", "split")
def _tensor_split(x: Tensor, sections: Any, dim: int = 0) -> Sequence[Tensor]:
    need(not isinstance(sections, Tensor), "sections as a tensor: ours takes numbers")
    return _split_at(x, sections, dim)


def _split_at(x: Tensor, sections: Any, dim: int) -> Sequence[Tensor]:
    size = sizes(x)[dim]
    parts = _parts(size, sections)
    need(sum(parts) == size, "sections that overlap: ours cuts")
    return af.arrays.split(x, parts, dim)


@maps("hsplit", "split")
def _hsplit(x: Tensor, sections: Any) -> Sequence[Tensor]:
    return _split_at(x, sections, 0 if rank(x) == 1 else 1)


@maps("vsplit", "split")
def _vsplit(x: Tensor, sections: Any) -> Sequence[Tensor]:
    return _split_at(x, sections, 0)


@maps("dsplit", "split")
def _dsplit(x: Tensor, sections: Any) -> Sequence[Tensor]:
    return _split_at(x, sections, 2)


# --------------------------------------------------------------------------------- diagonals


@maps("tril", "tril")
def _tril(x: Tensor, diagonal: int = 0) -> Tensor:
    return af.tril(x, diagonal)


@maps("triu", "triu")
def _triu(x: Tensor, diagonal: int = 0) -> Tensor:
    return af.triu(x, diagonal)


@maps("diagonal, diagonal_copy, linalg.diagonal", "diagonal")
def _diagonal(x: Tensor, offset: int = 0, dim1: int | None = None, dim2: int | None = None) -> Tensor:
    first, second = (0, 1) if dim1 is None or dim2 is None else (dim1, dim2)
    return af.linalg.diagonal(af.moveaxis(x, (first, second), (-2, -1)), offset)


@maps("diag_embed", "diag_embed")
def _diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return af.moveaxis(af.linalg.diag_embed(x, offset), (-2, -1), (dim1, dim2))


@maps("diag", "diag_embed, diagonal")
def _diag(x: Tensor, diagonal: int = 0) -> Tensor:
    return af.linalg.diag_embed(x, diagonal) if rank(x) == 1 else af.linalg.diagonal(x, diagonal)


@maps("diagflat", "diag_embed")
def _diagflat(x: Tensor, offset: int = 0) -> Tensor:
    return af.linalg.diag_embed(af.arrays.flatten(x), offset)


# ----------------------------------------------------------------------------------- margins


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@maps("nn.functional.pad constant, nn.functional.pad reflect, nn.functional.pad replicate", "pad")
@maps("nn.functional.pad circular, constant_pad_nd", "pad")
@composes("nn.functional.pad replicate_negative", "slice of pad")
def _pad(x: Tensor, pad: Sequence[int], mode: Any = "constant", value: float | None = None) -> Tensor:
    if not isinstance(mode, str):
        mode, value = "constant", mode
    pairs = [(0, 0)] * rank(x)
    for i in range(len(pad) // 2):
        pairs[rank(x) - 1 - i] = (pad[2 * i], pad[2 * i + 1])
    cut = min(map(min, pairs), default=0) < 0
    need(mode != "circular" or not cut, "a negative margin that wraps: torch cuts before it wraps")
    made = af.arrays.pad(x, [(max(0, a), max(0, b)) for a, b in pairs], _MODES[mode], value or 0)
    if not cut:
        return made
    return af.arrays.slice(
        made, tuple(slice(max(0, -a), min(0, b) or None) for a, b in pairs)
    )  # torch cuts off
