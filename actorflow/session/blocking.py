"""A session for code without `await`: each call waits, and runs on an event loop of another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from actorflow.errors import ConfigError, SessionClosed
from actorflow.graph.graph import Graph
from actorflow.runtime import dump_on_signal
from actorflow.runtime.loop_thread import LoopThread
from actorflow.session.fetch_types import with_blocking_types
from actorflow.session.stats import SessionDump, SessionStats


class BlockingSession:
    """What `with af.Session(graph) as session:` gives: the session, for scripts without `await`.

    Its event loop has a thread of its own. Any thread may call it, many at a time: each call waits for
    its own step. Ctrl-C cancels the step that it waits for.

    Args:
        session: An `af.Session`, which stands above this module: not open yet, of a system of its own.

    Raises:
        ConfigError: an event loop runs on this thread, which every call would hold.
        SessionClosed: the session has been open before.
    """

    def __init__(self, session: Any) -> None:
        if asyncio._get_running_loop() is not None:
            message = "`with` holds the event loop that runs on this thread while a step runs"
            hint = "async with af.Session(graph) as session: ..., or session = await af.Session(graph).open()"
            raise ConfigError(message, hint=hint)
        self._session = session
        self._told = ExitStack()
        self._thread = LoopThread("actorflow-session")
        try:
            self._thread.run(session.open())
        except BaseException:
            self._thread.close()
            raise

    @with_blocking_types
    def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        deadline_s: float | None = None,
        **unknown: Any,
    ) -> Any:
        """Runs one step and returns its values; see `Session.run`."""
        self._check_open()
        return self._thread.run(self._session.run(fetches, feeds, deadline_s=deadline_s, **unknown))

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), *, deadline_s: float | None = None
    ) -> Callable[..., Any]:
        """Returns `call(*values)`, which runs a step and returns its values; see `Session.make_callable`."""
        self._check_open()
        call = self._thread.call(lambda: self._session.make_callable(fetches, feeds, deadline_s=deadline_s))

        async def awaited(values: tuple[Any, ...]) -> Any:
            return await call(*values)

        def waited(*values: Any) -> Any:
            self._check_open()
            return self._thread.run(awaited(values))

        return waited

    def uninitialised(self) -> list[str]:
        """Returns the names of the variables that have no value now; see `Session.uninitialised`."""
        self._check_open()
        names: list[str] = self._thread.run(self._session.uninitialised())
        return names

    def close(self) -> None:
        """Closes the session, and ends its thread; closing twice is harmless."""
        if self._session.is_open:
            self._thread.run(self._session.close())
        self._thread.close()

    @property
    def graph(self) -> Graph:
        """Its graph."""
        graph: Graph = self._session.graph
        return graph

    @property
    def is_open(self) -> bool:
        """Whether it runs steps."""
        return bool(self._session.is_open)

    def dump(self) -> SessionDump:
        """Returns what runs and what it waits for, from any thread; see `Session.dump`."""
        dump: SessionDump = self._session.dump()
        return dump

    def stats(self) -> SessionStats:
        """Returns what the session has done."""
        stats: SessionStats = self._session.stats()
        return stats

    def kernel_seconds(self) -> dict[tuple[str, str], float]:
        """Returns what kernels take by what was measured; see `Session.kernel_seconds`."""
        measured: dict[tuple[str, str], float] = self._session.kernel_seconds()
        return measured

    def _check_open(self) -> None:
        if not self._session.is_open:
            raise SessionClosed("the session is not open", hint="with af.Session(graph) as session: ...")

    def __enter__(self) -> Self:
        self._told.enter_context(dump_on_signal.install_handlers())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        finally:
            self._told.close()

    def __repr__(self) -> str:
        return f"<BlockingSession of {self._session!r}>"
