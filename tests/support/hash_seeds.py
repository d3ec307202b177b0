"""What a program prints in processes with different hash seeds."""

from __future__ import annotations

import subprocess
import sys


def printed(code: str) -> set[str]:
    """Returns what `code` prints under two hash seeds: one text, if it does not depend on them."""
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
