"""Counters: numbers that are given one by one, each to one step.

Nodes name the counter in `attrs["resource"]`. These ops have no kernels: the actor that owns the
counter answers them, at once. Within one step they happen in the order of the program.
"""

from __future__ import annotations

from actorflow.errors import Where
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import current
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import CounterDef
from actorflow.ops.definition import handle_arguments
from actorflow.ops.state.handle import Handle, resource_name, shared_name_of
from actorflow.ops.state.resource_methods import method, scalar
from actorflow.runtime.call_site import source_line


class Counter(Handle[CounterDef]):
    """A number from which each who asks gets the next one.

    A number that a step was given is used up, be the step aborted: others may have had those after it.
    So numbers come once, and there may be gaps.

    Args:
        start: The first number.
        limit: The number before which it ends; None for that of int64.
        name: Name of the counter; `counter`, `counter_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same counter, in the open
            `af.state.container`; without it every session has its own.

    Raises:
        SpecError: for what are no integers of 64 bits, or a limit before the start.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     batches = af.state.Counter(limit=100, name="batches")
    ...     print(batches, batches.next().spec)
    <Counter batches: counter from 0 to 100> () int64
    """

    def __init__(
        self,
        start: int = 0,
        limit: int | None = None,
        *,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        first = handle_arguments.whole(start, "the start of a counter")
        last = None if limit is None else handle_arguments.whole(limit, "the limit of a counter")
        if last is not None and last < first:
            message = f"a counter ends after its start, got start {first} and limit {last}"
            raise handle_arguments.spec_error(message)
        super().__init__(
            CounterDef(
                name=resource_name(graph, name, "counter", Where(defined_at=line)),
                start=first,
                limit=last,
                device=graph.scope.device,
                defined_at=line,
                **shared_name_of(graph, shared_name, "counter", Where(defined_at=line)),
            )
        )

    def next(self) -> Tensor:
        """The value before one is added to it, an int64 scalar.

        Raises:
            OutOfRange: in the step, at the limit.
        """
        return self._ask_one("counter_next", [])

    def read(self) -> Tensor:
        """The value, which is the number that `next` will give, an int64 scalar."""
        return self._ask_one("counter_read", [])

    def reset(self) -> Tensor:
        """Goes back to the start; gives that, an int64 scalar."""
        return self._ask_one("counter_reset", [])


method("counter_next", scalar("int64"), Effect.WRITE, Counter.next)
method("counter_read", scalar("int64"), Effect.READ, Counter.read)
method("counter_reset", scalar("int64"), Effect.WRITE, Counter.reset)
