"""The table of shared names and the state that each stands for, and how definitions meet in it.

A definition with a `shared_name` stands for state that outlives the session which first opened it. It
is found by (container, shared_name) by whoever opens a definition of that name; what the two say of the
state must agree, so that different state never meets under one name. Only an explicit word shares:
equal names of resources mean nothing.

Pure: what is held under a name is opaque here. `dataflow.engine.resources` keeps one table an actor system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from actorflow.errors import StateError, Where
from actorflow.graph.node import Port
from actorflow.graph.resource import ResourceDef
from actorflow.values import arrays
from actorflow.values.arrays import Array

Held = TypeVar("Held")

_OF_THE_GRAPH = frozenset(
    {"name", "device", "defined_at", "container", "shared_name", "initial", "trainable", "seed"}
)
"""Fields that say how one graph uses the state, or where its initial value and its chance come from."""

Contents = Mapping[str, Array]
"""The constants with which state begins, by the fields of its definition that name them as ports."""

_NOTHING: Contents = MappingProxyType({})


class Shared(NamedTuple):
    """Under what state is found by all sessions of a system."""

    container: str
    name: str

    def __str__(self) -> str:
        return repr(self.name) + (f" in container {self.container!r}" if self.container else "")


def shared_key(definition: ResourceDef) -> Shared | None:
    """Returns the shared name of a definition, None when its state is private."""
    name = definition.shared_name
    return None if name is None else Shared(definition.container, name)


@dataclass(frozen=True, slots=True)
class SharedState(Generic[Held]):
    """State under a shared name: the definition and contents that made it, and what is held for it."""

    definition: ResourceDef
    held: Held
    contents: Contents


class Containers(Generic[Held]):
    """The shared names of one system, and what is held under them.

    INVARIANT: an entry stays what it is until its container is reset; `resets` counts these.
    """

    def __init__(self) -> None:
        self.entries: dict[Shared, SharedState[Held]] = {}
        self.resets = 0

    def __repr__(self) -> str:
        return f"<Containers of {len(self.entries)} shared names, {self.resets} resets>"

    def open(self, definition: ResourceDef, contents: Contents = _NOTHING) -> Held | None:
        """Returns what is held under the definition's shared name, None when nothing is.

        Args:
            definition: Which has the shared name.
            contents: The constants with which it would begin.

        Raises:
            StateError: when the state was made by a definition that says otherwise, or began with other
                contents; names what differs.
        """
        entry = self._entry(definition)
        if entry is None:
            return None
        _check_agrees(SharedState(definition, None, contents), entry)
        return entry.held

    def find(self, definition: ResourceDef) -> Held | None:
        """Returns what is held under the definition's shared name, whatever it was made by."""
        entry = self._entry(definition)
        return None if entry is None else entry.held

    def _entry(self, definition: ResourceDef) -> SharedState[Held] | None:
        key = shared_key(definition)
        return None if key is None else self.entries.get(key)

    def add(self, definition: ResourceDef, held: Held, contents: Contents = _NOTHING) -> None:
        """Enters new state under the definition's shared name, which `open` found free."""
        key = shared_key(definition)
        assert key is not None
        assert key not in self.entries
        self.entries[key] = SharedState(definition, held, contents)

    def reset(self, container: str | None) -> list[Held]:
        """Takes out the entries of a container, or of all for None; returns what was held, the last first."""
        keys = [key for key in self.entries if container is None or key.container == container]
        if keys:
            self.resets += 1
        return [self.entries.pop(key).held for key in reversed(keys)]


def _check_agrees(opened: SharedState[Any], entry: SharedState[Any]) -> None:
    here, there = opened.definition, entry.definition
    key = shared_key(here)
    where, hint = Where(defined_at=here.defined_at), "choose another shared_name, or another container"
    if here.kind != there.kind:
        message = f"shared name {key} stands for a {there.kind} made at {there.defined_at}, got a {here.kind}"
        raise StateError(message, where=where, hint=hint)
    for name in (field.name for field in fields(there) if field.name not in _OF_THE_GRAPH):
        if isinstance(getattr(there, name), Port) or isinstance(getattr(here, name), Port):
            held, given = entry.contents.get(name), opened.contents.get(name)
            agree = held is not None and given is not None and arrays.same(held, given)
        else:
            held, given = getattr(there, name), getattr(here, name)
            agree = bool(held == given)
        if not agree:
            message = (
                f"shared name {key} stands for a {there.kind} of {name} {_describe(held)} "
                f"made at {there.defined_at}, got {name} {_describe(given)}"
            )
            raise StateError(message, where=where, hint=hint)


def _describe(value: Any) -> str:
    if isinstance(value, arrays.NDArray):
        return f"{value.tolist()!r:.60}"
    return f"({', '.join(map(str, value))})" if isinstance(value, tuple) and value else str(value)
