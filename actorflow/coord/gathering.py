"""Asks all shards at once, and has their answers in order or the first that decides the matter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from actorflow.actors.ref import Ref
from actorflow.errors import ActorDied, ChannelClosed, DeadlinePassed, PeerLost, ShardLost

_UNREACHED = (ActorDied, PeerLost, ChannelClosed, DeadlinePassed)


async def from_all(
    shards: Sequence[Ref],
    questions: Sequence[Any],
    deadline_s: float,
    enough: Callable[[Any], bool] = lambda answer: False,
) -> list[Any]:
    """Returns the answers of all shards, in their order; fewer when one of them is `enough`.

    The asks that are open when the matter is decided, or the caller is cancelled, end before this returns.

    Args:
        shards: Whom to ask.
        questions: What to ask each.
        deadline_s: How long each may take.
        enough: Tells an answer after which the others do not matter.

    Raises:
        ShardLost: one of them cannot be reached, or does not answer in time; says why.
        ActorflowError: what else one of them raised.
    """
    loop = asyncio.get_running_loop()
    asks = [
        loop.create_task(_asked(ref, question, deadline_s), name=f"ask {ref.name}")
        for ref, question in zip(shards, questions, strict=True)
    ]
    try:
        while True:
            answers = [ask.result() for ask in asks if ask.done()]
            if len(answers) == len(asks) or any(map(enough, answers)):
                return answers
            await asyncio.wait([ask for ask in asks if not ask.done()], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _over(asks)


async def _asked(shard: Ref, question: Any, deadline_s: float) -> Any:
    try:
        return await shard.ask(question, deadline_s)
    except _UNREACHED as error:
        first = str(error).splitlines()[0]
        message = f"shard '{shard.name}' gave no answer to {type(question).__name__}: {first}"
        raise ShardLost(message) from error


async def _over(asks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels what is open and waits until all have ended, a cancellation included."""
    for ask in asks:
        ask.cancel()
    while waiting := [ask for ask in asks if not ask.done()]:
        await asyncio.wait(waiting)
    for ask in asks:
        if not ask.cancelled():
            ask.exception()  # one of them is raised; the others fail for the same reason, or do not matter
