"""Pulls that wait for a version that a shard has not reached yet."""

from __future__ import annotations

from asyncio import Future

from actorflow.errors import CoordinationError

MOST = 1 << 16
"""Pulls that may wait: those of 4,096 workers, each in 16 parts. Of more, the oldest ends."""


class PullWaiters:
    """Who waits, and for which version; whoever is woken looks for itself whether it has come.

    INVARIANT: at most MOST wait.
    """

    def __init__(self) -> None:
        self._futures: list[tuple[int, Future[None]]] = []

    def __len__(self) -> int:
        return len(self._futures)

    def __repr__(self) -> str:
        return f"<PullWaiters for versions {[version for version, _ in self._futures]}, at most {MOST}>"

    async def wait_for(self, version: int, future: Future[None]) -> None:
        """Waits on a fresh future until `version` has come, or all are woken.

        Raises:
            CoordinationError: when too many came after this one.
        """
        self._futures.append((version, future))
        if len(self._futures) > MOST:
            oldest, given_up = self._futures.pop(0)
            if not given_up.done():
                message = f"{MOST} pulls wait for a version, and all came after this one of version {oldest}"
                given_up.set_exception(CoordinationError(message))
        await future

    def wake(self, version: int | None = None) -> None:
        """Wakes those who wait for that version or an earlier one; None wakes all."""
        woken = [future for wanted, future in self._futures if version is None or wanted <= version]
        self._futures = [each for each in self._futures if version is not None and each[0] > version]
        for future in woken:
            if not future.done():
                future.set_result(None)
