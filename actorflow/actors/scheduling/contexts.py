"""The context in which handlers begin: a fresh copy of one that none of them has changed.

It is that of the program where it opened its system, and holds nothing of whoever tells or asks. A context
that a handler has changed is found by comparing it with a copy from before, and is thrown away.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from contextvars import Context
from typing import Any


class Unchanged:
    """What a context is compared with that holds a decimal one: its variables, and the values of that."""

    __slots__ = ("_decimal", "_values", "_variables")

    def __init__(self, context: Context) -> None:
        # Comparing a context with a copy costs as much as comparing two pointers, while nobody has set
        # anything.
        self._variables = context.copy()
        # A `decimal` context is changed in place, which no comparison of contexts sees.
        self._decimal = next(value for value in context.values() if isinstance(value, decimal.Context))
        self._values = _values(self._decimal)

    def __eq__(self, other: object) -> bool:
        return other == self._variables and _values(self._decimal) == self._values

    __hash__ = None  # type: ignore[assignment]  # compared, never kept


class Contexts:
    """Gives contexts in which nothing of any handler is left.

    Args:
        base: The context to copy; only its variables are taken.

    Attributes:
        unchanged: Gives, of a context, what it equals until somebody changes it.
    """

    __slots__ = ("_base", "_decimal", "unchanged")

    def __init__(self, base: Context) -> None:
        self._decimal: decimal.Context | None = None
        self._base = Context()
        for variable, value in base.items():
            if not isinstance(value, decimal.Context):
                self._base.run(variable.set, value)
            # Where the program has not changed its own, contexts hold none: the first use puts one in, and
            # most never have one to compare.
            elif _settings(value) != _settings(decimal.DefaultContext):
                self._decimal = value.copy()
        self.unchanged: Callable[[Context], Any] = Context.copy if self._decimal is None else Unchanged

    def change(self, function: Callable[[], object]) -> None:
        """Has `function` change the contexts to come."""
        self._base.run(function)

    def fresh(self) -> Context:
        """Returns one more."""
        context = self._base.copy()
        if self._decimal is not None:
            # To each its own: it is an object that is changed in place.
            context.run(decimal.setcontext, self._decimal.copy())
        return context


def _values(context: decimal.Context) -> Any:
    # precision, traps and flags: all that a computation can leave in it
    return context.__reduce__()


def _settings(context: decimal.Context) -> tuple[Any, ...]:
    """Returns all but the flags, which say what was computed."""
    return (
        context.prec,
        context.rounding,
        context.Emin,
        context.Emax,
        context.capitals,
        context.clamp,
        tuple(context.traps.items()),
    )
