"""Leaving a program whose enqueues and dequeues wait: at once, in silence, and without the collector."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.busy import HANG_S
from tests.support.python import run_python

ROOT = Path(__file__).parents[1]

PROGRAM = """
import asyncio, gc, os, signal, sys, threading, weakref
from time import perf_counter
import numpy as np
import actorflow as af


gc.disable()
with af.Graph() as graph:
    raw, full, empty = (af.state.FIFOQueue(2, "int64", (), name=name) for name in ("raw", "full", "empty"))
    move = full.enqueue(raw.dequeue() * 2)
    take = empty.dequeue()

class Endless:
    "Elements without end; says in `closed` whether its generator was closed."
    closed = False
    async def elements(self):
        try:
            while True:
                yield np.int64(1)
        finally:
            Endless.closed = True

async def silent():
    await asyncio.Event().wait()
    yield 1

left_at = None
watched = None

async def main():
    global left_at, watched
    asyncio.get_running_loop().slow_callback_duration = 60  # of a busy machine, not of a leak
    endless = Endless()
    watched = weakref.ref(endless)
    try:
        async with af.Session(graph) as session:
            async with asyncio.TaskGroup() as consumers:
                async with af.state.QueueRunner(session) as feeder:
                    feeder.feed(raw, endless.elements(), batch=3)
                    feeder.run(move, copies=3)
                    feeder.feed(empty, silent())
                    for _ in range(3):
                        consumers.create_task(consume(session))
                    await asyncio.sleep(0.05)
                    assert session.stats().live == 6, session.dump()
                    del endless
                    left_at = perf_counter()
                    BODY
    finally:
        assert Endless.closed
        assert asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks()

async def consume(session):
    try:
        await session.run(take)
    except (af.errors.OutOfRange, af.errors.StepAborted):
        pass

try:
    af.run(main())
except BaseExceptionGroup as group:
    ended = [type(error).__name__ for error in group.exceptions]
except BaseException as error:
    ended = type(error).__name__
else:
    ended = "well"
print(ended, watched() is None, perf_counter() - left_at)
assert not [t for t in threading.enumerate() if t is not threading.main_thread()]
"""

BODIES = {
    "end": ("pass", "well"),
    "exception": ("raise KeyError('mine')", "['KeyError']"),
    "cancel": (
        "asyncio.current_task().cancel()\nawait asyncio.Event().wait()",
        "CancelledError",
    ),
    "interrupt": (
        "os.kill(os.getpid(), signal.SIGINT)\nawait asyncio.Event().wait()",
        "KeyboardInterrupt",
    ),
}


def program(name: str) -> str:
    body, _ = BODIES[name]
    return PROGRAM.replace("BODY", textwrap.indent(body, 20 * " ").strip())


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_a_program_that_is_left_while_its_queues_wait_ends_at_once_and_in_silence_by(name: str) -> None:
    done = run_python("-X", "dev", "-W", "error", "-c", program(name), cwd=ROOT)

    assert done.stderr == ""
    ended, freed, seconds = done.stdout.split()
    assert (ended, freed, done.returncode) == (BODIES[name][1], "True", 0)
    assert float(seconds) < 2, "it should take some ms"


@pytest.mark.slow
def test_a_program_ends_at_once_when_another_process_interrupts_it() -> None:
    waiting = program("interrupt").replace(
        "os.kill(os.getpid(), signal.SIGINT)", "print('waits', flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", waiting],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG_S)

    assert err == ""
    assert out.split()[:2] == ["KeyboardInterrupt", "True"]
    assert process.returncode == 0
