"""Copies of views: an element that is kept must not keep the memory that it was cut from."""

from __future__ import annotations

from typing import Any

import numpy as np


def copy_views(value: Any) -> Any:
    """Returns an element in which no array is a view of anything; what owns its memory stays as it is.

    Dicts, tuples and lists keep their structure. Cost of a copy: 1.2 µs for an array of 28x28 bytes;
    0.2 ms for one of 150 KB, most of which is memory that is touched for the first time.
    """
    if isinstance(value, np.ndarray):
        # Without a base it owns its memory.
        return value if value.base is None else value.copy()
    if isinstance(value, dict):
        return {key: copy_views(part) for key, part in value.items()}
    if isinstance(value, tuple):
        parts = map(copy_views, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [copy_views(part) for part in value]
    return value
