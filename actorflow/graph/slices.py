"""Sparse gradients in the graph: `IndexedSlices`, some rows of a tensor that is zeros elsewhere.

The gradient of a table from which a step gathers 32 rows is those rows. `gradients` gives it as
`IndexedSlices`, and rules that can keep it so; everything else sees the dense tensor, which is built
when an op asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.densified import tell, verb_of_the_user
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node
from actorflow.graph.operators import Operators
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import DType
from actorflow.values.dtypes import common, refusal
from actorflow.values.sparse import Slices
from actorflow.values.spec import Dim, Shape, Spec, check_shape, merge, show


class IndexedSlices(Operators):
    """A tensor of `shape` that is zeros but for some rows: `values[i]` is added to row `indices[i]`.

    What `af.gradients` gives for a tensor that was used through `af.gather` along its first axis.
    Used like a tensor it is the dense one; by a scalar it is multiplied and divided as it is, and
    its sum with another one stays sparse, of the dtype to which the two mix. `af.minimize` and
    `af.apply_gradients` take it as it is. Fetched, it gives an `af.types.Slices` of arrays: (values, indices,
    shape), whose `to_dense()` is the whole.

    Shapes:   values (k, …), indices (k,) of a tensor (n, …); n is an integer in `shape`, or `shape` is
              a tensor: `af.arrays.shape(x)`
    Dtypes:   values numbers; indices integers in [-n, n), checked in the step
    Raises:   SpecError when they do not fit.

    >>> with af.Graph():
    ...     table = af.placeholder("float32", (1000, 16), name="table")
    ...     (grad,) = af.gradients(af.sum(af.gather(table, [3, 1, 3])), table)
    ...     print(grad.shape, grad.values.shape, grad.to_dense().shape)
    (1000, 16) (3, 16) (1000, 16)
    """

    __slots__ = ("by", "indices", "rows", "spec", "values", "whose")

    def __init__(self, values: Any, indices: Any, shape: Iterable[Dim] | Tensor) -> None:
        self.by, self.whose = "", ""
        self.values = as_tensor(values)
        self.indices = as_tensor(indices)
        self.rows: int | Tensor
        try:
            known: Shape = None
            if isinstance(shape, Tensor):
                self.rows = shape
            else:
                known = check_shape(shape)
                self.rows = _first(known)
            self.spec = Spec(_whole(self.values.spec, self.indices.spec, known), self.values.dtype)
        except SpecError as error:
            raise error.at(Where(op="IndexedSlices", defined_at=source_line())) from None

    @staticmethod
    def of(x: Tensor, values: Tensor, indices: Tensor) -> IndexedSlices:
        """Returns slices of a tensor with the shape of `x`; `x` is not kept alive if that is known."""
        # Known: then the tensor itself is not kept alive.
        if x.shape and x.shape[0] is not None:
            return IndexedSlices(values, indices, x.shape)
        found = IndexedSlices(values, indices, opdef.lookup("shape").constructor(x))
        # What x knows of the other axes too.
        found.spec = Spec(merge(found.shape, x.shape), values.dtype)
        return found

    @property
    def graph(self) -> Graph:
        """The graph of its values."""
        return self.values.graph

    @property
    def node(self) -> Node:
        """The node that computes its values."""
        return self.values.node

    @property
    def name(self) -> str:
        """The name of its values."""
        return self.values.name

    @property
    def shape(self) -> Shape:
        """The shape of the dense tensor, as far as it is known."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.spec.dtype

    def __repr__(self) -> str:
        return f"<IndexedSlices of {self.spec}: {self.values.name} {show(self.values.shape)}>"

    def to_dense(self) -> Tensor:
        """The dense tensor; values of one row are added up in their order."""
        build = opdef.lookup("slices_to_dense").constructor
        dense: Tensor = build(self.values, self.indices, self.rows)
        return dense

    def as_tensor(self) -> Tensor:
        """The dense tensor: what ops see that do not know slices. Tells the user, see `densified`."""
        self.tell_of(self.by or verb_of_the_user())
        return self.to_dense()

    def tell_of(self, by: str, line: str | None = None) -> None:
        """Tells the user that `by` makes the rows dense, at a line, or where it is being built."""
        tell(self.spec, self.values.shape, self.whose, by, made_at=self.values.node.defined_at, line=line)

    def with_origin(self, whose: str, by: str = "") -> IndexedSlices:
        """The same rows, of which it is known what they are rows of, and what takes them next."""
        found = self.with_values(self.values)
        found.whose, found.by = whose, by
        return found

    def sum_duplicates(self) -> tuple[Tensor, Tensor]:
        """The indices that occur, each once and in ascending order, and the sum of each: (indices, sums)."""
        indices, sums = opdef.lookup("sum_duplicates").constructor(self.values, self.indices, self.rows)
        return indices, sums

    def here(self) -> IndexedSlices:
        """The same in the current graph, around which these may lie; GraphError where they do not."""
        return self.with_values(self.values)

    def with_values(self, values: Tensor) -> IndexedSlices:
        """Other values at the same indices."""
        shape = self.rows if isinstance(self.rows, Tensor) else self.shape or ()
        found = IndexedSlices(values, self.indices, shape)
        # With a tensor of rows the constructor has forgotten the shape that was known.
        found.spec = Spec(self.shape, values.dtype)
        found.whose, found.by = self.whose, self.by
        return found

    def tree_flatten(self) -> tuple[list[Any], Callable[[Sequence[Any]], Slices]]:
        """What to fetch, and how to make one value of it."""
        if isinstance(self.rows, Tensor):
            return [self.values, self.indices, self.rows], lambda v: Slices(v[0], v[1], tuple(map(int, v[2])))
        # Known: a tensor less to fetch.
        n = self.rows
        return [self.values, self.indices], lambda v: Slices(v[0], v[1], (n, *v[0].shape[1:]))

    def _scale(self, op: str, by: Any) -> Any:
        verb = opdef.lookup(op).constructor
        # By one number zeros stay zeros; by anything else each row gets its own, and that is the dense
        # tensor.
        return self.with_values(verb(self.values, by)) if is_scalar(by) else verb(self, by)

    # fmt: off
    def __mul__(self, other: Any) -> Any: return self._scale("multiply", other)
    def __rmul__(self, other: Any) -> Any: return self._scale("multiply", other)
    def __truediv__(self, other: Any) -> Any: return self._scale("divide", other)
    def __neg__(self) -> Any: return self.with_values(-self.values)
    # fmt: on

    def __add__(self, other: Any) -> Any:
        # Two sums of rows stay rows.
        if isinstance(other, IndexedSlices):
            return join([self, other])
        return super().__add__(other)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, IndexedSlices):
            a, b = alike([self, other])  # first: what is negated may be unsigned
            return join([a, -b])
        return super().__sub__(other)

    def place(self) -> Where | None:
        """Where its values were made."""
        return self.values.place()


Gradient = Tensor | IndexedSlices
"""A gradient in the graph."""


def is_scalar(value: Any) -> bool:
    """Tells whether a number, array, tensor or variable is known to have no axes."""
    return isinstance(value, int | float) or getattr(value, "shape", None) == ()


def map_values(grad: Gradient, f: Callable[[Tensor], Tensor]) -> Gradient:
    """`f` of a gradient, where f works on each row by itself and keeps zeros."""
    return grad.with_values(f(grad.values)) if isinstance(grad, IndexedSlices) else f(grad)


def alike(parts: Sequence[IndexedSlices]) -> Sequence[IndexedSlices]:
    """The same slices, all of the dtype to which theirs mix; SpecError when they do not."""
    wanted = common({part.dtype: None for part in parts})
    if wanted is None:
        message = f"a sum of slices needs equal dtypes, got {' and '.join(str(part.spec) for part in parts)}"
        hint = refusal(part.dtype for part in parts)
        raise SpecError(message, where=Where(op="IndexedSlices", defined_at=source_line()), hint=hint)
    cast = opdef.lookup("cast").constructor
    return [p if p.dtype == wanted else p.with_values(cast(p.values, wanted)) for p in parts]


def join(parts: Sequence[IndexedSlices]) -> IndexedSlices:
    """The sum of slices of one shape: all of them, in their order.

    Their dtypes mix as those of tensors do; see `dtypes`.

    Raises:
        SpecError: when their shapes differ, or their dtypes do not mix.
    """
    if len(parts) == 1:
        return parts[0]
    shape: Shape = None
    # Each may know another part of the shape.
    for part in parts:
        shape = merge(shape, part.shape)
    parts = alike(parts)
    concat, cast = opdef.lookup("concat").constructor, opdef.lookup("cast").constructor
    kinds = {part.indices.dtype for part in parts}
    # Indices of different dtypes meet in the one that holds them all.
    indices = [part.indices if len(kinds) == 1 else cast(part.indices, "int64") for part in parts]
    values = concat([part.values for part in parts], 0)
    # A number where any of them has one, else a tensor that is known in the step only.
    known = next((part.rows for part in parts if not isinstance(part.rows, Tensor)), parts[0].rows)
    found = IndexedSlices(values, concat(indices, 0), known if isinstance(known, Tensor) else shape or ())
    found.spec = Spec(shape, values.dtype)
    found.whose = next((part.whose for part in parts if part.whose), "")
    return found


def _first(shape: Shape) -> int:
    """The number of rows; SpecError when the shape does not say it."""
    if not shape or shape[0] is None:
        message = f"slices need to know how many rows there are, got shape {show(shape)}"
        raise SpecError(message, hint="pass af.arrays.shape(x) when that is known in the step only")
    return shape[0]


def _whole(values: Spec, indices: Spec, shape: Shape) -> Shape:
    """What is known of the dense shape; SpecError when the parts do not fit."""
    if indices.dtype.kind not in "iu" or indices.rank not in (1, None) or values.shape == ():
        message = f"slices need an integer for each row of values, got values {values} and indices {indices}"
        raise SpecError(message)
    if values.shape is None:
        return shape
    try:
        merge(values.shape[:1], indices.shape)
        return merge((None, *values.shape[1:]), shape)
    except SpecError:
        message = f"slices of {show(shape)} need a row for each index, got {indices} and values {values}"
        raise SpecError(message) from None
