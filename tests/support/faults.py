"""Planted faults: what shows that a law can fail.

A fault is a wrong rule made out of the right one, which stands in its place while a test runs. It is planted by the
name of the function, public or not: what is broken on purpose is what the law is about.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import pytest

Fault = TypeVar("Fault", bound=Callable[..., Any])


def planted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Callable[[Fault], Fault]:
    """Puts the decorated function in the place of one of a class or module; it is given the right one first.

    @planted(monkeypatch, Stack, "push")
    def twice(push: Any, self: Stack, item: Any) -> None:
        push(self, item)
        push(self, item)
    """
    right = getattr(owner, name)

    def plant(fault: Fault) -> Fault:
        @wraps(right)
        def wrong(*args: Any, **options: Any) -> Any:
            return fault(right, *args, **options)

        @wraps(right)
        async def wrong_in_time(*args: Any, **options: Any) -> Any:
            return await fault(right, *args, **options)

        monkeypatch.setattr(owner, name, wrong_in_time if inspect.iscoroutinefunction(fault) else wrong)
        return fault

    return plant
