"""Numbers what asyncio keeps in sets of addresses, so that a run goes through them in order of making.

Tasks and futures of the loop have their number for a hash, and so have sets of them an order that
every run repeats. Four places of asyncio hold others, or keep a set from run to run:

| of asyncio | why it differs | here |
| --- | --- | --- |
| `as_completed(coroutines)` | makes its tasks from a set of coroutines | makes them as they stand |
| the future of `gather` | is no future of the loop | is numbered when it is first put into a set |
| `all_tasks` | its set outlives the run, and its size decides the order | goes by number |
| `shutdown_asyncgens` | closes a set of generators | closes the oldest first |

What is left: `asyncio.Future()` called by its name, and `asyncio.Task()` likewise, have no number.
Use `loop.create_future()` and `create_task`, as asyncio advises.
"""

from __future__ import annotations

import asyncio
from asyncio import tasks
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any
from weakref import ref

from actorflow.sim.engine.patch import MethodPatch, Patch


class GeneratorSet:
    """The asynchronous generators that a loop has to close, oldest first, and weakly held."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[int, ref[AsyncGenerator[Any, Any]]] = {}  # by address: it is only looked up

    def add(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Takes one in that has begun."""
        self._held[id(generator)] = ref(generator)

    def discard(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Forgets one that is over."""
        self._held.pop(id(generator), None)

    def clear(self) -> None:
        """Forgets all."""
        self._held.clear()

    def __iter__(self) -> Iterator[AsyncGenerator[Any, Any]]:
        return iter([generator for held in self._held.values() if (generator := held()) is not None])

    def __len__(self) -> int:
        return len(self._held)


def patches() -> list[Patch]:
    """Makes the patches of asyncio; called once a process."""
    completed = Patch(
        tasks, "as_completed", lambda fs, **kwargs: _ordered_as_completed(real_completed, fs, **kwargs)
    )
    real_completed = completed.real
    everybody = Patch(tasks, "all_tasks", lambda loop=None: _by_number(real_everybody(loop)))
    real_everybody = everybody.real
    return [
        completed,
        Patch(asyncio, "as_completed", completed.inside),
        everybody,
        Patch(asyncio, "all_tasks", everybody.inside),
        # The future of a gather is no future of the loop, so it has a number only from when it is first put
        # into a set.
        MethodPatch(tasks._GatheringFuture, "__hash__", _hash),  # type: ignore[attr-defined]
    ]


def _ordered_as_completed(real: Callable[..., Any], fs: Any, **kwargs: Any) -> Any:
    """`as_completed`, with tasks made in the order of `fs`; each once, as there."""
    if asyncio.isfuture(fs) or asyncio.iscoroutine(fs):
        return real(fs, **kwargs)  # which says that it takes an iterable
    # Each once, as there, in the order given, where asyncio takes a set of coroutines.
    return real([asyncio.ensure_future(awaitable) for awaitable in dict.fromkeys(fs)], **kwargs)


def _by_number(found: Iterable[Any]) -> set[Any]:
    in_order = sorted(found, key=lambda task: getattr(task, "number", 0))
    return set(in_order)  # where two numbers fall on one place of a set, the first to come has it


def _hash(real: Callable[[Any], int], future: Any) -> int:
    number: int | None = getattr(future, "_actorflow_number", None)
    if number is None:
        # Outside of simulated runs there are no numbers: the patch is seen by whatever was bound in one.
        take = getattr(future.get_loop(), "take_number", None)
        number = future._actorflow_number = real(future) if take is None else take()
    return number
