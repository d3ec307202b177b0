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
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

_SUMMED = 256  # of so many elements at most `validate` forms a sum, since it does after every event


@validates("push", "pop", "close")
@dataclass(slots=True, repr=False)
class StackRule:
    """The state of one stack.

    INVARIANT: `held` is the sum of the sizes of `elements`, and not above `max_bytes`; there are at most
    `max_size` elements, and none once it is closed.

    Attributes:
        elements: Each with its size in bytes; the last is the top.
        max_size: How many elements it holds; None is no limit.
        max_bytes: How many bytes; None is no limit.
        story: What was refused, and what closed it. What is pushed and popped is not in it.
    """

    name: str
    max_size: int | None = None
    max_bytes: int | None = None
    elements: list[tuple[Any, int]] = field(default_factory=list)
    held: int = 0
    closed: bool = False
    story: Story = field(default_factory=Story)

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
            self.story.append(("full", len(self.elements), self.held))
            raise StateError(message, hint="pop some, or give it a larger max_size")
        size = max(1, size)
        if self.max_bytes is not None and self.held + size > self.max_bytes:
            message = (
                f"stack {self.name!r} holds {pluralise(self.max_bytes, 'byte')} at most, "
                f"got {size} more beside {self.held}"
            )
            self.story.append(("full", len(self.elements), self.held))
            raise StateError(message, hint="pop some, or give it larger max_bytes")
        self.elements.append((element, size))
        self.held += size
        return [Replied(who, element)]

    def pop(self, who: Hashable) -> list[Replied]:
        """Takes the top element off; OutOfRange when there is none, StateError when the stack is closed."""
        self._check_open()
        if not self.elements:
            self.story.append(("empty",))
            message = f"stack {self.name!r} is empty"
            raise OutOfRange(message, hint="push before popping")
        element, size = self.elements.pop()
        self.held -= size
        return [Replied(who, element)]

    def close(self, who: Hashable) -> list[Replied]:
        """Drops all elements, and lets none in; StateError when it is closed."""
        self._check_open()
        self.story.append(("close", len(self.elements), self.held))
        self.elements.clear()
        self.held = 0
        self.closed = True
        return [Replied(who, True)]

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        count, held = len(self.elements), self.held
        if self.closed and (count or held):
            return f"stack {self.name!r}: a closed one is empty, got {count} elements of {held} bytes"
        over = self.max_size is not None and count > self.max_size
        if over or (self.max_bytes is not None and held > self.max_bytes):
            limits = f"{self.max_size} and {self.max_bytes} bytes"
            return f"stack {self.name!r}: it holds at most {limits}, got {count} of {held} bytes"
        if count <= _SUMMED and (size := sum(size for _, size in self.elements)) != held:
            return f"stack {self.name!r}: it holds {size} bytes, got {held}"
        return None

    def _check_open(self) -> None:
        if self.closed:
            message = f"stack {self.name!r} is closed"
            raise StateError(message)
