"""One operation as one line of JSON, and back.

JSON has no bytes, no NaN and no infinity: bytes become `{"bytes": "6869"}` in hexadecimal, and those
floats `{"float": "nan"}`. Arrays are tuples. Everything else is what JSON says it is; floats are
written with all the digits that tell them apart.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, fields
from typing import Any

from actorflow.errors import HistoryError
from actorflow.sim.history.operation import Operation, Status, Value, shorten_value


def encode(operation: Operation) -> str:
    """Returns the operation as JSON, without line breaks."""
    said = {field.name: getattr(operation, field.name) for field in fields(operation)}
    said["status"] = operation.status.value
    for name in ("args", "result", "key"):
        said[name] = _plain(said[name])
    return json.dumps(said, allow_nan=False)


def decode(line: str) -> Operation:
    """Returns the operation that `encode` made the line from.

    Raises:
        HistoryError: It is not JSON, or not an operation; the text says what is wrong, without the place.
    """
    try:
        said = json.loads(line, parse_constant=_refuse_constant)
    except json.JSONDecodeError as wrong:
        message = f"not JSON, {wrong.msg} in column {wrong.colno}"
        raise HistoryError(message, hint="a history file has one JSON object a line") from wrong
    except (RecursionError, ValueError) as wrong:  # an integer of thousands of digits is a ValueError
        message = f"cannot be read as JSON: {wrong}"
        raise HistoryError(message) from wrong
    if not isinstance(said, dict):
        message = f"an operation is a JSON object, got {shorten_value(said)}"
        raise HistoryError(message)
    unknown = sorted(said.keys() - _KINDS.keys())
    missing = [
        field.name for field in fields(Operation) if field.default is MISSING and field.name not in said
    ]
    if unknown or missing:
        told = [f"without {', '.join(missing)}"] * bool(missing) + [f"with {', '.join(unknown)}"] * bool(
            unknown
        )
        message = f"got an operation {' and '.join(told)}"
        raise HistoryError(message, hint=f"the fields are {', '.join(_KINDS)}")
    for name, value in said.items():
        if not _fits(value, _KINDS[name]):
            wanted = " or ".join(kind.__name__.replace("NoneType", "null") for kind in _KINDS[name])
            message = f"{name} must be {wanted}, got {shorten_value(value)}"
            raise HistoryError(message)
    for name in ("args", "result", "key"):
        if name in said:
            said[name] = _value(said[name])
    if "status" in said:
        said["status"] = _status(said["status"])
    for name in ("invoked_s", "returned_s"):
        if isinstance(said.get(name), int):
            said[name] = float(said[name])
    return Operation(**said)


_ANYTHING = (type(None), bool, int, float, str, list, dict)
_KINDS: dict[str, tuple[type, ...]] = {
    "client": (int, str),
    "op": (str,),
    "args": (list,),
    "result": _ANYTHING,
    "status": (str,),
    "invoked": (int,),
    "returned": (int, type(None)),
    "invoked_s": (float, int),
    "returned_s": (float, int, type(None)),
    "incarnation": (int,),
    "key": _ANYTHING,
    "reason": (str, type(None)),
}


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    return type(value) in kinds  # not isinstance: true is no number


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError as wrong:
        message = f"status must be ok, fail or info, got {text!r}"
        raise HistoryError(message) from wrong


def _plain(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _value(said: Any) -> Value:
    if isinstance(said, list):
        return tuple(_value(item) for item in said)
    if not isinstance(said, dict):
        return said  # type: ignore[no-any-return]  # JSON has nothing else
    match said:
        case {"bytes": str(text)} if len(said) == 1:
            try:
                return bytes.fromhex(text)
            except ValueError as wrong:
                message = f"bytes must be in hexadecimal, got {shorten_value(text)}"
                raise HistoryError(message) from wrong
        case {"float": "nan" | "inf" | "-inf" as text} if len(said) == 1:
            return float(text)
        case _:
            message = (
                f'an object in a value is {{"bytes": hex}} or {{"float": "nan"}}, got {shorten_value(said)}'
            )
            raise HistoryError(message)


def _refuse_constant(text: str) -> float:
    message = f"{text} is not JSON"
    raise HistoryError(message, hint='write {"float": "nan"}, "inf" or "-inf"')
