"""What laws draw from: orders of the ring; and how many examples they draw."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, MutableSequence
from typing import Any

from hypothesis import settings

import actorflow as af


def examples(n: int) -> int:
    """Returns how many examples the chosen profile asks of a law that by default draws `n`."""
    return max(1, n * settings().max_examples // 100)


def shuffled(seed: int) -> Callable[[MutableSequence[Any]], Any]:
    """Returns a `pick` that takes any entry of the ring, by `seed`."""
    rng = random.Random(seed)

    def pick(ring: MutableSequence[Any]) -> Any:
        i = rng.randrange(len(ring))
        entry = ring[i]
        del ring[i]
        return entry

    return pick


def run_shuffled(
    graph: af.Graph, seed: int, body: Callable[[af.Session], Awaitable[Any]], **options: Any
) -> Any:
    """Runs `body` in a session whose every turn is picked by `seed`, with all kernels inline."""

    async def main() -> Any:
        result = None
        async with (
            af.ActorSystem(pick=shuffled(seed)) as system,
            af.Session(graph, system=system, threads=0, **options) as session,
        ):
            result = await body(session)
        return result

    return af.run(main())
