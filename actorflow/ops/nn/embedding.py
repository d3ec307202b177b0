"""Embeddings: rows of a table by number, of one table or of shards of it, and bags of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor, as_tensor, colocate_with, promote
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.fill import arange, full_like
from actorflow.ops.array.identity import cast, identity, widen_half
from actorflow.ops.array.row_ids import row_numbers
from actorflow.ops.array.select import dynamic_partition, dynamic_stitch
from actorflow.ops.array.sets import unique_inverse
from actorflow.ops.array.shape import expand_dims, reshape
from actorflow.ops.array.shape_queries import ensure_shape, shape, size
from actorflow.ops.array.slicing import concat, gather
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.arithmetic import divide_no_nan, floor_divide, remainder
from actorflow.ops.math.elementwise import maximum, multiply, subtract
from actorflow.ops.math.logic import equal, greater, less, not_equal, where
from actorflow.ops.math.segment import (
    segment_max,
    segment_sum,
    unsorted_segment_max,
    unsorted_segment_sum,
)
from actorflow.values.spec import Dim, Shape, Spec, merge

STRATEGIES = ("mod", "div")


@api_function
def embedding_lookup(
    params: Any,
    ids: Any,
    strategy: str = "mod",
    *,
    unique: bool = False,
    padding_id: int | None = None,
    name: str | None = None,
) -> Tensor:
    """The rows of a table that `ids` number; of one table, or of a list of shards of it.

    Of shards, each gathers its own rows where it lives, and these are stitched together. "mod": row
    id lies in shard id % count, there at id // count. "div": the shards are consecutive parts, the
    first ones a row longer where they cannot be equal.

    Args:
        params: A table of at least one axis, or a list of its shards, variables as a rule; or a
            partitioned variable, which knows how its rows are spread.
        ids: Integers in [0, rows), checked in the step; of one table also [-rows, 0), from its end.
        strategy: How rows are spread over shards, "mod" or "div".
        unique: Whether a row that is asked for several times is gathered once: pays where shards are
            far away.
        padding_id: The number whose rows are zeros and get no gradient; it need not be a row.
        name: Name of the node.

    Shapes:   params (rows, …) or a list of these, ids (i, j) -> (i, j, …)
    Dtypes:   params any, the same; ids integers
    Gradient: g added up in the rows where it came from; none to ids.
    Raises:   SpecError for other ids, shards that do not fit together, and "div" of unknown sizes.

    >>> with af.Graph():
    ...     table = af.Variable(af.init.normal()((1000, 16)), name="table")
    ...     af.nn.embedding_lookup(table, af.placeholder("int32", (None, 5), name="ids"))
    <Tensor embedding_lookup:0 (None, 5, 16) float32>
    """
    # A partitioned variable knows itself how its rows are spread.
    parted = hasattr(params, "parts")
    shards = list(params) if isinstance(params, list | tuple) else [params]
    ids = as_tensor(ids)
    with error_context("embedding_lookup"):
        check_dtypes("the ids of embedding_lookup", DtypeClass.INTEGER, ids.spec)
        rest, rows = _check_shards(shards, strategy)
    route = params.route if parted else partial(_by_mod if strategy == "mod" else _by_div, rows)
    shards = list(params.parts) if parted else shards
    # The padding need not be a row: row 0 is gathered in its place, and hidden below.
    wanted = ids if padding_id is None else where(equal(ids, padding_id), zeros_like(ids), ids)
    if parted:
        wanted = params.numbers(wanted)
    elif len(shards) > 1 and None not in rows:
        # Against the table as a whole: a shard would see numbers of its own only.
        total = sum(n or 0 for n in rows)
        wanted = row_numbers(wanted, total, f"the table of {len(shards)} shards", from_end=False)
    if unique:
        # Each row travels once.
        wanted, inverse = unique_inverse(wanted)
        found = gather(look_up(shards, wanted, route), inverse)
    else:
        found = look_up(shards, wanted, route)
    if padding_id is not None:
        # Hidden by a choice, so that no gradient flows into the row that stood in.
        found = where(_beside(not_equal(ids, padding_id), rest), found, zeros_like(found))
    return identity(found, name=name or "embedding_lookup")


def _check_shards(shards: Sequence[Any], strategy: str) -> tuple[tuple[Dim, ...], list[Dim]]:
    """The sizes of a row, and the number of rows of each shard; SpecError when they do not fit together."""
    if strategy not in STRATEGIES:
        message = f'the strategy of embedding_lookup is "mod" or "div", got {strategy!r}'
        raise SpecError(message)
    if not shards:
        message = "embedding_lookup needs a table or at least one shard of it, got none"
        raise SpecError(message)
    specs = [_spec_of(shard) for shard in shards]
    check_dtypes("embedding_lookup", DtypeClass.ANY, *specs)
    rest: Shape = None
    for spec in specs:
        if spec.shape is None or not spec.shape:
            message = f"a table of embeddings has a known rank of at least 1, got {spec}"
            raise SpecError(message)
        # A row is of one shape, and each shard may know it.
        try:
            rest = merge(rest, spec.shape[1:])
        except SpecError:
            message = f"shards of a table have rows of one shape, got {' and '.join(map(str, specs))}"
            raise SpecError(message) from None
    assert rest is not None
    rows = [spec.shape[0] for spec in specs if spec.shape]
    _check_rows(rows, strategy)
    return rest, rows


def _spec_of(shard: Any) -> Spec:
    spec: Spec = shard.spec if hasattr(shard, "spec") else as_tensor(shard).spec
    return spec


def _check_rows(rows: Sequence[Dim], strategy: str) -> None:
    """Raises SpecError unless the rows are spread evenly over the shards, the first ones longer."""
    known = [r for r in rows if r is not None]
    if len(known) < len(rows):
        # By "mod" a number needs only the count of the shards.
        if strategy == "div" and len(rows) > 1:
            message = f'"div" counts in the rows of every shard and needs them known, got {rows}'
            raise SpecError(message)
        return
    # The first `extra` shards have a row more, with "mod" as with "div".
    base, extra = divmod(sum(known), len(known))
    even = [base + (i < extra) for i in range(len(known))]
    if known != even:
        message = f"shards of a table of {sum(known)} rows have {even} of them, got {known}"
        raise SpecError(message)


Route = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Numbers of rows, in one row -> the shard that has each, -1 where none has it, and the number there."""


def look_up(shards: Sequence[Any], ids: Tensor, route: Route) -> Tensor:
    """The rows that `ids` number, each gathered from the shard that has it, where that lives.

    One table takes the numbers as they are.
    """
    if len(shards) == 1:
        return _gather(shards[0], ids)
    # 1. Which shard has each row, and under which number.
    shard, row = route(reshape(ids, (-1,)))
    count = len(shards)
    # 2. Each shard is told its numbers, and where in the result their rows belong.
    places = dynamic_partition(arange(size(ids)), shard, count)
    asked = dynamic_partition(row, shard, count)
    # 3. It gathers them where it lives.
    parts = [_gather(table, numbers) for table, numbers in zip(shards, asked, strict=True)]
    # 4. The rows come together in the order of the ids,
    stitched = dynamic_stitch(places, parts)
    # and in their shape, which step 1 made flat.
    found = reshape(stitched, concat([shape(ids), shape(stitched)[1:]], 0))
    rest = stitched.shape
    # What is known of the shape is not known to a computed reshape.
    return found if ids.shape is None or rest is None else ensure_shape(found, (*ids.shape, *rest[1:]))


def _gather(table: Any, ids: Tensor) -> Tensor:
    """The rows of one table, gathered where it lives."""
    # Not a variable: it has no place to go to.
    if isinstance(table, Tensor) or not hasattr(table, "as_tensor"):
        return gather(table, ids)
    # The rows travel, not the table.
    with colocate_with(table):
        return gather(table, ids)


def _of_none(ids: Tensor, shard: Tensor) -> Tensor:
    """`shard`, -1 where the number of the row is negative: no shard has it, and the step says so."""
    return where(less(ids, 0), full_like(shard, -1), shard)


def _by_mod(rows: Sequence[Dim], ids: Tensor) -> tuple[Tensor, Tensor]:
    return _of_none(ids, remainder(ids, len(rows))), floor_divide(ids, len(rows))


def _by_div(rows: Sequence[Dim], ids: Tensor) -> tuple[Tensor, Tensor]:
    base, extra = divmod(sum(r for r in rows if r is not None), len(rows))
    behind = subtract(ids, extra)  # counted as if all shards had `base` rows; one at least: 0 rows are none
    # In the longer shards the first count is right and the second too low, behind them the other way round.
    shard = maximum(floor_divide(ids, base + 1), floor_divide(behind, max(base, 1)))
    row = where(less(shard, extra), remainder(ids, base + 1), remainder(behind, max(base, 1)))
    return _of_none(ids, shard), row


def _beside(values: Tensor, rest: Sequence[Dim]) -> Tensor:
    """`values` with an axis of size 1 for each axis of a row."""
    for _ in rest:
        values = expand_dims(values, -1)
    return values


@api_function
def embedding_bag(
    params: Any,
    ids: Any,
    segments: Any,
    num_segments: int | None = None,
    combiner: str = "mean",
    weights: Any = None,
    strategy: str = "mod",
    *,
    name: str | None = None,
) -> Tensor:
    """One row for each bag of ids: the sum, mean or maximum of the rows that they number; zeros of no ids.

    Args:
        params: As of `embedding_lookup`.
        ids: Integers, in one row.
        segments: For each of them the number of its bag: ascending, or in any order with `num_segments`.
        num_segments: The number of bags; by default one more than the last of `segments`.
        combiner: "sum", "mean" or "max".
        weights: What each row is multiplied by; a mean is divided by their sum. Not for "max".
        strategy: As of `embedding_lookup`.
        name: Name of the node.

    Shapes:   params (rows, …) or a list of these, ids, segments and weights (n,) -> (bags, …)
    Dtypes:   params floating; ids and segments integers; weights that of params
    Gradient: through the rows and weights; of the maximum to the largest elements, shared on ties.
    Raises:   SpecError for another combiner, weights of a maximum, and as `embedding_lookup` and
              the segment reductions do.
    """
    with error_context("embedding_bag"):
        if combiner not in ("sum", "mean", "max"):
            message = f'the combiner of embedding_bag is "sum", "mean" or "max", got {combiner!r}'
            raise SpecError(message)
        if combiner == "max" and weights is not None:
            message = "embedding_bag has no weights for a maximum"
            raise SpecError(message, hint='use "sum" or "mean", or leave the weights out')
    rows = embedding_lookup(params, ids, strategy)
    with error_context("embedding_bag"):
        check_dtypes("embedding_bag", DtypeClass.FLOATING, rows.spec)
    rest = (rows.shape or ())[1:]
    if weights is None:
        # Of weight 1 each: a sum of them counts the rows of a bag.
        given = ones_like(cast(as_tensor(ids), rows.dtype))
    else:
        rows, given = promote(rows, as_tensor(weights))
    dtype = rows.dtype
    if combiner != "max":
        # Sums of halves are summed wider; a maximum loses nothing.
        rows, given = widen_half(rows), widen_half(given)
    if weights is not None:
        rows = multiply(rows, _beside(given, rest))

    def folded(fold: Callable[..., Tensor], unsorted: Callable[..., Tensor], values: Tensor) -> Tensor:
        # Ascending segments tell themselves how many they are.
        if num_segments is None:
            return fold(values, segments)
        return unsorted(values, segments, num_segments)

    if combiner == "max":
        found = folded(segment_max, unsorted_segment_max, rows)
    else:
        found = folded(segment_sum, unsorted_segment_sum, rows)
    if combiner != "sum":
        # What a bag holds: its weight, or how many rows.
        held = _beside(folded(segment_sum, unsorted_segment_sum, given), rest)
        if combiner == "mean":
            # 0 over 0 of an empty bag is zeros.
            found = divide_no_nan(found, held)
        else:
            # And so is the maximum of none.
            found = where(greater(held, 0), found, zeros_like(found))
    return identity(cast(found, dtype), name=name or "embedding_bag")
