"""The seed by which this process hashes strings, which decides in which order a set of them is walked."""

from __future__ import annotations

import os
import sys

_UNDER_ANOTHER = "under another one sets of strings have another order"


def describe() -> str:
    """Returns what a failure says of it: without it, one that depends on such an order is not repeated."""
    if not sys.flags.hash_randomization:
        return f"PYTHONHASHSEED=0: {_UNDER_ANOTHER}"
    seed = "" if sys.flags.ignore_environment else os.environ.get("PYTHONHASHSEED", "")
    if seed.isdecimal():
        return f"PYTHONHASHSEED={seed}: {_UNDER_ANOTHER}"
    return "PYTHONHASHSEED was not set: set it if it fails in some processes only, since sets differ in order"
