"""Kernel of `ops.linalg.contraction`.

Products of two at a time, each one matmul, in an order that costs little.

What depends on equation and shapes alone (which pairs, how axes move) is worked out once and kept:
a firing runs a list of moves and products.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

Label = Hashable
"""A letter; for an axis of "..." its place counted from the back, such as -1; a pair for a second one."""

Labels = tuple[Label, ...]
Sizes = dict[Label, int]


class Move(NamedTuple):
    """Axes put in another order, then given another shape, then every `step`-th along the last."""

    perm: tuple[int, ...] | None
    shape: tuple[int, ...] | None
    step: int = 1


class Fold(NamedTuple):
    """Axes summed."""

    axes: tuple[int, ...]


class Factor(NamedTuple):
    """An input as one side of a product; `swap` when its matrices lie the other way round."""

    move: Move
    swap: bool


class Product(NamedTuple):
    """What multiplies the operands `i` and `j`; the result, in `shape`, joins the list at its end.

    Matrices are multiplied by matmul; else elements are, and the axes `fold` summed.
    """

    i: int
    j: int
    left: Factor
    right: Factor
    matrices: bool
    fold: tuple[int, ...]
    shape: tuple[int, ...]


class ContractionPlan(NamedTuple):
    """The moves of each operand, eyes to add, the products in order, the move of the result; the work."""

    operands: tuple[tuple[Move | Fold, ...], ...]
    eyes: tuple[int, ...]
    products: tuple[Product, ...]
    result: Move
    flops: float


def _cost(*arrays: Array, equation: str) -> float:
    return _program(equation, tuple(a.shape for a in arrays)).flops


@kernel("einsum", cost=_cost)
@in_float32
def einsum(*arrays: Array, equation: str, xp: Library = np) -> Array:
    """The sum of products that the equation describes, of one dtype; halves are computed in float32.

    Shapes:  a letter has one size; axes of "..." broadcast
    Cost:    a matmul for each product that sums, and copies of operands that BLAS cannot read as they lie
    Raises:  SpecError for shapes, known late, that do not fit
    """
    # Step 1: the program of this equation and these shapes, from the cache after the first firing.
    program = _program(equation, tuple(a.shape for a in arrays))
    # Step 2: no operand has a letter twice from here on, and none that nobody else needs.
    held = [_move(a, moves, xp) for a, moves in zip(arrays, program.operands, strict=True)]
    # A letter that the output repeats lies on a diagonal, which one more factor, an eye, makes.
    held += [xp.eye(n, dtype=arrays[0].dtype) for n in program.eyes]
    # Step 3: a product of two at a time; its result joins the list, where a later one names it by place.
    for product in program.products:
        left, right = (
            _factor(held[k], f) for k, f in ((product.i, product.left), (product.j, product.right))
        )
        made = xp.matmul(left, right) if product.matrices else left * right
        made = xp.sum(made, axis=product.fold, dtype=made.dtype) if product.fold else made
        held.append(made.reshape(product.shape))
    # Step 4: the last product has the axes of the output, in an order of its own.
    return _move(held[-1], (program.result,), xp)


def _factor(x: Array, factor: Factor) -> Array:
    move = factor.move
    x = x if move.perm is None else x.transpose(move.perm)
    x = x if move.shape is None else x.reshape(move.shape)
    return x.swapaxes(-1, -2) if factor.swap else x


def _move(x: Array, moves: Sequence[Move | Fold], xp: Library) -> Array:
    for move in moves:
        if isinstance(move, Fold):
            x = xp.sum(x, axis=move.axes, dtype=x.dtype)
            continue
        x = x if move.perm is None else x.transpose(move.perm)
        x = x if move.shape is None else x.reshape(move.shape)
        # The diagonal of n × n, which have become one axis of n·n, is every (n + 1)th along it.
        x = x if move.step == 1 else x[..., :: move.step]
    return x


# -------------------------------------------------------------------------- working it out, once


@lru_cache(maxsize=4096)
def _program(equation: str, shapes: tuple[tuple[int, ...], ...]) -> ContractionPlan:
    # INVARIANT: depends on equation and shapes alone; the arrays play no part, which makes it cacheable.
    terms, output = _label(equation, shapes)
    sizes = _sizes(equation, terms, shapes)
    output, eyes = _separate_labels(output)
    sizes.update((new, sizes[label]) for label, new in eyes)
    wanted = frozenset(output)
    # An axis of "..." that has size 1 here and more elsewhere broadcasts: the other input stands for it.
    thick = [
        tuple(a for a, n in zip(t, s, strict=True) if n == sizes[a])
        for t, s in zip(terms, shapes, strict=True)
    ]
    operands: list[tuple[Move | Fold, ...]] = []
    held: list[Labels | None] = []
    for k, (term, labels) in enumerate(zip(terms, thick, strict=True)):
        # What neither the output nor another input has is summed before any product, where it is cheapest.
        others = wanted.union(*(t for m, t in enumerate(thick) if m != k))
        moves, left = _prepare(term, labels, others, sizes)
        operands.append(moves)
        held.append(left)
    # After the operands, in the order in which `einsum` adds them.
    held += eyes
    # Every element is read once at least.
    flops = float(sum(map(prod, shapes)))
    products = []
    for i, j in _order([t for t in held if t is not None], wanted, sizes):
        a, b = held[i], held[j]
        assert a is not None
        assert b is not None
        # Emptied and not removed: the places of the others stay what the order calls them.
        held[i] = held[j] = None
        # What nobody needs after this product is summed by it.
        keep = wanted.union(*(t for t in held if t is not None))
        product, made = _product(i, j, a, b, keep, sizes)
        products.append(product)
        held.append(made)
        # A multiplication and an addition for each point of both operands' letters.
        flops += 2.0 * _work(frozenset(a + b), sizes)
    last = held[-1]
    assert last is not None
    result = Move(_permutation(last, output), None)
    return ContractionPlan(tuple(operands), tuple(sizes[e[0]] for e in eyes), tuple(products), result, flops)


def _label(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Labels], Labels]:
    """The label of every axis of the inputs and of the output; SpecError for ranks that do not fit."""
    left, _, right = equation.partition("->")
    terms, longest = [], 0
    for text, shape in zip(left.split(","), shapes, strict=True):
        before, dots, after = text.partition("...")
        over = len(shape) - len(before) - len(after)
        if over < 0 or (over and not dots):
            message = f"einsum needs an axis for every letter of {text!r} in {equation!r}, got {show(shape)}"
            raise SpecError(message)
        longest = max(longest, over)
        # Counted from the back, so that axes of "..." of different lengths align as broadcasting does.
        terms.append((*before, *range(-over, 0), *after))
    before, dots, after = right.partition("...")
    return terms, (*before, *(range(-longest, 0) if dots else ()), *after)


def _sizes(equation: str, terms: Sequence[Labels], shapes: Sequence[tuple[int, ...]]) -> Sizes:
    """The size of every label; SpecError for letters with two, and for "..." that does not broadcast."""
    sizes: Sizes = {}
    for label, size in (
        (a, n) for t, s in zip(terms, shapes, strict=True) for a, n in zip(t, s, strict=True)
    ):
        before = sizes.setdefault(label, size)
        if before == size:
            continue
        # Axes of "..." broadcast; two sizes of one letter never do.
        if isinstance(label, int) and 1 in (before, size):
            sizes[label] = size if before == 1 else before
            continue
        what = f"axis {label} of '...'" if isinstance(label, int) else repr(label)
        message = f"einsum needs one size for {what} in {equation!r}, got {before} and {size}"
        raise SpecError(message)
    return sizes


def _separate_labels(output: Labels) -> tuple[Labels, list[tuple[Label, Label]]]:
    """The output with another label for each letter that came before, and the eyes that tie them."""
    found: list[Label] = []
    eyes: list[tuple[Label, Label]] = []
    for label in output:
        # A second occurrence gets a label of its own; an eye over both keeps what lies on the diagonal.
        new = label if label not in found else (label, len(found))
        if new != label:
            eyes.append((label, new))
        found.append(new)
    return tuple(found), eyes


def _permutation(labels: Labels, order: Labels) -> tuple[int, ...] | None:
    """How `labels` are put in `order`, None when they are."""
    return None if labels == order else tuple(labels.index(a) for a in order)


def _prepare(
    term: Labels, thick: Labels, others: frozenset[Label], sizes: Sizes
) -> tuple[tuple[Move | Fold, ...], Labels]:
    """What makes of an input one whose labels differ, and of which each comes elsewhere too."""
    moves: list[Move | Fold] = []
    if thick != term:  # axes of "..." that broadcast are left out: another input has them
        moves.append(Move(None, tuple(sizes[a] for a in thick)))
    labels = thick
    # A letter twice in one term asks for the diagonal: both axes go last, become one, and are stepped over.
    while (repeated := next((a for a in labels if labels.count(a) > 1), None)) is not None:
        first = labels.index(repeated)
        second = labels.index(repeated, first + 1)
        rest = tuple(k for k in range(len(labels)) if k not in (first, second))
        n, left = sizes[repeated], tuple(labels[k] for k in rest)
        moves.append(Move((*rest, first, second), (*(sizes[a] for a in left), n * n), n + 1))
        # May be there a third time: the loop goes on with the one axis that is left of the two.
        labels = (*left, repeated)
    folded = tuple(k for k, a in enumerate(labels) if a not in others)
    if folded:
        moves.append(Fold(folded))
    return tuple(moves), tuple(a for a in labels if a in others)


def _product(
    i: int, j: int, a: Labels, b: Labels, keep: frozenset[Label], sizes: Sizes
) -> tuple[Product, Labels]:
    """The product of two operands and the labels of its axes: those of `keep`."""
    large = a if _work(frozenset(a), sizes) >= _work(frozenset(b), sizes) else b
    shared = [c for c in large if c in a and c in b]
    # As in every matmul: what both have and is kept is a batch, what both have and is not kept is summed.
    batch, summed = tuple(c for c in shared if c in keep), tuple(c for c in shared if c not in keep)
    rows, columns = tuple(c for c in a if c not in b), tuple(c for c in b if c not in a)
    # INVARIANT: the axes of the result lie as matmul gives them, so no product moves its result.
    labels = (*batch, *rows, *columns)
    shape = tuple(sizes[c] for c in labels)
    fold: tuple[int, ...] = ()
    if summed and not rows and not columns and large != (*batch, *summed):
        # 1000 × 1000 float32, summed over the rows: 1.4 ms, where matmul of columns takes 3.8.
        left, right = _broadcast(a, large, large, sizes), _broadcast(b, large, large, sizes)
        fold = tuple(k for k, c in enumerate(large) if c in summed)
    elif summed:
        left, right = _matrices(a, batch, rows, summed, sizes), _matrices(b, batch, summed, columns, sizes)
    # Nothing is summed: an outer product, elementwise, of what broadcasts.
    else:
        left = _broadcast(a, (*batch, *rows), labels, sizes)
        right = _broadcast(b, (*batch, *columns), labels, sizes)
    return Product(i, j, left, right, bool(summed) and not fold, fold, shape), labels


def _matrices(labels: Labels, batch: Labels, rows: Labels, columns: Labels, sizes: Sizes) -> Factor:
    """An operand as matrices; those that lie transposed are left so, BLAS reads them as they are."""
    # When columns come first in memory, the reshape is free that way round and the swap is a view.
    swap = labels == (*batch, *columns, *rows) != (*batch, *rows, *columns)
    first, second = (columns, rows) if swap else (rows, columns)
    shape: tuple[int, ...] = (prod(sizes[c] for c in first), prod(sizes[c] for c in second))
    if batch:
        shape = (prod(sizes[c] for c in batch), *shape)
    return Factor(Move(_permutation(labels, (*batch, *first, *second)), shape), swap)


def _broadcast(labels: Labels, order: Labels, over: Labels, sizes: Sizes) -> Factor:
    """An operand with an axis of size 1 for each label of `over` that it has not."""
    return Factor(
        Move(_permutation(labels, order), tuple(sizes[c] if c in order else 1 for c in over)), False
    )


def _work(labels: frozenset[Label], sizes: Sizes) -> int:
    return prod(sizes[a] for a in labels)


# ----------------------------------------------------------------------------------- the order

Held = tuple[tuple[int, frozenset[Label]], ...]
"""Operands by their place in the list."""


def _order(held: Sequence[Labels], wanted: frozenset[Label], sizes: Sizes) -> tuple[tuple[int, int], ...]:
    """Which two to multiply, one after the other; each result takes the next place in the list."""
    left: Held = tuple((k, frozenset(t)) for k, t in enumerate(held))
    # Up to 180 orders are tried in full; of more operands the cheapest pair each time.
    if len(left) <= 5:
        return _cheapest(left, len(left), wanted, sizes)[1]
    path, place = [], len(left)
    while len(left) > 1:
        # Of equal work the pair that comes first, so that the order is the same in every run.
        _, pair, left = min(_choices(left, place, wanted, sizes), key=lambda choice: choice[:2])
        path.append(pair)
        place += 1
    return tuple(path)


def _cheapest(
    held: Held, place: int, wanted: frozenset[Label], sizes: Sizes
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The least work that it takes to multiply all, and the order that takes it."""
    if len(held) < 2:
        return 0, ()
    found = []
    for work, pair, left in _choices(held, place, wanted, sizes):
        more, path = _cheapest(left, place + 1, wanted, sizes)
        found.append((work + more, (pair, *path)))
    # Compares the path too: equal work is decided by place.
    return min(found)


def _choices(
    held: Held, place: int, wanted: frozenset[Label], sizes: Sizes
) -> Iterator[tuple[int, tuple[int, int], Held]]:
    """For each pair: the work of its product, the pair, and what is held afterwards."""
    for (i, a), (j, b) in combinations(held, 2):
        left = tuple(h for h in held if h[0] not in (i, j))
        # The letters of the result: those that the output or a remaining operand needs.
        keep = wanted.union(*(t for _, t in left))
        yield _work(a | b, sizes), (i, j), (*left, (place, (a | b) & keep))
