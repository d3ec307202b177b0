r"""What this process runs and waits for, on stderr, when somebody asks by a signal, or loses patience.

SIGQUIT (Ctrl-\\ on a terminal) prints the dumps of all sessions and actor systems that are open, and
the program goes on. Ctrl-C prints them before it does its work, where something has waited for long.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, ref

Handler: TypeAlias = Callable[[int, Any], Any] | int | None

LONG_S = 1.0
"""From when on Ctrl-C says what a step or an ask waits for."""

_OPEN: WeakKeyDictionary[Any, ref[Any] | None] = WeakKeyDictionary()
"""What is open, in the order in which it was opened, and what the dump of each tells of besides itself."""


def opened(what: Any, within: Any = None) -> None:
    """Notes a session or an actor system, whose `dump()` is told from now on.

    Args:
        what: It has `dump()`, of which `str` is a report.
        within: An actor system that its dump tells of as well.
    """
    _OPEN[what] = None if within is None else ref(within)


def closed(what: Any) -> None:
    """Forgets it; what is not there is left alone."""
    _OPEN.pop(what, None)


def report(at_least_s: float = 0.0) -> str:
    """Returns the dumps of all that is open, and "" where there is none.

    Args:
        at_least_s: Leaves out those in which no step runs and no ask waits for so long.
    """
    entries = list(_OPEN.items())
    told_of = [within() for _, within in entries if within is not None]
    parts = [_read(what, at_least_s) for what, _ in entries if not any(what is other for other in told_of)]
    return "\n".join(part for part in parts if part)


def _read(what: Any, at_least_s: float) -> str:
    """The dump of one; a signal may come in the midst of a change, and then it says so."""
    try:
        dump = what.dump()
        system = getattr(dump, "system", None)
        told_by = (dump, "steps"), (dump, "inputs"), (dump, "waits"), (system, "waits")
        waits = [wait for part, name in told_by for wait in getattr(part, name, ())]
        if at_least_s and not any(wait.age_s >= at_least_s for wait in waits):
            return ""
        return str(dump)
    except Exception as error:  # noqa: BLE001  told in its place: the program must go on
        return f"{what!r} could not be read: {error!r}"


@contextmanager
def installed() -> Iterator[None]:
    """Prints dumps on SIGQUIT, and before Ctrl-C does what it does, while the block runs.

    A handler that somebody has for SIGQUIT is left alone, and so are both in a thread that is not the
    main one, which cannot have any.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, tuple[Handler, Handler]] = {}
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL:
        signal.signal(signal.SIGQUIT, _on_quit)
        before[signal.SIGQUIT] = signal.SIG_DFL, _on_quit
    interrupted = signal.getsignal(signal.SIGINT)
    if callable(interrupted):

        def on_interrupt(number: int, frame: Any) -> None:
            _print("Ctrl-C while this waits:", report(LONG_S))
            interrupted(number, frame)

        signal.signal(signal.SIGINT, on_interrupt)
        before[signal.SIGINT] = interrupted, on_interrupt
    try:
        yield
    finally:
        for number, (handler, ours) in before.items():
            if signal.getsignal(number) is ours:
                signal.signal(number, handler)


def _on_quit(number: int, frame: Any) -> None:
    _print("SIGQUIT: open sessions and actor systems:", report() or "none")


def _print(title: str, text: str) -> None:
    """Prints to stderr; where that is closed or full nobody can be told."""
    if text:
        with suppress(OSError, ValueError, RuntimeError):  # RuntimeError: it came in the midst of a print
            sys.stderr.write(f"{title}\n{text}\n")
            sys.stderr.flush()
