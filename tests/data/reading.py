"""Reading sources as a pipeline does, and the laws that hold for every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from actorflow.data.sources.protocol import Source
from actorflow.errors import InputError

SIZES = st.lists(st.integers(1, 70), min_size=1, max_size=8)
"""How many elements are asked for, one read after the other; then anew from the first."""


def read(source: Source, start: int = 0, sizes: Sequence[int] = (7,), epoch: int = 0) -> list[Any]:
    """All elements from `start` on; every read gives between one and what was asked, and [] ends for good."""
    reader = source.open(start, epoch)
    found: list[Any] = []
    turn = 0
    try:
        while True:
            asked = sizes[turn % len(sizes)]
            turn += 1
            values = reader.read(asked)
            assert isinstance(values, list)
            assert len(values) <= asked
            if not values:
                assert reader.read(asked) == []
                return found
            found += values
    finally:
        reader.close()


async def read_async(
    source: Source, start: int = 0, sizes: Sequence[int] = (7,), epoch: int = 0
) -> list[Any]:
    """The same for a source whose reads are awaited."""
    reader = source.open(start, epoch)
    found: list[Any] = []
    turn = 0
    try:
        while True:
            asked = sizes[turn % len(sizes)]
            turn += 1
            given = reader.read(asked)
            assert isinstance(given, Awaitable)
            values = await given
            assert len(values) <= asked
            if not values:
                return found
            found += values
    finally:
        reader.close()


def read_till_error(make: Callable[[], Source], start: int = 0) -> tuple[list[Any], InputError | None]:
    """What a source gives, and the error that ends it; nothing but an InputError may."""
    found: list[Any] = []
    try:
        reader = make().open(start, 0)
    except InputError as error:
        return found, error
    failed = None
    try:
        while values := reader.read(5):
            found += values
    except InputError as error:
        failed = error
    if failed is not None:
        with pytest.raises(InputError) as again:
            reader.read(5)
        assert again.value is failed  # it does not become an end
    reader.close()
    return found, failed


def same(a: Any, b: Any) -> bool:
    """Whether two elements are equal in structure, kind, dtype and bits."""
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return (
            isinstance(b, np.ndarray | np.generic)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    return type(a) is type(b) and bool(a == b)


def run(body: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await body

    return asyncio.run(main())


def flipped(data: bytes, place: int, bit: int) -> bytes:
    """The bytes with one bit changed."""
    at = place % len(data)
    return data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :]
