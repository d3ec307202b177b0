"""Which exceptions of a user's function fail an element; all others end the program."""

from __future__ import annotations

from asyncio import CancelledError

FAILURES = (Exception, CancelledError)
"""Nobody cancels a task while a plain function runs, so a CancelledError is the function's own."""
