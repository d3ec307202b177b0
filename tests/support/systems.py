"""Actor systems for a test: what is done in one, and what comes of that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import actorflow as af


def in_system(body: Callable[[af.ActorSystem], Awaitable[Any]], **options: Any) -> Any:
    """Returns what `body` returns in a system of its own, in real time."""

    async def main() -> Any:
        async with af.ActorSystem(name="system", **options) as system:
            return await body(system)

    return af.run(main())
