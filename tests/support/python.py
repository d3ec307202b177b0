"""Another Python beside the one that runs the tests, for what ends a process or begins one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.support.busy import HANG_S


def run_python(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs it to its end and returns that, with what it printed; takes the options of `subprocess.run` too.

    A code that is not 0 is for the caller to look at, unless `check` is said.
    """
    usual = {"capture_output": True, "text": True, "timeout": HANG_S, "check": False}
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, *map(str, arguments)], **{**usual, **options}
    )
    return done
