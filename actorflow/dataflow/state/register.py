"""The rule of a variable: versions, atomic writes applied once, and staged training updates.

One `Register` is the state of one variable; every method is one event and takes effect at once or
raises and changes nothing. No clock, no actor, no wire: `dataflow.state.variable` obeys it.

* A read returns an immutable snapshot and its version: the array itself, lent, read-only. A write goes
  in place when no lease is out, that is when nobody but the register can reach the array, by whatever
  slice, memoryview or buffer (see `lease`); else it makes a new array, and whoever holds the old one
  keeps it unchanged. A write that changes the shape makes a new array too.
* A write carries (source, sequence). Sequences of one source grow; one that is not larger than the
  last applied is a retry and gets the receipt without being applied again.
* A training update is staged and then committed. Staging checks everything and keeps `proposed`,
  the value that the update leads to from version `base`. Committing swaps it in, or, when another
  write came between, adds the delta into it: no check, no allocation, nothing that can fail. So
  while an update is staged the value keeps its shape: an assign that would change it has to wait.
* An update of some rows is staged as `SparseRows`, delta and proposed alike, and costs what they cost. The
  commit puts them into the array that is there if the register alone holds it then, whoever read it
  before; else into a copy, for which the staging has reserved room. A large one can be made between
  the two, where it holds nobody up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NewType

from actorflow.errors import InternalError, OutOfRange, SpecError, StateError, UninitialisedError
from actorflow.values import arrays, lease, sparse
from actorflow.values.arrays import Array
from actorflow.values.sparse import SparseRows
from actorflow.values.spec import Spec, show

Source = NewType("Source", str)
GroupId = tuple[Source, int]


@dataclass(frozen=True, slots=True)
class Forget:
    """Session → shared state, control lane: `source` has closed, and retries nothing any more.

    So do those whose names begin with its name and "/": its blocks and optimizers.
    """

    source: Source

    def take_from(self, receipts: dict[Source, Any]) -> None:
        """Drops the receipts of all that are meant."""
        for each in [s for s in receipts if s == self.source or s.startswith(f"{self.source}/")]:
            del receipts[each]


_SMALL_BYTES = 8192
"""A sum of so much is computed aside and copied: 0.7 µs less than to have warnings be quiet meanwhile."""


class WriteMode(Enum):
    """How a written value changes the variable."""

    ASSIGN = "assign"
    ADD = "assign_add"
    SUBTRACT = "assign_sub"


@dataclass(slots=True)
class WriteCounts:
    """How the writes of one or more registers found their memory.

    Initial values are not counted, nor are whole training updates: these swap in an array that the
    optimizer made.

    Attributes:
        in_place: Writes, and updates of some rows, into the array that was there.
        copied: Those that made a new one: a lease was out, or the shape changed.
        dropped: Updates that were not made, since a gradient was not finite.
    """

    in_place: int = 0
    copied: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a write did: the version that it made, and the value (None for an old retry)."""

    version: int
    value: Array | None
    applied: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """A training update that only waits for its commit; `lent` is the proposed value as it will be read."""

    delta: Array
    proposed: Array
    base: int
    lent: Array


@dataclass(frozen=True, slots=True)
class StagedRows:
    """A training update of some rows, and room for the whole value if others hold the old one then.

    `filled` is the version whose value the spare has already, if any.
    """

    delta: SparseRows
    proposed: SparseRows
    base: int
    spare: Array
    filled: int | None = None


class Register:
    """The state of one variable.

    INVARIANT: `version` counts applied writes; `value` is lent and is None exactly while the
    version is 0; `staged` updates have been checked. A working copy knows the receipts of its own
    writes, and looks up older ones in the register that it was forked from.

    Args:
        name: The variable's, for errors.
        spec: What its values fit.
        write_counts: Where its writes are counted; by default in one of its own.
    """

    __slots__ = (
        "counted",
        "forked_from",
        "last",
        "name",
        "spec",
        "staged",
        "write_counts",
        "value",
        "version",
    )

    def __init__(self, name: str, spec: Spec, write_counts: WriteCounts | None = None) -> None:
        self.name = name
        self.spec = spec
        self.value: Array | None = None
        self.version = 0
        self.last: dict[Source, tuple[int, int]] = {}
        self.staged: dict[GroupId, Staged | StagedRows] = {}
        self.counted: dict[Source, tuple[int, Array]] = {}
        self.write_counts = WriteCounts() if write_counts is None else write_counts
        self.forked_from: Register | None = None

    def read(self) -> tuple[Array, int]:
        """Returns (snapshot, version); raises UninitialisedError naming the variable."""
        if self.value is None:
            message = f"variable {self.name!r} was read before anything was assigned to it"
            raise UninitialisedError(message, hint="give it an initial value, or run its assign first")
        return self.value, self.version

    def read_rows(self, indices: Array) -> Array:
        """Returns a copy of the rows that `indices` name, from 0 on; SpecError for one that names none."""
        try:
            return sparse.take_rows(self.read()[0], indices)
        except SpecError as error:
            message = f"a read of rows of variable {self.name!r}: {error.what}"
            raise SpecError(message) from None

    def write(self, kind: WriteMode, value: Array, source: Source, sequence: int) -> Receipt:
        """Applies a write once and returns its receipt.

        Raises:
            SpecError: when the value does not fit the variable's spec.
            UninitialisedError: when an uninitialised variable is to be added to.
        """
        receipt = self._retry_receipt(source, sequence)
        if receipt is not None:
            return receipt
        if kind is WriteMode.ASSIGN:
            self._assign(value)
        else:
            self._add(kind, value)
        return self._apply(source, sequence)

    def write_rows(
        self, how: sparse.How, indices: Array, updates: Array, source: Source, sequence: int
    ) -> Receipt:
        """Combines updates with the rows that `indices` name, once; all of it or nothing.

        It costs what these rows cost when no lease is out. Where an index comes several times its
        updates are combined in their order; of assigned rows the last stays.

        Args:
            how: What to do with a row and its update.
            indices: Integers; negative ones count from the end.
            updates: One row for each index, or one number.
            source: Who writes.
            sequence: Of that source, growing.

        Raises:
            SpecError: when an index names no row, or updates do not fit.
            UninitialisedError: when there is no value.
        """
        receipt = self._retry_receipt(source, sequence)
        if receipt is not None:
            return receipt
        try:
            at, part = sparse.combine(self.read()[0], indices, updates, how)
        except SpecError as error:
            message = f"a write to rows of variable {self.name!r}: {error.what}"
            raise SpecError(message) from None
        memory = self._memory()
        if memory is not None:
            sparse.write(memory, at, part)
            self.write_counts.in_place += 1
        else:
            copy = arrays.copy(self.value)
            sparse.write(copy, at, part)
            self.value = lease.read_only_view(copy)
            self.write_counts.copied += 1
        return self._apply(source, sequence)

    def _retry_receipt(self, source: Source, sequence: int) -> Receipt | None:
        """The receipt of a write that has been applied before, or is too old to be."""
        last = self.last.get(source)
        if last is None and self.forked_from is not None:
            last = self.forked_from.last.get(source)
        if last is None or sequence > last[0]:
            return None
        latest = sequence == last[0] and last[1] == self.version
        return Receipt(last[1], self.value if latest else None, applied=False)

    def _apply(self, source: Source, sequence: int) -> Receipt:
        self.version += 1
        self.last[source] = (sequence, self.version)
        return Receipt(self.version, self.value, applied=True)

    def _assign(self, value: Array) -> None:
        self.check(value)
        if self.must_wait(WriteMode.ASSIGN, value):
            message = f"variable {self.name!r} may not change its shape while an update is staged"
            raise InternalError(message)
        memory = self._memory()
        if memory is not None and memory.shape == value.shape:
            arrays.copy_into(value, memory)
            self.write_counts.in_place += 1
        else:
            new = lease.read_only_copy(value)
            self.write_counts.copied += self.value is not None
            self.value = new

    def _add(self, kind: WriteMode, delta: Array) -> None:
        self.check(delta)
        self.check_delta(delta, self.read()[0])
        memory = self._memory()
        adds = kind is WriteMode.ADD
        if memory is not None and memory.nbytes > _SMALL_BYTES:
            # quietly: a warning made an error would be raised when the sum is written, half a write
            arrays.quietly(arrays.plus_into if adds else arrays.minus_into, memory, delta, memory)
            self.write_counts.in_place += 1
            return
        new = (arrays.plus if adds else arrays.minus)(self.value, delta)
        if memory is not None:
            arrays.copy_into(new, memory)
            self.write_counts.in_place += 1
        else:
            self.value = lease.read_only_view(new)
            self.write_counts.copied += 1

    def _memory(self) -> Array | None:
        """The memory of the value, to be written at once, if no lease is out; else None."""
        cell = [self.value]
        self.value = None  # ORDER: the cell alone holds it when its references are counted
        memory = lease.memory_of(cell)
        self.value = cell.pop()
        return memory

    def count_up_to(self, limit: int, source: Source, sequence: int) -> Array:
        """Adds one to a 0-d integer and returns what it was; a write, so it happens once.

        Raises:
            OutOfRange: at the limit; the value stays.
            UninitialisedError: when there is no value.
        """
        value, _ = self.read()
        if self._retry_receipt(source, sequence) is not None:
            counted = self.counted.get(source)
            if counted is None and self.forked_from is not None:
                counted = self.forked_from.counted.get(source)
            return arrays.scalar(value) if counted is None or counted[0] != sequence else counted[1]
        if value.shape != ():
            message = f"a variable counts when it is a scalar, {self.name!r} has shape {show(value.shape)}"
            raise SpecError(message)
        if value >= limit:
            message = f"variable {self.name!r} has counted to {value}, its limit is {limit}"
            raise OutOfRange(message)
        before, one = arrays.scalar(value), arrays.one_like(value)
        del value
        self.write(WriteMode.ADD, one, source, sequence)
        self.counted[source] = (sequence, before)
        return before

    def must_wait(self, kind: WriteMode, value: Array) -> bool:
        """Tells whether a write has to wait for the staged updates: it would change the shape."""
        if not self.staged or kind is not WriteMode.ASSIGN or self.value is None:
            return False
        return bool(value.shape != self.value.shape)

    def initialise(self, value: Array) -> bool:
        """Assigns the initial value unless there is one; returns whether it did."""
        if self.value is not None:
            return False
        self.check(value)
        self.value = lease.read_only_copy(value)
        self.version = 1
        return True

    def stage(
        self, group: GroupId, delta: Array | SparseRows, proposed: Array | SparseRows, base: int
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
        if type(delta) is SparseRows and type(proposed) is SparseRows:
            self.staged[group] = StagedRows(delta, proposed, base, self._reserve(value))
            del value
            return self.read() if self._is_held() else None
        proposed = lease.owned(proposed)
        self.staged[group] = Staged(delta, proposed, base, lease.read_only_view(proposed))
        return None

    def fill(self, group: GroupId, copy: Array, version: int) -> None:
        """Takes a copy of the value of `version` for the commit of `group`, an update of rows; owns it."""
        staged = self.staged[group]
        assert type(staged) is StagedRows
        self.staged[group] = replace(staged, spare=copy, filled=version)

    def _is_held(self) -> bool:
        cell = [self.value]
        self.value = None  # ORDER: as in `commit`
        found = sparse.is_shared(cell)
        self.value = cell.pop()
        return found

    def commit(self, group: GroupId) -> int:
        """Applies a staged update and returns the new version. Cannot fail."""
        staged = self.staged.pop(group)
        if isinstance(staged, StagedRows):
            if staged.base != self.version:
                sparse.plus_rows_into(self.value, staged.delta, staged.proposed)
            cell = [self.value]
            self.value = None  # ORDER: the cell alone holds it when `put` looks who does
            filled, was = staged.filled == self.version, id(cell[0])
            self.value = sparse.put(cell, staged.proposed, staged.spare, filled=filled)
            in_place = id(self.value) == was
            self.write_counts.in_place += in_place
            self.write_counts.copied += not in_place
        else:
            if staged.base != self.version:
                arrays.plus_into(self.value, staged.delta, staged.proposed)
            self.value = staged.lent
        self.version += 1
        return self.version

    def fork(self) -> Register:
        """Returns a working copy: it begins with the same value, and its writes leave this one alone.

        It copies nothing, however many sources have written.
        """
        working = Register(self.name, self.spec, self.write_counts)
        working.value, working.version = self.value, self.version
        working.forked_from = self
        return working

    def adopt(self, working: Register, base: int) -> None:
        """Takes over what a fork made at version `base` has become; nothing but initial values came since."""
        self.value = working.value
        self.version += working.version - base
        self.last.update(working.last)
        self.counted.update(working.counted)

    def forget(self, whom: Forget) -> None:
        """Lets go of the receipts of sources that will not write again."""
        whom.take_from(self.last)
        whom.take_from(self.counted)

    def discard(self, group: GroupId) -> None:
        """Forgets a staged update, if there is one."""
        self.staged.pop(group, None)

    def violation(self) -> str | None:
        """Says which invariant does not hold; None while all do. `Locks` asks after each of its events."""
        if (self.value is None) != (self.version == 0) or self.version < 0:
            there = "no value" if self.value is None else "a value"
            return f"variable {self.name!r} has a value from version 1 on, got {there} at {self.version}"
        if self.staged and self.value is None:
            return f"variable {self.name!r} has a value to update, got {len(self.staged)} staged and none"
        if self.value is not None and not self.spec.fits(self.value.shape, self.value.dtype):
            got = f"{show(self.value.shape)} {self.value.dtype.name}"
            return f"variable {self.name!r} holds {self.spec}, got {got}"
        return None

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
            return sparse.spare_for(value)
        except MemoryError as error:
            message = f"an update of variable {self.name!r} needs {value.nbytes} bytes for a copy: {error}"
            raise StateError(message) from error

    def check_delta(self, delta: Array | SparseRows, value: Array) -> None:
        """Raises SpecError when adding `delta` would change shape or dtype of the value."""
        if delta.shape != value.shape or delta.dtype != value.dtype:
            message = (
                f"an update of variable {self.name!r} must be {show(value.shape)} {value.dtype.name}, "
                f"got {show(delta.shape)} {delta.dtype.name}"
            )
            raise SpecError(message)
