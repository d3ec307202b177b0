"""The folders of runs of clusters, in a place that only one test knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from unittest.mock import patch

from actorflow.launch.rundir import home


@contextmanager
def own_runs() -> Iterator[Callable[[], list[str]]]:
    """Lets clusters have their folders apart from those of others; gives what is left of them."""
    with TemporaryDirectory(prefix="af-") as folder, patch.dict(os.environ, XDG_RUNTIME_DIR=folder):

        def left() -> list[str]:
            return [path.name for path in home().iterdir()] if home().is_dir() else []

        yield left
