"""Keeps the lines of this package out of the "Explanation" that hypothesis adds to a failure.

It lists the lines that only failing runs took. Those of the library say nothing of the program: that a
schedule deviated, or that an error was put into words.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[2]) + "/"


def of_the_program_alone() -> None:
    """Has hypothesis trace no line of this package; where it is not loaded, or has other insides, nothing.

    It has no setting for that. Untraced lines also leave the lines of the program that lead to them
    in sight: an explanation stops at the first line that only failing runs took.
    """
    scrutineer = sys.modules.get("hypothesis.internal.scrutineer")
    traced = getattr(scrutineer, "should_trace_file", None)
    if traced is None or hasattr(traced, "without_actorflow"):
        return

    @functools.cache
    def should_trace_file(name: str) -> bool:
        return not name.startswith(_PACKAGE) and bool(traced(name))

    should_trace_file.without_actorflow = True  # type: ignore[attr-defined]
    scrutineer.should_trace_file = should_trace_file  # type: ignore[union-attr]
