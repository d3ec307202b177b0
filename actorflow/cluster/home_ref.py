"""The ref of an actor as the chief of a simulated cluster has it, for whoever is outside of the world.

What is sent leaves from the chief's host, in its time, and ends with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from actorflow.actors.many import tell_all
from actorflow.actors.ref import DONE, Proxy, Ref, Sender, Watcher
from actorflow.errors import ActorflowError

Run = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
"""Runs a coroutine at the chief, and gives what that returns."""

Call = Callable[..., Any]
"""Calls a function there with arguments."""


class HomeRef(Proxy):
    """Hands every call to the ref that the chief has; see `Ref`.

    Each of them raises CoordinatorLost when the chief's host has crashed since the ref was made.
    """

    __slots__ = ("_call", "_ref", "_run", "name")

    def __init__(self, ref: Ref, run: Run, call: Call) -> None:
        self.name = ref.name
        self._ref = ref
        self._run = run
        self._call = call

    def tell(self, message: Any) -> Awaitable[None]:
        """Sends `message`; see `Ref.tell`."""
        telling: Awaitable[None] = self._call(self._ref.tell, message)
        return DONE if telling is DONE else self._run(_hear_end(telling))

    def try_tell(self, message: Any) -> bool:
        """Sends `message` if that needs no waiting; see `Ref.try_tell`."""
        sent: bool = self._call(self._ref.try_tell, message)
        return sent

    def put(self, message: Any, sender: Sender) -> bool:
        """Sends `message` for a sender that cannot wait; see `Ref.put`."""
        sent: bool = self._call(self._ref.put, message, sender)
        return sent

    async def ask(self, message: Any, deadline_s: float | None = None) -> Any:
        """Sends `message` and returns the answer; see `Ref.ask`."""
        return await self._run(self._ref.ask(message, deadline_s))

    async def tell_error(self, message: Any, limit_s: float | None) -> ActorflowError | None:
        """Tells `message` and returns why it has not arrived; see `tell_all`."""
        outcome = await self._run(tell_all([self._ref], message, limit_s))
        error: ActorflowError | None = outcome.failed.get(self._ref)
        return error

    def signal(self, message: Any) -> None:
        """Sends `message` on the control lane; see `Ref.signal`."""
        self._call(self._ref.signal, message)

    def stop(self) -> None:
        """Asks the actor to stop."""
        self._call(self._ref.stop)

    async def stopped(self) -> BaseException | None:
        """Waits until the actor is dead and returns the reason; see `Ref.stopped`."""
        reason: BaseException | None = await self._run(self._ref.stopped())
        return reason

    def watch(self, watcher: Watcher) -> None:
        """Sends `watcher` a `Terminated`, once, when the actor is dead; see `Ref.watch`."""
        self._call(self._ref.watch, watcher)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HomeRef) and self._ref == other._ref

    def __hash__(self) -> int:
        return hash(self._ref)

    def __repr__(self) -> str:
        return repr(self._ref)


async def _hear_end(awaitable: Awaitable[None]) -> None:
    await awaitable
