"""Partitioned variables: one table in several variables, each of some of its rows, that look like one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Self

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.body import root_of
from actorflow.graph.builder import Tensor, as_tensor, name_scope
from actorflow.graph.graph import Graph, current
from actorflow.graph.inputs_graph import in_graph_of_inputs, methods_in_own_graph
from actorflow.graph.operators import OneArray
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.array.constants import constant
from actorflow.ops.array.fill import full_like, zeros
from actorflow.ops.array.identity import cast, identity
from actorflow.ops.array.join import stack
from actorflow.ops.array.row_ids import row_numbers
from actorflow.ops.array.select import dynamic_partition
from actorflow.ops.array.shape import reshape
from actorflow.ops.array.shape_queries import check_shape_of, shape
from actorflow.ops.array.slicing import concat, gather
from actorflow.ops.array.sort import searchsorted
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math import reduce
from actorflow.ops.nn.embedding import look_up
from actorflow.ops.state.handle import as_typed_tensor, check_fits, resource_name
from actorflow.ops.state.initial_values import Initial, spec_and_initial
from actorflow.ops.state.variable import Variable
from actorflow.runtime.call_site import source_line
from actorflow.runtime.name_hints import check_keywords
from actorflow.values.arrays import DType
from actorflow.values.checks import is_whole
from actorflow.values.spec import Dim, Shape, Spec


@methods_in_own_graph
class PartitionedVariable(OneArray):
    """A variable whose rows lie in several variables: `<name>/part_0`, `<name>/part_1` and so on.

    Used like a tensor it is read as a whole; `gather` and `af.nn.embedding_lookup` ask each part for the
    rows that it has. `af.minimize` trains the parts: rows that a step does not gather are not touched,
    and an update by a rule that looks at each element alone is that of one variable, bit for bit. Reads
    and writes of the whole are made of those of the parts, one by one; inside `with af.atomic(whole)`
    they happen as one.

    Args:
        initial: As of `Variable`; computed as a whole, from which each part takes its rows.
        name: Of the whole; `partitioned_variable`, `partitioned_variable_1`, … when left out.
        partitions: How many parts, the first ones a row longer where they cannot be equal; or the number
            of rows of each.
        max_bytes: Instead of `partitions`: as few equal parts as there can be of at most so many bytes;
            the last may be smaller.
        dtype: As of `Variable`.
        shape: As of `Variable`; how many rows there are has to be known.
        trainable: As of `Variable`.
        shared_name: As of `Variable`: the parts are shared as `<shared_name>/part_0`, …

    Raises:
        SpecError: when initial, shape and dtype do not fit, or the parts are not the rows of the whole.
        GraphError: when an explicit name is taken.

    >>> with af.Graph():
    ...     table = af.PartitionedVariable(af.init.normal()((1000, 16)), name="table", partitions=3)
    ...     print(table, table.gather([3, 999]))
    <PartitionedVariable table (1000, 16) float32 in 3 parts> <Tensor table/gather:0 (2, 16) float32>
    """

    @check_keywords("PartitionedVariable")
    @in_graph_of_inputs
    def __init__(
        self,
        initial: Initial = None,
        *,
        name: str | None = None,
        partitions: int | Sequence[int] | None = None,
        max_bytes: int | None = None,
        dtype: Any = None,
        shape: Iterable[Dim] | None = None,
        trainable: bool = True,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        at = Where(defined_at=source_line())
        local = _local_name(graph, name, at)
        # Computed as a whole once, so that parts begin as one variable would.
        whole, first = spec_and_initial(graph, local, initial, dtype, shape, at)
        try:
            rows = _rows(whole, partitions, max_bytes)
        except SpecError as error:
            raise error.at(at) from None
        value = None if first is None else Tensor(graph, first)
        rest = (whole.shape or ())[1:]
        parts = []
        for k, (start, stop) in enumerate(_spans(rows)):
            # Parts are variables of their own, named under the whole.
            with name_scope(local):
                parts.append(
                    Variable(
                        None if value is None else _taking(value, start, stop),
                        name=f"part_{k}",
                        dtype=whole.dtype,
                        shape=(stop - start, *rest),
                        trainable=trainable,
                        # Each part is shared by its own name.
                        shared_name=None if shared_name is None else f"{shared_name}/part_{k}",
                    )
                )
        self._set(graph, f"{graph.scope.name}{local}", parts)

    def _set(self, graph: Graph, name: str, parts: Sequence[Variable]) -> None:
        self.graph = graph
        self.name = name
        self.parts = tuple(parts)
        self.rows = tuple(_known_size(part.spec) for part in parts)
        rest = (parts[0].shape or ())[1:]
        self.spec = Spec((sum(self.rows), *rest), parts[0].dtype)

    @classmethod
    def existing(cls, graph: Graph, name: str) -> Self:
        """Returns the partitioned variable of that full name in `graph`; GraphError when there is none."""
        parts: list[Variable] = []
        # Parts are numbered without gaps.
        while f"{name}/part_{len(parts)}" in graph.resources:
            parts.append(Variable.existing(graph, f"{name}/part_{len(parts)}"))
        if not parts:
            message = f"the graph has no partitioned variable {name!r}"
            raise GraphError(message)
        found = cls.__new__(cls)
        found._set(graph, name, parts)
        return found

    @property
    def shape(self) -> Shape:
        """The shape of the whole."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.spec.dtype

    def __repr__(self) -> str:
        return f"<PartitionedVariable {self.name} {self.spec} in {len(self.parts)} parts>"

    def is_same(self, other: object) -> bool:
        """Tells whether `other` is that variable."""
        return (
            isinstance(other, PartitionedVariable) and self.graph is other.graph and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash((id(self.graph), self.name))

    # -- the whole ---------------------------------------------------------------------------------

    def read(self) -> Tensor:
        """A snapshot of each part, joined."""
        return concat([part.read() for part in self.parts], 0, name=self._under("read"))

    def as_tensor(self) -> Tensor:
        """A read of each part after the last write to it that was built so far, joined."""
        return concat([part.as_tensor() for part in self.parts], 0, name=self._under("read"))

    def assign(self, value: Any) -> Tensor:
        """Replaces the value: each part gets its rows; gives the new whole."""
        return self._write("assign", value, Variable.assign)

    def assign_add(self, delta: Any) -> Tensor:
        """Adds `delta`, which has the shape of the whole; gives the new whole."""
        return self._write("assign_add", delta, Variable.assign_add)

    def assign_sub(self, delta: Any) -> Tensor:
        """Subtracts `delta`, which has the shape of the whole; gives the new whole."""
        return self._write("assign_sub", delta, Variable.assign_sub)

    def version(self) -> Tensor:
        """How many writes each part has seen, int64, one element a part."""
        return stack([part.version() for part in self.parts], 0, name=self._under("version"))

    def is_initialised(self) -> Tensor:
        """Whether every part has a value, a bool scalar."""
        known = [part.is_initialised() for part in self.parts]
        return reduce.all(stack(known, 0), name=self._under("is_initialised"))

    def _write(self, verb: str, value: Any, write: Callable[[Variable, Tensor], Tensor]) -> Tensor:
        self._check_graph()
        given = as_typed_tensor(value, self.dtype)
        try:
            check_fits(given.spec, self.spec, f"a value of variable {self.name!r}")
        except SpecError as error:
            raise error.at(Where(op=verb, defined_at=source_line())) from None
        # Open sizes are checked in the step, before any part is written.
        checked = (
            given if given.spec == self.spec else check_shape_of(f"variable {self.name!r}", given, self.shape)
        )
        spans = zip(self.parts, _spans(self.rows), strict=True)
        # ORDER: all parts from one value that was computed before the first write.
        written = [write(part, checked[start:stop]) for part, (start, stop) in spans]
        return concat(written, 0, name=self._under(verb))

    # -- rows --------------------------------------------------------------------------------------

    def gather(self, ids: Any, *, name: str | None = None) -> Tensor:
        """The rows that `ids` number, each asked of the part that has it, and stitched together.

        Shapes:   ids (i, j) -> (i, j, …)
        Dtypes:   ids integers in [-rows, rows), checked in the step
        Gradient: sparse in each part, the rows that it was asked for; none to ids.
        """
        self._check_graph()
        found = look_up(self.parts, self.numbers(ids), self.route)
        # An identity has the name that was asked for, whatever the lookup is made of.
        return identity(found, name=name or self._under("gather"))

    def scatter_update(self, indices: Any, updates: Any) -> Tensor:
        """As `Variable.scatter_update`: each part writes its rows; gives the new whole. So do those below."""
        return self._scatter("scatter_update", indices, updates)

    def scatter_add(self, indices: Any, updates: Any) -> Tensor:
        """As `Variable.scatter_add`."""
        return self._scatter("scatter_add", indices, updates)

    def scatter_sub(self, indices: Any, updates: Any) -> Tensor:
        """As `Variable.scatter_sub`."""
        return self._scatter("scatter_sub", indices, updates)

    def scatter_mul(self, indices: Any, updates: Any) -> Tensor:
        """As `Variable.scatter_mul`."""
        return self._scatter("scatter_mul", indices, updates)

    def scatter_max(self, indices: Any, updates: Any) -> Tensor:
        """As `Variable.scatter_max`."""
        return self._scatter("scatter_max", indices, updates)

    def scatter_min(self, indices: Any, updates: Any) -> Tensor:
        """As `Variable.scatter_min`."""
        return self._scatter("scatter_min", indices, updates)

    def _scatter(self, verb: str, indices: Any, updates: Any) -> Tensor:
        self._check_graph()
        ids, given = as_tensor(indices), as_typed_tensor(updates, self.dtype)
        rest = (self.shape or ())[1:]
        wanted = Spec(None if ids.shape is None else (*ids.shape, *rest), self.dtype)
        try:
            check_dtypes(f"the indices of {verb}", DtypeClass.INTEGER, ids.spec)
            # One number for all updates has no shape to fit.
            if given.shape != ():
                check_fits(given.spec, wanted, f"what {verb} of variable {self.name!r} writes there")
        except SpecError as error:
            raise error.at(Where(op=verb, defined_at=source_line())) from None
        # Flat: parts get vectors of rows.
        flat = reshape(self.numbers(ids), (-1,))
        # Which part has each row, and where there.
        part, row = self.route(flat)
        values: Sequence[Tensor] = [given] * len(self.parts)  # one number for all
        if given.shape != ():
            # Sizes may be open: taken in the step.
            sizes = concat([shape(flat), shape(given)[-len(rest) :]], 0) if rest else shape(flat)
            values = dynamic_partition(reshape(given, sizes), part, len(self.parts))
        # Rows of a part keep the order of their updates, which count for equal indices.
        asked = dynamic_partition(row, part, len(self.parts))
        each = zip(self.parts, asked, values, strict=True)
        written = [getattr(variable, verb)(rows, updates) for variable, rows, updates in each]
        return concat(written, 0, name=self._under(verb))

    def numbers(self, ids: Any) -> Tensor:
        """The ids counted from the start; the step refuses what is no row."""
        return row_numbers(ids, sum(self.rows), f"variable {self.name!r}")

    def route(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The part that has each row, and the number of the row there, for numbers of rows."""
        starts = [start for start, _ in _spans(self.rows)]
        # One part has all rows: nothing to search.
        if len(starts) == 1:
            part = full_like(numbers, 0)
        else:
            # The first start above a number is that of the next part.
            part = searchsorted(constant(starts[1:], "int64"), numbers, side="right")
        return part, numbers - gather(constant(starts, "int64"), part)

    def join_gradient(self, grads: Sequence[Gradient | None]) -> Gradient | None:
        """The gradient of the whole from those of its parts: sparse when all are; None for none."""
        if all(grad is None for grad in grads):
            return None
        spans = list(zip(grads, _spans(self.rows), strict=True))
        # Sparse in all parts that have one: sparse as a whole, numbers moved by where each part begins.
        if all(grad is None or isinstance(grad, IndexedSlices) for grad in grads):
            slices = [(g, start) for g, (start, _) in spans if isinstance(g, IndexedSlices)]
            values = concat([g.values for g, _ in slices], 0)
            indices = concat([cast(g.indices, "int64") + start for g, start in slices], 0)
            return IndexedSlices(values, indices, self.shape or ())
        rest = [n or 0 for n in (self.shape or ())[1:]]
        by = f"the gradient of {self.name!r}, of which another part has a dense one"
        # One dense part makes the others dense: said to whoever looks why rows became a table.
        told = [g.with_origin(g.whose, by) if isinstance(g, IndexedSlices) else g for g in grads]
        spans = list(zip(told, _spans(self.rows), strict=True))
        dense = [
            # A part that no path leads to has zeros.
            zeros((stop - start, *rest), self.dtype.name) if grad is None else as_tensor(grad)
            for grad, (start, stop) in spans
        ]
        return concat(dense, 0)

    def _under(self, verb: str) -> str:
        return f"{self.name.removeprefix(self.graph.scope.name)}/{verb}"

    def _check_graph(self) -> None:
        if self.graph is not root_of(current()):
            message = f"{self!r} belongs to another graph"
            where = Where(defined_at=self.parts[0].definition.defined_at)
            raise GraphError(message, where=where, hint="build both inside one `with Graph()`")

    def place(self) -> Where | None:
        """Where it was declared."""
        return self.parts[0].place()


def parts_of(variables: Any) -> Any:
    """Returns a list or tuple of variables with the parts of partitioned ones in their place."""
    if not isinstance(variables, list | tuple):
        return variables
    # Whole variables count as their only part.
    return [part for variable in variables for part in getattr(variable, "parts", (variable,))]


def _local_name(graph: Graph, name: str | None, at: Where) -> str:
    """The name inside the name scope; a default gets a number when it is taken."""
    given: Any = name
    if given is not None and (not isinstance(given, str) or not given):
        message = f"the name of a partitioned variable is a text and not empty, got {name!r:.60}"
        raise GraphError(message, where=at)
    local = "partitioned_variable" if name is None else name
    n = 0
    # By the first part, which every partitioned variable has.
    while name is None and f"{graph.scope.name}{local}/part_0" in graph.resources:
        n += 1
        local = f"partitioned_variable_{n}"
    # As any resource: outside of blocks, a text, and free.
    resource_name(graph, f"{local}/part_0", "partitioned variable", at)
    return local


def _rows(whole: Spec, partitions: Any, max_bytes: Any) -> tuple[int, ...]:
    """How many rows each part has; SpecError when they cannot be."""
    if not whole.shape or whole.shape[0] is None:
        message = f"a partitioned variable has a known number of rows, got {whole}"
        raise SpecError(message)
    total = whole.shape[0]
    # One of both says how many parts there are.
    if (partitions is None) == (max_bytes is None):
        given = f"{partitions!r:.40} and {max_bytes!r:.40}"
        message = f"a partitioned variable takes partitions or max_bytes, got {given}"
        raise SpecError(message, hint="partitions=4, partitions=(10, 10, 5), or max_bytes=2**20")
    if isinstance(partitions, list | tuple):
        if not all(is_whole(n, 1, plain=True) for n in partitions) or sum(partitions) != total:
            message = f"the parts of {whole} have {total} rows, each at least one, got {partitions!r:.60}"
            raise SpecError(message)
        return tuple(partitions)
    count = partitions if max_bytes is None else _count(whole, max_bytes)
    if not is_whole(count, 1, total, plain=True):
        message = f"{whole} has 1 to {total} parts of at least one row, got {partitions!r:.60}"
        raise SpecError(message)
    # The first ones a row longer.
    base, extra = divmod(total, count)
    return tuple(base + (k < extra) for k in range(count))


def _count(whole: Spec, max_bytes: Any) -> int:
    """How many parts of at most `max_bytes` there are."""
    total, *rest = whole.shape or ()
    sizes = [n for n in rest if n is not None]
    row: int = whole.dtype.itemsize * prod(sizes)
    # Rows are not cut: one must fit.
    if not is_whole(max_bytes, 1, plain=True) or len(sizes) < len(rest) or max_bytes < row:
        message = f"max_bytes is at least one row of {whole}, got {max_bytes!r:.60}"
        raise SpecError(message, hint=f"a row has {row} bytes" if len(sizes) == len(rest) else None)
    # Rows of no bytes fit in any number.
    most: int = max_bytes // max(row, 1)
    return max(1, -(-(total or 0) // max(1, most)))


def _spans(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Where each part begins and ends."""
    return list(pairwise(accumulate(rows, initial=0)))


def _taking(value: Tensor, start: int, stop: int) -> Callable[[], Tensor]:
    """What builds the first value of a part out of that of the whole."""
    return lambda: value[start:stop]


def _known_size(spec: Spec) -> int:
    assert spec.shape
    assert spec.shape[0] is not None
    return spec.shape[0]
