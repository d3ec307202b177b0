"""grain, as its documentation shows it: a dataset by index, shuffled, mapped with chance, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from benchmarks.images import BATCH, augmented, images

grain: Any = import_module("grain.python")


class Source:
    """The images and their labels by index."""

    def __len__(self) -> int:
        return len(images()[1])

    def __getitem__(self, i: int) -> Any:
        x, y = images()
        return x[i], y[i]


class Augment(grain.RandomMapTransform):  # type: ignore[misc]
    """Decodes and augments one."""

    def random_map(self, element: Any, rng: Any) -> Any:
        """The image by random bits of its own."""
        return augmented(element[0], int(rng.integers(1 << 32))), element[1]


@contextmanager
def open_input(workers: int) -> Iterator[Iterator[Any]]:
    """Gives the batches of epoch after epoch."""
    dataset = grain.MapDataset.source(Source()).shuffle(seed=1).repeat().random_map(Augment(), seed=2)
    batches = dataset.batch(BATCH).to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))
    if workers:
        batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    yield iter(batches)
