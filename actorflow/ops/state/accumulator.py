"""Conditional accumulators: gradients that are new enough are added up until enough of them are taken.

Nodes name the accumulator in `attrs["resource"]`. These ops have no kernels: the actor that owns the
accumulator answers them. All but takes never wait, and happen within a step in the order of the
program; a take may wait, and is not ordered with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import AccumulatorDef, SparseAccumulatorDef
from actorflow.graph.slices import IndexedSlices
from actorflow.ops.definition import handle_arguments
from actorflow.ops.definition.spec_rules import DtypeClass
from actorflow.ops.state.handle import Handle, as_typed_tensor, check_fits, resource_name, shared_name_of
from actorflow.ops.state.resource_methods import method, scalar
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype, name_of
from actorflow.values.sparse import Slices
from actorflow.values.spec import Dim, Spec, merge, show, spec

_INT64 = as_dtype("int64")
_REDUCTIONS = ("mean", "sum")

Definition = TypeVar("Definition", bound=AccumulatorDef)


class Accumulator(Handle[Definition], Generic[Definition]):
    """What dense and sparse accumulators share: a step, and how many gradients there are."""

    @property
    def spec(self) -> Spec:
        """What every gradient fits."""
        return self.definition.spec

    def set_global_step(self, step: Any) -> Tensor:
        """Refuses gradients of steps before `step` from now on; gives the step, an int64 scalar.

        Raises:
            StateError: in the step, when that would set it back.
        """
        return self._ask_one(f"{self.definition.kind}_set_global_step", [as_typed_tensor(step, _INT64)])

    def global_step(self) -> Tensor:
        """The step from which on gradients are accepted, an int64 scalar; each take adds one."""
        return self._ask_one(f"{self.definition.kind}_global_step", [])

    def num_accumulated(self) -> Tensor:
        """How many gradients were accepted since the last take, an int64 scalar."""
        return self._ask_one(f"{self.definition.kind}_num_accumulated", [])

    def _spec_attrs(self) -> Mapping[str, Attr]:
        return {"dtype": name_of(self.spec.dtype), "shape": self.spec.shape}


class ConditionalAccumulator(Accumulator[AccumulatorDef]):
    """Gradients that are added up, and taken as their mean or sum once there are enough.

    A gradient says of which step it is. Those of a step before the accumulator's are too old, and
    dropped; each take adds one to that step. Gradients are added in the order of their arrival, those of
    one step in the order of the program; halves in float32, rounded once.

    If a step that took is aborted before anything made of it was written, what it took goes back: as
    it was, or to what has come since. So each accepted gradient is in one result.

    Deviations from TensorFlow, and why: `apply_grad` tells whether the gradient was accepted, since
    one that is dropped in silence is a worker that works for nothing; what an aborted step took is
    not lost; a mean is of floating or complex numbers, since that of integers is none.

    Args:
        dtype: That of the gradients, numbers.
        shape: That of the gradients; sizes left open are settled by the first gradient.
        reduction: "mean" over all that are taken, or "sum".
        name: Name of the accumulator; `accumulator`, `accumulator_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same accumulator, in the open
            `af.state.container`; without it every session has its own.

    Raises:
        SpecError: for another dtype or reduction.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     grads = af.state.ConditionalAccumulator("float32", (3,))
    ...     accepted = grads.apply_grad([1.0, 2.0, 3.0], local_step=0)
    ...     print(accepted.spec, grads.take_grad(2).spec)
    () bool (3,) float32
    """

    def __init__(
        self,
        dtype: Any,
        shape: Iterable[Dim] | None = None,
        reduction: str = "mean",
        *,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        found = _spec(dtype, shape, reduction)
        super().__init__(
            AccumulatorDef(
                name=resource_name(graph, name, "accumulator", Where(defined_at=line)),
                spec=found,
                reduction=reduction,
                device=graph.scope.device,
                defined_at=line,
                **shared_name_of(graph, shared_name, "accumulator", Where(defined_at=line)),
            )
        )

    def apply_grad(self, grad: Any, local_step: Any = 0) -> Tensor:
        """Adds a gradient that was computed at `local_step`; gives whether it was accepted. Never waits.

        Raises:
            SpecError: when gradient or step do not fit.
        """
        if isinstance(grad, IndexedSlices | Slices):
            message = f"accumulator {self.name!r} takes dense gradients, got {grad!r:.60}"
            hint = "af.state.SparseConditionalAccumulator takes some rows; grad.to_dense() is all of them"
            raise handle_arguments.spec_error(message, hint)
        # Numbers take the accumulator's dtype; a tensor of another is refused by the rule.
        tensors = [as_typed_tensor(grad, self.spec.dtype), as_typed_tensor(local_step, _INT64)]
        return self._ask_one("accumulator_apply_grad", tensors)

    def take_grad(self, num_required: int) -> Tensor:
        """Takes the mean or sum of all gradients, once there are `num_required`; waits for them."""
        # Known while the graph is built: how long a take waits is no matter of a step.
        n = handle_arguments.whole(num_required, "the number of gradients to take", 1)
        return self._ask_one("accumulator_take_grad", [], num_required=n)


class SparseConditionalAccumulator(Accumulator[SparseAccumulatorDef]):
    """Sparse gradients that are added up row by row, and taken as `IndexedSlices` once there are enough.

    As `ConditionalAccumulator`, of gradients that have some rows of a table. What is taken has each row
    that occurred, once, in ascending order.

    Deviations from TensorFlow, and why: as there; and the shape is given, since slices know theirs.

    Args:
        dtype: That of the gradients, numbers.
        shape: That of the whole table; all sizes are known.
        reduction: "mean" over all that are taken, or "sum".
        per_index: Whether a mean is over those gradients that had the row, instead of over all.
        name: Name of the accumulator; `sparse_accumulator`, … when left out.
        shared_name: Under which all sessions of an actor system find the same accumulator, in the open
            `af.state.container`; without it every session has its own.

    Raises:
        SpecError: for another dtype, shape or reduction.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     table = af.placeholder("float32", (1000, 8), name="table")
    ...     (grad,) = af.gradients(af.sum(af.gather(table, [3, 1, 3])), table)
    ...     grads = af.state.SparseConditionalAccumulator("float32", (1000, 8))
    ...     accepted = grads.apply_grad(grad)
    ...     print(grads.take_grad(1).values.spec)
    (None, 8) float32
    """

    def __init__(
        self,
        dtype: Any,
        shape: Iterable[Dim],
        reduction: str = "mean",
        *,
        per_index: bool = False,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        found = _spec(dtype, shape, reduction)
        if not found.is_static or not found.rank:
            # A take gives whole rows of the table, so their sizes must be known; and it has rows.
            message = f"a sparse accumulator knows the shape of the whole table, got {show(found.shape)}"
            raise handle_arguments.spec_error(message, 'for instance ("float32", (1000, 16))')
        each = handle_arguments.flag(per_index, "per_index")
        super().__init__(
            SparseAccumulatorDef(
                name=resource_name(graph, name, "sparse_accumulator", Where(defined_at=line)),
                spec=found,
                reduction=reduction,
                per_index=each,
                device=graph.scope.device,
                defined_at=line,
                **shared_name_of(graph, shared_name, "accumulator", Where(defined_at=line)),
            )
        )

    def apply_grad(self, grad: Any, local_step: Any = 0) -> Tensor:
        """Adds `IndexedSlices` that were computed at `local_step`; gives whether they were accepted.

        What comes several times for one row is added up. Never waits.

        Raises:
            SpecError: when gradient or step do not fit; in the step, for an index that names no row.
        """
        # What a fetch of slices gave may be put in as it came.
        if isinstance(grad, Slices):
            grad = IndexedSlices(*grad)
        if not isinstance(grad, IndexedSlices):
            message = f"accumulator {self.name!r} takes IndexedSlices, got {grad!r:.60}"
            hint = (
                "af.state.ConditionalAccumulator takes dense gradients; "
                "af.IndexedSlices(values, indices, shape)"
            )
            raise handle_arguments.spec_error(message, hint)
        try:
            # The shape of the whole; values and indices are looked at by the rule.
            merge(grad.shape, self.spec.shape)
        except SpecError:
            message = f"a gradient for accumulator {self.name!r} must fit {self.spec}, got {grad.spec}"
            raise handle_arguments.spec_error(message) from None
        tensors = [grad.values, grad.indices, as_typed_tensor(local_step, _INT64)]
        return self._ask_one("sparse_accumulator_apply_grad", tensors)

    def take_grad(self, num_required: int) -> IndexedSlices:
        """Takes the mean or sum of all gradients, once there are `num_required`; waits for them."""
        n = handle_arguments.whole(num_required, "the number of gradients to take", 1)
        values, indices = self._ask("sparse_accumulator_take_grad", [], num_required=n)
        return IndexedSlices(values, indices, self.spec.shape or ())


def _spec(dtype: Any, shape: Any, reduction: Any) -> Spec:
    found = handle_arguments.check_spec("an accumulator", dtype, shape)
    how = handle_arguments.choice(reduction, "the reduction of an accumulator", _REDUCTIONS)
    # A mean of integers is none.
    takes = DtypeClass.INEXACT if how == "mean" else DtypeClass.NUMBER
    if not takes.accepts(found.dtype):
        message = f"the {how} of an accumulator is of {takes.value}, got {found}"
        raise handle_arguments.spec_error(message)
    return found


def _check_step(step: Spec, attrs: Mapping[str, Attr]) -> None:
    if not DtypeClass.INTEGER.accepts(step.dtype) or step.rank not in (0, None):
        message = f"the step of accumulator {attrs['resource']!r} is an integer scalar, got {step}"
        raise SpecError(message)


def _check_spec(attrs: Mapping[str, Attr]) -> Spec:
    """What the accumulator holds; SpecError for what cannot be added up."""
    found = spec(attrs["dtype"], attrs["shape"])
    if not DtypeClass.NUMBER.accepts(found.dtype):
        message = f"an accumulator is of {DtypeClass.NUMBER.value}, got {found}"
        raise SpecError(message)
    return found


def _rows(attrs: Mapping[str, Attr]) -> Spec:
    """Some rows of what the accumulator holds."""
    whole = _check_spec(attrs)
    # Some rows: how many differs from gradient to gradient.
    return Spec(None if whole.shape is None else (None, *whole.shape[1:]), whole.dtype)


def _apply_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, step = inputs
    check_fits(grad, _check_spec(attrs), f"a gradient for accumulator {attrs['resource']!r}")
    _check_step(step, attrs)
    return (spec("bool"),)


def _sparse_apply_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    values, indices, step = inputs
    check_fits(values, _rows(attrs), f"the values of a gradient for accumulator {attrs['resource']!r}")
    if not DtypeClass.INTEGER.accepts(indices.dtype) or indices.rank not in (1, None):
        message = f"the indices of a gradient are a vector of integers, got {indices}"
        raise SpecError(message)
    _check_step(step, attrs)
    return (spec("bool"),)


def _set_step_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    _check_step(inputs[0], attrs)
    return (spec("int64"),)


def _take_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (_check_spec(attrs),)


def _sparse_take_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return _rows(attrs), spec("int64", (None,))


# fills: takes of other steps may wait for it.
method("accumulator_apply_grad", _apply_spec, Effect.WRITE, ConditionalAccumulator.apply_grad, fills=True)
method("accumulator_take_grad", _take_spec, Effect.WAIT, ConditionalAccumulator.take_grad)
method(
    "sparse_accumulator_apply_grad",
    _sparse_apply_spec,
    Effect.WRITE,
    SparseConditionalAccumulator.apply_grad,
    fills=True,
)
method("sparse_accumulator_take_grad", _sparse_take_spec, Effect.WAIT, SparseConditionalAccumulator.take_grad)
for _kind in ("accumulator", "sparse_accumulator"):
    method(f"{_kind}_set_global_step", _set_step_spec, Effect.WRITE, Accumulator.set_global_step)
    method(f"{_kind}_global_step", scalar("int64"), Effect.READ, Accumulator.global_step)
    method(f"{_kind}_num_accumulated", scalar("int64"), Effect.READ, Accumulator.num_accumulated)
