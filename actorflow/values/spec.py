"""The spec of a tensor, what is known before it exists: its shape, with unknowns, and its dtype.

`None` in place of a size means "any size", `None` in place of a shape means "any rank". The
functions here answer what the ops' spec rules ask; they raise without a place, the graph
builder adds node and source line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from actorflow.errors import SpecError
from actorflow.values.arrays import DType, as_dtype, is_dtype, name_of

Dim = int | None
Shape = tuple[Dim, ...] | None


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and dtype of a tensor; prints as `(None, 784) float32`."""

    shape: Shape
    dtype: DType

    def __post_init__(self) -> None:
        """Takes names for dtypes, and lists for shapes; raises SpecError for what is neither."""
        if not is_dtype(self.dtype):
            try:
                # The dataclass is frozen.
                object.__setattr__(self, "dtype", as_dtype(self.dtype))
            except TypeError as error:
                message = f"a spec is a shape and a dtype: {error}"
                raise SpecError(message, hint='for instance af.Spec((None, 784), "float32")') from None
        shape = self.shape
        # Most shapes are right as they come; the check costs more than this look.
        if shape is not None and not (
            type(shape) is tuple and all(d is None or (type(d) is int and d >= 0) for d in shape)
        ):
            object.__setattr__(self, "shape", check_shape(shape))

    @property
    def rank(self) -> int | None:
        """Number of axes, None when unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Tells whether every size is known."""
        return self.shape is not None and None not in self.shape

    def fits(self, shape: tuple[int, ...], dtype: DType) -> bool:
        """Tells whether an array of `shape` and `dtype` is one of those described."""
        if self.dtype != dtype:
            return False
        mine = self.shape
        # The fast answer for shapes that are known.
        if mine is None or mine == shape:
            return True
        return len(mine) == len(shape) and all(m is None or m == s for m, s in zip(mine, shape, strict=True))

    def __str__(self) -> str:
        """Shape and dtype, as users read them in errors."""
        return f"{show(self.shape)} {name_of(self.dtype)}"


@dataclass(frozen=True, slots=True, init=False)
class ListSpec(Spec):
    """What is known about a list of tensors; prints as `list of (None, 784) float32`.

    Its shape is `(size,)`, with None for a list that grows, and its dtype that of the tensors. No array
    fits it: only ops that say so take lists and make them.

    Attributes:
        element: What each element fits: a Spec, or the ListSpec of lists in the list.
    """

    element: Spec

    def __init__(self, element: Spec, size: int | None = None) -> None:
        object.__setattr__(self, "shape", check_shape((size,)))
        object.__setattr__(self, "dtype", element.dtype)
        object.__setattr__(self, "element", element)

    @property
    def size(self) -> Dim:
        """How many elements there are; None for a list that grows."""
        return None if self.shape is None else self.shape[0]

    @property
    def is_static(self) -> bool:
        """False: how many bytes it has is known in the step."""
        return False

    def fits(self, shape: tuple[int, ...], dtype: DType) -> bool:
        """False: an array is no list."""
        return False

    def __str__(self) -> str:
        """Number and spec of the elements, as users read them in errors."""
        return f"list of {'' if self.size is None else f'{self.size} × '}{self.element}"


def spec(dtype: Any, shape: Iterable[Dim] | None = ()) -> Spec:
    """Returns the spec with checked sizes; raises SpecError on a negative or non-integer size."""
    try:
        found = as_dtype(dtype)
    except TypeError as error:
        raise SpecError(str(error)) from None
    return Spec(check_shape(shape), found)


def check_shape(shape: Iterable[Dim] | None) -> Shape:
    """Returns `shape` as a tuple of ints and Nones, or raises SpecError saying what is wrong."""
    if shape is None:
        return None
    try:
        # `__index__` takes numpy's integers and refuses floats.
        dims = tuple(None if d is None else d.__index__() for d in shape)
    except (TypeError, AttributeError):
        message = f"a shape is a tuple of sizes, each an integer or None, got {shape!r}"
        given: Any = shape
        hint = f"one axis is a tuple as well: ({given},)" if type(given) is int else None
        raise SpecError(message, hint=hint) from None
    if any(d is not None and d < 0 for d in dims):
        message = f"sizes cannot be negative, got {show(dims)}"
        # -1 is what other libraries write for an unknown size.
        unknown = tuple(None if d == -1 else d for d in dims)
        usual = -1 in dims and all(d is None or d >= 0 for d in unknown)
        raise SpecError(
            message,
            hint=f"None is a size that may differ from feed to feed: {show(unknown)}" if usual else None,
        )
    return dims


def sizes(shape: Shape) -> tuple[int, ...]:
    """Returns a shape of which every size is known; raises SpecError for any other."""
    if shape is None or None in shape:
        message = f"every size must be known, got {show(shape)}"
        raise SpecError(message)
    return tuple(d for d in shape if d is not None)


def show(shape: Shape) -> str:
    """Returns the shape as text; an unknown rank reads `(...)`."""
    return "(...)" if shape is None else str(tuple(shape))


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Returns the shape that numpy broadcasting gives, as far as it is known.

    An unknown size against 1 stays unknown; against n > 1 it becomes n, since it must be 1 or n.

    Raises:
        SpecError: when two known sizes can never broadcast; names both shapes.
    """
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    out: list[Dim] = []
    # From the back, as numpy does; missing axes count as 1.
    for dims in zip_longest(*(reversed(s) for s in known), fillvalue=1):
        sizes = {d for d in dims if d is not None and d != 1}
        if len(sizes) > 1:
            message = f"shapes must broadcast, got {' and '.join(show(s) for s in known)}"
            raise SpecError(message, hint="sizes must be equal or 1, counted from the last axis")
        # One size above 1 decides; without one an unknown size leaves it open.
        out.append(sizes.pop() if sizes else (None if None in dims else 1))
    return tuple(reversed(out))


def merge(a: Shape, b: Shape) -> Shape:
    """Returns what is known when both shapes describe one tensor; raises SpecError if none can."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(
        x is not None and y is not None and x != y for x, y in zip(a, b, strict=False)
    ):
        message = f"shapes must agree, got {show(a)} and {show(b)}"
        raise SpecError(message)
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def unify(a: Spec, b: Spec) -> Spec:
    """Returns what is known when both describe one tensor or list; raises SpecError if none can."""
    if isinstance(a, ListSpec) and isinstance(b, ListSpec):
        (size,) = merge(a.shape, b.shape) or (None,)
        return ListSpec(unify(a.element, b.element), size)
    if isinstance(a, ListSpec) or isinstance(b, ListSpec) or a.dtype != b.dtype:
        message = f"specs must agree, got {a} and {b}"
        raise SpecError(message)
    return Spec(merge(a.shape, b.shape), a.dtype)


def axis_of(axis: int, rank: int) -> int:
    """Returns `axis` counted from the front; raises SpecError when there is no such axis."""
    # Negative axes count from the end.
    if not -rank <= axis < rank:
        message = f"axis must lie in [{-rank}, {rank}), got {axis}"
        raise SpecError(message, hint=axes_in(rank))
    return axis % rank


def axes_in(rank: int) -> str:
    """What to try where there is no such axis."""
    if not rank:
        return "a scalar has no axis"
    return f"axes count from 0 to {rank - 1}, or from the last, -1, to {-rank}"
