"""The table of kernels: which array function computes an op on which library.

A kernel is `f(*arrays, **attrs)`: arrays positional, attributes of the node keyword. It returns
one array, or a tuple of arrays when its op has several outputs. It may run on any thread, never
changes its inputs, and may return an input itself or a view of it. A random kernel is also handed
`counter`, a tuple of four integers that differs for every firing of a run (see `kernels.math.random`).

One function serves every library: it takes what it needs of the library from its keyword `xp`,
which is numpy unless another is bound, written in the names of the Python array API, which numpy
and CuPy share. Which library that is gets decided when a node is installed, once a device, so that
a firing on numpy pays nothing for it. Three ways to register:

    @kernel("sigmoid")                    one function for all
    def sigmoid(x, *, xp=np): ...

    @kernel("relu_grad", only="numpy")    a better one for one library; it goes before that for all
    def fast(grad, y): ...

    named("exp")                          the library's own function of that name
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, TypeVar

from actorflow.errors import PlacementError
from actorflow.kernels.definition.cupy_compatibility import CupyLibrary
from actorflow.values import arrays as libraries
from actorflow.values.arrays import Array, Library

Function = TypeVar("Function", bound=Callable[..., Any])

Cost = Callable[..., float]
"""(*arrays, **attrs) -> estimated floating-point operations plus elements moved."""

EVERY = "every library"


def elements(*arrays: Array, **_: Any) -> float:
    """The default cost: elements read, which is about what an elementwise kernel does."""
    return float(sum(getattr(a, "size", 1) for a in arrays))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of one library, as `find` gives it.

    Attributes:
        library: The library whose arrays it takes, or EVERY in the table for one that serves all.
    """

    op: str
    library: str
    function: Callable[..., Any]
    cost: Cost

    def bind(self, attrs: Mapping[str, Any]) -> Callable[..., Any]:
        """Returns the function with the node's attributes filled in."""
        return partial(self.function, **attrs) if attrs else self.function

    def on(self, xp: Library) -> Callable[..., Any]:
        """Returns the function for the arrays of the library `xp`."""
        # The function of the library itself, with nothing of ours around it at a firing.
        if isinstance(self.function, Named):
            return self.function.of(xp)
        wants = signature(self.function).parameters.get("xp")
        # Decided when a node is installed: a firing on numpy pays nothing for other libraries.
        if wants is None or wants.default is xp:
            return self.function
        return partial(self.function, xp=xp)


class Named:
    """Stands in the table for the function of that name of each library."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<the {self.name!r} of the library>"

    def __call__(self, *arrays: Array) -> Array:
        """Calls the function of the library of the arrays."""
        return self.of(libraries.namespace(*arrays))(*arrays)

    def of(self, xp: Library) -> Callable[..., Any]:
        """Returns the function of `xp`."""
        found: Callable[..., Any] = getattr(xp, self.name)
        return found


_TABLE: dict[tuple[str, str], Kernel] = {}
_FOUND: dict[tuple[str, str], Kernel] = {}


def kernel(op: str, *, only: str = EVERY, cost: Cost = elements) -> Callable[[Function], Function]:
    """Registers the decorated function as the kernel of `op`, on every library or on `only` one."""

    def register(function: Function) -> Function:
        _TABLE[op, only] = Kernel(op, only, function, cost)
        _FOUND.clear()
        return function

    return register


def register_named(op: str, name: str = "", *, cost: Cost = elements) -> None:
    """Registers as the kernel of `op` the function `name`, by default `op`, of each library."""
    kernel(op, cost=cost)(Named(name or op))


def find(op: str, library: str = "numpy") -> Kernel:
    """Returns the kernel of `op` for arrays of `library`.

    Raises:
        PlacementError: when there is none, saying which libraries have one; or no such library.
    """
    found = _FOUND.get((op, library))
    if found is None:
        # One for a single library goes before that for all.
        entry = _TABLE.get((op, library)) or _TABLE.get((op, EVERY))
        if entry is None:
            others = sorted(lib for o, lib in _TABLE if o == op)
            have = f"{', '.join(others)} has one" if others else "no library has one"
            message = f"no kernel for {op!r} on {library}; {have}"
            raise PlacementError(message)
        found = Kernel(op, library, entry.on(_as_kernels_take_it(library)), entry.cost)
        _FOUND[op, library] = found
    return found


def _as_kernels_take_it(library: str) -> Library:
    xp = libraries.library(library)
    return CupyLibrary(xp) if library == "cupy" else xp


def table() -> Mapping[tuple[str, str], Kernel]:
    """Returns every registered kernel by (op, library or EVERY); do not change it."""
    return _TABLE
