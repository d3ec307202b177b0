"""TensorArray: what users write and read one by one; a handle for a list of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph
from actorflow.graph.inputs_graph import methods_in_own_graph
from actorflow.ops.control import tensor_list as lists
from actorflow.ops.control import tensor_list_rows
from actorflow.ops.control.tensor_list_rules import tensor_list
from actorflow.ops.definition import handle_arguments
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.state.handle import as_typed_tensor
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import DType
from actorflow.values.checks import is_whole
from actorflow.values.spec import Dim, ListSpec, Shape


@methods_in_own_graph
class TensorArray:
    """Tensors by index, each written once and read as often as you like; gradients flow through it.

    It does not change: what writes gives another one, so go on with that. It is no state either: it
    lives within a step, as a tensor does, may be carried by a loop or be the result of a branch, and
    is fetched as what `stack`, `concat` or `read` make of it. A write in a line of them takes O(1).

    In the step it is an error to write an index twice, to read one that was not written, and to
    go beyond `size`; the error names the line of that write or read.

    Deviations from TensorFlow, and why: there is no `clear_after_read`, since an element is freed
    when no version that holds it is needed any more, and one that was read may be read again by
    gradients; no `infer_shape`, since the elements have the `element_shape` that is said, and any
    where none is; no `dynamic_size`, since without a `size` it grows; no `grad`, since the gradient
    of a list is a list, in which several reads of one index add up; no `colocate_with_first_write_call`.

    Args:
        dtype: That of the elements.
        size: How many indices there are; None for an array that grows as it is written.
        element_shape: That of the elements, as far as they share one; None for any. An empty array
            is stacked only where it is known.
        name: Name of its node.

    Raises:
        SpecError: for what is no dtype, shape or size.

    >>> with af.Graph():
    ...     squares = af.TensorArray("float32", element_shape=(3,))
    ...     for i in range(2):
    ...         squares = squares.write(i, af.full((3,), float(i * i)))
    ...     print(squares, squares.stack().spec)
    <TensorArray list_write_1:0 list of (3,) float32> (None, 3) float32
    """

    __slots__ = ("flow",)

    flow: Tensor

    def __init__(
        self,
        dtype: Any,
        size: int | None = None,
        *,
        element_shape: Iterable[Dim] | None = None,
        name: str | None = None,
    ) -> None:
        element = handle_arguments.check_spec("a TensorArray", dtype, element_shape)
        self.flow = lists.list_new(element, size, name=name)

    @staticmethod
    def around(flow: Tensor) -> TensorArray:
        """Returns the array whose `flow` is a list that ops have made; SpecError for another tensor."""
        with error_context("TensorArray"):
            tensor_list("a TensorArray", flow.spec)
        made: TensorArray = TensorArray.__new__(TensorArray)
        made.flow = flow
        return made

    @staticmethod
    def of(x: Any, *, name: str | None = None) -> TensorArray:
        """Returns an array of the rows of `x`; of its size, where that is known, else one that grows."""
        return TensorArray.around(tensor_list_rows.list_unstack(x, name=name))

    @property
    def spec(self) -> ListSpec:
        """What is known of size and elements."""
        return tensor_list("a TensorArray", self.flow.spec)

    @property
    def dtype(self) -> DType:
        """That of the elements."""
        return self.flow.dtype

    @property
    def element_shape(self) -> Shape:
        """That of the elements, as far as it is known."""
        return self.spec.element.shape

    def __repr__(self) -> str:
        return f"<TensorArray {self.flow.name} {self.spec}>"

    def write(self, index: Any, value: Any, *, name: str | None = None) -> TensorArray:
        """Gives the array with `value` at `index`, an integer.

        Raises:
            SpecError: for an element of another dtype or shape, and a number that is no index.
            ListError: in the step, when that index was written before, or lies beyond the size.
        """
        # Numbers take the dtype of the array.
        value = as_typed_tensor(value, self.dtype)
        return self._next(lists.list_write(self.flow, self._index(index), value, name=name))

    def read(self, index: Any, *, name: str | None = None) -> Tensor:
        """The element at `index`; ListError in the step when it was not written."""
        return lists.list_read(self.flow, self._index(index), name=name)

    def stack(self, *, name: str | None = None) -> Tensor:
        """All elements along a new first axis.

        Raises:
            ListError: in the step, when one was not written or has another shape, or there are none and
                their shape is not known.
        """
        return tensor_list_rows.list_stack(self.flow, name=name)

    def unstack(self, x: Any, *, name: str | None = None) -> TensorArray:
        """Gives the array with the rows of `x` at 0, 1, …; as so many writes. See also `of`."""
        return self._next(tensor_list_rows.list_unstack(as_typed_tensor(x, self.dtype), self.flow, name=name))

    def gather(self, indices: Any, *, name: str | None = None) -> Tensor:
        """The elements at a vector of `indices`, along a new first axis; an index may come again."""
        return tensor_list_rows.list_gather(self.flow, indices, name=name)

    def scatter(self, indices: Any, values: Any, *, name: str | None = None) -> TensorArray:
        """Gives the array with the rows of `values` at a vector of `indices`; as so many writes."""
        values = as_typed_tensor(values, self.dtype)
        return self._next(tensor_list_rows.list_scatter(indices, values, self.flow, name=name))

    def concat(self, *, name: str | None = None) -> Tensor:
        """All elements one behind the other along their first axis, in which they may differ."""
        return tensor_list_rows.list_concat(self.flow, name=name)

    def split(self, x: Any, lengths: Any, *, name: str | None = None) -> TensorArray:
        """Gives the array with pieces of `x`, of these `lengths`, at 0, 1, …; as so many writes."""
        x = as_typed_tensor(x, self.dtype)
        return self._next(tensor_list_rows.list_split(x, lengths, self.flow, name=name))

    def size(self, *, name: str | None = None) -> Tensor:
        """How many indices there are, an int32 scalar; in an array that grows, one more than the last."""
        return lists.list_size(self.flow, name=name)

    def as_tensor(self) -> Tensor:
        """Its list, for ops on lists; every other op says that it takes none."""
        return as_tensor(self.flow)

    @property
    def graph(self) -> Graph:
        """The graph in which it was made."""
        return self.flow.graph

    def tree_flatten(self) -> tuple[Sequence[Tensor], Callable[[Sequence[Tensor]], TensorArray]]:
        """Its tensor, and how an array is made of another: so that loops and branches carry arrays."""
        return [self.flow], lambda flows: TensorArray.around(flows[0])

    def _next(self, flow: Tensor) -> TensorArray:
        return TensorArray.around(flow)

    def _index(self, index: Any) -> Any:
        """The index; SpecError for a number that the size excludes."""
        size = self.spec.size
        # Tensors are looked at in the step.
        if is_whole(index, plain=True) and (index < 0 or (size is not None and index >= size)):
            lies = "is at least 0" if size is None else f"lies in [0, {size})"
            message = f"an index of {self!r} {lies}, got {index}"
            hint = None if size is None or index < 0 else "make the array without a size, and it grows"
            raise SpecError(message, where=Where(defined_at=source_line()), hint=hint)
        return index
