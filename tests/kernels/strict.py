"""A stand-in for CuPy on a machine without a card: array_api_strict, which knows no numpy habits.

Functions that are not in the Python array API are absent, arguments that it does not allow raise,
and its arrays do not mix with numpy's. Beyond the standard it has here what the arrays and dtypes of
numpy and CuPy share, and our kernels use: a few methods, and `itemsize`, `kind` and `type` of dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import array_api_strict as xp
import numpy as np
import pytest

ARRAY = type(xp.asarray(0))
DTYPE = type(xp.float32)

NAMES = {d: getattr(xp, d) for d in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128")}  # fmt: skip


def numpy_dtype(dtype: Any) -> np.dtype:
    return next(np.dtype(name) for name, found in NAMES.items() if found == dtype)


def strict_dtype(dtype: Any) -> Any:
    return dtype if isinstance(dtype, DTYPE) else NAMES[np.dtype(dtype).name]


def taken(array: np.ndarray) -> Any:
    """The array as one of array_api_strict."""
    return xp.asarray(np.array(array), dtype=strict_dtype(array.dtype))


def given(array: Any) -> np.ndarray:
    """The array as one of numpy; fails when a kernel made one that is not of the library."""
    assert isinstance(array, ARRAY), f"the kernel left the library: it made {type(array)}"
    return np.asarray(array)


class _DType:
    """What a dtype of numpy says of itself."""

    itemsize = property(lambda self: numpy_dtype(self).itemsize)
    kind = property(lambda self: numpy_dtype(self).kind)
    type = property(lambda self: {"b": bool, "f": float, "c": complex}.get(numpy_dtype(self).kind, int))


METHODS = {
    "astype": lambda self, dtype, copy=True: xp.astype(self, strict_dtype(dtype), copy=copy),
    "reshape": lambda self, shape: xp.reshape(self, (shape,) if isinstance(shape, int) else shape),
    "transpose": lambda self, perm: xp.permute_dims(self, tuple(reversed(range(self.ndim))) if perm is None else tuple(a % self.ndim for a in perm)),
    "swapaxes": lambda self, a, b: xp.moveaxis(self, a, b),  # of neighbours
    "all": lambda self: xp.all(self),
    "any": lambda self: xp.any(self),
    "sum": lambda self: xp.sum(xp.astype(self, xp.int64)),
}  # fmt: skip


@contextmanager
def library() -> Iterator[Any]:
    """Gives array_api_strict with what numpy and CuPy share beyond the standard."""
    with pytest.MonkeyPatch.context() as patch:
        for name, method in METHODS.items():
            patch.setattr(ARRAY, name, method, raising=False)
        for name in ("itemsize", "kind", "type"):
            patch.setattr(DTYPE, name, getattr(_DType, name), raising=False)
        yield xp
