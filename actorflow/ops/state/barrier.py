"""Barriers: tuples whose components come one by one, each under its key, and leave when they are complete.

Nodes name the barrier in `attrs["resource"]`. These ops have no kernels: the actor that owns the
barrier answers them. Inserts, closes and sizes of one step happen in the order of the program; a take
may wait, and is not ordered with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import BarrierDef
from actorflow.ops.definition import handle_arguments
from actorflow.ops.state.handle import Handle, as_typed_tensor, check_fits, resource_name, shared_name_of
from actorflow.ops.state.resource_methods import method, scalar
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import BYTES, NAMES, as_dtype, name_of
from actorflow.values.spec import Shape, Spec, merge, show, spec


class TakenTuples(NamedTuple):
    """What a take from a barrier gives: complete tuples, stacked along a new axis 0.

    Attributes:
        indices: int64, for each tuple the number of the batch in which its key was first seen.
        keys: bytes.
        components: One tensor for each component; by names a dict of them.
    """

    indices: Tensor
    keys: Tensor
    components: Any


class Barrier(Handle[BarrierDef]):
    """Tuples that are put together by key, and taken when all their components are there.

    Ready tuples leave in the order in which their keys were first inserted, whichever was complete
    first. Takes that have to wait are served in the order of their arrival.

    Deviations from TensorFlow, and why: an insert that is refused changes nothing, so that it can be
    put right; a batch of no keys is done at once; a take gets all its tuples at one moment, so that
    the order holds whoever waits; from a closed barrier a small take waits for the first tuple that
    is still to be completed, which else nobody would take; batches are counted from 0; the shapes are
    given, since tuples are stacked. `wait_for_incomplete` is left out, since a take that wants all
    its tuples always waits for those that are incomplete, and so is `timeout`: the deadline of a step
    is for that, `session.run(..., deadline_s=)`.

    Args:
        dtypes: The dtype of each component; one dtype for a barrier of one component.
        shapes: The shape of each component, or one shape; sizes must be known.
        names: A name for each component: then components go by name.
        capacity: How many keys it holds, ready ones included; an insert of more is refused, for one
            that waited might hold up what would complete others. None for no limit.
        name: Name of the barrier; `barrier`, `barrier_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same barrier, in the open
            `af.state.container`; without it every session has its own.

    Raises:
        SpecError: for no component, shapes that leave sizes open or have no elements, or lists of
            different lengths.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     barrier = af.state.Barrier(["float32", "int32"], [(28, 28), ()], names=["image", "label"])
    ...     put = barrier.insert_many("label", [b"a", b"b"], [1, 2])
    ...     taken = barrier.take_many(2)
    ...     print(taken.keys.spec, taken.components["image"].spec)
    (2,) bytes (2, 28, 28) float32
    """

    def __init__(
        self,
        dtypes: Any,
        shapes: Sequence[Shape] | Shape,
        names: Sequence[str] | None = None,
        *,
        capacity: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        components = _components(dtypes, shapes)
        self.names = None if names is None else _names(names, len(components))
        most = handle_arguments.limit(capacity, "the capacity of a barrier")
        wanted = resource_name(graph, name, "barrier", Where(defined_at=line))
        super().__init__(
            BarrierDef(
                name=wanted,
                components=components,
                capacity=most,
                device=graph.scope.device,
                defined_at=line,
                **shared_name_of(graph, shared_name, "barrier", Where(defined_at=line)),
            )
        )

    @property
    def components(self) -> tuple[Spec, ...]:
        """The spec of each component."""
        return self.definition.components

    def insert_many(self, component: int | str, keys: Any, values: Any) -> Tensor:
        """Puts in one component of each key, all of them or none; gives True, and never waits.

        Args:
            component: Its number, or its name.
            keys: A vector of bytes, each key once.
            values: One value for each key, along axis 0.

        Raises:
            SpecError: when keys or values do not fit.
            StateError: in the step, when a key has that component already, or is one too many.
            QueueClosed: in the step, for a new key after a close, or for any after one that cancels.
        """
        # By number in the node: names are the handle's.
        k = self._number(component)
        tensors = [as_typed_tensor(keys, BYTES), as_typed_tensor(values, self.components[k].dtype)]
        return self._ask_one("barrier_insert_many", tensors, component=k)

    def take_many(self, n: int, allow_small_batch: bool = False) -> TakenTuples:
        """Takes `n` complete tuples, those first whose keys were seen first, waiting for all of them.

        Args:
            n: How many.
            allow_small_batch: Once the barrier is closed, the 1 to n that are ready will do.

        Raises:
            OutOfRange: in the step, when the barrier is closed and too few are ready or may become so.
        """
        count = handle_arguments.whole(n, "the number of tuples to take", 0)
        small = handle_arguments.flag(allow_small_batch, "allow_small_batch")
        indices, keys, *columns = self._ask("barrier_take_many", [], n=count, allow_small_batch=small)
        # As they were put in: by names a dict.
        if self.names is not None:
            return TakenTuples(indices, keys, dict(zip(self.names, columns, strict=True)))
        return TakenTuples(indices, keys, tuple(columns))

    def close(self, cancel_pending_enqueues: bool = False) -> Tensor:
        """Lets no new key in; gives True. Incomplete keys may still be completed, and are taken.

        With `cancel_pending_enqueues` incomplete keys are dropped and nothing is let in at all; such a
        close may follow one without. Any other second close is an error in the step.
        """
        cancel = handle_arguments.flag(cancel_pending_enqueues, "cancel_pending_enqueues")
        return self._ask_one("barrier_close", [], cancel_pending_enqueues=cancel)

    def ready_size(self) -> Tensor:
        """How many tuples are complete and not taken, an int64 scalar."""
        return self._ask_one("barrier_ready_size", [])

    def incomplete_size(self) -> Tensor:
        """How many keys miss a component, an int64 scalar."""
        return self._ask_one("barrier_incomplete_size", [])

    def _number(self, component: Any) -> int:
        n = len(self.components)
        if isinstance(component, str):
            if self.names is not None and component in self.names:
                return self.names.index(component)
            known = "its components have no names" if self.names is None else f"it has {list(self.names)}"
            message = f"barrier {self.name!r} has no component {component!r:.60}; {known}"
            raise handle_arguments.spec_error(message)
        k = handle_arguments.whole(component, f"a component of barrier {self.name!r}")
        if not 0 <= k < n:
            message = f"barrier {self.name!r} has components 0 to {n - 1}, got {k}"
            raise handle_arguments.spec_error(message)
        return k

    def _spec_attrs(self) -> Mapping[str, Attr]:
        return {
            "dtypes": tuple(name_of(c.dtype) for c in self.components),
            "shapes": tuple(c.shape for c in self.components),
        }


def _components(dtypes: Any, shapes: Any) -> tuple[Spec, ...]:
    many = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes]
    if not isinstance(shapes, list | tuple):
        message = f"a barrier takes a shape for each dtype, got {shapes!r:.60}"
        raise handle_arguments.spec_error(
            message, "tuples are stacked when they are taken, so sizes must be known"
        )
    sizes = list(shapes)
    # A tuple of sizes and a list of shapes look alike: of one component it is the shape.
    if len(many) == 1 and isinstance(shapes, tuple) and not any(isinstance(s, tuple) for s in shapes):
        sizes = [shapes]  # one shape for one component
    if len(sizes) != len(many) or not many:
        message = f"a barrier takes one shape for each dtype, got {len(sizes)} shapes for {len(many)} dtypes"
        raise handle_arguments.spec_error(message)
    found = tuple(handle_arguments.check_spec("a barrier", d, s) for d, s in zip(many, sizes, strict=True))
    for k, each in enumerate(found):
        # Complete tuples are stacked, so every key's values have one shape.
        if not each.is_static or 0 in (each.shape or ()):
            message = f"component {k} of a barrier has elements, and as many for every key, got {each}"
            raise handle_arguments.spec_error(message, "tuples are stacked when they are taken")
    return found


def _names(names: Any, count: int) -> tuple[str, ...]:
    if not (isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)):
        message = f"the names of a barrier's components are a list of texts, got {names!r:.60}"
        raise handle_arguments.spec_error(message)
    if len(set(names)) < len(names) or len(names) != count:
        message = f"a barrier takes a distinct name for each of {count} components, got {list(names)}"
        raise handle_arguments.spec_error(message)
    return tuple(names)


def _check_specs(attrs: Mapping[str, Attr]) -> list[Spec]:
    return [spec(d, s) for d, s in zip(attrs["dtypes"], attrs["shapes"], strict=True)]


def _insert_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    keys, values = inputs
    k = attrs["component"]
    what = f"component {k} of barrier {attrs['resource']!r}"
    if keys.dtype != BYTES or keys.rank not in (1, None):
        message = f"the keys of barrier {attrs['resource']!r} are a vector of bytes, got {keys}"
        raise SpecError(message, hint="text is given as bytes" if keys.dtype == BYTES else None)
    component = _check_specs(attrs)[k]
    # One value for each key, along axis 0.
    check_fits(values, Spec((None, *(component.shape or ())), component.dtype), f"a batch for {what}")
    try:
        merge(keys.shape, None if values.shape is None else values.shape[:1])
    except SpecError:
        message = f"{what} takes a value for each key, got {show(keys.shape)} keys and values {values}"
        raise SpecError(message) from None
    return (spec("bool"),)


def _take_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    # A small batch may have any number of tuples.
    n = None if attrs["allow_small_batch"] else attrs["n"]
    stacked = [Spec((n, *(c.shape or ())), c.dtype) for c in _check_specs(attrs)]
    return (Spec((n,), as_dtype("int64")), Spec((n,), BYTES), *stacked)


# Rules are asked with each dtype, to learn which the op takes.
_ASKED = tuple(
    {"resource": "", "component": 0, "n": 1, "allow_small_batch": False, "dtypes": (d,), "shapes": (None,)}
    for d in (*NAMES, name_of(BYTES))
)

method("barrier_insert_many", _insert_spec, Effect.WRITE, Barrier.insert_many, _ASKED, fills=True)
method("barrier_take_many", _take_spec, Effect.WAIT, Barrier.take_many, _ASKED)
method("barrier_close", scalar("bool"), Effect.WRITE, Barrier.close)
method("barrier_ready_size", scalar("int64"), Effect.READ, Barrier.ready_size)
method("barrier_incomplete_size", scalar("int64"), Effect.READ, Barrier.incomplete_size)
