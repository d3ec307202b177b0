"""Where the elements of a pipeline come from: the protocol of sources and their readers."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


class Reader(Protocol):
    """One pass over a source, from some element on."""

    def read(self, n: int) -> Any:
        """Returns a list of up to `n` values, [] at the end; or an awaitable of that list.

        An error belongs to the first element that was not returned: what comes before it is returned
        first, and the next call raises.
        """
        ...

    def close(self) -> None:
        """Lets go of files and the like."""
        ...


@runtime_checkable
class AsyncCloses(Protocol):
    """A reader that ends on the event loop: `aclose` is awaited after `close`."""

    async def aclose(self) -> None:
        """Ends what it reads."""
        ...


@runtime_checkable
class Once(Protocol):
    """A source that gives every element once, to whoever asks first: no position in it can be gone back to.

    Attributes:
        once: Why, as errors say it: "a queue keeps nothing that it gave".
    """

    @property
    def once(self) -> str | None:
        """Why; None where it can be read again all the same."""
        ...


class Source(Protocol):
    """Where elements come from: immutable; every epoch opens a new reader.

    Attributes:
        name: For errors and progress: "arrays", "text_lines 'a.txt'".
        size: Elements in an epoch, where that is known without reading.
        blocking: Reading may touch the disk: then `read` (plain) runs on a thread; False: inline.
        element_bytes: Size of one element where known.
    """

    @property
    def name(self) -> str:
        """For errors and progress."""
        ...

    @property
    def size(self) -> int | None:
        """Elements in an epoch, where that is known without reading."""
        ...

    @property
    def blocking(self) -> bool:
        """Whether reading may touch the disk."""
        ...

    @property
    def element_bytes(self) -> int | None:
        """Size of one element where known."""
        ...

    def open(self, start: int, epoch: int) -> Reader:
        """Returns a reader positioned before element number `start`."""
        ...
