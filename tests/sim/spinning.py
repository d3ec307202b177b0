"""How a test waits for another thread inside a run, where a simulated program may not."""

from __future__ import annotations

import os
import threading


def is_set(event: threading.Event) -> bool:
    """Returns True once the event is set; a test that hangs is ended by faulthandler_timeout."""
    while not event.is_set():
        os.sched_yield()
    return True
