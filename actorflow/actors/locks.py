"""The lock of one variable: who holds it, who stands in line, and what the holder has written so far.

A block of a step holds the variables that it names from their locks to its end. One `Locks` is the rule
of one of them, beside its register:

* The holder reads and writes a working copy. At the end of the block that becomes the value, or it is
  dropped: nobody else ever sees a value in between, and a rollback restores value and version.
* Others read the value of before at once. Their writes and locks stand in one line, first come first
  served, behind the holder and behind each other.
* A training update is staged as ever. Its commit cannot wait and cannot fail: it is put off to the end of
  the block, and applied to what the block left. From then on until the end others' reads wait too, or
  whoever trained could read a value without the update.
* What waits for something else, as an assign does that would change the shape under a staged update,
  stands in the same line.

Nobody here waits for anything but the end of blocks and of staged updates. A block takes its locks in an
order that all share (`graph.block`), and the end of an update takes none: so there is no ring.

Pure: who waits is opaque, and the caller handles those whom `next` lets go on, one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actorflow.actors.register import GroupId, Register, Source
from actorflow.errors import InternalError, StateError


@dataclass(frozen=True, slots=True)
class Owner:
    """A block of a step of a session; `number` is the source's own, and grows."""

    source: Source
    number: int
    block: str
    step: int

    def __str__(self) -> str:
        return f"atomic block {self.block!r} of step {self.step} of {self.source}"


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Somebody in line; `also` tells what else keeps a write back than the lock."""

    who: Any
    also: Callable[[], bool] | None = None


class Locks:
    """The lock of one variable.

    INVARIANT: `working` and `deferred` are there only while somebody holds the lock.
    """

    __slots__ = ("_base", "deferred", "holder", "line", "readers", "register", "working")

    def __init__(self, register: Register) -> None:
        self.register = register
        self.holder: Owner | None = None
        self.working: Register | None = None
        self.line: deque[_Waiting] = deque()
        self.readers: deque[Any] = deque()
        self.deferred: list[GroupId] = []
        self._base = 0

    def __repr__(self) -> str:
        held = "free" if self.holder is None else f"held by {self.holder}"
        return f"<Locks of {self.register.name!r}, {held}, {len(self.line)} in line>"

    @property
    def idle(self) -> bool:
        """Whether nobody holds the variable or waits for it."""
        return self.holder is None and not self.line

    # -- may it go on? -----------------------------------------------------------------------------

    def lock(self, who: Any) -> bool:
        """Tells whether a lock may be taken at once; else `who` stands in line for it."""
        if self.idle:
            return True
        self.line.append(_Waiting(who))
        return False

    def write(self, who: Any, also: Callable[[], bool] | None = None) -> bool:
        """Tells whether a write of no block may be applied at once; else `who` stands in line."""
        if self.idle and (also is None or not also()):
            return True
        self.line.append(_Waiting(who, also))
        return False

    def read(self, who: Any) -> bool:
        """Tells whether a read of no block may be answered at once; else `who` waits."""
        if not self.deferred:
            return True
        self.readers.append(who)
        return False

    def next(self) -> Any | None:
        """Takes out who may go on now, None when nobody may; who locks has to `take` before the next call."""
        if self.readers and not self.deferred:
            return self.readers.popleft()
        if not self.line or self.holder is not None:
            return None
        also = self.line[0].also
        return None if also is not None and also() else self.line.popleft().who

    def leave(self, is_gone: Callable[[Any], bool]) -> None:
        """Takes those out of the line who wait no more."""
        self.line = deque(w for w in self.line if not is_gone(w.who))
        self.readers = deque(r for r in self.readers if not is_gone(r))

    def everyone(self) -> list[Any]:
        """Takes out all who wait."""
        found = [*self.readers, *(w.who for w in self.line)]
        self.readers.clear()
        self.line.clear()
        return found

    # -- the holder --------------------------------------------------------------------------------

    def take(self, owner: Owner) -> None:
        """Gives the lock to a block; it is free."""
        if self.holder is not None:
            message = f"variable {self.register.name!r} was locked twice, by {self.holder} and {owner}"
            raise InternalError(message)
        self.holder = owner

    def state(self, owner: Owner) -> Register:
        """Returns the working copy of the holder."""
        if owner != self.holder:
            message = f"{owner} does not hold variable {self.register.name!r}"
            raise InternalError(message)
        if self.working is None:
            self.working = self.register.fork()
            self._base = self.register.version
        return self.working

    def end(self, owner: Owner, *, publish: bool) -> None:
        """Ends the block of the holder: its writes become the value, or never were.

        Whoever does not hold the lock ends nothing.
        """
        if owner != self.holder:
            return
        working, self.working = self.working, None
        if working is not None and publish:
            self.register.adopt(working, self._base)
        del working  # ORDER: the register alone holds the value when it commits
        self.holder = None
        deferred, self.deferred = self.deferred, []
        for group in deferred:
            self.register.commit(group)

    # -- training updates --------------------------------------------------------------------------

    def check_stage(self) -> None:
        """Raises StateError while the holder is changing the shape: no update could be committed then."""
        working, value = self.working, self.register.value
        if working is None or working.value is None or value is None or working.value.shape == value.shape:
            return
        message = f"variable {self.register.name!r} is changing its shape, in {self.holder}"
        raise StateError(message, hint="train it in a step of its own, before or after")

    def check_shape(self, changes: bool) -> None:
        """Raises StateError when a write of the holder `changes` the shape under a staged update."""
        if changes:
            message = (
                f"variable {self.register.name!r} may not change its shape in {self.holder} while a training "
                f"update is staged"
            )
            raise StateError(message, hint="assign the new shape in a step of its own, after the update")

    def commit(self, group: GroupId) -> None:
        """Commits a staged update, now or at the end of the block that holds the variable."""
        if self.holder is None:
            self.register.commit(group)
        else:
            self.deferred.append(group)
