from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actorflow.actors.post import Post
from actorflow.actors.system import ActorSystem
from actorflow.errors import (
    ActorDied,
    ActorError,
    ConfigError,
)
from tests.actors.channels import End, joined
from tests.actors.playing import LOOPS, Recorder, play

Body = Callable[[Post, Post, End], Awaitable[None]]


def between(body: Body, window: int = 4, loop: str = "virtual", **options: Any) -> ActorSystem:
    """Runs `body(here, there, channel)` with the posts 'here' and 'there' of two systems."""

    async def main(system: ActorSystem) -> None:
        async with ActorSystem(name="there", **options) as other:
            here, there = Post(system, "here"), Post(other, "there")
            await body(here, there, joined(here, there, window)[0])

    return play(main, loop=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_actor_of_another_process_is_told_and_asked(loop: str) -> None:
    async def body(here: Post, there: Post, _channel: End) -> None:
        seen: list[Any] = []
        there.system.spawn(Recorder, seen, name="shard")
        ref = here.ref("there/shard")

        await ref.tell("one")
        assert await ref.ask("two") == "two"
        assert ref.try_tell("three")
        assert ref.put("four", here.system.nobody)
        assert await ref.ask("five") == "five"

        assert seen == ["one", "two", "three", "four", "five"]

    between(body, loop=loop)
