"""Products of two matrices on numpy: cut into what BLAS is fast at, and into parts that threads share.

How a product is cut is a matter of its shape, and of the processor's BLAS, alone: bits do not depend on
how many threads there are, or on which of them had time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from actorflow.kernels.device.libraries import openblas_core
from actorflow.kernels.device.parallel_for import together
from actorflow.values.arrays import Array

_SMALL = 10**6
"""m·k·n up to which OpenBLAS takes kernels for small matrices, which pack nothing (`sgemm_small_kernel`)."""

_WITH_SMALL = frozenset({"skylakex", "cooperlake", "sapphirerapids"})
"""The cores for which OpenBLAS has such kernels; on others cutting costs up to 30 %."""

_FEW = 64  # rows, of a product whose other sizes are large
_SHARED = 1 << 24  # multiplications that are worth two threads, some 300 µs of one
_MANY = 1 << 29  # that are worth four
_LANES = 32  # a part begins at a multiple of so many rows or columns
_AHEAD = 3 << 20
"""Multiplications that the first part is longer: its thread begins at once, another 50 µs later.

Of 20 x 512 by 512 x 2048 on two threads, 410 µs on one: 276 µs, and 299 with equal parts.
"""


class Blocks(NamedTuple):
    """Sizes of the blocks of a product (m, k) @ (k, n), each of which is a product of its own."""

    m: int
    k: int
    n: int


class Parts(NamedTuple):
    """The axis along which a product is cut, "m", "k" or "n", and where its parts begin and end."""

    axis: str
    bounds: tuple[tuple[int, int], ...]


def product(a: Array, b: Array) -> Array:
    """The product of matrices `a` (m, k) and `b` (k, n), float32 or float64, C-contiguous.

    On one thread, OpenBLAS for SkylakeX, float32, of which `a` or `b` may lie transposed: (20, 512) @
    (512, 2048) takes 390 µs and not 790, (20, 2048) @ (512, 2048)ᵀ 430 and not 570, (20, 512)ᵀ @ (20, 2048)
    430 and not 870.
    """
    (m, k), n = a.shape, b.shape[1]
    work = m * k * n
    # BLAS would copy what does not lie whole, for every block anew.
    if work <= _SMALL or not (_is_whole(a) and _is_whole(b)) or np.may_share_memory(a, b):
        return np.matmul(a, b)  # BLAS has a shorter way for a matrix by itself
    # INVARIANT: what follows depends on shape, layout and core alone, never on threads.
    lies = ("N" if a.flags.c_contiguous else "T") + ("N" if b.flags.c_contiguous else "T")
    blocks = few(m, k, n, lies) if a.dtype.char == "f" and openblas_core() in _WITH_SMALL else None
    if blocks is None and lies[1] == "T" and 2 <= m <= _FEW < n:
        return np.ascontiguousarray(product(b.T, a.T).T)  # it reads a large b as it lies
    # Blocks are cut along n, so parts must end where blocks do.
    parts = shares(m, k, n, 1 if blocks is None else blocks.n)
    # The parts of a sum each make a whole product, which one fold adds up in order.
    if parts.axis == "k":
        return _sum_parts(a, b, parts)
    out = np.empty((m, n), a.dtype)
    # Each part writes its own rows or columns of `out`: no part waits for another.
    made: list[Callable[[], object]] = []
    for at in (slice(*ends) for ends in parts.bounds):
        x, y, z = (a[at], b, out[at]) if parts.axis == "m" else (a, b[:, at], out[:, at])
        made.append(partial(np.matmul, x, y, z) if blocks is None else partial(_in_blocks, x, y, z, blocks))
    together(made)
    return out


def few(m: int, k: int, n: int, lies: str) -> Blocks | None:
    """The blocks of a product in which one side has few rows; None where it is faster as one.

    What they gain was measured with one thread, float32, 2 to 128 rows, sizes up to (1024, 4096): 1.1 to 5
    times, and nothing outside of these rules. OpenBLAS packs the large matrix anew for each product,
    which few rows do not repay.

    Args:
        m: Rows of the first.
        k: Its columns.
        n: Columns of the second.
        lies: For both, whether it lies as it is or transposed: "NN", "NT" or "TN".
    """
    # A row alone is a product of a vector; BLAS has another function for it.
    if min(m, k) < 2 or m * k * n <= _SMALL:
        return None
    match lies:
        case "NN" if m <= 64 and n % 64 == 0:
            # As large as the small kernels take: halves of k, whose products are summed.
            size = _halve(k, m * 64, times=2)
            return None if size is None else Blocks(m, size, 64)
        case "NT" if m <= 32 and n % 16 == 0:
            size = _halve(k, m * 16, times=1)
            return None if size is None else Blocks(m, size, 16)
        case "TN" if k <= 64 and n % 64 == 0:
            # Here k is the small side, so m is halved, and each half is whole: nothing is summed.
            size = _halve(m, k * 64, times=8)
            return None if size is None else Blocks(size, k, 64)
    return None


def _halve(size: int, others: int, times: int) -> int | None:
    """The size, halved up to so many times until it makes a small product with the others, if it does."""
    for _ in range(times):
        if size * others <= _SMALL or size % 2:
            break
        size //= 2
    return size if size * others <= _SMALL else None


def shares(m: int, k: int, n: int, lanes: int = 1) -> Parts:
    """How a product is cut for threads: in up to four parts, along its longest axis.

    Every part packs again what it does not cut: the shorter that is, the less. Of 700 x 512 x 10,000 two
    parts take 2 % longer than one, four 3, on one thread.

    Args:
        m: Rows of the first.
        k: Its columns.
        n: Columns of the second.
        lanes: Of how many columns the blocks are, 1 for a product without; those are cut along n.
    """
    work = m * k * n
    count = 1 if work < _SHARED else 2 if work < _MANY else 4
    # With blocks only along n: what `few` cut must not be cut across.
    axis, size = max((("n", n), ("k", k), ("m", m)), key=lambda each: each[1]) if lanes == 1 else ("n", n)
    # INVARIANT: a part ends where blocks do: the step is a multiple of their columns.
    step = max(lanes, _LANES)
    ahead = _AHEAD / work * size if count > 1 else 0.0
    # Rounded down to whole lanes; parts that this makes empty fall out of the set below.
    cuts = [int(ahead + (size - ahead) * i / count) // step * step for i in range(1, count)]
    ends = sorted({0, *cuts, size})
    return Parts(axis, tuple(pairwise(ends)))


def _in_blocks(a: Array, b: Array, out: Array, blocks: Blocks) -> None:
    """Writes the product to `out`, block by block, in one call of numpy."""
    m, k, n = blocks
    whole = a.shape[1] == k
    # Blocks along k each make a term of the sum; alone they write to `out` at once.
    terms = out[None] if whole else np.empty((a.shape[1] // k, *out.shape), out.dtype)
    # Views whose batch axes broadcast: one call of matmul runs all blocks.
    left = _split_blocks(a, m, k).swapaxes(0, 1)[:, :, None]  # (inner, down, 1, m, k)
    right = _split_blocks(b, k, n)[:, None]  # (inner, 1, across, k, n)
    np.matmul(left, right, out=_split_blocks(terms, m, n))
    # In the order of the blocks: bits depend on nothing else.
    if not whole:
        np.add.reduce(terms, axis=0, out=out)


def _split_blocks(x: Array, rows: int, columns: int) -> Array:
    """Matrices as (…, blocks down, blocks across, rows, columns), a view."""
    *several, m, n = x.shape
    return x.reshape(*several, m // rows, rows, n // columns, columns).swapaxes(-2, -3)


def _sum_parts(a: Array, b: Array, parts: Parts) -> Array:
    """The product as a sum of those of the parts of the axis that it sums over."""
    slices = [slice(*ends) for ends in parts.bounds]
    terms = np.empty((len(slices), a.shape[0], b.shape[1]), a.dtype)
    together([partial(np.matmul, a[:, at], b[at], term) for at, term in zip(slices, terms, strict=True)])
    return np.add.reduce(terms, axis=0) if len(slices) > 1 else terms[0]


def _is_whole(x: Array) -> bool:
    """Tells whether BLAS reads a matrix as it lies."""
    return bool(x.flags.c_contiguous or x.flags.f_contiguous)
