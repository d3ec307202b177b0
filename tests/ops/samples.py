"""What the conformance suite feeds to an op: one hypothesis strategy of cases for each.

An op joins the suite by being registered; then it needs a sample here, or in a module beside this
one named `samples_<family>.py`:

    @sample("add")
    @st.composite
    def add(draw): return Case(draw(broadcasting(2)))

Differentiable inputs come as float64, apart from kinks and ties, and few elements each: every one
of them is moved to measure a difference. Other dtypes come from `dtypes`: the suite converts the
float64 inputs of a case to each and skips those that the op's spec rule refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int8", "uint8", "bool", "complex64")


@dataclass(frozen=True)
class Case:
    """One use of an op.

    Attributes:
        inputs: The arrays it is given.
        attrs: The attributes of the node.
        objects: What the graph must hold in `Graph.objects` under the keys that attrs name.
        late: Whether sizes of the result depend on values, so that the spec rule cannot say them.
    """

    inputs: tuple[np.ndarray, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)
    late: bool = False


@dataclass(frozen=True)
class Sample:
    """An entry of the table.

    Attributes:
        cases: The strategy.
        dtypes: What the float64 inputs are converted to, all alike, when specs are checked.
        no_gradient: Why the op has no gradient rule, or one that differences cannot check.
        second_order: Why the second derivative is not checked; None when it is.
    """

    cases: st.SearchStrategy[Case]
    dtypes: tuple[str, ...] = DTYPES
    no_gradient: str | None = None
    second_order: str | None = None


SAMPLES: dict[str, Sample] = {}


def sample(op: str, **options: Any) -> Callable[[Callable[[], st.SearchStrategy[Case]]], Any]:
    """Registers the strategy that the decorated function returns as the sample of `op`."""

    def register(make: Callable[[], st.SearchStrategy[Case]]) -> Any:
        assert op not in SAMPLES, f"{op} has a sample already"
        SAMPLES[op] = Sample(make(), **options)
        return make

    return register


# ----------------------------------------------------------------------------- arrays to draw

dims = st.sampled_from([2, 3, 1])

# Named one by one, simplest first: drawn size by size, most of fifteen examples are () and (1,).
SHAPES = [(), (3,), (2, 3), (1,), (0,), (2, 0), (3, 1), (1, 2), (2, 3, 2), (3, 1, 2), (1, 1, 3), (1, 1)]


def shapes(
    min_rank: int = 0, max_rank: int = 3, *, empty: bool = False
) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of these ranks; `empty` allows those without elements."""
    return st.sampled_from([s for s in SHAPES if min_rank <= len(s) <= max_rank and (empty or 0 not in s)])


def values(draw: st.DrawFn, shape: tuple[int, ...], low: float = -2, high: float = 2) -> np.ndarray:
    """Distinct float64 values in [low, high], at least 0.02 of the range apart, and none near 0.

    So a difference of 1e-3 or less never crosses a kink at 0 or a tie between two elements.
    """
    size = int(np.prod(shape))
    grid = np.linspace(low, high, max(64, 2 * size))
    grid = grid[np.abs(grid) > 0.01 * (high - low)]
    order = np.random.default_rng(draw(st.integers(0, 999))).permutation(len(grid))
    return grid[order[:size]].reshape(shape)


def broadcast_shapes(draw: st.DrawFn, n: int) -> list[tuple[int, ...]]:
    """n shapes that broadcast: each drops leading axes and turns others to 1."""
    full = draw(st.sampled_from([(3,), (2, 3), (2, 3, 2), (), (2, 0)]))
    found = []
    for _ in range(n):
        ones = draw(st.integers(0, 2 ** len(full) - 1))
        kept = tuple(1 if ones >> i & 1 else d for i, d in enumerate(full))
        start = draw(st.just(0) | st.integers(0, len(full)))
        found.append(kept[start:])
    return found


def several(
    draw: st.DrawFn, given: list[tuple[int, ...]], low: float = -2, high: float = 2
) -> list[np.ndarray]:
    """Arrays of the given shapes, with values that are distinct across all of them."""
    sizes = [int(np.prod(s)) for s in given]
    flat = values(draw, (sum(sizes),), low, high)
    return [p.reshape(s) for p, s in zip(np.split(flat, np.cumsum(sizes)[:-1]), given, strict=True)]


@st.composite
def one(draw: st.DrawFn, low: float = -2, high: float = 2) -> Case:
    return Case((values(draw, draw(shapes(empty=True)), low, high),))


@st.composite
def two(draw: st.DrawFn, low: float = -2, high: float = 2) -> Case:
    return Case(tuple(several(draw, broadcast_shapes(draw, 2), low, high)))


@st.composite
def reducing(draw: st.DrawFn, *, keepdims: bool = True, tuples: bool = True, empty: bool = False) -> Case:
    shape = draw(shapes(empty=empty))
    axis: Any = None
    if draw(st.booleans()) and shape:
        one_axis = st.integers(-len(shape), len(shape) - 1)
        axis = draw(one_axis)
        if tuples and draw(st.booleans()):
            axis = tuple(draw(st.lists(one_axis, max_size=3, unique_by=lambda a: a % len(shape))))
    attrs = {"axis": axis, "keepdims": draw(st.booleans())} if keepdims else {"axis": axis}
    return Case((values(draw, shape),), attrs)


def bools(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool).reshape(shape)


def integers(
    draw: st.DrawFn, shape: tuple[int, ...], low: int, high: int, dtype: str = "int32"
) -> np.ndarray:
    size = int(np.prod(shape))
    return np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), dtype).reshape(
        shape
    )
