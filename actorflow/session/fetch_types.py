"""The types of what `run` gives, for type checkers: an array for one fetch, else its structure.

Nothing here runs: a session's `run` is the function that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast, overload

from actorflow.graph.operators import OneArray
from actorflow.values.arrays import Value

Fetch = OneArray | str
"""What gives one array: a tensor, a variable, or the name of one."""

ARGUMENTS = ("fetches", "feeds", "deadline_s")
"""What `run` takes."""

F = TypeVar("F", bound=Fetch)
K = TypeVar("K")
Feeds = Mapping[Any, Any] | None
Limit = float | None


class Run(Protocol):
    """`await run(fetches, feeds)`; what is nested deeper, or of unknown type, is Any."""

    @overload
    async def __call__(self, fetches: Fetch, feeds: Feeds = None, *, deadline_s: Limit = None) -> Value: ...
    @overload
    async def __call__(
        self, fetches: list[F], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> list[Value]: ...
    @overload
    async def __call__(
        self, fetches: tuple[Fetch, Fetch], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> tuple[Value, Value]: ...
    @overload
    async def __call__(
        self, fetches: tuple[Fetch, Fetch, Fetch], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> tuple[Value, Value, Value]: ...
    @overload
    async def __call__(
        self, fetches: tuple[Fetch, ...], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> tuple[Value, ...]: ...
    @overload
    async def __call__(
        self, fetches: dict[K, F], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> dict[K, Value]: ...
    @overload
    async def __call__(self, fetches: Any, feeds: Feeds = None, *, deadline_s: Limit = None) -> Any: ...


class BlockingRun(Protocol):
    """As `Run`, for a session that is used without `await`."""

    @overload
    def __call__(self, fetches: Fetch, feeds: Feeds = None, *, deadline_s: Limit = None) -> Value: ...
    @overload
    def __call__(self, fetches: list[F], feeds: Feeds = None, *, deadline_s: Limit = None) -> list[Value]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetch, Fetch], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> tuple[Value, Value]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetch, Fetch, Fetch], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> tuple[Value, Value, Value]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetch, ...], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> tuple[Value, ...]: ...
    @overload
    def __call__(
        self, fetches: dict[K, F], feeds: Feeds = None, *, deadline_s: Limit = None
    ) -> dict[K, Value]: ...
    @overload
    def __call__(self, fetches: Any, feeds: Feeds = None, *, deadline_s: Limit = None) -> Any: ...


def with_run_types(run: Callable[..., Any]) -> Run:
    """Returns the method itself, which type checkers know as `Run`."""
    return cast("Run", run)


def with_blocking_types(run: Callable[..., Any]) -> BlockingRun:
    """Returns the method itself, which type checkers know as `BlockingRun`."""
    return cast("BlockingRun", run)
