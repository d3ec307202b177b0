"""Tensors made of a rule rather than of data: full, zeros, ones, arange, linspace, eye."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor, as_tensors, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.broadcast import broadcast_like, broadcast_to
from actorflow.ops.array.constants import constant
from actorflow.ops.definition.arguments import api_function, number_or_none
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.random import check_dtype_holds
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import is_floating
from actorflow.values.spec import Spec, spec

Number = bool | int | float


@api_function
def full(shape: Iterable[int] | Tensor, value: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """`value` at every place of `shape`; one element in memory, however large the shape.

    Shapes:   () -> `shape`, as `broadcast_to` takes it; a `value` that broadcasts to it
    Dtypes:   `dtype`, else that of `value`: Python floats are float32, integers int32
    Gradient: summed to `value`, when that is a tensor.
    Raises:   SpecError for a value that the dtype cannot hold.

    >>> with af.Graph():
    ...     af.full((2, 3), 0.5)
    <Tensor broadcast_to:0 (2, 3) float32>
    """
    # One element, broadcast: no memory for the rest.
    return broadcast_to(value if dtype is None else constant(value, dtype), shape, name=name)


@api_function
def full_like(x: Any, value: bool | int | float | complex, *, name: str | None = None) -> Tensor:
    """`value` at every place, with the shape and dtype of `x`; else like `full`."""
    x = as_tensor(x)
    return broadcast_like(as_tensor(value, dtype=x.dtype), x, name=name)


@api_function
def zeros(shape: Iterable[int] | Tensor, dtype: Any = "float32", *, name: str | None = None) -> Tensor:
    """Zeros of `shape`; else like `full`."""
    return full(shape, 0, dtype, name=name)


@api_function
def ones(shape: Iterable[int] | Tensor, dtype: Any = "float32", *, name: str | None = None) -> Tensor:
    """Ones of `shape`; else like `full`."""
    return full(shape, 1, dtype, name=name)


# ------------------------------------------------------------------------------------ arange


def steps(start: Number, stop: Number, step: Number) -> int:
    """How many numbers lie in [start, stop), `step` apart; raises SpecError for a step of 0."""
    if step == 0:
        message = f"the step of arange cannot be 0, got start {start}, stop {stop}, step {step}"
        raise SpecError(message)
    # In integers, which round nothing: -(-a // b) is a / b rounded up.
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -(-(stop - start) // step))
    if not all(map(math.isfinite, (start, stop, step))):
        message = f"arange takes finite numbers, got start {start}, stop {stop}, step {step}"
        raise SpecError(message)
    return max(0, math.ceil((stop - start) / step))


def _arange_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    # Scalars of the step: how many numbers there are shows then.
    if inputs:
        check_dtypes("arange", DtypeClass.REAL, *inputs)
        for given in inputs:
            if given.shape not in (None, ()):
                message = f"arange takes scalars, got {given}"
                raise SpecError(message)
        return (Spec((None,), inputs[0].dtype),)
    found = spec(attrs["dtype"], (steps(attrs["start"], attrs["stop"], attrs["step"]),))
    check_dtypes("arange", DtypeClass.REAL, found)
    _check_range(found, attrs)
    return (found,)


def _check_range(found: Spec, attrs: Mapping[str, Attr]) -> None:
    """Raises SpecError when a number of the range does not fit an integer dtype."""
    # Floats round; only integers can be wrong.
    if is_floating(found.dtype) or found.shape == (0,):
        return
    (count,) = found.shape or (0,)
    start, step = attrs["start"], attrs["step"]
    bits = found.dtype.itemsize * 8
    half = 2 ** (bits - 1)
    # Numbers are computed in int64, so uint64 goes up to its half.
    low, high = (0, min(2 * half, 2**63)) if found.dtype.kind == "u" else (-half, half)
    # The first and the last bound all others.
    for number in (start, start + step * ((count or 1) - 1)):
        if not isinstance(number, int) or not low <= number < high:
            whole = f"range({start}, {attrs['stop']}, {step})"
            message = f"a range of {found.dtype.name} is made of integers that fit, got {number} in {whole}"
            raise SpecError(message, hint="give another dtype")


def _number(value: Any) -> int | float | None:
    """A number of Python or numpy, None for what is to be a tensor."""
    return int(value) if isinstance(value, bool) else number_or_none(value)


@op("arange", spec=_arange_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, name: str | None = None
) -> Tensor:
    """The numbers start, start + step, … before `stop`; `arange(n)` counts from 0 to n - 1.

    The i-th is computed as start + i * step, floats in float64, so no error adds up.

    Shapes:   (ceil((stop - start) / step),); unknown when one of the three is a tensor
    Dtypes:   `dtype`, else int32 for integers that fit, int64 for others, and float32; tensors
              are scalars of one real dtype, which the result has
    Gradient: none.
    Raises:   SpecError for a step of 0, in the step when it is a tensor; for integers that do not
              fit `dtype`.

    >>> with af.Graph():
    ...     af.arange(2, 11, 3)
    <Tensor arange:0 (3,) int32>
    """
    if stop is None:
        # arange(n) as in Python.
        start, stop = 0, start
    given = (start, stop, step)
    numbers = [_number(v) for v in given]
    if None in numbers:
        if dtype is not None:
            message = f"arange of tensors has their dtype, got dtype {dtype!r}"
            where = Where(op="arange", defined_at=source_line())
            raise SpecError(message, where=where, hint="leave dtype out, and use af.cast")
        # Attributes have to be there; nobody reads them where tensors are.
        return build_one(
            "arange", as_tensors(*given), {"start": 0, "stop": 0, "step": 1, "dtype": ""}, name=name
        )
    # None is replaced for the type checker: there is none here.
    first, end, apart = (v or 0 for v in numbers)
    if dtype is None:
        whole = all(isinstance(v, int) for v in (first, end, apart))
        # int32 where all numbers fit, as for Python's integers elsewhere.
        fits = min(first, end) >= -(2**31) and max(first, end) <= 2**31
        dtype = ("int32" if fits else "int64") if whole else "float32"
    attrs = {"start": first, "stop": end, "step": apart, "dtype": name_of(dtype, "arange")}
    return build_one("arange", [], attrs, name=name)


# ---------------------------------------------------------------------------- linspace and eye


def _linspace_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    found = spec(attrs["dtype"], (attrs["num"],))
    check_dtypes("linspace", DtypeClass.FLOATING, found)
    check_dtype_holds("linspace", found, start=attrs["start"], stop=attrs["stop"])
    return (found,)


@op("linspace", spec=_linspace_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    dtype: Any = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """`num` numbers from `start` to `stop`, evenly apart; `endpoint` says whether `stop` is one.

    Shapes:   (num,)
    Dtypes:   floating; computed in float64
    Gradient: none.
    Raises:   SpecError for a negative `num`, for other dtypes, and ends that the dtype cannot hold.
    """
    attrs = {
        "start": float(start),
        "stop": float(stop),
        "num": num,
        "endpoint": endpoint,
        "dtype": name_of(dtype, "linspace"),
    }
    return build_one("linspace", [], attrs, name=name)


def _eye_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    rows, columns = attrs["rows"], attrs["columns"]
    return (spec(attrs["dtype"], (rows, columns)),)


@op("eye", spec=_eye_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def eye(
    rows: int, columns: int | None = None, offset: int = 0, dtype: Any = "float32", *, name: str | None = None
) -> Tensor:
    """Zeros with ones on a diagonal: the main one, or that `offset` places to the right of it.

    Shapes:   (rows, columns); square when `columns` is None
    Dtypes:   any
    Gradient: none.
    Raises:   SpecError for negative sizes.
    """
    attrs = {
        "rows": rows,
        "columns": (rows if columns is None else columns).__index__(),
        "offset": offset,
        "dtype": name_of(dtype, "eye"),
    }
    return build_one("eye", [], attrs, name=name)


def name_of(dtype: Any, op_name: str) -> str:
    """The name of a dtype; raises SpecError when no tensor has it."""
    with error_context(op_name):
        return spec(dtype).dtype.name
