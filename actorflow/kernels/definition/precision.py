"""Half-precision arrays computed in float32: numpy has no fast or exact loops of its own for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def is_half(dtype: Any) -> bool:
    """Whether it is float16 or bfloat16; asking for its name would cost 8 µs."""
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def in_float32(function: Function) -> Function:
    """Makes a kernel take float16 and bfloat16 as float32 and round its one result back.

    The dtype of the first array decides; all but the two halves pass through untouched.
    """

    @wraps(function)
    def widened(first: Any, *arrays: Any, **attrs: Any) -> Any:
        dtype = first.dtype
        # By the first array alone: indices and the like pass through untouched.
        if not is_half(dtype):
            return function(first, *arrays, **attrs)
        # Whatever adds up or multiplies many elements rounds once, at the end: added up in bfloat16, ones
        # stay at 256.
        wide = [a.astype(np.float32) if a.dtype == dtype else a for a in (first, *arrays)]
        return function(*wide, **attrs).astype(dtype)

    return widened  # type: ignore[return-value]
