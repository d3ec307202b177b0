"""One operation of a history: who asked for what, when, and what came of it.

Times of a history are event numbers: every invocation and every return takes the next one, so any
two are ordered and none are equal. Seconds stand beside them for people; no checker reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

from actorflow.errors import HistoryError

Value = None | bool | int | float | str | bytes | tuple["Value", ...]
Client = int | str


class Status(Enum):
    """What is known about the end of an operation.

    * OK: it took effect once, between its invocation and its return, and gave its result.
    * FAIL: it did not happen and never will.
    * INFO: unknown. It may take effect at any time after its invocation, or never.
    """

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Operation:
    """What one client asked for and what it was told.

    INVARIANT: `returned` is None exactly when the status is INFO; else it is larger than `invoked`.
    All values are immutable: a list becomes a tuple, and every NaN becomes the one `math.nan`, so
    that it equals itself.

    Attributes:
        client: Who asked; it asks one thing at a time.
        op: The name of the operation, such as "read".
        args: What it was given.
        result: What an OK operation gave back.
        status: What is known about its end.
        invoked: The number of the event at which it was asked for.
        returned: The number of the event at which it ended; None while it is open.
        invoked_s: The clock at its invocation, in seconds.
        returned_s: The clock at its return, in seconds.
        incarnation: That of the client that asked.
        key: What it was asked of: a variable, a queue, a step; None for the only one there is.
        reason: Why it failed, or why nobody knows.
    """

    client: Client
    op: str
    args: tuple[Value, ...] = ()
    result: Value = None
    status: Status = Status.OK
    invoked: int = 0
    returned: int | None = 1
    invoked_s: float = 0.0
    returned_s: float | None = 0.0
    incarnation: int = 0
    key: Value = None
    reason: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(freeze_value(arg) for arg in self.args))
        object.__setattr__(self, "result", freeze_value(self.result))
        object.__setattr__(self, "key", freeze_value(self.key))
        if (self.returned is None) != (self.status is Status.INFO):
            message = f"{self} cannot return at {self.returned} with status {self.status.value!r}"
            raise HistoryError(message, hint="an operation is open (returned=None) exactly when it is info")
        if self.returned is not None and self.returned <= self.invoked:
            message = f"{self} cannot return at event {self.returned}, invoked at event {self.invoked}"
            raise HistoryError(message)

    def __str__(self) -> str:
        """Reads like the call: `read -> 3`, `write 4 -> ?`, `cas 1 2 -> False on 'x'`."""
        return self.brief() if self.key is None else f"{self.brief()} on {shorten_value(self.key)}"

    def brief(self, limit: int = 40) -> str:
        """Returns what was asked and answered, without the key, each value in at most `limit` characters."""
        said = " ".join([self.op, *(shorten_value(arg, limit) for arg in self.args)])
        if self.status is Status.FAIL:
            return f"{said} -> failed"
        if self.status is Status.INFO:
            return f"{said} -> ?"
        if self.result is None and self.args:
            return said  # it gives nothing back
        return f"{said} -> {shorten_value(self.result, limit)}"


_SCALARS = frozenset({type(None), bool, int, str, bytes})


def freeze_value(value: Any) -> Value:
    """Returns the value as a history keeps it: immutable, hashable, and equal to itself.

    Raises:
        HistoryError: It is not None, a bool, an int, a float, a str, bytes, or a tuple or list of those.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value  # type: ignore[no-any-return]  # its type was just looked up
    if kind is float:
        return value if value == value else math.nan
    if kind is tuple or kind is list:
        return tuple(freeze_value(item) for item in value)
    message = (
        "a history keeps None, bool, int, float, str, bytes and tuples of them,"
        f" got {kind.__name__} {shorten_value(value)}"
    )
    hint = f"record a plain value: {kind.__name__}.item(), .tolist() or .tobytes(), or a name for it"
    raise HistoryError(message, hint=hint)


def shorten_value(value: object, limit: int = 40) -> str:
    """Returns `repr(value)`, with its middle left out when it is longer than `limit`."""
    text = repr(value)
    if len(text) <= limit:
        return text
    head = (limit - 3) // 2
    return f"{text[:head]}...{text[len(text) - (limit - 3 - head) :]}"
