"""The queues: what lies in them comes out as it went in, at random, by priority, or padded to batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.resource import PaddingQueueDef, PriorityQueueDef, QueueDef, ShuffleQueueDef
from actorflow.ops.definition.arguments import plain_integers
from actorflow.ops.definition.handle_arguments import is_no_dtype
from actorflow.ops.math.random import resource_seed
from actorflow.ops.state.handle import resource_name, shared_name_of
from actorflow.ops.state.queue import Queue
from actorflow.runtime.call_site import source_line
from actorflow.values.checks import is_whole
from actorflow.values.spec import Shape, Spec, show, spec


class FIFOQueue(Queue):
    """A queue that gives its elements in the order in which they were put in.

    An element is a tuple of tensors, its components. Ops that have to wait are served in the
    order of their arrival; a large `dequeue_many` at the head holds up smaller ones behind it.
    What a step took and has not used when it is aborted comes back to its place.

    Args:
        capacity: How many elements fit; an enqueue waits while it is full. None for no limit.
        dtypes: The dtype of each component; one dtype for a queue of one component.
        shapes: The shape of each component, or one shape; None when they may differ.
        names: A name for each component: then elements are dicts.
        max_bytes: How many bytes fit, the lengths of bytes included; an enqueue waits while it would
            exceed that. None for no limit.
        name: Name of the queue; `queue`, `queue_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same queue, in the open
            `af.state.container`; without it every session has its own.

    Raises:
        SpecError: for a limit below 1, no component, or lists of different lengths.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     queue = af.state.FIFOQueue(8, ["float32", "int32"], [(28, 28), ()])
    ...     images, labels = queue.dequeue_many(4)
    ...     print(images.spec, labels.spec)
    (4, 28, 28) float32 (4,) int32
    """

    def __init__(
        self,
        capacity: int | None,
        dtypes: Any,
        shapes: Sequence[Shape] | Shape = None,
        names: Sequence[str] | None = None,
        *,
        max_bytes: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        super().__init__(
            _declare(QueueDef, capacity, dtypes, shapes, names, max_bytes, name, shared_name), names
        )


class RandomShuffleQueue(Queue):
    """A queue that gives any of its elements, each with equal chance.

    While it is open it keeps `min_after_dequeue` elements, so that there is always something to mix:
    a dequeue waits until more are inside. After closing all of them come out.

    Args:
        capacity: How many elements fit; more than `min_after_dequeue`. None for no limit.
        min_after_dequeue: How many stay inside while more may come.
        dtypes: The dtype of each component; one dtype for a queue of one component.
        shapes: The shape of each component, or one shape; None when they may differ.
        names: A name for each component: then elements are dicts.
        seed: Where it draws from; the graph's when left out. The same seed, and the same order of
            enqueues and dequeues, give the same elements, in every session.
        max_bytes: How many bytes fit. A queue that is full by bytes gives elements even though fewer
            than `min_after_dequeue` are inside, since it could never get more. None for no limit.
        name: Name of the queue; `queue`, `queue_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same queue, in the open
            `af.state.container`; without it every session has its own. It draws from the seed
            of whoever comes first.

    Raises:
        SpecError: as `FIFOQueue`, and for a `min_after_dequeue` that is negative or not below `capacity`.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph(seed=1):
    ...     queue = af.state.RandomShuffleQueue(1000, 500, "bytes", ())
    ...     print(queue)
    <RandomShuffleQueue queue of () bytes, capacity 1000, min_after_dequeue 500>
    """

    def __init__(
        self,
        capacity: int | None,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Sequence[Shape] | Shape = None,
        names: Sequence[str] | None = None,
        *,
        seed: int | None = None,
        max_bytes: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        # numpy's integers as Python's: definitions are plain data.
        capacity, min_after_dequeue, seed = _plain(capacity), _plain(min_after_dequeue), _plain(seed)

        # ORDER: looked at after the limits, with errors at the user's line.
        def checked(components: tuple[Spec, ...]) -> tuple[Spec, ...]:
            _check_shuffle(capacity, min_after_dequeue, seed)
            return components

        # A function: the seed is drawn when all else has been found good, so a refusal uses up none.
        definition = _declare(
            ShuffleQueueDef, capacity, dtypes, shapes, names, max_bytes, name, shared_name, checked,
            lambda: {"min_after_dequeue": min_after_dequeue, "seed": resource_seed(seed)},
        )  # fmt: skip
        self.min_after_dequeue = min_after_dequeue
        super().__init__(definition, names)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, min_after_dequeue {self.min_after_dequeue}>"


class PriorityQueue(Queue):
    """A queue that gives the element with the smallest priority; of equal ones that which came first.

    Component 0 of an element is its priority, a scalar of int64, and comes out with the others. A
    `dequeue_many` that waits takes elements as they come, so one that comes later never goes before.

    Args:
        capacity: How many elements fit; an enqueue waits while it is full. None for no limit.
        dtypes: The dtype of each component, "int64" for the first.
        shapes: The shape of each component, () for the first; None when those of the others may differ.
        names: A name for each component: then elements are dicts.
        max_bytes: How many bytes fit, the priorities included. None for no limit.
        name: Name of the queue; `queue`, `queue_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same queue, in the open
            `af.state.container`; without it every session has its own.

    Deviation: TensorFlow's puts the priority in front of the given dtypes and shapes by itself, but
    not of the names. Here all three have it.

    Raises:
        SpecError: as `FIFOQueue`, and unless component 0 is a scalar of int64.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     queue = af.state.PriorityQueue(8, ["int64", "float32"], [(), (3,)])
    ...     priority, values = queue.dequeue()
    ...     print(priority.spec, values.spec)
    () int64 (3,) float32
    """

    def __init__(
        self,
        capacity: int | None,
        dtypes: Any,
        shapes: Sequence[Shape] | Shape = None,
        names: Sequence[str] | None = None,
        *,
        max_bytes: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        definition = _declare(
            PriorityQueueDef, capacity, dtypes, shapes, names, max_bytes, name, shared_name, _with_priority
        )
        super().__init__(definition, names)


class PaddingFIFOQueue(Queue):
    """A `FIFOQueue` whose batches may be made of elements of different sizes.

    Shapes have to be given, and may have None for sizes that differ. `dequeue_many` and `dequeue_up_to`
    fill each such axis up to the longest of the batch: with zeros, False, or empty bytes.

    Args:
        capacity: How many elements fit; an enqueue waits while it is full. None for no limit.
        dtypes: The dtype of each component; one dtype for a queue of one component.
        shapes: The shape of each component, or one shape; None in them for sizes that differ.
        names: A name for each component: then elements are dicts.
        max_bytes: How many bytes fit, before padding. None for no limit.
        name: Name of the queue; `queue`, `queue_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same queue, in the open
            `af.state.container`; without it every session has its own.

    Raises:
        SpecError: as `FIFOQueue`, and where a number of axes is not known.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     queue = af.state.PaddingFIFOQueue(8, ["int32", "int32"], [(None,), ()])
    ...     words, label = queue.dequeue_many(4)
    ...     print(words.spec, label.spec)
    (4, None) int32 (4,) int32
    """

    def __init__(
        self,
        capacity: int | None,
        dtypes: Any,
        shapes: Sequence[Shape] | Shape,
        names: Sequence[str] | None = None,
        *,
        max_bytes: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        definition = _declare(
            PaddingQueueDef, capacity, dtypes, shapes, names, max_bytes, name, shared_name, _with_known_ranks
        )
        super().__init__(definition, names)

    def _spec_attrs(self) -> Mapping[str, Attr]:
        # The rule of dequeues allows open sizes then.
        return {**super()._spec_attrs(), "padded": True}


# -- what a queue may be ---------------------------------------------------------------------------


def _declare(
    kind: Callable[..., QueueDef],
    capacity: int | None,
    dtypes: Any,
    shapes: Sequence[Shape] | Shape,
    names: Sequence[str] | None,
    max_bytes: int | None,
    name: str | None,
    shared_name: str | None,
    checked: Callable[[tuple[Spec, ...]], tuple[Spec, ...]] = lambda components: components,
    more: Callable[[], Mapping[str, Any]] = dict,
) -> QueueDef:
    """Returns the definition of a queue; `checked` looks at its components, `more` has further fields."""
    graph = current()
    line = source_line()
    where = Where(defined_at=line)
    capacity, max_bytes = _plain(capacity), _plain(max_bytes)
    # All refusals get the line of the declaration.
    try:
        _check_limit("elements", "capacity", capacity)
        _check_limit("bytes", "max_bytes", max_bytes)
        components = checked(_components(dtypes, shapes))
        _check_names(components, names)
        _check_one_fits(components, max_bytes)
    except SpecError as error:
        raise error.at(where) from None
    return kind(
        name=resource_name(graph, name, "queue", where),
        components=components,
        capacity=capacity,
        max_bytes=max_bytes,
        device=graph.scope.device,
        defined_at=line,
        **shared_name_of(graph, shared_name, "queue", where),
        **more(),
    )


def _plain(value: Any) -> Any:
    """Returns a whole number of numpy as Python's, and anything else as it is."""
    found = None if value is None or isinstance(value, bool) else plain_integers(value)
    return found if isinstance(found, int) else value


def _components(dtypes: Any, shapes: Sequence[Shape] | Shape) -> tuple[Spec, ...]:
    """Returns the spec of each component."""
    many = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes]
    for each in many:
        if is_no_dtype(each):
            message = f"a queue takes a dtype for each component, got {each!r:.60}"
            raise SpecError(message, hint='dtypes and shapes are two lists: FIFOQueue(8, ["bytes"], [()])')
    if shapes is None:
        return tuple(spec(d, None) for d in many)
    listed: Any = shapes
    if not isinstance(listed, list | tuple):
        message = f"a queue takes a shape for each dtype, got {shapes!r:.60}"
        raise SpecError(message)
    sizes: list[Any] = list(shapes)
    if len(many) == 1 and isinstance(shapes, tuple) and not any(isinstance(s, tuple) for s in shapes):
        sizes = [shapes]  # one shape for one component
    if len(sizes) != len(many):
        message = f"a queue takes one shape for each dtype, got {len(sizes)} shapes for {len(many)} dtypes"
        raise SpecError(message)
    return tuple(spec(d, s) for d, s in zip(many, sizes, strict=True))


def _check_limit(what: str, argument: str, limit: Any) -> None:
    if limit is not None and not is_whole(limit, 1, plain=True):
        thing = "at least one element" if what == "elements" else "a whole number of bytes, at least 1"
        message = f"a queue holds {thing}, got {argument} {limit!r:.60}"
        raise SpecError(message, hint="None is no limit")


def _check_names(components: tuple[Spec, ...], names: Any) -> None:
    if not components:
        raise SpecError("an element of a queue has at least one component, got no dtype")
    if names is None:
        return
    if not (isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)):
        message = f"the names of a queue's components are a list of texts, got {names!r:.60}"
        raise SpecError(message)
    if len(set(names)) < len(names) or len(names) != len(components):
        message = f"a queue takes a distinct name for each of {len(components)} components, got {list(names)}"
        raise SpecError(message)


def _check_one_fits(components: tuple[Spec, ...], max_bytes: int | None) -> None:
    """Refuses a limit that no element meets, where their sizes are known."""
    # What every element has at least: open sizes count 0, and bytes are of any length.
    least = sum(
        prod(d or 0 for d in c.shape or (0,)) * c.dtype.itemsize for c in components if not c.dtype.hasobject
    )
    if max_bytes is not None and least > max_bytes:
        message = f"no element fits into the queue: each has {least} bytes or more, got max_bytes {max_bytes}"
        raise SpecError(message)


def _check_shuffle(capacity: Any, min_after_dequeue: Any, seed: Any) -> None:
    if not is_whole(min_after_dequeue, 0, plain=True):
        message = f"min_after_dequeue is a number of elements, 0 or more, got {min_after_dequeue!r:.60}"
        raise SpecError(message, hint="RandomShuffleQueue(capacity, min_after_dequeue, dtypes, shapes)")
    # A full queue has to have one to give.
    if is_whole(capacity, plain=True) and min_after_dequeue >= capacity:
        message = (
            f"min_after_dequeue is below the capacity, got {min_after_dequeue} of {capacity}: "
            "a full queue would give nothing"
        )
        raise SpecError(message, hint="raise capacity, or lower min_after_dequeue")
    if seed is not None and not is_whole(seed, plain=True):
        message = f"a seed is an integer, got {seed!r:.60}"
        raise SpecError(message)


def _with_priority(components: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Returns the components; a priority without a shape is a scalar."""
    priority = spec("int64")
    if not components or components[0].dtype != priority.dtype or components[0].shape not in (None, ()):
        given = components[0] if components else "no component"
        message = f"component 0 of a priority queue is the priority, {priority}, got {given}"
        hint = 'PriorityQueue(8, ["int64", "float32"], [(), (3,)])'
        raise SpecError(message, hint=hint)
    # A priority without a shape is a scalar.
    return (priority, *components[1:])


def _with_known_ranks(components: tuple[Spec, ...]) -> tuple[Spec, ...]:
    if any(c.shape is None for c in components):
        shapes = ", ".join(show(c.shape) for c in components)
        message = f"a padding queue takes a shape for each component, got {shapes}"
        raise SpecError(message, hint="None in a shape stands for a size that differs: (None,) or (None, 3)")
    return components
