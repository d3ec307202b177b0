"""New tensors: zeros, ones, one value everywhere, counting, steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import ints, maps, need


def _full(shape: Sequence[int], value: Any, dtype: Any, how: dict[str, Any]) -> Tensor:
    need(how.get("layout") in (None, "torch.strided"), "layout: ours are dense")
    return af.full(tuple(shape), value, dtype or "float32")


@maps("zeros", "zeros")
def _zeros(*size: Any, dtype: Any = None, **how: Any) -> Tensor:
    return af.zeros(ints(size), dtype or "float32")


@maps("ones", "ones")
def _ones(*size: Any, dtype: Any = None, **how: Any) -> Tensor:
    return af.ones(ints(size), dtype or "float32")


@maps("full", "full")
def _full_of(size: Sequence[int], value: Any, *, dtype: Any = None, **how: Any) -> Tensor:
    return _full(size, value, dtype, how)


@maps("zeros_like", "zeros_like")
def _zeros_like(x: Tensor, *, dtype: Any = None, **how: Any) -> Tensor:
    return af.cast(af.zeros_like(x), dtype or x.dtype)


@maps("ones_like", "ones_like")
def _ones_like(x: Tensor, *, dtype: Any = None, **how: Any) -> Tensor:
    return af.cast(af.ones_like(x), dtype or x.dtype)


@maps("full_like", "full_like")
def _full_like(x: Tensor, value: Any, *, dtype: Any = None, **how: Any) -> Tensor:
    return af.full_like(af.cast(x, dtype or x.dtype), value)


@maps("new_zeros", "zeros")
def _new_zeros(x: Tensor, *size: Any, dtype: Any = None, **how: Any) -> Tensor:
    return af.zeros(ints(size), dtype or x.dtype)


@maps("new_ones", "ones")
def _new_ones(x: Tensor, *size: Any, dtype: Any = None, **how: Any) -> Tensor:
    return af.ones(ints(size), dtype or x.dtype)


@maps("new_full", "full")
def _new_full(x: Tensor, size: Sequence[int], value: Any, *, dtype: Any = None, **how: Any) -> Tensor:
    return _full(size, value, dtype or x.dtype, how)


@maps("fill", "full_like")
def _fill(x: Tensor, value: Any) -> Tensor:
    need(not isinstance(value, Tensor), "the value of fill as a tensor: full_like takes a number")
    flag = isinstance(value, bool) and x.dtype.kind != "b"
    return af.full_like(x, int(value) if flag else value)  # ours keeps bool and numbers apart


@maps("scalar_tensor", "constant")
def _scalar(value: Any, *, dtype: Any = None, **how: Any) -> Tensor:
    return af.full((), value, dtype or "float32")


@maps("eye", "eye")
def _eye(n: int, m: int | None = None, *, dtype: Any = None, **how: Any) -> Tensor:
    return af.eye(n, m, dtype=dtype or "float32")


@maps("arange", "arange")
def _arange(*given: Any, end: Any = None, step: Any = 1, dtype: Any = None, **how: Any) -> Tensor:
    if end is not None:
        given = (*given, end, step)
    start, stop, by = given if len(given) == 3 else (*given, 1) if len(given) == 2 else (0, *given, 1)
    default = "float32" if any(isinstance(g, float) for g in given) else "int64"
    return af.arange(start, stop, by, dtype or default)


@maps("linspace", "linspace")
def _linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, **how: Any) -> Tensor:
    need(dtype in (None, "float32", "float64"), "linspace of other dtypes than floats: ours has those")
    return af.linspace(start, end, steps, dtype=dtype or "float32")
