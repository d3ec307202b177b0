"""CuPy as kernels take it: with bfloat16 where CuPy has it and forgets it.

Seen on an H100 with CuPy 14.2: `where`, `tril` and `triu` of bfloat16 give float32, and `matmul` refuses
it ("data type 'E' not understood"). Everything else is CuPy's own.
"""

from __future__ import annotations

from typing import Any

from actorflow.values.arrays import Array, Library

_HALF = "bfloat16"


class CupyLibrary:
    """CuPy, mended; made once a process by `registry`."""

    __name__ = "cupy"

    def __init__(self, cupy: Library) -> None:
        self._cupy = cupy

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cupy, name)
        setattr(self, name, found)  # so that it is looked up once
        return found

    def where(self, condition: Array, a: Array, b: Array) -> Array:
        """As numpy's: of two bfloat16 arrays one of bfloat16, moved bit for bit."""
        halves = _is_half(a), _is_half(b)
        # `where` of bfloat16 gives float32 here: as bits they are moved and not computed with.
        if all(halves):
            bits = self._cupy.where(condition, a.view("uint16"), b.view("uint16"))
            return bits.view(a.dtype)
        chosen = self._cupy.where(condition, a, b)
        if any(halves) and not (hasattr(a, "dtype") and hasattr(b, "dtype")):  # the other is a Python number
            return chosen.astype((a if halves[0] else b).dtype)
        return chosen

    def matmul(self, a: Array, b: Array) -> Array:
        """As numpy's: bfloat16 is multiplied in float32 and rounded once."""
        # CuPy's `matmul` refuses it.
        if not _is_half(a):
            return self._cupy.matmul(a, b)
        return self._cupy.matmul(a.astype("float32"), b.astype("float32")).astype(a.dtype)

    def tril(self, x: Array, k: int = 0) -> Array:
        """As numpy's; bfloat16 is moved bit for bit, since CuPy's own goes through `where`."""
        return self._cupy.tril(x.view("uint16"), k).view(x.dtype) if _is_half(x) else self._cupy.tril(x, k)

    def triu(self, x: Array, k: int = 0) -> Array:
        """Likewise."""
        return self._cupy.triu(x.view("uint16"), k).view(x.dtype) if _is_half(x) else self._cupy.triu(x, k)


def _is_half(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.name == _HALF
