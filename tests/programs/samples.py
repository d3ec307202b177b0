"""Small programs of asyncio that meet what makes a run differ from the run before.

Each is a program as users write them, and returns in plain values what it saw, so that a difference
in order, time or chance is a difference of its result. Elsewhere they are not repeatable: sets of
tasks iterate in the order of addresses, `uuid4` asks the system, cycles are collected when it
happens. `selftest` runs them; those of actors, sessions and worlds are in `samples_actors`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import random
import secrets
import time
import uuid
from asyncio import FIRST_COMPLETED, FIRST_EXCEPTION, Future, Task
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any


async def ended(name: str, seconds: float = 0.0) -> str:
    """Ends after a while, or at the next turn."""
    await asyncio.sleep(seconds)
    return name


def names(tasks: Iterable[Task[Any]]) -> list[str]:
    """Returns what they are called, in the order in which they are met."""
    return [task.get_name() for task in tasks]


async def waited() -> Any:
    """Twelve tasks end together; both sets of `asyncio.wait` are iterated."""
    tasks = [asyncio.create_task(ended(f"t{i}", 0.001 * (i % 3 == 2))) for i in range(18)]
    done, pending = await asyncio.wait(tasks, timeout=0.0005)
    return (
        names(done),
        names(pending),
        [task.result() for task in done],
        names((await asyncio.wait(tasks))[0]),
    )


async def first_of() -> Any:
    """Takes what ends first, again and again, from a set of tasks that changes."""
    pending = {asyncio.create_task(ended(f"t{i}", 0.001 * (i % 2))) for i in range(10)}
    seen = []
    while pending:
        done, pending = await asyncio.wait(pending, return_when=FIRST_COMPLETED)
        seen.append([task.result() for task in done])
        if len(seen) == 1:
            pending.add(asyncio.create_task(ended("late")))
    return seen


async def futures() -> Any:
    """Futures and gathered futures in sets, as keys, and called back."""
    loop = asyncio.get_running_loop()
    bare: dict[Future[Any], str] = {loop.create_future(): f"f{i}" for i in range(9)}
    gathered: Any = {asyncio.gather(ended(f"g{i}"), ended(f"h{i}")): f"g{i}" for i in range(5)}
    heard: list[str] = []
    for future in set(bare):
        future.add_done_callback(lambda done: heard.append(bare[done]))
    for future in frozenset(bare):
        loop.call_soon(future.set_result, bare[future])
    done, _ = await asyncio.wait([*bare, *gathered])
    known = bare | gathered
    return heard, [known[future] for future in done], [known[future] for future in set(gathered)]


async def grouped() -> Any:
    """A task of a group fails: in which order are the others cancelled?"""
    order: list[str] = []

    async def member(name: str) -> None:
        try:
            await asyncio.sleep(1.0)
        except asyncio.CancelledError:
            order.append(name)
            await asyncio.sleep(0)
            order.append(name.upper())
            raise

    async def failing() -> None:
        await asyncio.sleep(0.001)
        raise LookupError("one of them")

    try:
        async with asyncio.TaskGroup() as group:
            for i in range(8):
                group.create_task(member(f"m{i}"))
            group.create_task(failing())
    except* LookupError as caught:
        order.append(repr(caught.exceptions))
    return order


async def everybody() -> Any:
    """Iterates `asyncio.all_tasks`, with holes among the tasks, and cancels them in that order."""
    cancelled: list[str] = []

    async def sleeper(i: int) -> None:
        try:
            await asyncio.sleep(0.001 if i % 3 == 0 else 60.0)
        except asyncio.CancelledError:
            cancelled.append(f"s{i}")

    tasks = []
    for i in range(40):
        tasks.append(asyncio.create_task(sleeper(i)))
        if i % 7 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0.002)
    alive = asyncio.all_tasks()
    for task in alive:
        if task is not asyncio.current_task():
            task.cancel()
    await asyncio.gather(*tasks)
    return names(alive), cancelled


async def as_completed() -> Any:
    """Coroutines and tasks in the order in which they end; `as_completed` makes tasks of a set."""
    seen = [await next_ in ("a0", "a1") for next_ in asyncio.as_completed([ended("a0"), ended("a1")])]
    order = [await next_ for next_ in asyncio.as_completed([ended(f"c{i}") for i in range(9)])]
    tasks = [asyncio.create_task(ended(f"t{i}", 0.001 * (i % 2))) for i in range(9)]
    return seen, order, [await next_ for next_ in asyncio.as_completed(tasks, timeout=1.0)]


async def timed() -> Any:
    """Timeouts, shields and gathered errors that meet at one moment."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = []

    async def impatient(i: int) -> str:
        try:
            async with asyncio.timeout(0.001 * (1 + i % 3)):
                await asyncio.sleep(0.002)
                return f"ended {i}"
        except TimeoutError:
            return f"late {i} at {loop.time()!r}"

    seen += await asyncio.gather(*(impatient(i) for i in range(9)))
    for seconds in (0.001, 0.002):
        try:
            seen.append(await asyncio.wait_for(asyncio.shield(ended("shielded", 0.002)), seconds))
        except TimeoutError:
            seen.append(f"gave up at {loop.time()!r}")
    errors = await asyncio.gather(*(failing_at(i) for i in range(6)), return_exceptions=True)
    done, _ = await asyncio.wait(
        [asyncio.create_task(failing_at(i)) for i in range(6)], return_when=FIRST_EXCEPTION
    )
    return seen, errors, [repr(task.exception()) for task in done]


async def failing_at(i: int) -> None:
    """Ends badly after 0, 1 or 2 milliseconds."""
    await asyncio.sleep(0.001 * (i % 3))
    raise ValueError(i)


async def called() -> Any:
    """Names of tasks, and the order of callbacks, timers and contexts."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = []

    async def who() -> None:
        task = asyncio.current_task()
        seen.append(None if task is None else task.get_name())

    tasks = [asyncio.create_task(who()) for _ in range(4)]
    tasks += [asyncio.create_task(who(), name=f"named {i}") for i in range(3)]
    for i in range(4):
        loop.call_soon(seen.append, f"soon {i}")
        loop.call_later(0.001, seen.append, f"later {i}")
        loop.call_soon_threadsafe(seen.append, f"safe {i}")
    for task in tasks:
        task.add_done_callback(lambda done: seen.append(f"{done.get_name()} ended"))
    await asyncio.sleep(0.002)
    return seen


async def chances() -> Any:
    """Every clock and every source of chance, drawn from several tasks in turn."""
    drawn: list[Any] = []

    async def draw(i: int) -> None:
        await asyncio.sleep(0)
        drawn.append((i, random.random(), random.sample(range(100), 3), random.gauss(0, 1)))
        await asyncio.sleep(0)
        drawn.append((i, str(uuid.uuid4()), str(uuid.uuid1()), os.urandom(4).hex()))
        await asyncio.sleep(0.001)
        drawn.append((i, secrets.token_hex(4), secrets.randbelow(1000), random.SystemRandom().random()))
        drawn.append((i, random.Random().random(), time.time(), time.monotonic(), time.perf_counter_ns()))
        drawn.append((i, time.strftime("%H:%M:%S", time.gmtime()), time.process_time()))

    await asyncio.gather(*(draw(i) for i in range(4)))
    return drawn


async def arrays() -> Any:
    """The hidden generator of numpy and its fresh ones, from several tasks."""
    import numpy as np

    drawn: list[Any] = []

    async def draw(i: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            drawn.append((i, np.random.rand(), np.random.randn(), int(np.random.randint(1000))))
        drawn.append((i, np.random.default_rng().random(), np.random.permutation(6).tolist()))

    await asyncio.gather(*(draw(i) for i in range(4)))
    return [tuple(map(str, line)) for line in drawn]


async def collected() -> Any:
    """Cycles with a finaliser: when do they go, and in which order?"""
    seen: list[str] = []

    class Knot:
        def __init__(self, name: str) -> None:
            self.name = name
            self.itself = self

        def __del__(self) -> None:
            seen.append(self.name)

    async def tie(who: str) -> None:
        for i in range(40):
            Knot(f"{who}{i}")
            _ = [[] for _ in range(40)]  # what would set the collector off
            if i % 10 == 0:
                await asyncio.sleep(0)
                seen.append(f"{who} was here")

    await asyncio.gather(tie("a"), tie("b"))
    gc.collect()
    return seen


async def generators() -> Any:
    """Asynchronous generators that are left halfway, some in a cycle, some until the end of the run."""
    seen: list[str] = []

    async def numbers(name: str) -> AsyncIterator[int]:
        try:
            for i in range(10):
                yield i
                await asyncio.sleep(0)
        finally:
            seen.append(f"{name} closed")
            await asyncio.sleep(0)
            seen.append(f"{name} gone")

    kept = [numbers(name) for name in ("a", "b", "c", "d", "e")]
    for at in range(len(kept)):
        async for i in kept[at]:
            if i == 1:
                break
    del kept[2]
    await asyncio.sleep(0.001)
    await asyncio.get_running_loop().shutdown_asyncgens()
    return seen


async def unheard() -> Any:
    """Generators that fail when the run closes them: whose error is told first?"""

    async def bad(name: str) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise RuntimeError(name)

    kept = [bad(f"g{i}") for i in range(6)]
    for generator in kept:
        await anext(generator)
    asyncio.get_running_loop().call_later(60.0, kept.clear)  # keeps them until the run is over
    return len(kept)


async def executed() -> Any:
    """Executors and `to_thread`: jobs of other threads, which here run at a chosen step."""
    loop = asyncio.get_running_loop()
    order: list[Any] = []

    def job(i: int) -> int:
        order.append((i, loop.time(), random.random()))
        return i * i

    jobs: list[Awaitable[int]] = [loop.run_in_executor(None, job, i) for i in range(5)]
    jobs += [asyncio.create_task(asyncio.to_thread(job, i)) for i in range(5, 9)]
    jobs.append(loop.run_in_executor(None, functools.partial(job, 9)))
    results = [await next_ for next_ in asyncio.as_completed(jobs)]
    return order, results


async def locked() -> Any:
    """Locks, conditions, semaphores, barriers and queues, with several who wait at each."""
    order: list[str] = []
    lock, condition, semaphore = asyncio.Lock(), asyncio.Condition(), asyncio.Semaphore(2)
    barrier, queue = asyncio.Barrier(3), asyncio.PriorityQueue[Any](4)
    taken: list[Any] = []
    open_ = False

    async def visit(i: int) -> None:
        async with lock:
            order.append(f"lock {i}")
            await asyncio.sleep(0)
        async with semaphore:
            order.append(f"semaphore {i}")
            await asyncio.sleep(0.001)
        order.append(f"barrier {i} {await barrier.wait()}")
        async with condition:
            await condition.wait_for(lambda: open_)
            order.append(f"condition {i}")
        await queue.put((i % 2, i))

    async def take() -> None:
        while len(taken) < 6:
            taken.append(await queue.get())
            order.append(f"took {taken[-1]}")

    visitors = [visit(i) for i in range(6)]
    takers = [asyncio.create_task(take()) for _ in range(2)]
    everything = asyncio.gather(*visitors)
    await asyncio.sleep(0.01)
    async with condition:
        open_ = True
        condition.notify_all()
    await everything
    await asyncio.wait(takers, return_when=FIRST_COMPLETED)
    return order


async def stuck() -> Any:
    """Two tasks that wait for each other: the report of the deadlock is what they see."""
    first, second = asyncio.Lock(), asyncio.Lock()

    async def cross(mine: asyncio.Lock, theirs: asyncio.Lock) -> None:
        async with mine:
            await asyncio.sleep(0.001)
            async with theirs:
                pass

    await asyncio.gather(cross(first, second), cross(second, first), cross(first, second))


SAMPLES: dict[str, Callable[[], Any]] = {
    program.__name__: program
    for program in (
        waited, first_of, futures, grouped, everybody, as_completed, timed, called, chances, arrays,
        collected, generators, unheard, executed, locked, stuck,
    )
}  # fmt: skip
