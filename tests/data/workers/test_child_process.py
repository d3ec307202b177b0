"""Processes that die, and pools that close: every future ends, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.workers.mapper import ElementFailed
from actorflow.data.workers.process_pool import ProcessMapper
from actorflow.errors import ConfigError, StateError
from tests.data import functions
from tests.data.pools import LOOPS, children, descriptors, opened, run, told
from tests.support.strategies import examples
from tests.transport.values import same

# ------------------------------------------------------------------------------ processes die


@pytest.mark.slow
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize(
    ("harm", "text"),
    [
        ("exit", "ended with exit status 3 while it had elements 2 to 4"),
        ("kill", "was ended by SIGKILL while it had elements 2 to 4"),
        ("segfault", "was ended by SIGSEGV while it had elements 2 to 4"),
        ("noise", "was ended, for it sent no message: a frame begins with b'AFm1', got b'nois'"),
        ("fork", "ended with exit status 4 while it had elements 2 to 4"),
    ],
)
def test_a_process_that_dies_fails_what_it_had_and_the_others_go_on(
    harm: str, text: str, factory: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with opened(functions.harmed, 2) as pool:
            dying = pool.map(["a", harm, "b"], [2, 3, 4], 0)
            well = pool.map(["c"], [5], 0)
            behind = pool.map(["d"], [6], 0)
            with pytest.raises(ElementFailed) as caught:
                await dying
            assert caught.value.ordinal == 2
            assert text in str(caught.value.error)
            assert ("was the memory used up?" in str(caught.value.error)) is (harm == "kill")
            assert await well == ["c"]
            with pytest.raises(ElementFailed, match="element 6 for"):
                await behind
            assert await pool.map(["e"], [7], 0) == ["e"]
            with pytest.raises(ElementFailed):
                await pool.map([harm], [8], 0)
            with pytest.raises(
                ElementFailed, match="no process is left for tests.data.functions:harmed: the last"
            ):
                await pool.map(["f"], [9], 0)

    run(main(), factory)
    if harm == "fork":  # what the processes left behind, which held their sockets
        for pid in capfd.readouterr().err.split():
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_processes_killed_at_any_moment_lose_no_waiter_and_no_result_is_wrong(factory: Any) -> None:
    """The moments are answers heard; between them are those of the machine."""

    @settings(max_examples=examples(12))
    @given(st.lists(st.integers(0, 12), min_size=1, max_size=2), st.sampled_from([1, 300_000]))
    def law(moments: list[int], size: int) -> None:
        async def main() -> None:
            async with opened(functions.same, 2) as pool:
                pids = pool.pids()
                heard = 0

                async def one(k: int) -> Any:
                    nonlocal heard
                    found = await told(pool.map([np.full(size, k, np.uint8)], [k], 0))
                    if isinstance(found, ElementFailed):
                        assert found.ordinal == k
                        assert "SIGKILL" in str(found.error)
                    else:
                        assert same(found, [np.full(size, k, np.uint8)])
                    heard += 1
                    while pids and moments and heard >= moments[-1]:
                        moments.pop()
                        os.kill(pids.pop(), signal.SIGKILL)

                await asyncio.gather(*map(one, range(16)))

        run(main(), factory)

    law()


# ---------------------------------------------------------------------------- beginning and end


@pytest.mark.slow
def test_fifty_pools_leave_no_process_and_no_descriptor() -> None:
    async def main() -> None:
        others, seen = children(), set()
        for k in range(50):
            async with opened(len) as pool:
                if k % 2:
                    assert await pool.map([b"123"], [0], 0) == [3]
            seen.add(descriptors())
            assert children() <= others
        assert len(seen) == 1, seen

    run(main())


MOMENTS: dict[str, Callable[[ProcessMapper], Coroutine[Any, Any, Any]]] = {}


def moment(act: Callable[[ProcessMapper], Coroutine[Any, Any, Any]]) -> None:
    MOMENTS[act.__name__.replace("_", " ")] = act


@moment
async def not_started(_pool: ProcessMapper) -> None: ...


@moment
async def idle(pool: ProcessMapper) -> None:
    before, others = descriptors(), children()
    await pool.start()
    assert len(children() - others) == 2  # what is counted is seen
    assert descriptors() > before


@moment
async def starting(pool: ProcessMapper) -> None:
    task = asyncio.create_task(pool.start())
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(ConfigError):
        await task


@moment
async def start_cancelled(pool: ProcessMapper) -> None:
    task = asyncio.create_task(pool.start())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def ended(pool: ProcessMapper, *chunks: list[Any]) -> None:
    """Closes with these chunks under way."""
    futures = [pool.map(chunk, list(range(len(chunk))), 0) for chunk in chunks]
    await asyncio.sleep(0.005)
    await pool.close()
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert all(isinstance(f, StateError) and "was closed" in str(f) for f in found[-1:]), found


@moment
async def busy(pool: ProcessMapper) -> None:
    await pool.start()
    await ended(pool, *[["sleep"]] * 7)


@moment
async def half_sent(pool: ProcessMapper) -> None:
    await pool.start()
    await ended(pool, *[["sleep", np.zeros(10_000_000, np.uint8)]] * 7)


@moment
async def half_answered(pool: ProcessMapper) -> None:
    await pool.start()
    await ended(pool, *[[np.zeros(10_000_000, np.uint8)]] * 40)


@moment
async def cancelled_while_it_closes(pool: ProcessMapper) -> None:
    await pool.start()
    chunk = pool.map(["sleep"], [0], 0)
    task = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(chunk.exception(), StateError)


@moment
async def closed_by_two(pool: ProcessMapper) -> None:
    await pool.start()
    await asyncio.gather(pool.close(), pool.close())


@moment
async def all_dead(pool: ProcessMapper) -> None:
    await pool.start()
    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("name", MOMENTS)
def test_closing_leaves_nothing_behind_when(name: str, factory: Any) -> None:
    async def main() -> None:
        await asyncio.sleep(0)  # the loop has what it needs
        before, others = descriptors(), children()
        pool = ProcessMapper(functions.harmed, 2)
        await MOMENTS[name](pool)
        await pool.close()
        await pool.close()
        assert children() <= others
        assert descriptors() == before
        with pytest.raises(StateError, match="starts once"):
            await pool.start()
        with pytest.raises(StateError, match="is not open"):
            await pool.map(["a"], [0], 0)
        gc.collect()  # whatever warns, warns here
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main(), factory)


class Stopping(ProcessMapper):
    """Is closed when it has heard so many messages: first that each process is ready, then answers."""

    def __init__(self, messages: int) -> None:
        super().__init__(functions.same, 2)
        self.left = messages
        self.closing: asyncio.Task[None] | None = None

    def _hear(self, child: Any, message: Any) -> None:
        super()._hear(child, message)
        self.left -= 1
        if not self.left:
            self.closing = asyncio.get_running_loop().create_task(self.close())


@pytest.mark.slow
@pytest.mark.parametrize("messages", range(1, 11))
def test_a_pool_may_be_closed_at_any_message(messages: int) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        before, others = descriptors(), children()
        pool = Stopping(messages)
        (error,) = await asyncio.gather(pool.start(), return_exceptions=True)
        assert error is None or (messages <= 2 and isinstance(error, ConfigError)), error
        xs = [np.full(100_000, k, np.uint8) for k in range(8)]
        found = await asyncio.gather(*(told(pool.map([x], [0], 0)) for x in xs))
        assert pool.closing is not None
        await pool.closing
        done = [same(f, [x]) for f, x in zip(found, xs, strict=True)]
        assert sum(done) >= messages - 2  # some were heard before the task began
        assert all(d or isinstance(f, StateError) for f, d in zip(found, done, strict=True))
        assert (descriptors(), children() - others) == (before, set())

    run(main())


@pytest.mark.parametrize("without", ["pidfd_open"])
def test_children_are_reaped_where_the_system_does_not_tell_of_their_end(
    without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, without)

    async def main() -> None:
        others = children()
        async with opened(functions.harmed, 2) as pool:
            with pytest.raises(ElementFailed, match="exit status 3"):
                await pool.map(["exit"], [0], 0)
            assert await pool.map(["a"], [0], 0) == ["a"]
        assert children() <= others

    run(main())
