"""The poll of all processes of a cluster: each is asked what it does, side by side, with a time limit.

Who does not answer in time is looked up in /proc, if it lives on this machine: so it is told why. Nothing of
it needs an event loop: whoever asks is another process, as a rule a command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from actorflow.cluster.inspect.procfs import PROC, Usage, usage
from actorflow.cluster.inspect.reports import LookQuestion, ProcessReport
from actorflow.errors import ActorflowError, WireError, describe
from actorflow.runtime.clock import Clock, SystemClock
from actorflow.transport.codec.message_codec import decode, encode, join

TIMEOUT_S = 2.0
"""How long a process may take: eight times as long as its side thread waits for its loop."""

_MOST_THREADS = 64


@dataclass(frozen=True, slots=True)
class DebugAddress:
    """Where a process of a cluster can be asked.

    Attributes:
        name: Of the process.
        ask: Sends a request there and returns the answer, within so many seconds; raises what went wrong.
        pid: Its number on this machine; None where it is not known, or it lives elsewhere.
    """

    name: str
    ask: Callable[[bytes, float], bytes]
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Silent:
    """A process that gave no answer.

    Attributes:
        why: The reason, in words.
        pid: As far as it is known.
    """

    name: str
    why: str
    pid: int | None = None

    def __str__(self) -> str:
        pid = "" if self.pid is None else f" (pid {self.pid})"
        return f"{self.name}{pid}: {self.why}"


@dataclass(frozen=True, slots=True)
class PollResult:
    """What all processes told at about one moment.

    Attributes:
        reports: By name, of those that have answered.
        silent: By name, the others.
        used: What the kernel says of those on this machine.
        at_s: When, by the clock of whoever asked.
    """

    reports: Mapping[str, ProcessReport]
    silent: Mapping[str, Silent]
    used: Mapping[str, Usage] = field(default_factory=dict)
    at_s: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """All processes: the chief first, then by name and number."""
        return tuple(sorted({*self.reports, *self.silent}, key=_order))


def _order(name: str) -> tuple[int, str, int]:
    job = name.rstrip("0123456789")
    digits = name[len(job) :]
    return (0 if job == "chief" else 1, job, int(digits) if digits.isascii() and digits else 0)


def poll_all(
    addresses: Sequence[DebugAddress],
    look: LookQuestion,
    *,
    timeout_s: float = TIMEOUT_S,
    proc: Path = PROC,
    clock: Clock | None = None,
) -> PollResult:
    """Asks all places at once; returns what they told, after `timeout_s` at the latest or a little more."""
    now = (clock or SystemClock()).now
    request = join(encode(look))
    with ThreadPoolExecutor(min(len(addresses), _MOST_THREADS) or 1) as pool:
        asked = list(pool.map(lambda place: _ask(place, request, timeout_s, proc), addresses))
    reports = {found.name: found for found in asked if isinstance(found, ProcessReport)}
    silent = {found.name: found for found in asked if isinstance(found, Silent)}
    used = {place.name: seen for place in addresses if (seen := _usage_of(place, proc)) is not None}
    return PollResult(reports, silent, used, now())


def _usage_of(address: DebugAddress, proc: Path) -> Usage | None:
    return None if address.pid is None else usage(address.pid, proc)


def _ask(address: DebugAddress, request: bytes, timeout_s: float, proc: Path) -> ProcessReport | Silent:
    try:
        told = decode(address.ask(request, timeout_s))
        if isinstance(told, ProcessReport):
            return _of_address(told, address)
        error: Exception = WireError(f"a process answers with a Report, got {type(told).__name__}")
    except (ActorflowError, OSError) as wrong:
        error = wrong
    return Silent(address.name, _why(address, error, proc), address.pid)


def _of_address(report: ProcessReport, address: DebugAddress) -> ProcessReport | Silent:
    if report.name == address.name:
        return report
    return Silent(
        address.name, f"{report.name!r} answers at its address: the address is an old one", address.pid
    )


def _why(address: DebugAddress, error: Exception, proc: Path) -> str:
    """Returns why a process gives no answer: how it stands, if it lives here, and what went wrong."""
    wrong = error.what if isinstance(error, ActorflowError) else describe(error)
    if address.pid is None:
        return wrong
    stands = usage(address.pid, proc)
    if stands is None:
        return f"there is no process {address.pid} any more"
    return f"{stands}; {wrong}" if stands.stuck else f"{wrong}; {stands}"
