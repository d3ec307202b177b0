"""Elements in page-locked memory, the only memory from which a card copies while it computes.

It has not run on a card yet, only on the stand-in for CuPy of the tests. A session copies what it is fed
through page-locked buffers of its own (`kernels.device.page_locked`), so today an element that is here
already is copied there once more; what it saves is the waiting of code that hands elements to CuPy itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from actorflow.errors import ConfigError, PlacementError
from actorflow.values.arrays import library

HOST = "/cpu:0"
_DEVICE = re.compile(r"/(cpu|gpu):(\d+)")


def on_the_way_to(device: Any) -> Callable[[Any], Any] | None:
    """Returns what copies an element for a device; None where elements are there already, on the host.

    Raises:
        ConfigError: for what names no device.
        PlacementError: for a card without CuPy, or one that CUDA does not see.
    """
    found = _DEVICE.fullmatch(device) if isinstance(device, str) else None
    if found is None:
        message = f"prefetch takes device as '/cpu:N' or '/gpu:N', got {device!r:.60}"
        raise ConfigError(message)
    if found[1] == "cpu":
        return None
    # Only here: CuPy is there where a card is.
    cuda = library("cupy").cuda
    try:
        count = int(cuda.runtime.getDeviceCount())
    except cuda.runtime.CUDARuntimeError as error:
        message = f"CUDA cannot open card {found[2]}: {error}"
        raise PlacementError(message, hint="prefetch(n) alone keeps elements on the host") from error
    if int(found[2]) >= count:
        message = f"CUDA sees {count} cards and no number {found[2]}"
        raise PlacementError(message, hint="prefetch(n) alone keeps elements on the host")
    return lambda element: _copy(element, cuda.alloc_pinned_memory)


def _copy(value: Any, allocate: Callable[[int], Any]) -> Any:
    """Returns an element whose arrays of numbers are copies in page-locked memory."""
    if isinstance(value, dict):
        return {key: _copy(part, allocate) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_copy(part, allocate) for part in value]
        kind: Any = type(value)
        return kind(*parts) if hasattr(value, "_fields") else kind(parts)
    # Objects are on the host in any case, and nothing is nowhere.
    if type(value) is not np.ndarray or value.dtype.hasobject or not value.nbytes:
        return value
    out: np.ndarray = np.ndarray(value.shape, value.dtype, allocate(value.nbytes))
    np.copyto(out, value)
    return out
