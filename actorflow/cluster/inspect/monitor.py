"""The monitor of a process, which tells what it does from a thread beside its event loop, held up or not.

The loop is asked first, as what it says is of one moment. If it does not answer in time, the same is read
from beside it, where structures may change under the reader: it looks again, and leaves out what it cannot
get. The thread of the loop is then shown with its stack, and with the actor whose turn it is.

A process whose interpreter is held up (one C function that does not let go), or that was stopped by a
signal, answers nothing. Whoever asks says so: see `poll_all`.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from actorflow.actors import dump
from actorflow.actors.cell import Cell
from actorflow.cluster.inspect.reports import LookQuestion, LoopEntry, ProcessReport, Totals
from actorflow.cluster.inspect.snapshots import links_now, run_now, shard_now, totals_now, worker_now
from actorflow.errors import WireError, describe, shorten
from actorflow.transport.codec.message_codec import decode, encode, join

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from actorflow.cluster.process.process import Process

T = TypeVar("T")

HEARTBEAT_S = 0.1
"""How often the loop is looked at from inside; so exactly is known since when it is held up."""

ANSWER_S = 0.25
"""How long the loop may take to answer before it counts as held up."""

_HEARTBEATS = 100  # of which the worst is told
_LOOKS = 20  # at a structure that changes
_DEEP = 40  # calls of a stack
_LINE = 200  # characters of the text of a line
_HERE = str(Path(__file__).parents[2])

_SOCKET = ".m"  # short: the path of a socket has 107 bytes


def socket_name(process: str, incarnation: int) -> str:
    """Returns what the socket is called, in the folder of a cluster, at which a process answers."""
    return f"{process}.{incarnation}{_SOCKET}"


def sockets(folder: Path) -> dict[str, Path]:
    """Returns these sockets in a folder: of each process that of its latest incarnation."""
    found: dict[str, tuple[int, Path]] = {}
    for path in folder.glob(f"*{_SOCKET}"):
        process, _, life = path.name.removesuffix(_SOCKET).rpartition(".")
        if process and life.isascii() and life.isdigit():
            found[process] = max(found.get(process, (0, path)), (int(life), path))
    return {process: path for process, (_, path) in sorted(found.items())}


class Monitor:
    """Answers whoever asks what this process does; `with` it, in the thread of the event loop.

    `answer` is for other threads. It takes no lock that the loop takes, so it never waits for longer than
    `answer_s`, and never holds the loop up.

    Args:
        process: Which tells.
        moved: Returns how many bytes have left the process, and how many have come.
        answer_s: How long the loop may take.
    """

    def __init__(
        self,
        process: Process,
        *,
        moved: Callable[[], tuple[int, int]] = lambda: (0, 0),
        answer_s: float = ANSWER_S,
    ) -> None:
        self._process = process
        self._system = process.system
        self._moved = moved
        self._answer_s = answer_s
        self._now = process.system.now
        self._thread = threading.get_ident()
        self._began = self._heartbeat_at = self._now()
        self._lags: deque[float] = deque([0.0], _HEARTBEATS)
        self._timer: TimerHandle | None = None

    # -- inside the loop ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._heartbeat_at = self._now()
        self._timer = self._system.loop.call_later(HEARTBEAT_S, self._heartbeat)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heartbeat(self) -> None:
        now = self._now()
        self._lags.append(max(0.0, now - self._heartbeat_at - HEARTBEAT_S))
        self._heartbeat_at = now
        self._timer = self._system.loop.call_later(HEARTBEAT_S, self._heartbeat)

    # -- beside it ------------------------------------------------------------------------------------

    def answer(self, request: bytes) -> bytes:
        """Answers an encoded LookQuestion with an encoded ProcessReport.

        Raises:
            WireError: the request is none.
        """
        look = decode(request)
        if not isinstance(look, LookQuestion):
            message = f"a process is asked with a Look, got {type(look).__name__}"
            raise WireError(message)
        return join(encode(self.report(look)))

    def report(self, look: LookQuestion) -> ProcessReport:
        """Returns what this process does now; for any thread but that of the loop."""
        told: Future[ProcessReport] = Future()
        try:
            self._system.loop.call_soon_threadsafe(self._tell, look, told)
            return told.result(self._answer_s)
        except (TimeoutError, RuntimeError):  # it is held up, or closed
            if told.cancel() or not told.done():
                return self.from_beside(look)
        return told.result()

    def _tell(self, look: LookQuestion, told: Future[ProcessReport]) -> None:
        """The loop's answer; nobody may wait for it any more."""
        if not told.set_running_or_notify_cancel():
            return
        try:
            told.set_result(self.take(look))
        except Exception as error:  # noqa: BLE001  whoever asks is told, and the loop goes on
            told.set_exception(error)

    def take(self, look: LookQuestion) -> ProcessReport:
        """Returns what this process does now; for the thread of the loop."""
        return self._report(look, _straight, self._loop_now(answers=True))

    def from_beside(self, look: LookQuestion) -> ProcessReport:
        """Returns what can be read of a process whose loop is held up."""
        return self._report(look, _describe_again, self._loop_now(answers=False))

    @property
    def heartbeat_at(self) -> float:
        """When the loop was last seen to go on, by the clock of the system."""
        return self._heartbeat_at

    def _loop_now(self, *, answers: bool) -> LoopEntry:
        since_s = max(0.0, self._now() - self._heartbeat_at - HEARTBEAT_S)
        late_s = self._lags[-1] if answers else since_s
        worst_s, ready = max(*self._lags.copy(), late_s), len(self._system.dispatch.ring)
        if answers:
            return LoopEntry(answers, late_s, worst_s, ready)
        frame = sys._current_frames().get(self._thread)
        stack, doing = ((), "") if frame is None else (_stack(frame), _whose(frame))
        return LoopEntry(answers, late_s, worst_s, ready, doing, stack)

    def _report(self, look: LookQuestion, read: Any, loop: LoopEntry) -> ProcessReport:
        process, system = self._process, self._system
        unread: list[str] = []
        links = read(lambda: links_now(process.hub), (), unread)
        known = read(lambda: dump.take(system), None, unread) if look.actors else None
        now = self._now()
        return ProcessReport(
            name=process.name,
            incarnation=process.incarnation,
            pid=os.getpid(),
            up_s=now - self._began,
            at_s=now,
            loop=loop,
            totals=read(lambda: totals_now(system, links, self._moved()), _NOTHING, unread),
            actors=() if known is None else known.actors,
            waits=() if known is None else known.waits,
            peers=() if known is None else known.peers,
            dead=() if known is None else known.dead,
            links=links if look.actors else (),
            shard=read(lambda: shard_now(system), None, unread),
            worker=read(lambda: worker_now(system), None, unread),
            run=read(lambda: run_now(system), None, unread),
            unread=tuple(unread),
        )


_NOTHING = Totals()


def _straight(read: Callable[[], T], _otherwise: T, _unread: list[str]) -> T:
    """Reads where nothing changes meanwhile."""
    return read()


def _describe_again(read: Callable[[], T], otherwise: T, unread: list[str]) -> T:
    """Reads what may change under the reader: again, while it does."""
    wrong: Exception | None = None
    for _ in range(_LOOKS):
        try:
            return read()
        except Exception as error:  # noqa: BLE001  a dict that changed its size, or half of a change
            wrong = error
    assert wrong is not None
    unread.append(describe(wrong))
    return otherwise


def _stack(frame: FrameType) -> tuple[str, ...]:
    """Returns the calls of a thread, the innermost last: where, what, and the text of the line."""
    calls = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=_DEEP)
    return tuple(_call(call) for call in reversed(calls))


def _call(call: traceback.FrameSummary) -> str:
    path = Path(call.filename)
    place = path.relative_to(_HERE) if path.is_relative_to(_HERE) else Path(*path.parts[-2:])
    return f"{place}:{call.lineno} in {call.name}: {shorten(call.line or '?', _LINE)}"


def _whose(frame: FrameType) -> str:
    """Returns the actor whose turn a thread takes; empty if it takes none."""
    at: FrameType | None = frame
    while at is not None:
        if "self" in at.f_code.co_varnames:
            here = at.f_locals.get("self")
            if isinstance(here, Cell):
                return here.name
        at = at.f_back
    return ""
