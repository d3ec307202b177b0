"""The public names: what users see on `af` and in its namespaces, gathered from where they live.

`namespaces` is the table of which name stands where, and `exports` writes the lists from it: `top`, and one
module a namespace. This file is light, so that both run while a list is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any


def everything() -> Iterator[tuple[str, Any]]:
    """Yields all that users can write behind `af.`, as (`nn.relu`, the function); no modules."""
    from actorflow.public import top

    for name in top.__all__:
        value = getattr(top, name)
        if inspect.ismodule(value):
            yield from ((f"{name}.{inner}", found) for inner, found in members(value))
        else:
            yield name, value
    yield from ((f"optim.schedules.{name}", found) for name, found in members(top.optim.schedules))


def members(module: Any) -> Iterator[tuple[str, Any]]:
    """Yields the names of a module that users see, and what they are; no modules."""
    for name in getattr(module, "__all__", None) or vars(module):
        value = getattr(module, name)
        own = hasattr(module, "__all__") or getattr(value, "__module__", "") == module.__name__
        if own and not name.startswith("_") and not inspect.ismodule(value):
            yield name, value
