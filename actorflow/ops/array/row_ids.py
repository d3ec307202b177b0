"""Numbers of the rows of a table that lies in several places, checked where they are known as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Spec


def _row_numbers_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    check_dtypes(f"the row numbers of {attrs['what']}", DtypeClass.INTEGER, inputs[0])
    return (Spec(inputs[0].shape, as_dtype("int64")),)


@op("row_numbers", spec=_row_numbers_spec, gradient=NOT_DIFFERENTIABLE)
def row_numbers(ids: Any, rows: int, what: str, from_end: bool = True) -> Tensor:
    """The ids as numbers in [0, rows), those in [-rows, 0) counted from the end; checked in the step.

    Args:
        ids: Integers of any shape.
        rows: How many rows there are.
        what: Whose rows, for the error.
        from_end: Whether negative ones are numbers of rows.

    Shapes:   any, the same
    Dtypes:   integers -> int64
    Gradient: none.
    Raises:   SpecError in the step for an id that is no row, with its place.
    """
    attrs: dict[str, Attr] = {"rows": rows, "what": what, "from_end": from_end}
    return build_one("row_numbers", [as_tensor(ids)], attrs)
