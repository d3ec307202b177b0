"""Half-precision arrays computed in float32: numpy has no fast or exact loops of its own for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def in_float32(function: Function) -> Function:
    """Makes a kernel take float16 and bfloat16 as float32 and round its one result back.

    The dtype of the first array decides; all but the two halves pass through untouched.
    """

    @wraps(function)
    def widened(first: Any, *arrays: Any, **attrs: Any) -> Any:
        dtype = first.dtype
        if dtype.itemsize > 2 or dtype.kind in "biu":  # asking for the name would cost 8 µs a call
            return function(first, *arrays, **attrs)
        wide = [a.astype(np.float32) if a.dtype == dtype else a for a in (first, *arrays)]
        return function(*wide, **attrs).astype(dtype)

    return widened  # type: ignore[return-value]
