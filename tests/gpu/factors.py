"""What is the same of a matrix's factors whatever signs, or phases, the library gave them.

cuSOLVER and LAPACK each choose the signs of the columns of q, u and v; both are right. So not factors
are compared but what can only be one thing: their products, and the sizes of their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import actorflow.ops as ops
from actorflow.graph.builder import Tensor


def _qr(q: Any, r: Any, size: Callable[[Any], Any]) -> tuple[Any, ...]:
    return q @ r, size(q), size(r)


def _eigh(w: Any, v: Any, size: Callable[[Any], Any]) -> tuple[Any, ...]:
    return w, (v * w[..., None, :]) @ _adjoint(v), size(v)


def _svd(u: Any, s: Any, vh: Any, size: Callable[[Any], Any]) -> tuple[Any, ...]:
    return (u * s[..., None, :]) @ vh, s, size(u), size(vh)


def _adjoint(v: Any) -> Any:
    return ops.matrix_transpose(v) if isinstance(v, Tensor) else v.conj().mT


FACTORS: dict[str, Callable[..., tuple[Any, ...]]] = {"qr": _qr, "eigh": _eigh, "svd": _svd}


def without_signs(op: str, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays of numpy that are the same whatever the signs; those of other ops as they are.

    Products are made in double precision and rounded to the dtype of the factors.
    """
    if op not in FACTORS:
        return tuple(arrays)
    whole = arrays[-1].dtype  # that of the vectors
    part = arrays[-1].real.dtype
    wide = [a.astype("complex128" if a.dtype.kind == "c" else "float64") for a in arrays]
    return tuple(m.astype(whole if m.dtype.kind == "c" else part) for m in FACTORS[op](*wide, np.abs))


def tensors_without_signs(op: str, ys: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The same of tensors, to be differentiated; squares instead of sizes, which are smooth at zero."""
    return FACTORS[op](*ys, ops.square) if op in FACTORS else tuple(ys)
