"""Pykka: a thread and an unbounded queue an actor. The caller blocks, so the loop waits with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from time import perf_counter
from typing import Any

from benchmarks.peers import ASKERS, DEADLINE_S, check

NOTE = "threads; mailboxes without a limit; no async handlers, so ask_async_us is its usual ask"

pykka: Any = import_module("pykka")  # types of it would be wanted where it is not installed


class CountingThread(pykka.ThreadingActor):  # type: ignore[misc]  # see above
    """Counts, on its own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.handled = 0

    def on_receive(self, message: Any) -> int:
        """Counts."""
        self.handled += 1
        return self.handled


class PykkaActors:
    """See `Actors`; one actor, for it has one kind of handler only."""

    def __init__(self, ref: Any) -> None:
        self._ref = ref

    def _handled(self) -> int:
        answer: int = self._ref.ask(0, timeout=DEADLINE_S)
        return answer

    async def tell(self, n: int) -> float:
        """See `Actors`."""
        tell, before = self._ref.tell, self._handled()
        start = perf_counter()
        for i in range(n):
            tell(i)
        after = self._handled()
        seconds = perf_counter() - start
        check(after - before - 1, n)
        return seconds

    async def ask(self, n: int) -> float:
        """See `Actors`."""
        ask, before = self._ref.ask, self._handled()
        start = perf_counter()
        for i in range(n):
            ask(i, timeout=DEADLINE_S)
        seconds = perf_counter() - start
        check(self._handled() - before - 1, n)
        return seconds

    async def ask_queued(self, n: int) -> float:
        """See `Actors`."""
        return await self.ask(n)

    async def ask_async(self, n: int) -> float:
        """See `Actors`."""
        return await self.ask(n)

    async def ask_together(self, n: int) -> float:
        """See `Actors`; `ASKERS` questions are open at a time, without a thread an asker."""
        ask, share, before = self._ref.ask, n // ASKERS, self._handled()
        start = perf_counter()
        for i in range(share):
            answers = [ask(i, block=False) for _ in range(ASKERS)]
            for answer in answers:
                answer.get(timeout=DEADLINE_S)
        seconds = perf_counter() - start
        check(self._handled() - before - 1, share * ASKERS)
        return seconds


@asynccontextmanager
async def open_actors() -> AsyncIterator[PykkaActors]:
    """Starts the thread and stops it in the end."""
    ref = CountingThread.start()
    try:
        yield PykkaActors(ref)
    finally:
        ref.stop()
