"""The data sets that there are."""

from __future__ import annotations

from difflib import get_close_matches

from actorflow.datasets.clothes import FASHION_MNIST
from actorflow.datasets.dataset import Dataset
from actorflow.datasets.handwriting import DIGITS
from actorflow.datasets.novels import AUSTEN
from actorflow.errors import ConfigError

DATASETS = {dataset.name: dataset for dataset in (AUSTEN, DIGITS, FASHION_MNIST)}
"""By name."""


def find_dataset(name: str) -> Dataset:
    """Returns the data set of a name.

    Raises:
        ConfigError: there is none.
    """
    found = DATASETS.get(name)
    if found is None:
        close = get_close_matches(name, DATASETS, n=1)
        message = f"a data set must be one of {', '.join(sorted(DATASETS))}, got {name!r}"
        raise ConfigError(message, hint=f"did you mean {close[0]}?" if close else None)
    return found
