"""Spec rules that many ops share: which dtypes an op takes, elementwise shapes, axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import prod

from actorflow.errors import SpecError
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Promoting, SpecRule
from actorflow.values.arrays import DType, as_dtype, is_floating
from actorflow.values.dtypes import common, refusal
from actorflow.values.spec import Dim, Shape, Spec, axis_of, broadcast, merge

Axis = int | tuple[int, ...] | None


class DtypeClass(Enum):
    """The dtypes that an op takes; the value is how an error names them."""

    ANY = "any dtype"
    BOOL = "bool"
    INTEGER = "integers"
    BITS = "integers or bool"
    REAL = "integers or floating numbers"
    NUMBER = "numbers"
    FLOATING = "floating numbers"
    INEXACT = "floating or complex numbers"
    NUMERIC = "numbers or bool"
    BYTES = "bytes"

    def accepts(self, dtype: DType) -> bool:
        """Tells whether `dtype` is one of them."""
        # bfloat16 is floating, though numpy's kind says V.
        kind = "f" if is_floating(dtype) else dtype.kind
        return kind in _KINDS[self]


_KINDS = {
    DtypeClass.ANY: "biufcO",  # bytes where the op takes them
    DtypeClass.BOOL: "b",
    DtypeClass.INTEGER: "iu",
    DtypeClass.BITS: "biu",
    DtypeClass.REAL: "iuf",
    DtypeClass.NUMBER: "iufc",
    DtypeClass.FLOATING: "f",
    DtypeClass.INEXACT: "fc",
    DtypeClass.NUMERIC: "biufc",
    DtypeClass.BYTES: "O",
}


def check_dtypes(op: str, takes: DtypeClass, *specs: Spec) -> None:
    """Raises SpecError unless all specs have one dtype, and `op` takes it."""
    for spec in specs:
        if not takes.accepts(spec.dtype):
            message = f"{op} takes {takes.value}, got {spec}"
            raise SpecError(message, hint=_conversion(op, takes, spec.dtype))
    # ORDER: after each alone, so that an error names the dtype which is wrong everywhere.
    if any(spec.dtype != specs[0].dtype for spec in specs):
        message = f"{op} needs equal dtypes, got {' and '.join(map(str, specs))}"
        dtypes = [spec.dtype for spec in specs]
        # They would mix, but this op mixes nothing; or no dtype holds both.
        hint = "convert one with af.cast" if common(dtypes) else refusal(dtypes)
        raise SpecError(message, hint=hint)


def _conversion(op: str, takes: DtypeClass, dtype: DType) -> str:
    """The advice for a dtype that an op does not take."""
    if dtype.kind == "O":
        return "af.strings.to_number and af.io.decode_raw make numbers of bytes"
    if takes is DtypeClass.BYTES:
        return "af.strings.as_bytes and af.io.encode_raw make bytes of numbers"
    # Where a float would do, that cast is what is meant most of the time.
    if takes.accepts(_FLOAT32):
        return _TO_FLOAT.get(op, "convert it with af.cast(x, 'float32')")
    return "convert it with af.cast"


_FLOAT32 = as_dtype("float32")
_TO_FLOAT = {
    "divide": "convert it with af.cast(x, 'float32'), or divide whole numbers: af.floor_divide(a, b), a // b"
}
"""The advice of ops that have a sister for other dtypes."""


def unary(op: str, takes: DtypeClass = DtypeClass.ANY) -> SpecRule:
    """The rule of an elementwise op of one input: the same spec comes out."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op, takes, x)
        return (x,)

    return rule


def predicate(op: str, takes: DtypeClass) -> SpecRule:
    """The rule of an elementwise question to one input: bools of the same shape come out."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op, takes, x)
        return (Spec(x.shape, as_dtype("bool")),)

    return rule


def binary(op: str, takes: DtypeClass, result: str | None = None) -> SpecRule:
    """The rule of an elementwise op of two inputs that broadcast and mix; `result` names another dtype."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        a, b = inputs
        check_dtypes(op, takes, a, b)
        return (Spec(broadcast([a.shape, b.shape]), a.dtype if result is None else as_dtype(result)),)

    # Inputs of several dtypes are cast to their common one before the rule is asked.
    return Promoting(rule)


def first_with_shape_of_last(op: str, takes: DtypeClass = DtypeClass.ANY) -> SpecRule:
    """The rule of ops that make the first input as large as the last, whose values are not used."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        check_dtypes(op, takes, inputs[0])
        # The last is there for its shape.
        return (Spec(inputs[-1].shape, inputs[0].dtype),)

    return rule


def alike(op: str, takes: DtypeClass) -> SpecRule:
    """The rule of ops whose inputs and output share one spec, as far as it is known."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        check_dtypes(op, takes, *inputs)
        shape = inputs[0].shape
        for spec in inputs[1:]:
            shape = merge(shape, spec.shape)
        return (Spec(shape, inputs[0].dtype),)

    return rule


MOST_OUTPUTS = 2**16


def check_outputs(op: str, count: int) -> None:
    """Raises SpecError for more outputs than a node can have."""
    if count > MOST_OUTPUTS:
        message = f"{op} makes {MOST_OUTPUTS} tensors at most, got {count}"
        raise SpecError(message)


def plain_axis(axis: Axis | Sequence[int]) -> Axis:
    """`axis` as an attribute may hold it: None, an int or a tuple of ints."""
    if axis is None:
        return None
    # Attributes are plain data: numpy's integers become Python's.
    return tuple(a.__index__() for a in axis) if isinstance(axis, Sequence) else axis.__index__()


def axes_of(axis: Axis, rank: int) -> tuple[int, ...]:
    """The axes meant by `axis`, counted from the front, sorted; all of them for None.

    Raises:
        SpecError: when one does not exist or comes twice.
    """
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis_of(a, rank) for a in (axis if isinstance(axis, tuple) else (axis,)))
    if len(set(axes)) < len(axes):
        message = f"axes must differ, got {axis} for rank {rank}"
        raise SpecError(message, hint=f"name each axis once; -1 is axis {rank - 1}")
    # Sorted: equal attributes for equal meanings.
    return tuple(sorted(axes))


def reduced_shape(shape: Shape, axis: Axis, keepdims: bool) -> Shape:
    """The shape that is left when `axis` is folded."""
    if shape is None:
        # Of an unknown rank everything folded is still a scalar.
        return () if axis is None and not keepdims else None
    axes = axes_of(axis, len(shape))
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def size_of(dims: Sequence[Dim]) -> Dim:
    """The number of elements, None when it is unknown."""
    known = [d for d in dims if d is not None]
    # No element is none, whatever the unknown sizes are.
    return prod(known) if len(known) == len(dims) or 0 in known else None
