r"""The dump of what this process runs and waits for, on stderr, when a signal asks, or patience is lost.

SIGQUIT (Ctrl-\\ on a terminal) prints the dumps of all sessions and actor systems that are open, and
the program goes on. Ctrl-C prints them before it does its work, where something has waited for long. Where
code of the program holds the event loop, both say which; of that the cancellation by which Ctrl-C ends a
main coroutine knows nothing, so that code is interrupted a little later, as Ctrl-C does it without a loop.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, ref

from actorflow.runtime.loop_holder import holder

Handler: TypeAlias = Callable[[int, Any], Any] | int | None

LONG_S = 1.0
"""From when on Ctrl-C says what a step or an ask waits for; how long it leaves to what holds the loop."""

SOON_S = 0.2
"""When after Ctrl-C who holds the loop is told, if the loop has not come round."""

_OPEN: WeakKeyDictionary[Any, ref[Any] | None] = WeakKeyDictionary()
"""What is open, in the order in which it was opened, and what the dump of each tells of besides itself."""


def register(what: Any, within: Any = None) -> None:
    """Notes a session or an actor system, whose `dump()` is told from now on.

    Args:
        what: It has `dump()`, of which `str` is a report.
        within: An actor system that its dump tells of as well.
    """
    # Weak, as `_OPEN` is: to be told of keeps nothing open.
    _OPEN[what] = None if within is None else ref(within)


def unregister(what: Any) -> None:
    """Forgets it; what is not there is left alone."""
    _OPEN.pop(what, None)


def describe_all(at_least_s: float = 0.0) -> str:
    """Returns the dumps of all that is open, and "" where there is none.

    Args:
        at_least_s: Leaves out those in which no step runs and no ask waits for so long.
    """
    # A copy: sessions may be opened while dumps are made.
    entries = list(_OPEN.items())
    told_of = [within() for _, within in entries if within is not None]
    # What another dump tells of is not told twice.
    parts = [_read(what, at_least_s) for what, _ in entries if not any(what is other for other in told_of)]
    return "\n".join(part for part in parts if part)


def _read(what: Any, at_least_s: float) -> str:
    """The dump of one; a signal may come in the midst of a change, and then it says so."""
    try:
        dump = what.dump()
        system = getattr(dump, "system", None)
        # What a session tells and what a system does; a session with a system of its own tells of both.
        told_by = (dump, "steps"), (dump, "inputs"), (dump, "waits"), (system, "waits")
        waits = [wait for part, name in told_by for wait in getattr(part, name, ())]
        if at_least_s and not any(wait.age_s >= at_least_s for wait in waits):
            return ""
        return str(dump)
    except Exception as error:  # noqa: BLE001  told in its place: the program must go on
        return f"{what!r} could not be read: {error!r}"


class _LoopWatch:
    """Whether the event loop of the main thread comes round after Ctrl-C; says who holds it, if not.

    What held it when Ctrl-C came is interrupted; what holds it later, such as an `on_stop`, is only told of.

    Attributes:
        over: Set once nobody needs to look any more.
        forced: Whether what holds the loop is to be interrupted now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, ends: bool) -> None:
        self.over = threading.Event()
        self.forced = False
        self._ends = ends
        self._loop = loop
        self._came = threading.Event()
        # It comes round when it gets to this.
        loop.call_soon_threadsafe(self._came.set)
        self._thread = threading.Thread(target=self._look, name="actorflow-ctrl-c", daemon=True)
        self._thread.start()

    @property
    def came(self) -> bool:
        """Whether the loop has come round since it was asked to."""
        return self._came.is_set()

    def end(self) -> None:
        """Looks no more: at once, also where the loop comes round no more."""
        self.over.set()
        self._came.set()

    def join(self) -> None:
        """Waits for its thread, after `end`."""
        self._thread.join()

    def _look(self) -> None:
        # Within SOON_S most loops have come round, and nobody hears of it.
        if not self._came.wait(SOON_S) and (held := self._holder()) is not None:
            then = f"; it is interrupted in {LONG_S:g} s" if self._ends else ""
            _print("Ctrl-C while the event loop is held:", f"  by {held}{then}")
            # Interrupted only what holds it since Ctrl-C came: the same wait, and still somebody at the end
            # of it.
            if self._ends and not self._came.wait(LONG_S) and self._holder() is not None:
                # ORDER: before the signal, whose handler asks for it.
                self.forced = True
                signal.pthread_kill(_main(), signal.SIGINT)  # so that a call that blocks, such as sleep, ends
        self._look_on()

    def _look_on(self) -> None:
        told = None
        # One that has come round is asked again later; one that has not is told of once.
        while self._came.wait(SOON_S) or not self.over.is_set():
            if self._came.is_set():
                # A new holder may come: it is told of again.
                told = None
                if self.over.wait(SOON_S):
                    return
                self._came.clear()
                try:
                    self._loop.call_soon_threadsafe(self._came.set)
                except RuntimeError:  # it is closed
                    return
            # Told of and not interrupted: it may be an `on_stop` that does what Ctrl-C asks for.
            elif told is None and not self.forced and (told := self._holder()) is not None:
                _print("Leaving after Ctrl-C, the event loop is held:", f"  by {told}; Ctrl-C interrupts it")

    def _holder(self) -> str | None:
        return holder(sys._current_frames().get(_main()))


def _main() -> int:
    ident = threading.main_thread().ident
    assert ident is not None
    return ident


@contextmanager
def install_handlers(*, ends: bool = False) -> Iterator[None]:
    """Prints dumps on SIGQUIT, and before Ctrl-C does what it does, while the block runs.

    A handler that somebody has for SIGQUIT is left alone, and so are both in a thread that is not the
    main one, which cannot have any.

    Args:
        ends: Whether Ctrl-C is to end the program, so that code of it which holds the event loop that runs in
            this thread may be interrupted.
    """
    # Python lets the main thread alone have handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, tuple[Handler, Handler]] = {}
    # A handler of somebody's own stays.
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL:
        signal.signal(signal.SIGQUIT, _on_quit)
        before[signal.SIGQUIT] = signal.SIG_DFL, _on_quit
    interrupted, end = signal.getsignal(signal.SIGINT), _nothing
    # Not where Ctrl-C is ignored, as in background jobs of a shell.
    if callable(interrupted):
        on_interrupt, end = _on_interrupt(interrupted, ends=ends)
        signal.signal(signal.SIGINT, on_interrupt)
        before[signal.SIGINT] = interrupted, on_interrupt
    try:
        yield
    finally:
        end()
        for number, (handler, ours) in before.items():
            # Somebody may have put another on top, which stays.
            if signal.getsignal(number) is ours:
                signal.signal(number, handler)


def _on_interrupt(
    interrupted: Callable[[int, Any], Any], *, ends: bool
) -> tuple[Handler, Callable[[], None]]:
    """Returns a handler of Ctrl-C that says what is waited for, before `interrupted`; and what ends it."""
    rounds: list[_LoopWatch] = []

    def on_interrupt(number: int, frame: Any) -> None:
        # The signal that the watch has sent, not the user's.
        if rounds and rounds[-1].forced:
            round_ = rounds[-1]
            round_.forced = False
            # It came round in the meantime: nothing holds it any more.
            if round_.came:
                return
            raise KeyboardInterrupt
        _print("Ctrl-C while this waits:", describe_all(LONG_S))
        # ORDER: told before what Ctrl-C does, which may take away what waits.
        interrupted(number, frame)
        loop = asyncio._get_running_loop()
        if loop is not None:
            for round_ in rounds:
                round_.end()  # its thread may wait for this one, so nothing waits for it
            # The last Ctrl-C alone is watched.
            rounds[:] = [_LoopWatch(loop, ends=ends)]

    def end() -> None:
        # ORDER: all are told to end before any is waited for.
        for round_ in rounds:
            round_.end()
        for round_ in rounds:
            round_.join()

    return on_interrupt, end


def _nothing() -> None:
    """Stands for the end of a handler that is not installed."""


def _on_quit(number: int, frame: Any) -> None:
    running = asyncio._get_running_loop() is not None
    # Outside of a loop there is nothing to be held.
    held = holder(frame) if running else None
    _print("SIGQUIT: open sessions and actor systems:", describe_all() or "none")
    _print("SIGQUIT: the event loop is held now:", "" if held is None else f"  by {held}")


def _print(title: str, text: str) -> None:
    """Prints to stderr; where that is closed or full nobody can be told."""
    if text:
        with suppress(OSError, ValueError, RuntimeError):  # RuntimeError: it came in the midst of a print
            sys.stderr.write(f"{title}\n{text}\n")
            sys.stderr.flush()
