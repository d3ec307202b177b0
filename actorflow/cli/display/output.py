"""The screen of a command: plain text, and no end of the process in the middle when nobody reads on."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

UNREAD = "nobody reads standard output any more"


class Output(Console):
    """A console that takes note when its reader has gone, as in `actorflow launch ... | head`.

    Rich raises SystemExit then, wherever that is: in a callback of the event loop, or in its own thread. A
    command asks `check` where it can end in order.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, **options)
        self.unread = False

    def on_broken_pipe(self) -> None:
        """Says nothing more, to anybody."""
        self.unread = self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())  # for what is still in its buffer

    def check(self) -> None:
        """Raises BrokenPipeError when nobody reads on."""
        if self.unread:
            raise BrokenPipeError(UNREAD)
