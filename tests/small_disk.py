"""A disk of one MiB that is really there, for what happens when it is full."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    """Mounts a file system of 1 MiB in memory; skips the test, with the reason, where that is not allowed."""
    at.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", str(at)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount on this machine")
    if mounted.returncode:
        pytest.skip(f"only root mounts a small disk: {mounted.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def fill(disk: Path) -> None:
    """Leaves no byte of room on a disk."""
    with (disk / "filling").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017  it is how it ends
                return
