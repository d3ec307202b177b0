"""Spec rules that the ops of matrices share: the last two axes are a matrix, all before them a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actorflow.errors import SpecError
from actorflow.graph.node import Attr
from actorflow.graph.opdef import SpecRule
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.arrays import DType, as_dtype
from actorflow.values.spec import Dim, Spec


def check_matrix(
    op: str, x: Spec, takes: DtypeClass = DtypeClass.INEXACT
) -> tuple[tuple[Dim, ...], Dim, Dim] | None:
    """Returns leading sizes, rows and columns of `x`, None when its rank is unknown.

    Raises:
        SpecError: for another dtype than `op` takes, and for less than two axes.
    """
    check_dtypes(op, takes, x)
    if x.shape is None:
        return None
    if len(x.shape) < 2:
        message = f"{op} needs at least two axes, got {x}"
        raise SpecError(message, hint="add one with af.expand_dims")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def check_square(
    op: str, x: Spec, takes: DtypeClass = DtypeClass.INEXACT
) -> tuple[tuple[Dim, ...], Dim] | None:
    """Returns leading sizes and the size of the square matrices in `x`, None when its rank is unknown.

    Raises:
        SpecError: for another dtype than `op` takes, for less than two axes, for unequal last sizes.
    """
    found = check_matrix(op, x, takes)
    if found is None:
        return None
    lead, rows, columns = found
    if rows is not None and columns is not None and rows != columns:
        message = f"{op} needs square matrices, got {x}"
        raise SpecError(message)
    # A known size tells the other.
    return lead, columns if rows is None else rows


def square(op: str) -> SpecRule:
    """The rule of ops that take square matrices and give as many of the same size."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        found = check_square(op, x)
        return (x if found is None else Spec((*found[0], found[1], found[1]), x.dtype),)

    return rule


def real_of(dtype: DType) -> DType:
    """The dtype of the size of a number of `dtype`: float32 for complex64, float64 for complex128."""
    return as_dtype(f"float{4 * dtype.itemsize}") if dtype.kind == "c" else dtype
