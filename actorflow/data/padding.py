"""Pads arrays of different sizes to the largest, so that they make a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.data.stacking import Uneven, stacked, told


def padded(values: list[Any], padding: Any) -> Any:
    """Returns the elements as one batch, each axis as long as the longest of them.

    Args:
        values: The elements: arrays, or dicts and tuples of arrays, numbers and text.
        padding: What new places hold: a number for all arrays, or a structure like the element's, in
            which None stands for 0.

    Raises:
        Uneven: elements that differ in structure, number of axes or dtype.
    """
    first = values[0]
    if isinstance(first, dict | tuple | list):
        return _structure(values, padding)
    if not isinstance(first, np.ndarray):
        return stacked(values)
    for value in values:
        if type(value) is not np.ndarray or value.ndim != first.ndim or value.dtype != first.dtype:
            message = (
                f"pads arrays with equal numbers of axes and dtypes, got {told(first)} and {told(value)}"
            )
            raise Uneven(message)
    shape = tuple(map(max, zip(*(value.shape for value in values), strict=True)))
    if all(value.shape == shape for value in values):
        return stacked(values)
    empty = b"" if first.dtype == object else 0
    out = np.full((len(values), *shape), empty if padding is None else padding, first.dtype)
    for row, value in zip(out, values, strict=True):
        row[tuple(slice(n) for n in value.shape)] = value
    return out


def _structure(values: list[Any], padding: Any) -> Any:
    first = values[0]
    keys: list[Any] = list(first) if isinstance(first, dict) else list(range(len(first)))
    for value in values:
        if type(value) is not type(first) or len(value) != len(keys):
            message = f"pads elements of one structure, got {told(first)} and {told(value)}"
            raise Uneven(message)
        if isinstance(value, dict) and value.keys() != first.keys():
            message = f"pads elements of one structure, got {told(first)} and {told(value)}"
            raise Uneven(message)
    parts = [padded([value[key] for value in values], _of(padding, key)) for key in keys]
    if isinstance(first, dict):
        return dict(zip(keys, parts, strict=True))
    kind: Any = type(first)
    return kind(*parts) if hasattr(first, "_fields") else kind(parts)


def _of(padding: Any, key: Any) -> Any:
    """The padding of one part of the element; a number is for all parts."""
    if isinstance(padding, dict):
        return padding.get(key)
    if isinstance(padding, tuple | list):
        return padding[key]
    return padding
