"""Slopes as central differences measure them: where to look at a function, and what to make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from actorflow.values.arrays import NDArray


@dataclass(frozen=True, slots=True)
class Probe:
    """Two points on both sides of one, to look at a function there.

    Attributes:
        index: Of the element that is moved; of the direction, when all are moved along it.
        way: The direction, None for one element.
        width: How far apart the points are, as their dtype rounds them.
    """

    index: tuple[int, ...]
    way: NDArray | None
    above: NDArray
    below: NDArray
    width: float

    def slope(self, above: float, below: float) -> float:
        """Returns the slope between the values of the function at the two points."""
        return (above - below) / self.width

    def along(self, gradient: NDArray) -> float:
        """Returns the slope here that a gradient tells."""
        return float(gradient[self.index]) if self.way is None else float(np.vdot(gradient, self.way))


def probes(at: NDArray, step: float, directions: int | None = None) -> Iterator[Probe]:
    """Yields a probe for every element of `at`, or along so many directions of all its elements.

    A point lies `step` away, and where the numbers are larger than 1 by so much more.
    """
    if directions is None:
        for index in np.ndindex(at.shape):
            far = step * max(1.0, abs(float(at[index])))
            above, below = at.copy(), at.copy()
            above[index] += far
            below[index] -= far
            yield Probe(index, None, above, below, float(above[index]) - float(below[index]))
        return
    far = step * max(1.0, float(np.max(np.abs(at), initial=0.0)))
    for i in range(directions):
        way = weights(at.shape, 1.3 + i)
        yield Probe((i,), way, (at + far * way).astype(at.dtype), (at - far * way).astype(at.dtype), 2 * far)


def differences(f: Callable[[NDArray], float], at: NDArray, step: float = 1e-5) -> NDArray:
    """Returns the slope of the scalar function `f` for every element of `at`, float64."""
    out = np.empty(at.shape)
    for probe in probes(at, step):
        out[probe.index] = probe.slope(f(probe.above), f(probe.below))
    return out


def weights(shape: Sequence[int], frequency: float) -> NDArray:
    """Returns numbers in [-1, 1] of that shape, so different that a weighted sum hides no element."""
    return np.cos(frequency * np.arange(1, np.prod(shape, dtype=int) + 1)).reshape(shape)
