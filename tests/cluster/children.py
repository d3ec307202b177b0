"""Programs that the processes of a real cluster import, and what is left of such a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import actorflow as af
from actorflow.launch.rundir import home


def build(seed: int) -> af.Program:
    """A linear regression; it learns within some epochs of 12 batches, of which there are many."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(12, 8, 4)).astype("float32")
    targets = inputs @ rng.normal(size=(4, 2)).astype("float32")
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 4), name="x")
        y = af.placeholder("float32", (None, 2), name="y")
        w = af.Variable(af.init.he((4, 2)), name="w")
        b = af.Variable(af.init.zeros((2,)), name="b")
        loss = af.mean((x @ w + b - y) ** 2)
        train = af.minimize(loss, af.optim.adam(0.05))

    def source(epoch: int) -> list[Mapping[str, Any]]:
        order = np.random.default_rng([seed, epoch]).permutation(12)
        return [{"x": inputs[k], "y": targets[k]} for k in order]

    return af.Program(graph=graph, loss=loss, train=train, batches=source, epochs=1_000_000)


def alive(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def own_runs() -> Iterator[Callable[[], list[str]]]:
    """Lets clusters have their folders apart from those of others; gives what is left of them."""
    with TemporaryDirectory(prefix="af-") as folder, patch.dict(os.environ, XDG_RUNTIME_DIR=folder):

        def left() -> list[str]:
            return [path.name for path in home().iterdir()] if home().is_dir() else []

        yield left
