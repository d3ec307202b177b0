"""The mean of the contributions that an update takes, and how stale they were.

    gradient = ((g[r1] + g[r2]) + g[r3] + ...) / count        r1 < r2 < r3 ...

in the dtype of the gradient, and halves in float32, rounded once: exactly what one process does that
computes the same gradients one after the other. So the result depends on which contributions there are,
and never on when they came. One alone is passed on as it is, bit for bit.

Sparse gradients stay sparse when all are: a row is the sum of those that touch it, divided by the count of
all, as the dense mean would have it. When one is dense, all are taken as dense ones.

A gradient computed from version `base` and applied to version `v` has staleness `v - base`; 0 is what a
local run has. The record keeps how often each came, in a bounded number of counts: one for each staleness
below `EACH`, and one for all from there on.

Source: Zhang, Gupta, Lian, Liu, "Staleness-aware Async-SGD for distributed deep learning", IJCAI 2016.

Pure but for `Spares`, whose memory nobody else can see; the arithmetic is that of `sparse.sum_gradients`.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.errors import DenseRows, InternalError, SpecError
from actorflow.transport.codec.registry import travels
from actorflow.values import arrays, sparse
from actorflow.values.spec import show

Part = tuple[int, Mapping[str, Any]]
"""A rank, and the gradients of its contribution by variable: arrays, or pairs (indices, rows)."""


SPARE_BYTES = 1 << 20
"""Of what is kept as a spare; less costs little to find anew.

Two gradients of 100 MB: 11 ms in the system for the pages of a new result, and 0 with the spare.
"""

Spares = MutableMapping[str, list[Any]]
"""By variable a list of what the last fold gave, which is written anew once nobody else holds it."""


def mean_gradients(parts: Sequence[Part], spares: Spares | None = None) -> dict[str, Any]:
    """Returns one gradient for each variable.

    Args:
        parts: At least one, of distinct ranks, with the same variables.
        spares: Where large results are kept for the next time, and taken from; several folds may run at once.

    Raises:
        SpecError: when gradients of one variable do not fit together; names the variable and the ranks.
    """
    parts = sorted(parts, key=lambda part: part[0])
    first = parts[0][1]
    if len(parts) == 1:
        return dict(first)
    for name in first:
        _check(name, parts)
    found = {}
    for name in first:
        spare = [] if spares is None else spares.pop(name, [])
        found[name] = total = _of(name, parts, spare)
        if spares is not None and type(total) is not tuple and total.nbytes >= SPARE_BYTES:
            spares[name] = [total]
    return found


def find_mixed(parts: Sequence[Part]) -> dict[str, tuple[int, int]]:
    """Returns the variables of which some contributions are rows, that `mean_gradients` makes dense.

    And others not.

    With each the rank of the first that is rows, and of the first that is dense.
    """
    found = {}
    for name in parts[0][1] if len(parts) > 1 else ():
        ranks = {type(gradients[name]) is tuple: rank for rank, gradients in reversed(parts)}
        if len(ranks) == 2:
            found[name] = ranks[True], ranks[False]
    return found


def dense_rows(name: str, sparse: int, dense: int) -> DenseRows:
    """Returns the warning for a variable of which rank `sparse` has rows, and rank `dense` all of it."""
    message = (
        f"rows of {name!r} from rank {sparse} become dense in a sum with the dense gradient of "
        f"rank {dense}: each update then computes all rows. Let all workers run one program"
    )
    return DenseRows(message)


def _of(name: str, parts: Sequence[Part], spare: list[Any]) -> Any:
    try:
        return arrays.quietly(sparse.sum_gradients, [gradients[name] for _, gradients in parts], spare)
    except SpecError as error:
        ranks = ", ".join(str(rank) for rank, _ in parts)
        message = f"gradients of {name!r} from ranks {ranks}: {error.what}"
        raise SpecError(message) from error


def _check(name: str, parts: Sequence[Part]) -> None:
    """Raises SpecError unless all gradients of a variable may be added."""
    rank, first = parts[0][0], parts[0][1][name]
    for other, gradients in parts[1:]:
        if not sparse.fit_together(first, gradients[name]):
            message = (
                f"gradients of {name!r} must fit together, rank {rank} has {_describe(first)}, "
                f"got {_describe(gradients[name])} from rank {other}"
            )
            raise SpecError(message, hint="workers run one program: let them start from the same one")


def _describe(grad: Any) -> str:
    values = grad[1] if type(grad) is tuple else grad
    several = "rows of " if type(grad) is tuple else ""
    return f"{several}{show(values.shape[1:] if several else values.shape)} {values.dtype.name}"


EACH = 64
"""Stalenesses below are counted each on its own."""


def staleness(version: int, base: int) -> int:
    """Returns how many updates came between; InternalError for a base that is not there yet."""
    if base > version:
        message = f"a gradient comes from parameters that there have been, got version {base} at {version}"
        raise InternalError(message)
    return version - base


@travels("coord.staleness")
@dataclass(frozen=True, slots=True)
class StalenessRecord:
    """Of all contributions that were part of an update.

    INVARIANT: `sum(counts) == count`; `counts[s]` had staleness s, the last of EACH + 1 that or more;
        `counts` ends where nothing more has come.

    Attributes:
        count: How many.
        total: The sum of their stalenesses.
        largest: The greatest one; 0 before there is any.
        counts: How many had each.
    """

    count: int = 0
    total: int = 0
    largest: int = 0
    counts: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """The mean staleness; 0 before there is any."""
        return self.total / self.count if self.count else 0.0

    def with_update(self, version: int, bases: tuple[int, ...]) -> StalenessRecord:
        """Returns the record with one more update, of contributions from `bases` applied to `version`."""
        found = [staleness(version, base) for base in bases]
        if not found:
            return self
        counts = list(self.counts)
        for each in found:
            at = min(each, EACH)
            counts.extend([0] * (at + 1 - len(counts)))
            counts[at] += 1
        return StalenessRecord(
            self.count + len(found), self.total + sum(found), max(self.largest, *found), tuple(counts)
        )
