"""What Python and numpy ask of a number or an array, and a tensor cannot answer: it has no value yet.

Each refusal says what to do instead. `NoValue` is a TypeError as well, which is what these protocols
expect of an object that does not take part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from actorflow.errors import NoValue, Where
from actorflow.graph import opdef
from actorflow.runtime.name_hints import FETCH, FUNCTIONS
from actorflow.runtime.public_names import dotted


class Valueless:
    """Refuses what needs a value; base of tensors and variables."""

    __slots__ = ()

    def place(self) -> Where | None:
        """Where errors say that this was made; None where it is not known."""
        return None

    def __bool__(self) -> bool:
        message = f"a tensor has no truth value while the graph is built: {self!r}"
        hint = "fetch it first, or use af.where, af.cond or af.while_loop"
        raise NoValue(message, where=self.place(), hint=hint)

    def __iter__(self) -> Iterator[Any]:
        message = f"a tensor cannot be iterated while the graph is built: {self!r}"
        raise NoValue(message, where=self.place(), hint="use af.unstack for its rows, af.map_fn or af.scan")

    def __contains__(self, value: object) -> bool:
        self._refuse("`in`", "compare its elements: af.any(af.equal(tensor, value))")

    def __len__(self) -> int:
        self._refuse("len()", "use tensor.shape[0], or af.arrays.shape(tensor)[0] where that is None")

    def __float__(self) -> float:
        self._refuse("float()", f"{FETCH}; in the graph, af.cast and the functions of af take tensors")

    def __int__(self) -> int:
        self._refuse("int()", f"{FETCH}; in the graph, use af.cast")

    def __complex__(self) -> complex:
        self._refuse("complex()", f"{FETCH}; in the graph, use af.cast or af.math.complex")

    def __index__(self) -> int:
        self._refuse(
            "an index or a count of Python", f"{FETCH}; in the graph, use af.gather or af.while_loop"
        )

    def __format__(self, spec: str) -> str:
        # An empty format is `f"{tensor}"`: it has a text, if no value.
        if spec:
            self._refuse(f"the format {spec!r}", FETCH)
        return str(self)

    def __array__(self, *args: Any, **settings: Any) -> Any:
        self._refuse(
            "an array of numpy", f"{FETCH}; in the graph, af.stack and af.concat put tensors together"
        )

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        self._refuse(f"np.{function.__name__}", _ours(function.__name__))

    def _refuse(self, asker: str, hint: str) -> NoReturn:
        message = f"a tensor has no value while the graph is built, and {asker} needs one: {self!r}"
        raise NoValue(message, where=self.place(), hint=hint)


def _ours(function: str) -> str:
    """What to write instead of a function of numpy."""
    low = function.lower()
    # The function of numpy by its own name, where an op is called so.
    known = FUNCTIONS.get(low) or (f"af.{dotted(low)}" if low in opdef.table() and dotted(low) else None)
    return FETCH if known is None else f"use {known}, or {FETCH}"


def refuse_ufunc(tensor: Valueless, function: str) -> NoReturn:
    """Raises NoValue for a universal function of numpy that is no operator of Python."""
    tensor._refuse(f"np.{function}", _ours(function))
