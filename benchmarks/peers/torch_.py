"""torch's DataLoader and its LSTM, as its documentation shows them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from benchmarks.images import BATCH, augmented, images
from benchmarks.words import RATE, THREADS, UNITS, VOCABULARY, batch

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


class LanguageModel(torch.nn.Module):  # type: ignore[misc]
    """Embedding, LSTM and a dense layer, steps first."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, UNITS)
        self.lstm = torch.nn.LSTM(UNITS, UNITS, layers)
        self.dense = torch.nn.Linear(UNITS, VOCABULARY)

    def forward(self, words: Any) -> Any:
        return self.dense(self.lstm(self.embedding(words))[0]).flatten(0, 1)


@contextmanager
def open_lm(layers: int) -> Iterator[Callable[[], Awaitable[float]]]:
    """Gives an update of the model by plain SGD."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    model = LanguageModel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    words, following = (torch.from_numpy(a).long() for a in batch())

    async def update() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(words), following.flatten())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    yield update
    torch.set_num_threads(before)
