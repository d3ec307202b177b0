"""The rule of a stack: what was put on it last is taken off first. Nobody waits.

Source: TensorFlow's `stack_ops.cc`.
Deviation: there a stack that is empty when it is popped is an invalid argument, here OutOfRange, as for
a queue that has run dry; here it is bounded in bytes as well.

Pure: every event returns who is answered and how.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from actorflow.dataflow.state.replies import Replied
from actorflow.errors import OutOfRange, StateError, pluralise


@dataclass(slots=True, repr=False)
class StackRule:
    """The state of one stack.

    INVARIANT: `held` is the sum of the sizes of `elements`, and not above `max_bytes`; there are at most
    `max_size` elements, and none once it is closed.

    Attributes:
        elements: Each with its size in bytes; the last is the top.
        max_size: How many elements it holds; None is no limit.
        max_bytes: How many bytes; None is no limit.
    """

    name: str
    max_size: int | None = None
    max_bytes: int | None = None
    elements: list[tuple[Any, int]] = field(default_factory=list)
    held: int = 0
    closed: bool = False

    def __repr__(self) -> str:
        size, room = ("unbounded" if n is None else n for n in (self.max_size, self.max_bytes))
        state = ", closed" if self.closed else ""
        count = len(self.elements)
        return f"<StackRule {self.name!r} {count}/{size} elements, {self.held}/{room} bytes{state}>"

    def push(self, who: Hashable, element: Any, size: int) -> list[Replied]:
        """Puts an element of `size` bytes on top, and gives it; an empty one counts one byte.

        Raises:
            StateError: when there is no room, or the stack is closed.
        """
        self._check_open()
        if self.max_size is not None and len(self.elements) >= self.max_size:
            message = f"stack {self.name!r} holds {pluralise(self.max_size, 'element')} at most"
            raise StateError(message, hint="pop some, or give it a larger max_size")
        size = max(1, size)
        if self.max_bytes is not None and self.held + size > self.max_bytes:
            message = (
                f"stack {self.name!r} holds {pluralise(self.max_bytes, 'byte')} at most, "
                f"got {size} more beside {self.held}"
            )
            raise StateError(message, hint="pop some, or give it larger max_bytes")
        self.elements.append((element, size))
        self.held += size
        return [Replied(who, element)]

    def pop(self, who: Hashable) -> list[Replied]:
        """Takes the top element off; OutOfRange when there is none, StateError when the stack is closed."""
        self._check_open()
        if not self.elements:
            message = f"stack {self.name!r} is empty"
            raise OutOfRange(message, hint="push before popping")
        element, size = self.elements.pop()
        self.held -= size
        return [Replied(who, element)]

    def close(self, who: Hashable) -> list[Replied]:
        """Drops all elements, and lets none in; StateError when it is closed."""
        self._check_open()
        self.elements.clear()
        self.held = 0
        self.closed = True
        return [Replied(who, True)]

    def _check_open(self) -> None:
        if self.closed:
            message = f"stack {self.name!r} is closed"
            raise StateError(message)
