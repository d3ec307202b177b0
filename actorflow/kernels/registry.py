"""The table of kernels: which array function computes an op on which library.

A kernel is `f(*arrays, **attrs)`: arrays positional, attributes of the node keyword. It returns
one array, or a tuple of arrays when its op has several outputs. It may run on any thread, never
changes its inputs, and may return an input itself or a view of it. A random kernel is also handed
`counter`, a tuple of four integers that differs for every firing of a run (see `kernels.random`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from actorflow.arrays import Array
from actorflow.errors import PlacementError

Function = TypeVar("Function", bound=Callable[..., Any])

Cost = Callable[..., float]
"""(*arrays, **attrs) -> estimated floating-point operations plus elements moved."""


def elements(*arrays: Array, **_: Any) -> float:
    """The default cost: elements read, which is about what an elementwise kernel does."""
    return float(sum(getattr(a, "size", 1) for a in arrays))


@dataclass(frozen=True, slots=True)
class Kernel:
    """An entry of the table."""

    op: str
    library: str
    function: Callable[..., Any]
    cost: Cost

    def bind(self, attrs: Mapping[str, Any]) -> Callable[..., Any]:
        """Returns the function with the node's attributes filled in."""
        return partial(self.function, **attrs) if attrs else self.function


_TABLE: dict[tuple[str, str], Kernel] = {}


def kernel(op: str, library: str = "numpy", *, cost: Cost = elements) -> Callable[[Function], Function]:
    """Registers the decorated function as the kernel of `op` on `library`."""

    def register(function: Function) -> Function:
        _TABLE[op, library] = Kernel(op, library, function, cost)
        return function

    return register


def find(op: str, library: str = "numpy") -> Kernel:
    """Returns the kernel of `op` on `library`; raises PlacementError saying which libraries have one."""
    found = _TABLE.get((op, library))
    if found is None:
        others = sorted(lib for o, lib in _TABLE if o == op)
        have = f"{', '.join(others)} has one" if others else "no library has one"
        message = f"no kernel for {op!r} on {library}; {have}"
        raise PlacementError(message)
    return found


def table() -> Mapping[tuple[str, str], Kernel]:
    """Returns every registered kernel by (op, library); do not change it."""
    return _TABLE
