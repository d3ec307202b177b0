"""Validation of state machines: in tests and simulations each looks at its invariants after every event.

A rule with several fields says which of its methods are events, and has a `validate` that raises
`InternalError` where an invariant does not hold:

    @validates("begin", "staged", "committed")
    class Commitment:
        def validate(self) -> None: ...

Nothing is wrapped, and nothing costs, until `validation` is entered. A process that begins with
ACTORFLOW_VALIDATE=1 in its environment is in it from then on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, Protocol, TypeVar


class Validates(Protocol):
    """A state machine that can tell whether its invariants hold."""

    def validate(self) -> None:
        """Raises InternalError where they do not."""
        ...


R = TypeVar("R", bound=Validates)

RULES: dict[type[Validates], tuple[str, ...]] = {}
"""Every state machine that validates itself, and the names of its events."""

_depth = int(os.environ.get("ACTORFLOW_VALIDATE", "") not in ("", "0"))
_plain: dict[type[Validates], dict[str, Any]] = {}


def validates(*events: str) -> Callable[[type[R]], type[R]]:
    """Makes a class known as a state machine whose invariants hold after each of some methods.

    Args:
        events: The names of those methods.
    """

    def register(rule: type[R]) -> type[R]:
        # vars and not getattr: an inherited method would be wrapped in the wrong class.
        missing = [name for name in events if name not in vars(rule)]
        assert not missing, f"{rule.__name__} has no {missing}"
        RULES[rule] = events
        # A module may be imported within a validated block.
        if _depth:
            _wrap(rule)
        return rule

    return register


def is_validating() -> bool:
    """Tells whether state machines look at their invariants now."""
    return _depth > 0


@contextmanager
def validation() -> Iterator[None]:
    """Has every state machine look at its invariants after each event, while inside; may be nested."""
    global _depth
    _depth += 1
    # Nested blocks share one wrapping.
    if _depth == 1:
        _wrap_all()
    try:
        yield
    finally:
        _depth -= 1
        # The last one out gives the plain methods back.
        if not _depth:
            _unwrap_all()


@contextmanager
def no_validation() -> Iterator[None]:
    """Has none look while inside, whoever has entered `validation`: to see what else finds a fault."""
    global _depth
    depth, _depth = _depth, 0
    if depth:
        _unwrap_all()
    try:
        yield
    finally:
        if depth:
            _wrap_all()
        _depth = depth


def _wrap_all() -> None:
    for rule in RULES:
        _wrap(rule)


def _unwrap_all() -> None:
    for rule, methods in _plain.items():
        for name, method in methods.items():
            setattr(rule, name, method)
    _plain.clear()


def _wrap(rule: type[Validates]) -> None:
    methods = _plain[rule] = {name: vars(rule)[name] for name in RULES[rule]}
    for name, method in methods.items():
        setattr(rule, name, _validated(method))


def _validated(method: Callable[..., Any]) -> Callable[..., Any]:
    if isgeneratorfunction(method):

        @wraps(method)
        def validated_at_its_end(self: Any, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            # Not after each item: between two the event is half done, and to hold an item here would keep
            # its memory from being used again.
            result = yield from method(self, *args, **kwargs)
            self.validate()
            return result

        return validated_at_its_end

    @wraps(method)
    def validated(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        # ORDER: after the event: an invariant may be broken while it goes on.
        try:
            self.validate()
        except BaseException:
            if isinstance(result, Coroutine):
                result.close()  # nobody will await it
            raise
        return result

    return validated
