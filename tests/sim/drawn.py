"""Drawn asyncio programs: what runs on every event loop, and the log of what it did.

A program is a list of scripts, one a task; a script is a list of steps, each a tuple. Every wait has
a limit, so every program ends. The log has a line for whatever happened, with its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import strategies as st

UNIT_S = 0.125  # exact in binary, so that times add up alike on every loop
Script = list[tuple[Any, ...]]

_plain = st.one_of(
    st.just(("yield",)),
    st.tuples(st.just("sleep"), st.integers(0, 3)),
    st.tuples(st.just("soon"), st.integers(1, 3)),
    st.tuples(st.just("later"), st.integers(0, 3)),
    st.tuples(st.just("put"), st.integers(0, 1)),
    st.tuples(st.just("get"), st.integers(0, 1), st.integers(1, 3)),
    st.just(("set",)),
    st.tuples(st.just("wait"), st.integers(0, 2)),
    st.just(("resolve",)),
    st.just(("callback",)),
    st.just(("cancel",)),
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    scripts = st.lists(st.lists(inner, max_size=3), min_size=1, max_size=3)
    return st.one_of(
        inner,
        st.tuples(st.just("gather"), scripts),
        st.tuples(st.just("group"), scripts),
        st.tuples(st.just("first"), scripts),
        st.tuples(st.just("spawn"), st.lists(inner, max_size=4)),
        st.tuples(st.just("lock"), st.lists(inner, max_size=3)),
    )


steps: st.SearchStrategy[Any] = st.recursive(_plain, _around, max_leaves=8)
programs: st.SearchStrategy[list[Script]] = st.lists(st.lists(steps, max_size=5), min_size=1, max_size=4)


class InOrder(dict[Any, None]):
    """A set that keeps the order in which things came."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)


class Group(asyncio.TaskGroup):
    """A task group that cancels in the order of making: asyncio's own goes by addresses."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks = InOrder()  # type: ignore[assignment]


class Interpreter:
    """Runs the scripts of one program on whatever loop runs it."""

    def __init__(self, scripts: list[Script]) -> None:
        self.scripts = scripts
        self.log: list[tuple[Any, ...]] = []
        self._made = 0

    async def main(self) -> list[tuple[Any, ...]]:
        self.loop = asyncio.get_running_loop()
        self.queues = [asyncio.Queue[int](1), asyncio.Queue[int](2)]
        self.lock = asyncio.Lock()
        self.event = asyncio.Event()
        self.future = self.loop.create_future()
        self.spawned: list[asyncio.Task[None]] = []
        tasks = [asyncio.create_task(self.run(script, str(i))) for i, script in enumerate(self.scripts)]
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self.spawned, return_exceptions=True)
        await asyncio.sleep(10)  # what is left of timers
        self.say("main", "ends")
        return self.log

    def say(self, *what: Any) -> None:
        self.log.append((*what, self.loop.time()))

    async def run(self, script: Script, name: str) -> None:
        for i, (kind, *rest) in enumerate(script):
            self.say(name, i, kind)
            try:
                await getattr(self, f"do_{kind}")(f"{name}.{i}", *rest)
            except (TimeoutError, asyncio.CancelledError) as error:
                self.say(name, i, type(error).__name__)
                if isinstance(error, asyncio.CancelledError):
                    raise
        self.say(name, "ends")

    async def do_yield(self, _name: str) -> None:
        await asyncio.sleep(0)

    async def do_sleep(self, _name: str, k: int) -> None:
        await asyncio.sleep(k * UNIT_S)

    async def do_soon(self, name: str, n: int) -> None:
        for k in range(n):
            self.loop.call_soon(self.say, name, "soon", k)

    async def do_later(self, name: str, k: int) -> None:
        self.loop.call_later(k * UNIT_S, self.say, name, "later")

    async def do_put(self, name: str, q: int) -> None:
        self._made += 1
        await asyncio.wait_for(self.queues[q].put(self._made), UNIT_S * 2)

    async def do_get(self, name: str, q: int, k: int) -> None:
        self.say(name, await asyncio.wait_for(self.queues[q].get(), UNIT_S * k))

    async def do_set(self, _name: str) -> None:
        self.event.set()
        self.event.clear()

    async def do_wait(self, _name: str, k: int) -> None:
        async with asyncio.timeout(UNIT_S * k):
            await self.event.wait()

    async def do_resolve(self, name: str) -> None:
        if not self.future.done():
            self.future.set_result(name)
        self.future = self.loop.create_future()

    async def do_callback(self, name: str) -> None:
        self.future.add_done_callback(lambda _: self.say(name, "heard"))

    async def do_cancel(self, _name: str) -> None:
        if self.spawned:
            self.spawned[-1].cancel()

    async def do_spawn(self, name: str, script: Script) -> None:
        self.spawned.append(asyncio.create_task(self.run(script, name)))

    async def do_lock(self, name: str, script: Script) -> None:
        async with asyncio.timeout(UNIT_S * 4), self.lock:
            await self.run(script, name)

    async def do_gather(self, name: str, scripts: list[Script]) -> None:
        await asyncio.gather(*(self.run(script, f"{name}{i}") for i, script in enumerate(scripts)))

    async def do_group(self, name: str, scripts: list[Script]) -> None:
        async with Group() as group:
            for i, script in enumerate(scripts):
                group.create_task(self.run(script, f"{name}{i}"))

    async def do_first(self, name: str, scripts: list[Script]) -> None:
        tasks = [asyncio.create_task(self.run(script, f"{name}{i}")) for i, script in enumerate(scripts)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def program(scripts: list[Script]) -> Callable[[], Coroutine[Any, Any, list[tuple[Any, ...]]]]:
    """Returns what makes the main coroutine of a program, anew for every run."""
    return lambda: Interpreter(scripts).main()
