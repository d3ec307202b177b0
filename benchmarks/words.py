"""The language model that `lm` trains, in numbers, and the words that it is fed."""

from __future__ import annotations

from typing import Any

import numpy as np

VOCABULARY = 10_000
UNITS = 512
STEPS = 35
ROWS = 20
THREADS = 2
RATE = 1.0
"""Of plain gradient descent."""


def batch() -> tuple[Any, Any]:
    """Returns words and those that follow them, int32 (STEPS, ROWS), drawn."""
    drawn = np.random.default_rng(0).integers(0, VOCABULARY, (STEPS + 1, ROWS)).astype(np.int32)
    return drawn[:-1], drawn[1:]
