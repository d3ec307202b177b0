"""Tells whether a folder is in memory, where files take away what processes could use."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_KINDS = frozenset(("tmpfs", "ramfs", "devtmpfs"))
_ESCAPED = re.compile(r"\\([0-7]{3})")


def in_memory(path: Path, mounts: str | None = None) -> bool:
    r"""Tells whether what is written to a path is kept in memory; False where the system does not say.

    Args:
        path: Of a file or a folder, which need not be there.
        mounts: The mounts, as /proc/self/mountinfo has them; None to read that.

    >>> from pathlib import Path
    >>> from actorflow.launch.filesystems import in_memory
    >>> mounts = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:5 / /run rw shared:1 - tmpfs tmpfs rw"
    >>> in_memory(Path("/run/user/0"), mounts), in_memory(Path("/running"), mounts)
    (True, False)
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(errors="surrogateescape")
        except OSError:  # not Linux
            return False
    there, kind, longest = path.resolve(), "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, said = before.split(), after.split()
        if len(fields) < 5 or not said:
            continue
        at = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        depth = len(at.parts)
        if (
            there.is_relative_to(at) and depth >= longest
        ):  # the later of two mounts at one place hides the other
            kind, longest = said[0], depth
    return kind in _KINDS
