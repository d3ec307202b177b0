"""Ctrl-C while modules are imported, where it can get lost or become another error."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Watch:
    """Whether Ctrl-C has come.

    Attributes:
        came: None where somebody else hears of it, so that nothing is known.
    """

    __slots__ = ("came",)

    def __init__(self) -> None:
        self.came: bool | None = None


@contextmanager
def guard_sigint() -> Iterator[Watch]:
    """Raises KeyboardInterrupt at the end of the block when Ctrl-C came in it, whatever became of that.

    In an import of numpy and scipy about one in two hundred comes to nothing: it is raised in a callback
    of a weak reference, where Python ignores it, or C code makes an ImportError of it. Where somebody
    has a handler of his own, and in threads that Ctrl-C does not reach, the block is left alone.
    """
    watch = Watch()
    before = signal.getsignal(signal.SIGINT)
    # Somebody else hears of Ctrl-C, or nobody can.
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield watch
        return
    watch.came = False

    def handle(number: int, frame: FrameType | None) -> None:
        # ORDER: noted before it is raised: whatever becomes of the error, it is known.
        watch.came = True
        signal.default_int_handler(number, frame)

    def report(ignored: sys.UnraisableHookArgs) -> None:
        # What Python ignores is reported here; of ours nobody needs to read, since it is raised below.
        if ignored.exc_type is not KeyboardInterrupt:
            reported_before(ignored)

    reported_before, sys.unraisablehook = sys.unraisablehook, report
    signal.signal(signal.SIGINT, handle)
    dropped = False
    try:
        yield watch
    except GeneratorExit:  # it came between this and the block, and is on its way already
        dropped = True
        raise
    finally:
        # ORDER: handlers are given back before anything is raised.
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = reported_before
        if watch.came and not dropped:
            raise KeyboardInterrupt
