"""Whether reads are at most k versions behind.

Writes of a key make versions 1, 2, 3, ..., and every operation says which version it made or saw. At a
moment t a version is *proven* when an OK operation that made or saw it had returned by then. With

    floor(t) = the highest version proven at t, or 0

a read that was invoked at t, returned at u and saw version v is fresh enough when

    floor(t) - k <= v,  and v is 0 or was made by a write that was invoked before u.

So k = 0 asks for what is not older than anything proven when the read began, and every read is measured
against what could be known, not against a clock. Besides, versions must make sense: no two writes
make one version, a write that was invoked when a version was proven makes a higher one, and where
values are recorded, a read of a version has the value that was written as that version.

A write of unknown outcome may have made any one version that no other write claims, after its
invocation.

SOURCE: "k-atomicity" of A. Aiyer, L. Alvisi, R. Bazzi, "On the availability of non-strict quorum systems",
2005. Deviation: versions are recorded, not searched for, which makes the check linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from actorflow.errors import HistoryError, pluralise
from actorflow.sim.checkers.subject import nothing, overlooks
from actorflow.sim.checkers.timeline import call
from actorflow.sim.checkers.verdict import Verdict, listed
from actorflow.sim.history import Operation, Status, Value
from actorflow.sim.history.history import operations_of
from actorflow.sim.history.operation import shorten_value
from actorflow.sim.settings import check_whole


@dataclass(frozen=True, slots=True)
class Seen:
    """The version that an operation made or saw, and its value when that was recorded."""

    version: int
    value: tuple[Value] | None = None


def versioned(operation: Operation) -> Seen:
    """Reads the results that variables give: (value, version) or a version, and a version for a write."""
    match operation.result:
        case bool():
            pass
        case int(version):
            return Seen(version, operation.args[:1] or None)  # type: ignore[arg-type]  # one or none
        case (value, int(version)) if not isinstance(version, bool):
            return Seen(version, (value,))
    message = f"{call(operation)} by client {operation.client} does not say which version it made or saw"
    raise HistoryError(message, hint="record (value, version) or version as the result, or pass seen=")


def bounded_staleness(
    history: Iterable[Operation],
    k: int,
    *,
    read: str = "read",
    write: str = "write",
    seen: Callable[[Operation], Seen] = versioned,
) -> Verdict:
    """Returns whether every read is at most `k` versions behind what was proven when it began.

    Args:
        history: Reads and writes; each key is judged alone.
        k: The bound, in versions; 0 for none behind.
        read: The name of the operations that see a version.
        write: The name of those that make one.
        seen: Tells the version, and the value if it was recorded, of an OK operation.

    Raises:
        HistoryError: An OK operation does not say which version it made or saw.
        ConfigError: What is given is no history, or `k` is below 0.
    """
    operations = operations_of(history)
    check_whole("k", k, 0)
    parts: dict[Value, list[Operation]] = {}
    for operation in operations:
        if operation.op in {read, write} and operation.status is not Status.FAIL:
            parts.setdefault(operation.key, []).append(operation)
    wrong: list[str] = []
    worst = reads = 0
    for key, part in parts.items():
        judged = _Versions(part, write, seen)
        lag, found = judged.judge(k)
        worst = max(worst, lag)
        reads += sum(operation.op == read and operation.status is Status.OK for operation in part)
        wrong += [line if key is None else f"on {shorten_value(key)}: {line}" for line in found]
    if wrong:
        what = f"{pluralise(len(wrong), 'finding')} with k = {k}"
        return Verdict("bounded_staleness", False, what, listed(wrong))
    if overlooks(operations, {read}, {write}):
        return nothing("bounded_staleness", operations, read=read, write=write)
    what = f"{pluralise(reads, 'read')}, at most {pluralise(worst, 'version')} behind, k = {k}"
    return Verdict("bounded_staleness", True, what)


class _Versions:
    """What is known about the versions of one key."""

    def __init__(self, part: list[Operation], write: str, seen: Callable[[Operation], Seen]) -> None:
        self.known = [(o, seen(o)) for o in part if o.status is Status.OK]
        self.known.sort(key=lambda item: item[0].returned or 0)
        self.writes = [(o, s) for o, s in self.known if o.op == write]
        self.reads = [(o, s) for o, s in self.known if o.op != write]
        self.unknown = sorted(o.invoked for o in part if o.op == write and o.status is Status.INFO)
        self.returns = [o.returned or 0 for o, _ in self.known]
        self.highest: list[int] = []  # the highest version proven by the first n returns
        for _, saw in self.known:
            self.highest.append(max(saw.version, self.highest[-1] if self.highest else 0))

    def floor(self, event: int) -> int:
        count = bisect_left(self.returns, event)
        return self.highest[count - 1] if count else 0

    def judge(self, k: int) -> tuple[int, list[str]]:
        """Returns how far the worst read is behind, and all that is wrong."""
        made: dict[int, Operation] = {}
        wrong: list[str] = []
        for operation, saw in self.writes:
            other = made.setdefault(saw.version, operation)
            if other is not operation:
                wrong.append(f"{_said(operation)} and {_said(other)} both made version {saw.version}")
            floor = self.floor(operation.invoked)
            if saw.version <= floor:
                wrong.append(f"{_said(operation)} made version {saw.version} when {floor} was proven")
        wrong += self.invented(made) + self.torn()
        worst = 0
        for operation, saw in self.reads:
            lag = self.floor(operation.invoked) - saw.version
            worst = max(worst, lag)
            if lag > k:
                wrong.append(
                    f"{_said(operation)} saw version {saw.version}, {lag} behind"
                    f" {saw.version + lag}, which was proven before it began; k is {k}"
                )
        return worst, wrong

    def invented(self, made: dict[int, Operation]) -> list[str]:
        """Finds reads of a version that no write can have made by then.

        Each version that no known write made needs an unknown write of its own, invoked before the first
        read of it returned. Giving the earliest to the earliest finds a way if there is one.
        """
        wrong = []
        first: dict[int, Operation] = {}
        for operation, saw in self.reads:
            writer = made.get(saw.version)
            if writer is None and saw.version != 0:
                first.setdefault(saw.version, operation)
            elif writer is not None and writer.invoked > (operation.returned or 0):
                wrong.append(f"{_said(operation)} saw version {saw.version} before {_said(writer)} began")
        for used, (version, operation) in enumerate(first.items()):  # in order of return
            if used >= len(self.unknown) or self.unknown[used] > (operation.returned or 0):
                wrong.append(f"{_said(operation)} saw version {version}, which no write can have made")
        return wrong

    def torn(self) -> list[str]:
        """Finds two operations that saw different values of one version."""
        values: dict[int, tuple[Operation, tuple[Value]]] = {}
        wrong = []
        for operation, saw in self.known:
            if saw.value is None:
                continue
            other, value = values.setdefault(saw.version, (operation, saw.value))
            if value != saw.value:
                both = f"{shorten_value(saw.value[0])} and {_said(other)} {shorten_value(value[0])}"
                wrong.append(f"{_said(operation)} gives version {saw.version} the value {both}")
        return wrong


def _said(operation: Operation) -> str:
    return f"{call(operation)} (client {operation.client}, event {operation.invoked})"
