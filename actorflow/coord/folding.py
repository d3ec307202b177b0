"""Many contributions become the gradients of one update: added from the left in rank order, then divided.

    gradient = ((g[r1] + g[r2]) + g[r3] + ...) / count        r1 < r2 < r3 ...

in the dtype of the gradient: exactly what one process does that computes the same gradients one after the
other. So the result depends on which contributions there are, and never on when they came. One alone is
passed on as it is, bit for bit.

Sparse gradients stay sparse when all are: a row is the sum of those that touch it, divided by the count of
all, as the dense mean would have it. When one is dense, all are taken as dense ones.

Pure; the arithmetic is that of `rows.folded`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow import arrays, rows
from actorflow.errors import SpecError
from actorflow.spec import show

Part = tuple[int, Mapping[str, Any]]
"""A rank, and the gradients of its contribution by variable: arrays, or pairs (indices, rows)."""


def folded(parts: Sequence[Part]) -> dict[str, Any]:
    """Returns one gradient for each variable.

    Args:
        parts: At least one, of distinct ranks, with the same variables.

    Raises:
        SpecError: when gradients of one variable do not fit together; names the variable and the ranks.
    """
    parts = sorted(parts, key=lambda part: part[0])
    first = parts[0][1]
    if len(parts) == 1:
        return dict(first)
    for name in first:
        _check(name, parts)
    return {name: _of(name, parts) for name in first}


def _of(name: str, parts: Sequence[Part]) -> Any:
    try:
        return arrays.quietly(rows.folded, [gradients[name] for _, gradients in parts])
    except SpecError as error:
        ranks = ", ".join(str(rank) for rank, _ in parts)
        message = f"gradients of {name!r} from ranks {ranks}: {error.what}"
        raise SpecError(message) from error


def _check(name: str, parts: Sequence[Part]) -> None:
    """Raises SpecError unless all gradients of a variable may be added."""
    rank, first = parts[0][0], parts[0][1][name]
    for other, gradients in parts[1:]:
        if not rows.fit_together(first, gradients[name]):
            message = (
                f"gradients of {name!r} must fit together, rank {rank} has {_shown(first)}, "
                f"got {_shown(gradients[name])} from rank {other}"
            )
            raise SpecError(message, hint="workers run one program: let them start from the same one")


def _shown(grad: Any) -> str:
    values = grad[1] if type(grad) is tuple else grad
    several = "rows of " if type(grad) is tuple else ""
    return f"{several}{show(values.shape[1:] if several else values.shape)} {values.dtype.name}"
