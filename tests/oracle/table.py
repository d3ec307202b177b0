"""What torch calls our ops: for each of its names, the call of ours that means the same.

An entry is a function with the arguments of torch's op, in its order and under its names, that
builds ours. Tensors come as tensors of our graph, everything else as it is, a dtype as that of
numpy. A function says `exclude(...)` where it has no meaning for an argument: such a sample counts
as excluded, with that reason, and the others of the op are compared. No entry needs torch, so that
what was recorded is compared without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import actorflow as af
from actorflow.graph.builder import Tensor

Build = Callable[..., Any]
Settle = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One op of torch in our words.

    `name` is torch's, followed by the variant that its table knows. `ours` names what serves it;
    `composed` tells that this is a line of several ops. Values agree to `rtol` and `atol`; an
    entry with other ones than the usual says why in `because`. `forward_only` is the reason why no
    gradients are compared, `second_order` why none of gradients, `left_out` why only the `first`
    outputs of torch's are compared.

    torch's table makes of some outputs, such as singular vectors, what does not depend on a choice;
    `settled` does the same to ours, by the name of torch's function. It guards some inputs as well,
    by adding a matrix to its transpose or reading a triangle of it alone, so that gradients are
    those of a function of all elements: `build` does the same.
    """

    name: str
    ours: str
    build: Build
    composed: bool = False
    rtol: float = 1e-9
    atol: float = 1e-11
    because: str = ""
    forward_only: str = ""
    second_order: str = ""
    first: int | None = None
    left_out: str = ""
    settled: Mapping[str, Settle] = field(default_factory=dict)


TABLE: dict[str, Entry] = {}


class Excluded(Exception):
    """Ours has no meaning for an argument of the sample; the text says for which and why."""


def exclude(reason: str) -> NoReturn:
    """Says that the sample cannot be compared."""
    raise Excluded(reason)


def need(holds: bool, reason: str) -> None:
    """Excludes the sample for `reason` unless `holds`."""
    if not holds:
        exclude(reason)


def same(names: str, build: Build, ours: str = "", **how: Any) -> None:
    """Adds entries for `names`, separated by commas: ours takes what torch's takes, in its order."""
    for name in names.split(","):
        _add(Entry(name.strip(), ours or build.__name__, build, **how))


def maps(names: str, ours: str, **how: Any) -> Callable[[Build], Build]:
    """Adds entries for `names`, separated by commas, served by the function below."""

    def add(build: Build) -> Build:
        for name in names.split(","):
            _add(Entry(name.strip(), ours, build, **how))
        return build

    return add


def composes(names: str, ours: str, **how: Any) -> Callable[[Build], Build]:
    """Like `maps`, for what a user of ours would write as a line of several ops."""
    return maps(names, ours, composed=True, **how)


def _add(entry: Entry) -> None:
    assert entry.name not in TABLE, f"{entry.name} is mapped twice"
    TABLE[entry.name] = entry


@functools.cache
def table() -> dict[str, Entry]:
    """All entries, those of every module `maps_*` beside this one."""
    for path in sorted(Path(__file__).parent.glob("maps_*.py")):
        import_module(f"tests.oracle.{path.stem}")
    return TABLE


# -------------------------------------------------------------------------- what entries share


def rank(x: Tensor) -> int:
    """The number of axes, which every sample knows."""
    assert x.shape is not None
    return len(x.shape)


def sizes(x: Tensor) -> tuple[int, ...]:
    """The shape, which every sample knows."""
    assert x.shape is not None
    return tuple(int(d or 0) for d in x.shape)


def one_axis(x: Tensor, dim: int | None) -> int | None:
    """`dim` as an axis; torch lets a scalar have one."""
    need(rank(x) > 0 or dim is None, "a dim of a scalar: ours has no axis there")
    return dim


def axes(x: Tensor, dim: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    """`dim` as axes; torch means all by an empty tuple."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return None
    need(rank(x) > 0, "a dim of a scalar: ours has no axis there")
    return dim if isinstance(dim, int) else tuple(dim)


def ints(given: Sequence[Any]) -> tuple[int, ...]:
    """Sizes given one by one, or as one sequence."""
    found = given[0] if len(given) == 1 and isinstance(given[0], Sequence) else given
    return tuple(int(f) for f in found)


def alike(*values: Any) -> None:
    """Excludes tensors of several dtypes."""
    dtypes = {v.dtype for v in values if isinstance(v, Tensor)}
    need(len(dtypes) <= 1, "bounds of another dtype: ours asks for a cast")


def no_dtype(dtype: Any) -> None:
    """Excludes a dtype argument."""
    need(dtype is None, "a dtype argument: ours keeps the dtype, af.cast changes it")


def in_rows(memory_format: Any) -> None:
    """Excludes a layout of memory other than that of rows."""
    plain = memory_format is None or str(memory_format) in (
        "torch.contiguous_format",
        "torch.preserve_format",
    )
    need(plain, "memory_format: ours has no say in the layout of memory")


def channels_last(x: Tensor) -> Tensor:
    """torch's images, whose channels come first behind the batch, as ours."""
    return af.moveaxis(x, 1, -1)


def channels_first(x: Tensor) -> Tensor:
    """Our images as torch's."""
    return af.moveaxis(x, -1, 1)


def batched(x: Tensor, axes: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """A batch of images of `axes` spatial axes with channels last, and the way back.

    torch takes one image without a batch as well.
    """
    if rank(x) == axes + 2:
        return channels_last(x), channels_first
    return channels_last(af.expand_dims(x, 0)), lambda y: af.squeeze(channels_first(y), 0)


def numbers(value: Any, axes: int) -> tuple[int, ...]:
    """One number for every spatial axis."""
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    return given * axes if len(given) == 1 else given
