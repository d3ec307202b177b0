"""What every kernel that stands on LAPACK shares: halves by way of float32, and failures that say why.

numpy raises for a singular matrix. CuPy would hand back NaN, or half a factor: it is told to raise as
well, for which it waits for the card.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from actorflow.errors import KernelError
from actorflow.values.arrays import Array, DType, Library
from actorflow.values.spec import show

Function = TypeVar("Function", bound=Callable[..., Any])


def raising(xp: Library) -> AbstractContextManager[Any]:
    """Makes CuPy raise LinAlgError inside, as numpy does anyway."""
    # numpy raises by itself.
    if getattr(xp, "__name__", "") != "cupy":
        return nullcontext()
    found: AbstractContextManager[Any] = import_module("cupyx").errstate(linalg="raise")
    return found


def lapack(op: str, needs: str, probe: str = "") -> Callable[[Function], Function]:
    """Makes a kernel take halves as float32 and round its results back, and say what it could not take.

    Args:
        op: The name of the op.
        needs: What it needs of the first array, for the error.
        probe: The function of `xp.linalg` that fails for a matrix as the kernel does: it finds the
            first one in a batch, after a failure.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def kernel(first: Array, *others: Array, xp: Library = np, **attrs: Any) -> Any:
            dtype = first.dtype
            # LAPACK has nothing for halves.
            half = dtype.itemsize == 2
            arrays = [a.astype(np.float32) for a in (first, *others)] if half else [first, *others]
            try:
                with raising(xp):
                    made = function(*arrays, xp=xp, **attrs)
            except np.linalg.LinAlgError as error:
                # In the dtype that was computed; a probe only after a failure, so that success costs nothing.
                at = _first_wrong(arrays[0], getattr(xp.linalg, probe)) if probe else None
                place = f", the first at index {show(at)}" if at else ""
                message = f"{op} needs {needs}, got {show(first.shape)} {dtype}: {str(error).lower()}{place}"
                raise KernelError(message) from error
            # What came from floats is of the right dtype already.
            if not half:
                return made
            return tuple(_back(m, dtype) for m in made) if isinstance(made, tuple) else _back(made, dtype)

        return kernel  # type: ignore[return-value]

    return decorate


def _back(x: Array, dtype: DType) -> Array:
    """A result of float32 as halves; counts stay what they are."""
    return x.astype(dtype) if x.dtype == np.float32 else x


def _first_wrong(x: Array, probe: Callable[[Array], Any]) -> tuple[int, ...] | None:
    """The leading index of the first matrix that `probe` refuses."""
    for index in np.ndindex(x.shape[:-2]):
        try:
            probe(x[(*index, slice(None), slice(None))])
        except np.linalg.LinAlgError:
            return index
    return None


def cubic(x: Array, *others: Array, **_: Any) -> float:
    """Some n·n·m operations for each matrix of x (m, n), and two for each element of the others."""
    narrow, wide = sorted(x.shape[-2:])
    columns = sum(b.size for b in others)
    return float(x.size * narrow * 2 + columns * 2 * wide)
