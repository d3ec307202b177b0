"""The calls that are recorded: for every op of the table one to three, with small inputs drawn here.

A case is a function of what draws; the same seed for each op, so that a new one moves no other.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.oracle.recording import Call

CASES: dict[str, tuple[Callable[[Draw], Call], ...]] = {}


class Draw:
    """Draws small arrays of numbers with few digits, no two in one array alike."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def real(self, *shape: int) -> np.ndarray:
        """Numbers around 0, none of them 0."""
        return self._grid(shape, -0.5, 0.375, 0.11)

    def positive(self, *shape: int) -> np.ndarray:
        """Numbers above 0."""
        return self._grid(shape, 0.0, 0.375, 0.21)

    def unit(self, *shape: int) -> np.ndarray:
        """Numbers between -1 and 1."""
        count = int(np.prod(shape))
        return np.round((self.rng.permutation(count) + 0.4) / max(count, 1) * 1.8 - 0.9, 3).reshape(shape)

    def share(self, *shape: int) -> np.ndarray:
        """Numbers between 0 and 1."""
        return np.round((self.unit(*shape) + 1) / 2, 4)

    def _grid(self, shape: tuple[int, ...], start: float, step: float, offset: float) -> np.ndarray:
        count = int(np.prod(shape))
        numbers = (self.rng.permutation(count) + int(count * start)) * step + offset
        return np.round(numbers, 3).reshape(shape)

    def whole(self, high: int, *shape: int) -> np.ndarray:
        """Integers in [0, high), some of them alike."""
        return self.rng.integers(0, high, shape)

    def order(self, count: int) -> np.ndarray:
        """The integers below `count`, in some order."""
        return self.rng.permutation(count)

    def flags(self, *shape: int) -> np.ndarray:
        """Truths, the first True."""
        drawn = self.rng.integers(0, 2, shape).astype(bool)
        drawn.reshape(-1)[:1] = True
        return drawn

    def regular(self, *shape: int) -> np.ndarray:
        """Square matrices far from singular ones."""
        return np.round(self.unit(*shape) + 2 * np.eye(shape[-1]), 3)

    def definite(self, size: int) -> np.ndarray:
        """A symmetric matrix with positive eigenvalues."""
        drawn = self.unit(size, size)
        return np.round(drawn @ drawn.T + np.eye(size), 3)


def call(*args: Any, settled: str = "", still: tuple[int, ...] = (), **kwargs: Any) -> Call:
    """The call of torch's op with these arguments; the rest as `Call` has it."""
    return Call(args, kwargs, settled, still)


def each(names: str, *cases: Callable[[Draw], Call]) -> None:
    """Adds cases for `names`, separated by commas."""
    for name in names.split(","):
        assert name.strip() not in CASES, f"{name.strip()} has cases already"
        CASES[name.strip()] = cases


@functools.cache
def cases() -> dict[str, list[Call]]:
    """All cases, those of every module `cases_*` beside this one."""
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        import_module(f"tests.oracle.{path.stem}")
    drawn = {}
    for name, functions in CASES.items():
        draw = Draw(name)
        drawn[name] = [function(draw) for function in functions]
    return drawn
