"""What a pipeline is made of: named stages that remember the user's line, and tell of failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from actorflow.data.values.chunk import Chunk, epoch_of, ordinal_of
from actorflow.errors import ActorflowError, InputError, Where, describe


@dataclass(frozen=True, slots=True)
class CallSite:
    """A stage as errors and progress name it.

    Attributes:
        label: Such as "map 'decode'".
        line: Where the user wrote it.
    """

    label: str
    line: str

    def element_error(self, number: int, error: BaseException) -> InputError:
        """Returns the error of the element with this number, with `error` as its cause."""
        at = f"{self.label} failed at element {ordinal_of(number)} of epoch {epoch_of(number)}"
        # Nobody has raised it: it tells of what a process raised, and takes the place of this error, with its
        # line and its notes.
        if isinstance(error, InputError) and error.__traceback__ is None:
            error = error.at(Where(defined_at=self.line)).copy()
            error.what, error.args = f"{at}: {error.what}", (f"{at}: {error.what}",)
            return error
        text, hint = _describe(error)
        found = InputError(f"{at}: {text}", where=Where(defined_at=self.line), hint=hint)
        found.__cause__ = error
        return found


def _describe(error: BaseException) -> tuple[str, str | None]:
    """Returns what an error says, in one piece, and what to try."""
    if not isinstance(error, ActorflowError):
        return describe(error), None
    kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
    place = "" if error.where is None else f" ({error.where})"
    return f"{kind}{error.what}{place}", error.hint


class Operator(ABC):
    """A running stage: a small state machine over chunks, without a loop.

    One is fed the chunks of an epoch, is told that it ends, and is restarted for the next.

    Attributes:
        call_site: Whose it is.
        holds: Whether it keeps elements from one chunk to the next.
        makes: Whether what it gives is new, not what it was given.
        full: Whether it wants no more elements in this epoch.
        lazy: Whether functions are put off: what is pushed may be `deferred`.
        bytes: Of the elements that it holds from one chunk to the next.
        epoch: How often it was restarted.
        now: Measures what takes time; without a clock nothing does.
    """

    holds: ClassVar[bool] = False
    makes: ClassVar[bool] = True

    def __init__(self, place: CallSite) -> None:
        self.call_site = place
        self.full = False
        self.lazy = False
        self.bytes = 0
        self.epoch = 0
        self.now: Callable[[], float] = float

    def jump(self, epochs: int) -> None:
        """The first epochs are left out: the next is the one after them."""
        if epochs:
            # As if it had been restarted at the end of each: what depends on the epoch is that of the next.
            self.epoch = epochs - 1
            self.restart()

    @abstractmethod
    def push(self, chunk: Chunk) -> Iterator[Chunk]:
        """Takes a chunk, and gives what comes of it; the caller takes all of it before the next chunk."""

    def end(self) -> Iterator[Chunk]:
        """The epoch ends: gives what was held."""
        return iter(())

    def restart(self) -> None:
        """The next epoch begins."""
        self.epoch += 1
        self.full = False
        self.bytes = 0

    def held_elements(self) -> list[list[Any]]:
        """Returns the lists of elements that it holds; whoever asks may put others in their places."""
        return []
