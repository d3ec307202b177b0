"""Kernels of `ops.array.indexed_slices`: slices added up where their indices say, in their order.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.array.indexing_rows import combine_rows, combine_rows_numpy
from actorflow.kernels.array.sets import unique_inverse
from actorflow.kernels.array.slicing import within
from actorflow.kernels.definition.precision import is_half
from actorflow.kernels.definition.registry import elements, kernel
from actorflow.values.arrays import Array, Library


def _cost(values: Array, *_: Array, rows: int | None) -> float:
    """The whole is written, as far as its size is known."""
    width = prod(values.shape[1:])
    return elements(values) + float((rows or 0) * width)


def _flatten_rows(
    values: Array, indices: Array, whole: tuple[Array, ...], rows: int | None, xp: Library
) -> Any:
    """The values as a matrix, their rows in [0, n), and n; ValueError unless there is a row for each."""
    if indices.shape[0] != values.shape[0]:
        message = f"there must be an index for each slice, got {indices.shape[0]} for {values.shape[0]}"
        raise ValueError(message)
    n = int(whole[0][0]) if rows is None else rows
    matrix = values.reshape((values.shape[0], prod(values.shape[1:])))
    return matrix, within(indices, n, xp), n


@kernel("slices_to_dense", cost=_cost)
def slices_to_dense(
    values: Array, indices: Array, *whole: Array, rows: int | None, xp: Library = np
) -> Array:
    """Zeros with the values added to the rows that the indices name.

    Halves are added up in float32 and rounded once.
    """
    # Those of one row first, so that nothing of the whole's size is float32.
    if is_half(values.dtype):
        indices, values = sum_duplicates(values, indices, *whole, rows=rows, xp=xp)
    matrix, at, n = _flatten_rows(values, indices, whole, rows, xp)
    zeros = xp.zeros((n, matrix.shape[1]), dtype=values.dtype)
    return combine_rows(zeros, at, matrix, "add", xp).reshape((n, *values.shape[1:]))


@kernel("slices_to_dense", only="numpy", cost=_cost)
def slices_to_dense_of_numpy(values: Array, indices: Array, *whole: Array, rows: int | None) -> Array:
    """Zeros with the values added to the rows that the indices name, one after the other."""
    if is_half(values.dtype):
        indices, values = sum_duplicates_of_numpy(values, indices, *whole, rows=rows)
    matrix, at, n = _flatten_rows(values, indices, whole, rows, np)
    return _add(matrix, at, n).reshape((n, *values.shape[1:]))


@kernel("sum_duplicates")
def sum_duplicates(
    values: Array, indices: Array, *whole: Array, rows: int | None, xp: Library = np
) -> tuple[Array, Array]:
    """The indices that occur, and the sum of the values of each; halves in float32, rounded once."""
    if is_half(values.dtype):
        found, sums = sum_duplicates(values.astype(np.float32), indices, *whole, rows=rows, xp=xp)
        return found, sums.astype(values.dtype)
    matrix, at, _ = _flatten_rows(values, indices, whole, rows, xp)
    found, inverse = unique_inverse(at, xp=xp)
    zeros = xp.zeros((found.shape[0], matrix.shape[1]), dtype=values.dtype)
    sums = combine_rows(zeros, inverse, matrix, "add", xp)
    return found, sums.reshape((found.shape[0], *values.shape[1:]))


@kernel("sum_duplicates", only="numpy")
def sum_duplicates_of_numpy(
    values: Array, indices: Array, *whole: Array, rows: int | None
) -> tuple[Array, Array]:
    """The indices that occur, and the sum of the values of each, added one after the other."""
    if is_half(values.dtype):
        found, sums = sum_duplicates_of_numpy(values.astype(np.float32), indices, *whole, rows=rows)
        return found, sums.astype(values.dtype)
    matrix, at, _ = _flatten_rows(values, indices, whole, rows, np)
    # Stable: the values of a row are added in the order in which they came.
    order = np.argsort(at, kind="stable")
    ranked = at[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=-1))
    found, counts = ranked[starts], np.diff(starts, append=at.size)
    # Beyond, most of the time goes into finding who takes part in a round.
    if counts.max(initial=0) > _ROUNDS:
        sums = _add(matrix[order], np.repeat(np.arange(found.size), counts), found.size)
    else:
        sums = _in_rounds(matrix, order, starts, counts)
    return found, sums.reshape((found.size, *values.shape[1:]))


_ROUNDS = 8  # beyond, most of the time goes into finding who takes part in a round


def _in_rounds(matrix: Array, order: Array, starts: Array, counts: Array) -> Array:
    """The sums of rows that lie side by side in `order`, one value of each index a round."""
    # In round r each index adds its r-th value: 4,096 random rows of 64 float32 take 0.4 ms so, 1.1 ms by
    # `ufunc.at`; 32 rows take 16 µs, not 39.
    sums: Array = matrix[order[starts]]
    for r in range(1, int(counts.max(initial=0))):
        more = np.flatnonzero(counts > r)
        sums[more] += matrix[order[starts[more] + r]]
    return sums


def _add(matrix: Array, at: Array, n: int) -> Array:
    # Zeros that take no memory: they are copied before anything is added.
    return combine_rows_numpy(
        np.broadcast_to(np.zeros((), matrix.dtype), (n, matrix.shape[1])), at, matrix, "add"
    )
