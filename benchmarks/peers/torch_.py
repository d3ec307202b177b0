"""torch's DataLoader, as its documentation shows it: a dataset with `__getitem__`, shuffled, in batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from benchmarks.images import BATCH, augmented, images

torch: Any = import_module("torch")
_data: Any = import_module("torch.utils.data")


class Augmented(_data.Dataset):  # type: ignore[misc]
    """The images, decoded and augmented as they are asked for."""

    def __init__(self) -> None:
        self.images, self.labels = images()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> Any:
        return augmented(self.images[i], random.getrandbits(32)), self.labels[i]


@contextmanager
def open_input(workers: int) -> Iterator[Iterator[Any]]:
    """Gives the batches of epoch after epoch; workers stay between them."""
    loader = _data.DataLoader(
        Augmented(), BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )

    def epochs() -> Iterator[Any]:
        while True:
            yield from loader

    batches = epochs()
    yield batches
    batches.close()  # type: ignore[attr-defined]
