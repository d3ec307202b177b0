"""Fetching tensors in a session of their own, several steps one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import actorflow as af


def run(graph: af.Graph, *steps: tuple[Any, dict[Any, Any]]) -> list[Any]:
    """What each step gives, in one session: a step is what is fetched, and what is fed."""

    async def main() -> list[Any]:
        async with af.Session(graph) as session:
            return [await session.run(fetches, feeds) for fetches, feeds in steps]

    return asyncio.run(main())


def fetch(graph: af.Graph, fetches: Any, feeds: dict[Any, Any] | None = None) -> Any:
    """What one step gives."""
    return run(graph, (fetches, feeds or {}))[0]


def names(variables: Sequence[af.Variable]) -> list[str]:
    return [v.name for v in variables]
