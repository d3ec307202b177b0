"""Leaving: no task, thread, file or warning is left behind, under `-X dev -W error`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.python import run_python

ROOT = Path(__file__).parents[1]

PROLOGUE = """
import asyncio, gc, os, threading
import numpy as np
import actorflow as af


def fds():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

with af.Graph() as graph:
    x = af.placeholder("float32", (None, 64), name="x")
    w = af.Variable(af.init.he((64, 64)), name="w")
    h = x
    for _ in range(3):
        h = af.tanh(h @ w)
    loss = af.mean(af.square(h))
    train = af.minimize(loss, af.optim.adam(1e-3))
    queue = af.state.FIFOQueue(1, "float32", (), name="q")
    item = queue.dequeue()
    bad = af.reshape(x, (3, 5))
big = np.ones((512, 64), "float32")
"""

EPILOGUE = """
gc.collect()
left = [t for t in threading.enumerate() if t is not threading.main_thread()]
assert not left, left
assert fds() <= before, (before, fds())
print("clean")
"""

BODIES = {
    "training": """
        async with af.Session(graph) as session:
            for _ in range(20):
                await session.run([loss, train], {x: big})
    """,
    "an error in a step": """
        async with af.Session(graph) as session:
            try:
                await session.run(bad, {x: big})
            except af.errors.KernelError:
                pass
    """,
    "an error in the body": """
        try:
            async with af.Session(graph) as session:
                await session.run([loss, train], {x: big})
                raise KeyError("body")
        except KeyError:
            pass
    """,
    "steps still running": """
        async with af.Session(graph) as session:
            tasks = [asyncio.create_task(session.run(item)) for _ in range(3)]
            tasks += [asyncio.create_task(session.run([loss, train], {x: big})) for _ in range(5)]
            await asyncio.sleep(0)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, (af.errors.StepAborted, af.errors.SessionClosed, list)), result
    """,
    "a cancelled main": """
        async def inner():
            async with af.Session(graph) as session:
                await asyncio.gather(session.run(item), *(session.run([loss, train], {x: big}) for _ in range(5)))
        task = asyncio.create_task(inner())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    """,
    "a deadline": """
        async with af.Session(graph, deadline_s=0.02) as session:
            try:
                await session.run(item)
            except af.errors.DeadlinePassed:
                pass
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_leaving_a_session_leaves_nothing_behind_after(name: str) -> None:
    body = textwrap.dedent(BODIES[name])
    program = (
        PROLOGUE
        + "async def main():\n"
        + "    asyncio.get_running_loop().slow_callback_duration = 60  # of a busy machine, not of a leak\n"
        + textwrap.indent(body, "    ")
        + "    left = asyncio.all_tasks() - {asyncio.current_task()}\n"
        + "    assert not left, left\n"
        + "af.run(asyncio.sleep(0))\nbefore = fds()\naf.run(main())\n"
        + EPILOGUE
    )

    done = run_python("-X", "dev", "-W", "error", "-c", program, cwd=ROOT)

    assert done.stderr == ""
    assert (done.stdout, done.returncode) == ("clean\n", 0)
