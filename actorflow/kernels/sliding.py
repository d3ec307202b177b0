"""Where the windows of pooling lie on a batch of images, of as many spatial axes as the windows have."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from actorflow.errors import SpecError
from actorflow.spec import show
from actorflow.windows import Along, along, spatial

Sizes = tuple[int, ...]
Padding = str | tuple[tuple[int, int], ...]
Part = tuple[builtins.slice, ...]

_ALL = builtins.slice(None)


@dataclass(frozen=True, slots=True)
class Slides:
    """Windows on images of `shape`; `axes` has what they do along each spatial axis."""

    shape: Sizes
    axes: tuple[Along, ...]

    @property
    def pooled(self) -> Sizes:
        """The shape of one value for each window."""
        return (self.shape[0], *(a.count for a in self.axes), self.shape[-1])

    @property
    def window(self) -> Sizes:
        """The sizes of a window."""
        return tuple(a.window for a in self.axes)

    def pieces(self) -> Iterator[tuple[Sizes, Part, Part]]:
        """Yields each place of the window, in their order, which windows have it on the image, and where."""
        for place in product(*map(range, self.window)):
            each = [a.overlap(k) for a, k in zip(self.axes, place, strict=True)]
            if all(those.start != those.stop for those, _ in each):
                yield place, (_ALL, *(t for t, _ in each), _ALL), (_ALL, *(p for _, p in each), _ALL)

    def check(self, gradient: Sizes) -> None:
        """Raises SpecError unless the gradient of what is pooled has its shape."""
        if gradient != self.pooled:
            message = f"the gradient of an output {show(self.pooled)} has its shape, got {show(gradient)}"
            raise SpecError(message)

    def check_values(self, values: Sizes) -> None:
        """Raises SpecError unless the values to gather have the shape of the images."""
        if values != self.shape:
            message = f"the gradient of an output {show(self.shape)} has its shape, got {show(values)}"
            raise SpecError(message)


@lru_cache(1024)
def slides(
    shape: Sizes,
    size: Sizes,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes | None = None,
    ceil_mode: bool = False,
) -> Slides:
    """Returns where windows lie on images of `shape`.

    Raises:
        SpecError: when the images have other axes, no window fits, or one lies outside.
    """
    rank = len(size)
    spatial(shape, rank)
    each = (padding,) * rank if isinstance(padding, str) else padding
    axes = zip(shape[1:-1], size, strides, dilations or (1,) * rank, each, strict=True)
    return Slides(shape, tuple(along(*axis, ceil_mode) for axis in axes))


def pool_cost(x: Any, *others: Any, size: Sizes, **attrs: Any) -> float:
    """One comparison for every element of every window; the gradients three more."""
    at = slides(x.shape, size, *(attrs[a] for a in ("strides", "padding")), **_rest(attrs))
    return float(prod(at.pooled) * prod(size)) * (1 + 3 * len(others))


def _rest(attrs: dict[str, Any]) -> dict[str, Any]:
    return {name: attrs[name] for name in ("dilations", "ceil_mode") if name in attrs}
