"""The groups in which the variables of a shard are pulled, so that a step can begin with the first.

Pure: a function of names and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping

PART_BYTES = 1 << 20
"""What a part has at least, so that the message that it costs is little beside what it brings."""

_MOST = 16


def group_pulls(sizes: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Returns the variables of a shard in groups, in their order, which is about that of their first use.

    Args:
        sizes: Bytes of each variable as it is pulled, by name.
    """
    least = max(PART_BYTES, sum(sizes.values()) // _MOST)
    parts: list[list[str]] = [[]]
    nbytes, left = 0, sum(sizes.values())
    for name, size in sizes.items():
        parts[-1].append(name)
        nbytes, left = nbytes + size, left - size
        if nbytes >= least and left >= least:
            parts.append([])
            nbytes = 0
    return tuple(map(tuple, parts))
