"""Leaving a stream: no task, thread, file or warning is left behind, under `-X dev -W error`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.python import run_python

ROOT = Path(__file__).parents[2]

PROLOGUE = """
import asyncio, gc, os, signal, threading
import actorflow as af
from actorflow.data.pipeline import Pipeline


class Lines:
    name, size, blocking, element_bytes = "lines", None, True, None

    def open(self, start, epoch):
        return Reader()

class Reader:
    def __init__(self):
        self.file = open(__file__, "rb")

    def read(self, n):
        self.file.seek(0)
        return self.file.readlines()[:n]

    def close(self):
        self.file.close()

def fds():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

def failing(line):
    raise LookupError(line)

ended = []

async def counting():
    try:
        for n in range(10**9):
            await asyncio.sleep(0)
            yield n
    finally:
        await asyncio.sleep(0)
        ended.append(n)

counted = af.data.generator(counting)  # imported before the loop runs, which else tells that it stood still
endless = Pipeline(Lines()).map(len, threads=2).prefetch(1).shuffle(50).map(int, threads=1, ordered=False).batch(2)
before = fds()
"""

EPILOGUE = """
gc.collect()
left = [t for t in threading.enumerate() if t is not threading.main_thread()]
assert not left, left
assert fds() <= before, (before, fds())
print("clean")
"""

BODIES = {
    "leaving while everything waits": """
        async with endless.open() as stream:
            await anext(stream)
            for _ in range(100):
                await asyncio.sleep(0)
    """,
    "leaving before anything came": """
        async with endless.open():
            pass
    """,
    "a break out of a plain loop": """
        async for _ in endless:
            break
    """,
    "an error in the body": """
        try:
            async with endless.open() as stream:
                async for _ in stream:
                    raise LookupError
        except LookupError:
            pass
    """,
    "an error in a function that nobody hears": """
        async with Pipeline(Lines()).map(failing, threads=2).prefetch(2).open():
            for _ in range(100):
                await asyncio.sleep(0)
    """,
    "a cancelled task": """
        started = asyncio.Event()
        async def consume():
            async with endless.open() as stream:
                async for _ in stream:
                    started.set()
                    await asyncio.Event().wait()
        task = asyncio.create_task(consume())
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
    """,
    "a wait that somebody else leaves": """
        async with Pipeline(Lines()).filter(lambda line: False).repeat().open() as stream:
            waits = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
        await asyncio.wait([waits])
        assert "the stream was left" in str(waits.exception())
    """,
    "an async generator that is left early": """
        for pipeline in (counted, counted.map(str, threads=2)):
            async with pipeline.open() as stream:
                await anext(stream)
                assert ended == []
            assert len(ended) == 1
            ended.clear()
    """,
    "an async generator that is taken from, three epochs": """
        assert [n async for n in counted.take(2).repeat(3)] == [0, 1] * 3
        assert len(ended) == 3
    """,
    "an async generator, and a task that is cancelled": """
        started = asyncio.Event()
        async def consume():
            async for n in counted:
                started.set()
                await asyncio.Event().wait()
        task = asyncio.create_task(consume())
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        del task
        gc.collect()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        assert len(ended) == 1
    """,
    "Ctrl-C": """
        async with endless.open() as stream:
            async for _ in stream:
                signal.raise_signal(signal.SIGINT)
    """,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_nothing_is_left_behind(body: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    main = "async def main():\n"
    main += "    asyncio.get_running_loop().slow_callback_duration = 60  # of a busy machine, not of a leak\n"
    main += textwrap.indent(textwrap.dedent(body), "    ")
    run = "try:\n    asyncio.run(main())\nexcept KeyboardInterrupt:\n    pass\n"
    program.write_text(PROLOGUE + main + "\n" + run + EPILOGUE)

    done = run_python("-X", "dev", "-W", "error", program, env={"PYTHONPATH": str(ROOT)})

    assert (done.stdout, done.stderr, done.returncode) == ("clean\n", "", 0)
