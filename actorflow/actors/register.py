"""The rule of a variable: versions, atomic writes applied once, and staged training updates.

One `Register` is the state of one variable; every method is one event and takes effect at once or
raises and changes nothing. No clock, no actor, no wire: `actors.variable` obeys it.

* A read returns an immutable snapshot and its version. A write makes a new array; whoever holds the
  old one keeps it unchanged. An update of some rows makes none if nobody holds the old one.
* A write carries (source, sequence). Sequences of one source grow; one that is not larger than the
  last applied is a retry and gets the receipt without being applied again.
* A training update is staged and then committed. Staging checks everything and keeps `proposed`,
  the value that the update leads to from version `base`. Committing swaps it in, or, when another
  write came between, adds the delta into it: no check, no allocation, nothing that can fail. So
  while an update is staged the value keeps its shape: an assign that would change it has to wait.
* An update of some rows is staged as `Rows`, delta and proposed alike, and costs what they cost. The
  commit puts them into the array that is there if the register alone holds it then, whoever read it
  before; else into a copy, for which the staging has reserved room. A large one can be made between
  the two, where it holds nobody up.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from typing import NewType

from actorflow import arrays, rows
from actorflow.arrays import Array
from actorflow.errors import InternalError, SpecError, StateError, UninitialisedError
from actorflow.rows import Rows
from actorflow.spec import Spec, show

Source = NewType("Source", str)
GroupId = tuple[Source, int]


class Write(Enum):
    """How a written value changes the variable."""

    ASSIGN = "assign"
    ADD = "assign_add"
    SUBTRACT = "assign_sub"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a write did: the version that it made, and the value (None for an old retry)."""

    version: int
    value: Array | None
    applied: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """A training update that only waits for its commit."""

    delta: Array
    proposed: Array
    base: int


@dataclass(frozen=True, slots=True)
class StagedRows:
    """A training update of some rows, and room for the whole value if others hold the old one then.

    `filled` is the version whose value the spare has already, if any.
    """

    delta: Rows
    proposed: Rows
    base: int
    spare: Array
    filled: int | None = None


class Register:
    """The state of one variable.

    INVARIANT: `version` counts applied writes; `value` is read-only and is None exactly while the
    version is 0; `staged` updates have been checked.
    """

    __slots__ = ("last", "name", "spec", "staged", "value", "version")

    def __init__(self, name: str, spec: Spec) -> None:
        self.name = name
        self.spec = spec
        self.value: Array | None = None
        self.version = 0
        self.last: dict[Source, tuple[int, int]] = {}
        self.staged: dict[GroupId, Staged | StagedRows] = {}

    def read(self) -> tuple[Array, int]:
        """Returns (snapshot, version); raises UninitialisedError naming the variable."""
        if self.value is None:
            message = f"variable {self.name!r} was read before anything was assigned to it"
            raise UninitialisedError(message, hint="give it an initial value, or run its assign first")
        return self.value, self.version

    def write(self, kind: Write, value: Array, source: Source, sequence: int) -> Receipt:
        """Applies a write once and returns its receipt.

        Raises:
            SpecError: when the value does not fit the variable's spec.
            UninitialisedError: when an uninitialised variable is to be added to.
        """
        last = self.last.get(source)
        if last is not None and sequence <= last[0]:
            latest = sequence == last[0] and last[1] == self.version
            return Receipt(last[1], self.value if latest else None, applied=False)
        self.check(value)
        if self.must_wait(kind, value):
            message = f"variable {self.name!r} may not change its shape while an update is staged"
            raise InternalError(message)
        if kind is Write.ASSIGN:
            new = arrays.frozen_copy(value)
        else:
            before, _ = self.read()
            self.check_delta(value, before)
            new = arrays.frozen((arrays.plus if kind is Write.ADD else arrays.minus)(before, value))
        self.value = new
        self.version += 1
        self.last[source] = (sequence, self.version)
        return Receipt(self.version, new, applied=True)

    def must_wait(self, kind: Write, value: Array) -> bool:
        """Tells whether a write has to wait for the staged updates: it would change the shape."""
        if not self.staged or kind is not Write.ASSIGN or self.value is None:
            return False
        return bool(value.shape != self.value.shape)

    def initialise(self, value: Array) -> bool:
        """Assigns the first value unless there is one; returns whether it did."""
        if self.value is not None:
            return False
        self.check(value)
        self.value = arrays.frozen_copy(value)
        self.version = 1
        return True

    def stage(
        self, group: GroupId, delta: Array | Rows, proposed: Array | Rows, base: int
    ) -> tuple[Array, int] | None:
        """Keeps a checked update until its commit; owns `proposed` from now on.

        Returns:
            (value, version) when others hold the value of which rows are to change: then the commit
            will have to copy it, unless somebody has done so before and tells `fill`. Else None.

        Raises:
            StateError: when that group is staged already, delta and proposed do not fit, or there
                is no memory for a copy.
            UninitialisedError: when there is no value to update.
        """
        value, _ = self.read()
        if group in self.staged:
            message = f"update {group} of variable {self.name!r} is staged already"
            raise StateError(message)
        for update in (delta, proposed):
            self.check_delta(update, value)
        if type(delta) is Rows and type(proposed) is Rows:
            self.staged[group] = StagedRows(delta, proposed, base, self._reserve(value))
            del value
            return self.read() if self._is_held() else None
        self.staged[group] = Staged(delta, proposed, base)
        return None

    def fill(self, group: GroupId, copy: Array, version: int) -> None:
        """Takes a copy of the value of `version` for the commit of `group`, an update of rows; owns it."""
        staged = self.staged[group]
        assert type(staged) is StagedRows
        self.staged[group] = replace(staged, spare=copy, filled=version)

    def _is_held(self) -> bool:
        cell = [self.value]
        self.value = None  # ORDER: as in `commit`
        found = rows.held(cell)
        self.value = cell.pop()
        return found

    def commit(self, group: GroupId) -> int:
        """Applies a staged update and returns the new version. Cannot fail."""
        staged = self.staged.pop(group)
        if type(staged) is StagedRows:
            if staged.base != self.version:
                rows.plus_rows_into(self.value, staged.delta, staged.proposed)
            cell = [self.value]
            self.value = None  # ORDER: the cell alone holds it when `put` looks who does
            filled = staged.filled == self.version
            self.value = rows.put(cell, staged.proposed, staged.spare, filled=filled)
        else:
            if staged.base != self.version:
                arrays.plus_into(self.value, staged.delta, staged.proposed)
            self.value = arrays.frozen(staged.proposed)
        self.version += 1
        return self.version

    def fork(self) -> Register:
        """Returns a working copy: it begins with the same value, and its writes leave this one alone."""
        working = copy(self)
        working.last = dict(self.last)
        return working

    def adopt(self, working: Register, base: int) -> None:
        """Takes over what a fork made at version `base` has become; nothing but first values came since."""
        self.value = working.value
        self.version += working.version - base
        self.last = working.last

    def discard(self, group: GroupId) -> None:
        """Forgets a staged update, if there is one."""
        self.staged.pop(group, None)

    def check(self, value: Array) -> None:
        """Raises SpecError when `value` is not one that the variable may hold."""
        if not self.spec.fits(value.shape, value.dtype):
            message = (
                f"variable {self.name!r} must hold {self.spec}, got {show(value.shape)} {value.dtype.name}"
            )
            raise SpecError(message)

    def _reserve(self, value: Array) -> Array:
        """Returns room for another value like this one; raises StateError when there is none."""
        try:
            return rows.spare_for(value)
        except MemoryError as error:
            message = f"an update of variable {self.name!r} needs {value.nbytes} bytes for a copy: {error}"
            raise StateError(message) from error

    def check_delta(self, delta: Array | Rows, value: Array) -> None:
        """Raises SpecError when adding `delta` would change shape or dtype of the value."""
        if delta.shape != value.shape or delta.dtype != value.dtype:
            message = (
                f"an update of variable {self.name!r} must be {show(value.shape)} {value.dtype.name}, "
                f"got {show(delta.shape)} {delta.dtype.name}"
            )
            raise SpecError(message)
