"""Who applies the function of a map to chunks of elements: the protocol, and threads."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from actorflow.data.values.apply import Own, apply_to_each
from actorflow.data.values.rng import Epochs, draw_for
from actorflow.runtime.cancellation import FAILURES
from actorflow.runtime.environment import Workers


class ElementFailed(Exception):
    """The function failed for an element.

    Attributes:
        ordinal: Of the element.
        error: What the function raised.
        done: The results of the elements before it in its chunk; None where they are not at hand.
    """

    def __init__(self, ordinal: int, error: BaseException, done: list[Any] | None = None) -> None:
        super().__init__(ordinal, error)
        self.ordinal = ordinal
        self.error = error
        self.done = done


class Mapper(Protocol):
    """Applies a function to chunks of elements somewhere; several chunks may be under way.

    Attributes:
        width: Chunks that may be under way at once.
    """

    width: int

    async def start(self) -> None:
        """Gets ready for the first chunk."""
        ...

    def map(self, values: list[Any], ordinals: list[int], epoch: Epochs) -> Awaitable[list[Any]]:
        """The results in order; raises ElementFailed for the first element that failed."""
        ...

    async def close(self) -> None:
        """Ends everything, whatever is under way; may be called again."""
        ...


class ThreadMapper:
    """Applies a function on the threads of `workers`; it owns them.

    Args:
        function: Of an element, and of its chance where there is a seed.
        workers: Its threads; in a simulated run they are the environment's.
        loop: Where results come in.
        seed: Of the chance; None for a function without.
        as_bits: Whether it is given 64 random bits and not a generator.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        workers: Workers,
        loop: AbstractEventLoop,
        seed: int | None,
        *,
        as_bits: bool = False,
    ) -> None:
        self.width = 2 * len(workers)  # one in work and one in wait for each
        self.busy_s = 0.0
        self._function = function
        self._workers = workers
        self._loop = loop
        self._seed = seed
        self._as_bits = as_bits
        self._own = Own()
        self._closed = False

    async def start(self) -> None:
        """Has nothing to do: the threads wait."""

    def map(self, values: list[Any], ordinals: list[int], epoch: Epochs) -> Future[list[Any]]:
        """The results in order; raises ElementFailed for the first element that failed."""
        reply: Future[list[Any]] = self._loop.create_future()

        def done(results: Any, error: BaseException | None, seconds: float) -> None:
            self.busy_s += seconds
            # Whoever wanted it has given up, or the reader was closed.
            if reply.done():
                return
            if error is None:
                reply.set_result(results)
            else:
                reply.set_exception(error)
                reply.exception()  # whoever waited may be gone

        job = partial(
            apply_chunk,
            self._function,
            values,
            ordinals,
            epoch,
            self._seed,
            as_bits=self._as_bits,
            own=self._own,
        )
        self._workers.submit(job, done)
        return reply

    async def close(self) -> None:
        """Waits for what runs, drops what waits, and ends the threads."""
        if not self._closed:
            self._closed = True
            await self._workers.close()


def apply_chunk(
    function: Callable[..., Any],
    values: list[Any],
    ordinals: list[int],
    epoch: Epochs,
    seed: int | None,
    *,
    as_bits: bool = False,
    own: Own | None = None,
) -> list[Any]:
    """Returns the function's results; raises ElementFailed, with what was done before, where one fails."""
    results: list[Any] = []
    try:
        chance = None if seed is None else draw_for(seed, epoch, ordinals, as_bits=as_bits)
        apply_to_each(function, results, values, chance, own)
    except FAILURES as error:
        # What was done before goes with it: it comes out first.
        raise ElementFailed(ordinals[len(results)], error, results) from error
    return results
