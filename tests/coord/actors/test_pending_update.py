"""An update between shard and optimizer is decided or let go, once."""

from __future__ import annotations

import asyncio
import gc
from typing import Any
from weakref import ref

import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.actors.pending_update import PendingUpdate
from actorflow.coord.rules.messages import PrepareUpdate


def with_update(body: Any) -> None:
    async def main() -> None:
        await body(PendingUpdate(PrepareUpdate(1, 0, ((0, 1),)), (0,), asyncio.get_running_loop()))

    af.run(main())


def test_it_is_ready_then_committed_then_applied() -> None:
    async def body(update: PendingUpdate) -> None:
        assert repr(update) == "<PendingUpdate of version 0, not ready>"
        update.decision.staged()
        assert await update.ready
        committing = asyncio.create_task(update.commit())
        assert await update.decision.commit
        assert not committing.done()

        update.done(1)

        await committing
        assert update.error is None

    with_update(body)


def test_what_is_not_ready_is_interrupted_and_never_ready() -> None:
    async def body(update: PendingUpdate) -> None:
        ended = []
        update.interrupt = lambda: ended.append(True)

        update.discard()
        update.decision.staged()
        update.failed(ValueError("interrupted"))

        assert not await update.ready
        assert ended == [True]
        assert isinstance(update.error, errors.StepAborted)
        assert not update.decision.commit.done()

    with_update(body)


def test_what_is_ready_is_let_go_by_the_decision() -> None:
    async def body(update: PendingUpdate) -> None:
        update.interrupt = lambda: pytest.fail("it may be about to commit")
        update.decision.staged()

        update.discard()
        update.discard()
        update.failed(errors.StepAborted("discarded"))

        assert await update.decision.commit is False
        assert not update.applied.done()

    with_update(body)


def test_a_failure_is_told_where_it_is_awaited() -> None:
    async def body(update: PendingUpdate) -> None:
        update.failed(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await update.ready

    async def decided(update: PendingUpdate) -> None:
        update.decision.staged()
        committing = asyncio.create_task(update.commit())
        await asyncio.sleep(0)
        update.failed(errors.ActorDied("stopped"))
        with pytest.raises(errors.ActorDied):
            await committing

    with_update(body)
    with_update(decided)


def test_it_is_let_go_of_without_the_collector() -> None:
    async def main() -> None:
        update = PendingUpdate(PrepareUpdate(1, 0, ((0, 1),)), (0,), asyncio.get_running_loop())
        held = ref(update)
        update.decision.staged()
        update.discard()
        del update
        assert held() is None

    gc.disable()
    try:
        af.run(main())
    finally:
        gc.enable()
