"""A history: the operations of a run, in the order in which they were invoked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

from actorflow.errors import ConfigError, HistoryError, pluralise
from actorflow.sim.history.lines import decode, encode
from actorflow.sim.history.operation import Client, Operation, Status, Value, shorten_value


class History(Sequence[Operation]):
    """Operations in order of invocation; nothing about it can be changed.

    INVARIANT: no two events (invocations and returns) have the same number.
    """

    __slots__ = ("_operations",)

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        """Orders `operations` by invocation.

        Raises:
            HistoryError: Two events have one number.
            ConfigError: Something in it is no operation.
        """
        given = operations_of(operations, "History(...) takes a collection")
        self._operations = tuple(sorted(given, key=lambda operation: operation.invoked))
        taken: dict[int, Operation] = {}
        for operation in self._operations:
            for event in (operation.invoked, operation.returned):
                if event is None:
                    continue
                if event in taken:
                    message = f"event {event} belongs to two operations: {taken[event]}, and {operation}"
                    raise HistoryError(message, hint="number invocations and returns by one counter")
                taken[event] = operation

    @overload
    def __getitem__(self, index: int) -> Operation: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Operation, ...]: ...

    def __getitem__(self, index: int | slice) -> Operation | tuple[Operation, ...]:
        """Returns one operation, or a tuple of them."""
        return self._operations[index]

    def __len__(self) -> int:
        return len(self._operations)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._operations)

    def __eq__(self, other: object) -> bool:
        return self._operations == other._operations if isinstance(other, History) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._operations)

    def __repr__(self) -> str:
        count = {status: sum(operation.status is status for operation in self) for status in Status}
        ends = ", ".join(f"{count[status]} {status.value}" for status in Status)
        by = pluralise(len(self.clients()), "client")
        return f"<History of {pluralise(len(self), 'operation')} ({ends}) by {by}>"

    def clients(self) -> tuple[Client, ...]:
        """Returns who asked, in order of their first invocation."""
        return tuple(dict.fromkeys(operation.client for operation in self))

    def where(self, chosen: Callable[[Operation], bool]) -> History:
        """Returns the history of the operations for which `chosen` holds; events keep their numbers."""
        return History(operation for operation in self if chosen(operation))

    def by_key(self) -> dict[Value, History]:
        """Returns one history for each key, in order of the first invocation."""
        parts: dict[Value, list[Operation]] = {}
        for operation in self:
            parts.setdefault(operation.key, []).append(operation)
        return {key: History(part) for key, part in parts.items()}

    def until(self, event: int) -> History:
        """Returns what was known after `event`: later operations are not there, unfinished ones open."""
        return History(
            operation
            if operation.returned is None or operation.returned <= event
            else replace(
                operation, returned=None, returned_s=None, status=Status.INFO, result=None, reason=None
            )
            for operation in self
            if operation.invoked <= event
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes one JSON object a line; `History.read` gives back an equal history."""
        text = "".join(encode(operation) + "\n" for operation in self)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> History:
        """Reads what `write` wrote.

        Raises:
            HistoryError: The file cannot be read, has no operation, or a line is not one; the text has
                the file, the line and what is wrong with it.
        """
        operations: list[Operation] = []
        for number, line in enumerate(text_of(path).split("\n"), 1):
            if line.strip():
                try:
                    operations.append(decode(line))
                except HistoryError as wrong:
                    message = f"{path}, line {number}: {wrong.what}"
                    raise HistoryError(message, hint=wrong.hint) from wrong
        if not operations:
            message = f"{path}: no operation in it; History.read looks for one JSON object a line"
            raise HistoryError(message, hint="the run that wrote it recorded nothing")
        try:
            return cls(operations)
        except HistoryError as wrong:
            message = f"{path}: {wrong.what}"
            raise HistoryError(message, hint=wrong.hint) from wrong


def operations_of(given: object, what: str = "a checker judges a history") -> tuple[Operation, ...]:
    """Returns the operations in `given`, as they stand.

    Args:
        given: A history, or any collection of operations.
        what: Who asks for them, as the message begins.

    Raises:
        ConfigError: It is something else.
    """
    hint = "pass recorder.history(), or what a reader of sim.history gave"
    if isinstance(given, str) or not isinstance(given, Iterable):
        message = f"{what}, made of operations, got {shorten_value(given)}"
        raise ConfigError(message, hint=hint)
    operations = tuple(given)
    for operation in operations:
        if not isinstance(operation, Operation):
            message = f"{what}, made of operations, got {shorten_value(operation)} in it"
            raise ConfigError(message, hint=hint)
    return operations


def text_of(path: str | os.PathLike[str]) -> str:
    """Returns the text of a file; a HistoryError names it where that fails."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as wrong:
        message = f"cannot read the history {os.fspath(path)}: {wrong.strerror or wrong}"
        raise HistoryError(message) from wrong
    except UnicodeDecodeError as wrong:
        message = (
            f"{path}: a history is UTF-8 text, got {shorten_value(wrong.object[wrong.start : wrong.end])}"
        )
        message = f"{message} at byte {wrong.start}"
        raise HistoryError(message) from wrong
