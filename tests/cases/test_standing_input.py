"""An input that stands still is named in one process as well: which batch, of what, with its line."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.errors import Deadlock
from actorflow.runtime import dump_on_signal
from actorflow.training.trainer import train
from tests.support.events import drain

PATIENCE_S = 30.0
GIVES = 2
"""How many batches come before the input stands still."""


class Input:
    """Gives some batches, and says when it stands still."""

    def __init__(self) -> None:
        self.stands = asyncio.Event()
        self.go_on = asyncio.Event()

    async def batches(self) -> AsyncIterator[dict[str, Any]]:
        for k in range(GIVES):
            yield {"x": np.float32(k)}
        self.stands.set()
        await self.go_on.wait()  # the line that is told


LINE = Input.batches.__code__.co_firstlineno + 4


class Reader:
    """What `read` does with it in a session, until it stands still."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            self.x = af.placeholder("float32", (), name="x")
            self.double = self.x * 2.0
            self.queue = af.state.FIFOQueue(8, ["float32"], [()], name="lines")
            self.take = self.queue.dequeue()
            w = af.Variable(0.0, name="w")
            self.loss = af.square(self.x - w)
            self.step = af.minimize(self.loss, af.optim.sgd(0.1))

    async def names(self, read: Callable[[Reader, Input], Awaitable[Any]], told: str) -> None:
        """Returns once the dump says `told`."""
        given = Input()
        async with af.Session(self.graph) as self.session:
            reading = asyncio.ensure_future(read(self, given))
            async with asyncio.timeout(PATIENCE_S):
                await given.stands.wait()
                while not re.search(told, str(self.session.dump()), re.MULTILINE):  # noqa: ASYNC110  who reads goes on
                    await asyncio.sleep(0)
            assert any(re.search(told, entry.what) for entry in self.session.dump().inputs)
            assert re.search(told, dump_on_signal.describe_all(), re.MULTILINE)
            reading.cancel()
            await asyncio.wait([reading])


async def by_hand(reader: Reader, given: Input) -> None:
    async for feeds in given.batches():
        await reader.session.run(reader.double, feeds)


async def from_a_pipeline(reader: Reader, given: Input) -> None:
    async for feeds in af.data.generator(given.batches).map(lambda feeds: feeds):
        await reader.session.run(reader.double, feeds)


async def from_a_stream(reader: Reader, given: Input) -> None:
    async with af.data.generator(given.batches).open() as stream:
        async for feeds in stream:
            await reader.session.run(reader.double, feeds)


async def by_a_feeder(reader: Reader, given: Input) -> None:
    async def elements() -> AsyncIterator[Any]:
        async for feeds in given.batches():
            yield feeds["x"]

    async with af.state.QueueRunner(reader.session) as feeder:
        feeder.feed(reader.queue, elements())
        while True:
            await reader.session.run(reader.take)


class Twice:
    """What is no generator: an object of the program's."""

    def __init__(self, given: Input) -> None:
        self.batches = given.batches()

    def __aiter__(self) -> Twice:
        return self

    async def __anext__(self) -> Any:
        return await anext(self.batches)


async def trained(reader: Reader, batches: Callable[[int], Any]) -> None:
    program = af.Program(graph=reader.graph, loss=reader.loss, train=reader.step, batches=batches, epochs=1)
    await drain(train(program, reader.session))


async def by_a_training(reader: Reader, given: Input) -> None:
    await trained(reader, lambda _epoch: given.batches())


async def by_a_training_of_an_object(reader: Reader, given: Input) -> None:
    await trained(reader, lambda _epoch: Twice(given))


async def by_a_training_of_a_pipeline(reader: Reader, given: Input) -> None:
    await trained(reader, lambda _epoch: af.data.generator(given.batches))


HERE = r"test_standing_input\.py:\d+"


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (
            by_hand,
            rf"the next element of async generator 'Input.batches' at .*test_standing_input\.py:{LINE}$",
        ),
        (from_a_pipeline, rf"batch 2 of pipeline generator 'Input.batches' → map .* at .*{HERE}"),
        (from_a_stream, rf"batch 2 of pipeline generator 'Input.batches' at .*{HERE}"),
        (by_a_feeder, rf"element 2 of what feeds queue 'lines', at .*{HERE}"),
        (by_a_training, rf"batch 2 of batches\(0\), of async generator 'Input.batches' at .*:{LINE}"),
        (
            by_a_training_of_an_object,
            rf"batch 2 of batches\(0\), of the Twice of function .*<lambda>' at .*{HERE}",
        ),
        (by_a_training_of_a_pipeline, rf"batch 2 of pipeline generator 'Input.batches' at .*{HERE}"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_dump_names_what_stands_still(read: Callable[[Reader, Input], Awaitable[Any]], told: str) -> None:
    af.run(Reader().names(read, told))


def test_a_simulation_that_cannot_end_names_it() -> None:
    async def main() -> None:
        reader, given = Reader(), Input()
        async with af.Session(reader.graph) as reader.session:
            await by_a_training(reader, given)

    with pytest.raises(Deadlock, match=r"input: waits for batch 2 of batches\(0\), of async generator"):
        sim.run(main)


PROGRAM = """
import asyncio, numpy as np, actorflow as af

async def batches():
    yield {"x": np.float32(1)}
    print("stands", flush=True)
    await asyncio.sleep(1000)

async def main():
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        double = x * 2.0
    async with af.Session(graph) as session:
        async for feeds in af.data.generator(batches):
            await session.run(double, feeds)

af.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGQUIT there")
def test_a_program_says_so_at_sigquit_and_at_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "reads.py"
    file.write_text(PROGRAM)

    async def main() -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(file), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        told = b""
        async with asyncio.timeout(PATIENCE_S):
            assert await process.stdout.readline() == b"stands\n"
            while b"batch 1 of pipeline generator 'batches'" not in told:
                process.send_signal(signal.SIGQUIT)
                told += await process.stderr.readline()
            process.kill()
            await process.communicate()
        return told.decode()

    assert "reads.py:" in asyncio.run(main())
