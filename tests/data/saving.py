"""Arrays as numpy saves them, for files to be read."""

from __future__ import annotations

import io
from typing import Any

import numpy as np


def array_of(n: int, shape: tuple[int, ...], dtype: Any, order: Any = "C") -> np.ndarray:
    made = np.zeros((n, *shape), dtype, order=order)
    if made.dtype.names:
        made["a"] = np.arange(made.size).reshape(made.shape)
        made["b"] = 0.5
    elif made.dtype.kind == "M":
        made[...] = np.arange(made.size).reshape(made.shape).astype("M8[s]")
    else:
        made[...] = (np.arange(made.size) % 100).reshape(made.shape)
    return made


def saved(array: np.ndarray, version: Any = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def native(array: np.ndarray) -> list[Any]:
    return list(array.astype(array.dtype.newbyteorder("=")))
