"""Arrays of drawn numbers, and where an array lies."""

from __future__ import annotations

from typing import Any

import numpy as np


def drawn(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Returns normal numbers; the shape is the seed, so that they are the same every time."""
    found: np.ndarray = np.random.default_rng(shape).standard_normal(shape).astype(dtype)
    return found


def address(array: Any) -> int:
    """Returns where the first element lies in memory; two arrays that share it have the same."""
    return int(array.__array_interface__["data"][0])
