"""The command line's entry point, which is light: what it can do is in `command`.

numpy and rich take most of a second to import. They are imported inside the block that is ready for
Ctrl-C, which may come that early.
"""

from __future__ import annotations

import sys

from actorflow.cli.exit_codes import STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code."""
    try:
        from actorflow.runtime import sigint

        with sigint.guard_sigint():
            from actorflow.cli import command
        code = command.run(argv)
    except KeyboardInterrupt:  # before the command was able to say where it stopped
        print("stopped by Ctrl-C before it began", file=sys.stderr)
        code = STOPPED
    if code == STOPPED:
        # Once KeyboardInterrupt has passed through an eval of text (dataclasses, namedtuple), Python dies
        # of SIGINT at its exit, though somebody caught it. The next eval takes that back.
        eval("0")
    return code
