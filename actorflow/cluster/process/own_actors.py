"""The actors that a program spawns in a process of a cluster: what its `actors(process)` asks for."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actorflow.actors.cell import Cell
from actorflow.actors.supervisor import Supervisor
from actorflow.cluster.process.messages import (
    COORDINATOR,
    DIRECTORY,
    DISCOVERY_CLIENT,
    PROCESS_AGENT,
    SHARD,
    WORKER,
)
from actorflow.dataflow.remote.runner import RUNNER
from actorflow.errors import ActorflowError, ConfigError, ProgramError, Where, describe, show_value

if TYPE_CHECKING:
    from actorflow.actors.actor import Actor
    from actorflow.actors.ref import Ref
    from actorflow.actors.supervision import Strategy
    from actorflow.actors.system import ActorSystem

_RESERVED = (RUNNER, PROCESS_AGENT, SHARD, WORKER, DIRECTORY, DISCOVERY_CLIENT)
"""Names of actors of actorflow's own, as is what begins with the coordinator's."""

_PRUNE = 64
"""With so many the dead are forgotten, and then with twice as many as were alive."""


class OwnActors:
    """Those of one process, from `begin` to `close`.

    Args:
        system: Where they live.
        process: The name of the process.
    """

    def __init__(self, system: ActorSystem, process: str) -> None:
        self._system = system
        self._process = process
        self._children: list[Cell | Supervisor] = []
        self._prune_at = _PRUNE

    def spawn(
        self, factory: Callable[..., Actor], args: tuple[Any, ...], name: str | None, **limits: int
    ) -> Ref:
        """Starts one; see `Process.spawn`."""
        _check_name(name)
        cell = self._system.spawn_under(self._system, factory, args, name, **limits)
        self._keep(cell)
        return cell

    def supervisor(self, strategy: Strategy, name: str | None) -> Supervisor:
        """Returns a new group of them; see `Process.supervisor`."""
        _check_name(name)
        group = self._system.supervisor(strategy, name=name)
        self._keep(group)
        return group

    def begin(self, actors: Callable[[Any], object] | None, process: Any) -> None:
        """Calls `actors(process)`.

        Raises:
            ProgramError: it raised, or has to be awaited; then nothing that it spawned goes on.
        """
        if actors is None:
            return
        try:
            _check_ended(actors(process))
        except ActorflowError:
            self.end()
            raise
        except Exception as error:
            self.end()
            raise _actors_error(actors, self._process, error) from error

    def end(self) -> list[Cell]:
        """Asks all to stop, the last first; returns those that do."""
        children, self._children = self._children, []
        for child in reversed(children):
            child.end(None, restart=False)
        return [child for child in children if isinstance(child, Cell)]

    def __len__(self) -> int:
        """How many it keeps to stop them, of which some may have ended by themselves."""
        return len(self._children)

    async def close(self) -> None:
        """Stops all, and returns when they are dead."""
        for cell in self.end():
            await cell.stopped(hears=False)

    def _keep(self, child: Cell | Supervisor) -> None:
        self._children.append(child)
        if len(self._children) >= self._prune_at:
            self._children = [
                each for each in self._children if isinstance(each, Supervisor) or each.tombstone is None
            ]
            self._prune_at = 2 * len(self._children) + _PRUNE


def _check_ended(made: Any) -> None:
    """Raises ProgramError where `actors` gives what has to be awaited, such as a lambda may."""
    if inspect.isawaitable(made):
        if inspect.iscoroutine(made):
            made.close()
        message = f"actors must be a plain function, got one to await ({type(made).__name__})"
        raise ProgramError(message, hint="what has to wait belongs into on_start of an actor")


def _check_name(name: Any) -> None:
    """Raises ConfigError for a name that an actor of a program cannot have."""
    if not isinstance(name, str | None):
        message = f"an actor is named by a text, got {type(name).__name__} {show_value(name)}"
        raise ConfigError(message)
    if name is None:
        return
    if "/" in name or not name:
        message = f"an actor of a process is named by a word without '/', got {name!r:.60}"
        raise ConfigError(message, hint="cluster.ref('worker0/echo') finds the actor 'echo' of worker0")
    if name in _RESERVED or name.startswith(COORDINATOR):
        message = f"actors of a program have other names than those of the cluster, got '{name}'"
        raise ConfigError(message, hint=f"those are {', '.join(_RESERVED)} and {COORDINATOR}...")


def _actors_error(actors: Any, process: str, error: BaseException) -> ProgramError:
    """The error for what a program's `actors` raised, at the innermost line of its file."""
    file = getattr(getattr(actors, "__code__", None), "co_filename", "")
    lines = [call.lineno for call in traceback.extract_tb(error.__traceback__) if call.filename == file]
    where = Where(actor=process, defined_at=f"{Path(file).name}:{lines[-1]}" if lines else None)
    return ProgramError(f"actors(process) must not fail, got {describe(error)}", where=where)
