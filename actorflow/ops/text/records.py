"""Records of input files: lines of comma-separated values, and TensorFlow's Example. On the host only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, build
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.text.strings import attribute
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import BYTES, as_dtype, convert_numbers, name_of
from actorflow.values.spec import Spec, check_shape, show, spec

_EXAMPLE = ("bytes", "float32", "int64")


def _record_error(op_name: str, message: str, hint: str | None = None) -> SpecError:
    return SpecError(message, where=Where(op=op_name, defined_at=source_line()), hint=hint)


# -------------------------------------------------------------------------------------- csv


def _parse_csv_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("parse_csv", DtypeClass.BYTES, x)
    columns = [spec(dtype, x.shape) for dtype in attrs["dtypes"]]
    if not columns:
        message = "parse_csv makes at least one column, got none"
        raise SpecError(message)
    for column in columns:
        # A column of bytes takes every cell.
        if column.dtype != BYTES:
            check_dtypes("a column of parse_csv", DtypeClass.REAL, column)
    return columns


@op("parse_csv", spec=_parse_csv_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def parse_csv(
    x: Any,
    dtypes: Sequence[Any],
    defaults: Sequence[Any] | None = None,
    delimiter: bytes = b",",
    *,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    r"""The cells of records of comma-separated values (RFC 4180), a tensor a column.

    A cell may stand in quotes, and then hold delimiters, ends of lines, and quotes written twice. One
    end of line may stand behind a record. An empty cell is the default of its column.

    Args:
        x: The records, one an element.
        dtypes: That of each column: integers, floating or bytes; numbers are read as by `to_number`.
        defaults: For each column a value, or None where a cell must not be empty; None for no defaults.
        delimiter: One byte.
        name: What the node is called.

    Shapes:   (...) -> (...) for each column
    Dtypes:   bytes -> `dtypes`
    Gradient: none.
    Raises:   SpecError for other dtypes, and a default that its column cannot hold; in the step
              DataError for a record of other columns, and for a cell that is no number.

    >>> with af.Graph():
    ...     age, who = af.io.parse_csv([b"42,Ann", b',"Bo ""B"" C"'], ["int32", "bytes"], [-1, None])
    ...     age, who
    (<Tensor parse_csv:0 (2,) int32>, <Tensor parse_csv:1 (2,) bytes>)
    """
    between = attribute(delimiter)
    # The reader of CSV has these for itself.
    if len(between) != 1 or between in '"\r\n':
        raise _record_error(
            "parse_csv", f"a delimiter is one byte, no quote and no end of line, got {delimiter!r}"
        )
    try:
        to = [as_dtype(dtype) for dtype in dtypes]
    except TypeError as error:
        raise _record_error("parse_csv", str(error)) from None
    values = [None] * len(to) if defaults is None else list(defaults)
    if len(values) != len(to):
        message = f"parse_csv takes one default for each column, got {len(values)} for {len(to)}"
        raise _record_error("parse_csv", message, "None is no default")
    held: list[Attr] = []
    for k, (dtype, value) in enumerate(zip(to, values, strict=True)):
        if value is None:
            held.append(None)
            # No default: an empty cell is an error then.
            continue
        try:
            made = convert_numbers(value, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise _record_error(
                "parse_csv", f"the default of column {k} is no {name_of(dtype)}: {error}"
            ) from None
        if made.shape != ():
            raise _record_error("parse_csv", f"the default of column {k} is one value, got {value!r:.60}")
        # As text: attributes hold no bytes, and numbers are read as cells are.
        held.append(made[()].decode("latin-1") if dtype == BYTES else str(made.item()))
    attrs: dict[str, Attr] = {
        "dtypes": tuple(map(name_of, to)),
        "defaults": tuple(held),
        "delimiter": between,
    }
    return build("parse_csv", [x], attrs, name=name)


# ---------------------------------------------------------------------------------- example


def _parse_example_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("parse_example", DtypeClass.BYTES, x)
    made = []
    for dtype, shape in zip(attrs["dtypes"], attrs["shapes"], strict=True):
        if dtype not in _EXAMPLE:
            message = f"a feature of an Example is of {', '.join(_EXAMPLE)}, got {dtype}"
            raise SpecError(message, hint="take that, and convert it with af.cast")
        sizes = check_shape(shape)
        # One array for all elements, so their sizes must be known.
        if sizes is None or None in sizes:
            message = f"the features of parse_example have known shapes, got {show(sizes)}"
            raise SpecError(message)
        made.append(Spec(None if x.shape is None else (*x.shape, *sizes), as_dtype(dtype)))
    if not made:
        message = "parse_example reads at least one feature, got none"
        raise SpecError(message)
    return made


@op("parse_example", spec=_parse_example_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def parse_example(
    x: Any, features: Mapping[str, tuple[Any, ...]], *, name: str | None = None
) -> dict[str, Tensor]:
    """The features of TensorFlow's Example messages, by name: fixed numbers of values.

    Args:
        x: The messages, one an element.
        features: For each name (dtype, shape), or (dtype, shape, default) where it may be missing; the
            default is one value, or as many as the shape has. Other features are skipped.
        name: What the node is called.

    Shapes:   (...) -> (..., *shape) for each feature
    Dtypes:   bytes -> bytes, float32 or int64: those that the message knows
    Gradient: none.
    Raises:   SpecError for other dtypes and shapes; in the step DataError for an element that is no
              Example, and for a feature that is missing, of another dtype or of another size.

    >>> with af.Graph():
    ...     found = af.io.parse_example(
    ...         af.placeholder("bytes", (None,)),
    ...         {"image": ("bytes", ()), "label": ("int64", (), -1)},
    ...     )
    ...     found["label"]
    <Tensor parse_example:1 (None,) int64>
    """
    names, dtypes, shapes, defaults = [], [], [], []
    given: Any = features
    if not isinstance(given, Mapping):
        message = f"parse_example takes a mapping of names to (dtype, shape) as features, got {given!r:.60}"
        raise _record_error("parse_example", message)
    for key, described in given.items():
        if not isinstance(described, tuple) or len(described) not in (2, 3):
            message = f"feature {key!r} is told as (dtype, shape), got {described!r:.60}"
            raise _record_error("parse_example", message, "a default may come third")
        dtype, shape, *default = described
        try:
            held = spec(dtype, shape)
        except SpecError as error:
            raise _record_error("parse_example", f"feature {key!r}: {error.what}") from None
        names.append(key)
        dtypes.append(name_of(held.dtype))
        shapes.append(held.shape)
        # A default of None is none.
        defaults.append(_default(key, held, default[0]) if default and default[0] is not None else None)
    attrs: dict[str, Attr] = {
        "names": tuple(names),
        "dtypes": tuple(dtypes),
        "shapes": tuple(shapes),
        "defaults": tuple(defaults),
    }
    return dict(zip(names, build("parse_example", [x], attrs, name=name), strict=True))


def _default(key: str, held: Spec, value: Any) -> Attr:
    """The values of a default one by one, as many as the feature has."""
    count = prod(d or 0 for d in held.shape or ())
    try:
        flat: list[Any] = convert_numbers(value, held.dtype).reshape(-1).tolist()
    except (TypeError, ValueError, OverflowError) as error:
        message = f"the default of feature {key!r} is no {name_of(held.dtype)}: {error}"
        raise _record_error("parse_example", message) from None
    if len(flat) not in (1, count):
        message = f"the default of feature {key!r} has one value or {count}, got {len(flat)}"
        raise _record_error("parse_example", message)
    # One value for all places.
    values: Iterable[Any] = flat * count if len(flat) == 1 and count != 1 else flat
    # Attributes hold no bytes: a character a byte.
    return tuple(v.decode("latin-1") if isinstance(v, bytes) else v for v in values)
