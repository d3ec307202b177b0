"""Pads arrays of different sizes to the largest, so that they make a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.data.values.arguments import check
from actorflow.data.values.collate import UnevenElements, collate, describe_element
from actorflow.values.arrays import convert_numbers

_PARTS = (dict, tuple, list)


def check_padding(verb: str, padding: Any) -> Any:
    """Returns a padding; raises ConfigError for what is none, whatever the elements are."""
    rule = "as one number or bytes for all arrays, or in a structure like the element's"
    check(
        verb,
        "padding",
        padding,
        padding is not None and _is_one(padding),
        rule,
        "None stands in a structure only",
    )
    return padding


def _is_one(padding: Any) -> bool:
    if isinstance(padding, dict):
        return all(map(_is_one, padding.values()))
    if isinstance(padding, tuple | list):
        return all(map(_is_one, padding))
    single = isinstance(padding, np.generic) or (isinstance(padding, np.ndarray) and padding.ndim == 0)
    return single or padding is None or isinstance(padding, int | float | complex | str | bytes)


def pad_batch(values: list[Any], padding: Any, path: str = "") -> Any:
    """Returns the elements as one batch, each axis as long as the longest of them.

    Args:
        values: The elements: arrays, or dicts and tuples of arrays, numbers and text.
        padding: What new places hold: a number (or bytes) for all arrays, or a structure like the
            element's, in which None stands for 0. An array must hold it: its kind may not change, and it
            may not be too large. 0 is right for all: no bytes where an array has bytes.
        path: Of these elements in those of the pipeline, for errors.

    Raises:
        UnevenElements: elements that differ in structure, number of axes or dtype, or that the padding does
            not fit.
    """
    first = values[0]
    if isinstance(first, _PARTS):
        return _structure(values, padding, path)
    if isinstance(padding, _PARTS):
        message = (
            f"needs a padding of the element's structure, got {describe_element(padding)} for "
            f"{describe_element(first)}{_at(path)}"
        )
        raise UnevenElements(message)
    if not isinstance(first, np.ndarray):
        # Numbers and text are as they are.
        return collate(values)
    for value in values:
        if type(value) is not np.ndarray or value.ndim != first.ndim or value.dtype != first.dtype:
            message = (
                f"pads arrays with equal numbers of axes and dtypes, got {describe_element(first)} and "
                f"{describe_element(value)}"
            )
            raise UnevenElements(message)
    fill = _fill(padding, first.dtype, path) if first.ndim else None
    shape = tuple(map(max, zip(*(value.shape for value in values), strict=True)))
    # Nothing to pad: joined as any batch.
    if all(value.shape == shape for value in values):
        return collate(values)
    out = np.zeros((len(values), *shape), first.dtype)
    if fill is not None:
        out[...] = fill
    # Each into the corner of its row: what is new lies behind it.
    for row, value in zip(out, values, strict=True):
        row[tuple(slice(n) for n in value.shape)] = value
    return out


def _fill(padding: Any, dtype: np.dtype[Any], path: str) -> Any:
    """What new places hold, as an array of that dtype holds it; None for zeros."""
    if padding is None or (type(padding) is int and padding == 0):
        # 0 is right for all: no bytes where an array has bytes.
        return b"" if dtype.kind == "O" else None
    try:
        if dtype.kind in "biufcVO":
            # Its kind may not change, and nothing of it be lost.
            return convert_numbers(padding, dtype)[()]
        return np.array(padding, dtype)[()]  # of dates or of text, which have no rule of their own
    except (TypeError, ValueError, OverflowError) as error:
        kind = "bytes" if dtype.kind == "O" else dtype.name
        message = f"needs a padding that {kind} can hold{_at(path)}, got {padding!r:.80}: {error}"
        raise UnevenElements(message) from error


def _structure(values: list[Any], padding: Any, path: str) -> Any:
    first = values[0]
    keys: list[Any] = list(first) if isinstance(first, dict) else list(range(len(first)))
    for value in values:
        if type(value) is not type(first) or len(value) != len(keys):
            message = (
                f"pads elements of one structure, got {describe_element(first)} and {describe_element(value)}"
            )
            raise UnevenElements(message)
        if isinstance(value, dict) and value.keys() != first.keys():
            message = (
                f"pads elements of one structure, got {describe_element(first)} and {describe_element(value)}"
            )
            raise UnevenElements(message)
    own = _parts(first, padding, path)
    parts = [pad_batch([value[key] for value in values], own[key], f"{path}[{key!r}]") for key in keys]
    if isinstance(first, dict):
        return dict(zip(keys, parts, strict=True))
    kind: Any = type(first)
    return kind(*parts) if hasattr(first, "_fields") else kind(parts)


def _parts(first: Any, padding: Any, path: str) -> Any:
    """The padding of each part of the element; a number is for all parts."""
    # One padding for all parts.
    if not isinstance(padding, _PARTS):
        return dict.fromkeys(first if isinstance(first, dict) else range(len(first)), padding)
    if isinstance(first, dict) and isinstance(padding, dict):
        # What has no axes is never padded, so it needs none.
        missing = [key for key in first if key not in padding and _is_padded(first[key])]
        unknown = [key for key in padding if key not in first]
        pairs = (("without", missing), ("with the unknown", unknown))
        wrong = " and ".join(f"{how} {', '.join(map(repr, keys))}" for how, keys in pairs if keys)
        if wrong:
            message = f"needs a padding for every array of the element{_at(path)}, got one {wrong}"
            raise UnevenElements(message)
        return {key: padding.get(key) for key in first}
    if isinstance(first, dict) or isinstance(padding, dict) or len(first) != len(padding):
        message = (
            f"needs a padding of the element's structure, got {describe_element(padding)} for "
            f"{describe_element(first)}{_at(path)}"
        )
        raise UnevenElements(message)
    return padding


def _is_padded(part: Any) -> bool:
    """Tells whether a part of an element has arrays with axes; text and numbers are as they are."""
    if isinstance(part, _PARTS):
        return any(map(_is_padded, part.values() if isinstance(part, dict) else part))
    return isinstance(part, np.ndarray) and part.ndim > 0


def _unlike(padding: Any, first: Any, path: str) -> str:
    return (
        f"needs a padding of the element's structure, got {describe_element(padding)} for "
        f"{describe_element(first)}{_at(path)}"
    )


def _at(path: str) -> str:
    return f" at {path}" if path else ""
