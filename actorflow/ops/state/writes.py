"""Writes to a variable beside those of its whole value: to some of its rows, and counting.

The actor that owns the variable does them; see `ops.state.variable`. `ops.array.scatter` has what makes a
copy with other values at indices: there the value of a variable is read and all of it assigned, here only the
rows that change are touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.inputs_graph import methods_in_own_graph
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, SpecRule, op
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.state.handle import as_typed_tensor
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import DType, limits, name_of
from actorflow.values.checks import is_whole
from actorflow.values.spec import Shape, Spec, merge, show, spec


@methods_in_own_graph
class VariableWrites:
    """The methods of a variable that write some of its rows, or count; `Variable` inherits them.

    Rows are named by integers along the first axis, of any shape; a negative one counts from the end,
    and one that names no row is an error of the step, which writes nothing. There is one update for
    each index, of the shape of a row, or one number for all. Where an index comes several times, its
    updates are combined in their order, and of assigned rows the last stays: so the result is the same
    in every run. Each gives a snapshot of the new value.
    """

    def scatter_update(self, indices: Any, updates: Any) -> Tensor:
        """Replaces rows; of updates for the same row the last stays."""
        return self._write_rows("scatter_update_variable", indices, updates)

    def scatter_add(self, indices: Any, updates: Any) -> Tensor:
        """Adds to rows; all updates of the same row are added. Numbers."""
        return self._write_rows("scatter_add_variable", indices, updates)

    def scatter_sub(self, indices: Any, updates: Any) -> Tensor:
        """Subtracts from rows; all updates of the same row are subtracted. Numbers."""
        return self._write_rows("scatter_sub_variable", indices, updates)

    def scatter_mul(self, indices: Any, updates: Any) -> Tensor:
        """Multiplies rows; by all updates of the same row. Numbers."""
        return self._write_rows("scatter_mul_variable", indices, updates)

    def scatter_max(self, indices: Any, updates: Any) -> Tensor:
        """Replaces elements of rows by those of their updates that are larger. Real numbers."""
        return self._write_rows("scatter_max_variable", indices, updates)

    def scatter_min(self, indices: Any, updates: Any) -> Tensor:
        """Replaces elements of rows by those of their updates that are smaller. Real numbers."""
        return self._write_rows("scatter_min_variable", indices, updates)

    def count_up_to(self, limit: int) -> Tensor:
        """Adds one and gives the value before; a step that finds the limit reached fails with OutOfRange.

        For scalar variables of integers.
        """
        line = Where(op="count_up_to", defined_at=source_line())
        if not is_whole(limit, plain=True):
            message = f"a variable counts up to an integer, got {limit!r:.60}"
            raise SpecError(message, where=line)
        return self._build("count_up_to", [], limit=limit)

    def _write_rows(self, op_name: str, indices: Any, updates: Any) -> Tensor:
        return self._build(op_name, [as_tensor(indices), as_typed_tensor(updates, self.dtype)])

    def _build(self, op_name: str, inputs: Sequence[Tensor], **attrs: Attr) -> Tensor:
        name = f"{self._local}/{op_name.removesuffix('_variable')}"
        return build_one(op_name, inputs, {**self._attrs(), **attrs}, name=name)

    @property
    def dtype(self) -> DType:
        """That of the variable."""
        raise NotImplementedError

    @property
    def _local(self) -> str:
        raise NotImplementedError

    def _attrs(self) -> dict[str, Attr]:
        raise NotImplementedError


def _rule(op_name: str, takes: DtypeClass) -> SpecRule:
    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        indices, updates = inputs
        own = spec(attrs["dtype"], attrs["shape"])
        verb, name = op_name.removesuffix("_variable"), attrs["resource"]
        check_dtypes(f"{verb} of variable {name!r}", takes, own)
        check_dtypes(f"the indices of {verb}", DtypeClass.INTEGER, indices)
        # A scalar has no rows.
        if own.shape == ():
            message = f"{verb} writes rows, but variable {name!r} is a scalar"
            raise SpecError(message, hint="use assign, assign_add or assign_sub")
        wanted = _updates_shape(indices.shape, own.shape)
        # One number for all rows, or one update for each index.
        if updates.dtype != own.dtype or not _fits(updates.shape, wanted):
            message = (
                f"{verb} of variable {name!r}, {own}, at indices of shape {show(indices.shape)} takes "
                f"updates of {show(wanted)} or () {name_of(own.dtype)}, got {updates}"
            )
            raise SpecError(message)
        return (own,)

    return rule


def _updates_shape(indices: Shape, variable: Shape) -> Shape:
    return None if indices is None or variable is None else (*indices, *variable[1:])


def _fits(given: Shape, wanted: Shape) -> bool:
    if given == ():
        return True
    try:
        merge(given, wanted)
    except SpecError:
        return False
    return True


def _count_rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    own, limit = spec(attrs["dtype"], attrs["shape"]), attrs["limit"]
    if own.dtype.kind not in "iu" or own.shape not in ((), None):
        message = f"count_up_to takes a scalar variable of integers, got {attrs['resource']!r}, {own}"
        raise SpecError(message)
    most = limits(own.dtype)
    if not most.min <= limit <= most.max:
        message = (
            f"count_up_to of {name_of(own.dtype)} takes a limit in [{most.min}, {most.max}], got {limit}"
        )
        raise SpecError(message)
    return (spec(attrs["dtype"]),)


# No gradient rules: see `ops.state.variable`.


@op("scatter_update_variable", spec=_rule("scatter_update_variable", DtypeClass.ANY), effect=Effect.WRITE)
def scatter_update_variable(variable: VariableWrites, indices: Any, updates: Any) -> Tensor:
    """`Variable.scatter_update`: replaces rows; of updates for the same row the last stays.

    Shapes:   indices (i, j), updates (i, j, a, b) or () -> that of the variable (n, a, b), the new value
    Dtypes:   indices integers in [-n, n), checked in the step; updates that of the variable
    Raises:   SpecError when the updates do not fit; in the step when that was unknown, and for an
              index that names no row. Then nothing is written.
    """
    return variable.scatter_update(indices, updates)


@op("scatter_add_variable", spec=_rule("scatter_add_variable", DtypeClass.NUMBER), effect=Effect.WRITE)
def scatter_add_variable(variable: VariableWrites, indices: Any, updates: Any) -> Tensor:
    """`Variable.scatter_add`: adds to rows, in the order of the updates; else as `scatter_update`."""
    return variable.scatter_add(indices, updates)


@op("scatter_sub_variable", spec=_rule("scatter_sub_variable", DtypeClass.NUMBER), effect=Effect.WRITE)
def scatter_sub_variable(variable: VariableWrites, indices: Any, updates: Any) -> Tensor:
    """`Variable.scatter_sub`: subtracts from rows; else as `scatter_add`."""
    return variable.scatter_sub(indices, updates)


@op("scatter_mul_variable", spec=_rule("scatter_mul_variable", DtypeClass.NUMBER), effect=Effect.WRITE)
def scatter_mul_variable(variable: VariableWrites, indices: Any, updates: Any) -> Tensor:
    """`Variable.scatter_mul`: multiplies rows; else as `scatter_add`."""
    return variable.scatter_mul(indices, updates)


@op("scatter_max_variable", spec=_rule("scatter_max_variable", DtypeClass.REAL), effect=Effect.WRITE)
def scatter_max_variable(variable: VariableWrites, indices: Any, updates: Any) -> Tensor:
    """`Variable.scatter_max`: the elementwise maximum of rows and updates; else as `scatter_update`."""
    return variable.scatter_max(indices, updates)


@op("scatter_min_variable", spec=_rule("scatter_min_variable", DtypeClass.REAL), effect=Effect.WRITE)
def scatter_min_variable(variable: VariableWrites, indices: Any, updates: Any) -> Tensor:
    """`Variable.scatter_min`: the elementwise minimum of rows and updates; else as `scatter_update`."""
    return variable.scatter_min(indices, updates)


@op(
    "count_up_to",
    spec=_count_rule,
    gradient=NOT_DIFFERENTIABLE,
    effect=Effect.WRITE,
    asked_with=({"resource": "n", "shape": (), "dtype": "int32", "limit": 1},),
)
def count_up_to(variable: VariableWrites, limit: int) -> Tensor:
    """`Variable.count_up_to`: adds one and gives the value before, up to a limit.

    Shapes:   that of the variable, () -> ()
    Dtypes:   integers
    Raises:   SpecError for another variable, and a limit that its dtype cannot hold; OutOfRange in the
              step when the value is not below the limit. Then the value stays.
    """
    return variable.count_up_to(limit)
