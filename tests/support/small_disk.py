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


_PROGRAM = """
import sys
import actorflow as af

{early}

def build(seed):
    {inside}
    with af.Graph() as g:
        x = af.placeholder("float32", (), name="x")
        w = af.Variable(0.0, name="w")
        train = af.minimize(loss := (w - x) ** 2, af.optim.sgd(0.1))
    return af.Program(graph=g, loss=loss, train=train, epochs=1, batches=batches)

def batches(epoch):
    for _ in range(8):
        {each}
        yield {{"x": 1.0}}
"""


def program(folder: Path, *, early: str = "", inside: str = "pass", each: str = "pass") -> str:
    """Writes a program of 8 batches, with code of its own where it is read, built, or gives each; its path."""
    path = folder / "p.py"
    path.write_text(_PROGRAM.format(early=early, inside=inside, each=each))
    return str(path)
