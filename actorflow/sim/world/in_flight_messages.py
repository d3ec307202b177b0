"""What leaves the memory of a host is a copy: a message on its way, a value on disk.

Hosts of a simulated world share a process, so without copies one could change what another holds,
and what a crash has wiped out. Plain values need none.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, MutableMapping
from typing import Any

from actorflow.errors import ActorError, ConfigError, describe

_PLAIN = frozenset((int, float, str, bytes, bool, type(None), complex))

_FIELDS: dict[type, tuple[str, ...] | None] = {}
"""The fields of frozen dataclasses; None for types whose instances are copied in any case."""


def copy_message(message: Any) -> Any:
    """Returns `message` as the other side gets it: a copy, unless it is of plain values throughout.

    Raises:
        ConfigError: it holds what has no copy, such as a task, a file, or the ref of an actor.
    """
    kind = type(message)
    # Nobody can change it.
    if kind in _PLAIN:
        return message
    names = _FIELDS[kind] if kind in _FIELDS else _fields(kind)
    if names is not None:
        # Frozen, and of plain values throughout: nobody can change it either.
        for name in names:
            if type(getattr(message, name)) not in _PLAIN:
                break
        else:
            return message
    elif kind is tuple:
        for item in message:
            if type(item) not in _PLAIN:
                break
        else:
            return message
    elif isinstance(message, BaseException):
        return copy_error(message)
    try:
        return copy.deepcopy(message)
    except Exception as error:
        what = f"what leaves a host is copied, and this {kind.__name__} cannot be: {describe(error)}"
        hint = "send plain values, and the name of an actor instead of its ref"
        raise ConfigError(what, hint=hint) from error


def _fields(kind: type) -> tuple[str, ...] | None:
    parameters = vars(kind).get("__dataclass_params__")  # of this class: a subclass may hold more
    frozen = parameters is not None and parameters.frozen
    names = _FIELDS[kind] = tuple(f.name for f in dataclasses.fields(kind)) if frozen else None
    return names


def copy_error(error: BaseException) -> BaseException:
    """Returns a copy of an error, with its cause and notes; its text alone where it has no copy."""
    try:
        copied: BaseException = copy.deepcopy(error)
    except Exception:  # noqa: BLE001  whatever a class of users does there
        copied = ActorError(describe(error), hint="its class cannot be copied: only its text has travelled")
    else:
        # A class may copy itself as something else.
        if type(copied) is not type(error):
            copied = ActorError(describe(error))
    # neither is taken along by a copy
    if hasattr(error, "__notes__"):
        copied.__notes__ = list(error.__notes__)
    if error.__cause__ is not None:
        copied.__cause__ = copy_error(error.__cause__)
    return copied


class Disk(MutableMapping[str, Any]):
    """What survives a crash: values are copied when they are written, and when they are read."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        # Copied on both ways: a value that was read is nobody's but the reader's.
        return copy_message(self._values[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = copy_message(value)

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Disk {self._values}>"
