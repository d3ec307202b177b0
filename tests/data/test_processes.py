"""Maps in processes as users write them: scripts, functions that cannot be sent, processes that die."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import actorflow as af
from actorflow.errors import InputError
from tests.data import functions
from tests.data.pools import children
from tests.support.python import run_python

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

# ------------------------------------------------------------------------------------ scripts

BEGIN = """
import asyncio
import actorflow as af
"""

RUNS = """
async def main():
    async for element in af.data.numbers(6).map(f, processes=2):
        print(element)
"""

GUARDED = """
if __name__ == "__main__":
    asyncio.run(main())
"""


def ran(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What a script of a user does."""
    (folder / "script.py").write_text(text)
    return run_python("script.py", cwd=folder, env={"PYTHONPATH": str(ROOT)})


def test_a_script_with_a_guard_runs(tmp_path: Path) -> None:
    done = ran(tmp_path, f"{BEGIN}print('loaded')\ndef f(x): return x * x\n{RUNS}{GUARDED}")

    lines = done.stdout.split()
    assert lines.count("loaded") == 3  # here, and in every process
    assert [line for line in lines if line != "loaded"] == ["0", "1", "4", "9", "16", "25"]
    assert (done.stderr, done.returncode) == ("", 0)


WRONG = {
    "no guard": (
        f"{BEGIN}def f(x): return x\n{RUNS}asyncio.run(main())\n",
        (
            "ConfigError: a process cannot use __main__:f: its module runs a pipeline when it is imported, and "
            "would again in every process\n"
            "  where: defined at script.py:7\n"
            '  try:   put what runs behind if __name__ == "__main__":\n'
        ),
    ),
    "a module that fails where it is imported there": (
        f"{BEGIN}k = 1\nif __name__ != '__main__':\n    raise OSError('no disk')\ndef f(x): return x\n{RUNS}{GUARDED}",
        (
            "ConfigError: a process cannot use __main__:f: its module raised OSError: no disk when it was imported\n"
            "  where: defined at script.py:6\n"
        ),
    ),
    "a lambda": (
        f"{BEGIN}f = lambda x: x\n{RUNS}{GUARDED}",
        (
            "ConfigError: processes find a function by its name in a module, got a lambda\n"
            "  where: defined at script.py:7\n"
            "  try:   define it with def at the top of a module\n"
        ),
    ),
    "a closure": (
        f"{BEGIN}def scaled(k):\n    def f(x): return k * x\n    return f\nf = scaled(3)\n{RUNS}{GUARDED}",
        (
            "got f, which is made by scaled when that runs\n  where: defined at script.py:10\n"
            "  try:   define it with def at the top of a module\n"
        ),
    ),
    "a name that is set behind the guard": (
        f"{BEGIN}def f(x): return x * k\n{RUNS}if __name__ == '__main__':\n    k = 3\n    asyncio.run(main())",
        (
            "map 'f' failed at element 0 of epoch 0: NameError: name 'k' is not defined\n"
            "  where: defined at script.py:4\n"
            '  try:   what stands behind if __name__ == "__main__": does not run in the processes of a map\n'
        ),
    ),
    "a generator function": (
        f"{BEGIN}def f(x): yield x\n{RUNS}{GUARDED}",
        (
            "map 'f' failed at element 0 of epoch 0: it returned what cannot be sent: a value of type "
            "generator cannot travel\n"
            "  where: defined at script.py:4\n"
            "  try:   arrays, numbers, text and bytes travel, and tuples, lists and dicts of them\n"
        ),
    ),
    "an object": (
        f"{BEGIN}class Box: pass\ndef f(x): return Box()\n{RUNS}{GUARDED}",
        "a value of type __main__.Box cannot travel\n  where: defined at script.py:5\n",
    ),
    "an error": (
        f"{BEGIN}def f(x):\n    y = x - 3\n    return 1 // y\n{RUNS}{GUARDED}",
        (
            "map 'f' failed at element 3 of epoch 0: ZeroDivisionError: integer division or "
            "modulo by zero\n"
            "  where: defined at script.py:6\n"
        ),
    ),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_what_does_not_work_says_what_to_do(text: str, told: str, tmp_path: Path) -> None:
    done = ran(tmp_path, text)

    assert told in done.stderr
    assert done.stderr.count("  where: ") == 1
    assert "__actorflow_main__" not in done.stderr
    assert done.returncode == 1


# ------------------------------------------------------------------------------ processes die


async def into(seen: list[Any], pipeline: af.data.Pipeline, kills: bool = False) -> None:
    """Puts what a stream gives into `seen`, until it ends; kills its processes behind the first element."""
    others = children()
    async with pipeline.open() as stream:
        async for element in stream:
            seen.append(element)
            for pid in children() - others if kills and len(seen) == 1 else ():
                os.kill(pid, signal.SIGKILL)


def test_a_process_that_dies_at_an_element_fails_the_stream_there() -> None:
    others = children()
    seen: list[int] = []
    pipeline = af.data.numbers(5000).map(functions.ended_at_500, processes=2).prefetch(3)

    with pytest.raises(InputError) as caught:
        asyncio.run(into(seen, pipeline))

    error = str(caught.value)
    assert seen == list(range(len(seen)))
    assert 500 - 64 <= len(seen) <= 500  # the chunk that it had
    assert f"map 'ended_at_500' failed at element {len(seen)} of epoch 0: a process (" in error
    assert "was ended by SIGKILL while it had element" in error
    assert "try:   was the memory used up?" in error
    assert children() <= others


@pytest.mark.parametrize("ordered", [True, False])
def test_when_all_processes_die_the_stream_ends_with_an_error(ordered: bool) -> None:
    others = children()
    pipeline = af.data.numbers(1000).repeat().map(functions.with_pid, processes=2, ordered=ordered)

    with pytest.raises(InputError, match="was ended by SIGKILL"):
        asyncio.run(into([], pipeline, kills=True))

    assert children() <= others


def test_the_death_of_a_process_that_has_nothing_to_do_is_no_error_of_the_stream() -> None:
    """Children are not replaced: the other one goes on alone, unless the dead one had elements."""
    others = children()

    async def main() -> tuple[list[Any], bool]:
        seen: list[Any] = []
        async with af.data.numbers(3000).map(functions.with_pid, processes=2).open() as stream:
            seen.append(await anext(stream))
            os.kill(seen[0][1], signal.SIGKILL)
            try:
                async for element in stream:
                    seen.append(element)  # noqa: PERF401  what came before an error is to stay
            except InputError as error:
                assert "was ended by SIGKILL while it had element" in str(error)  # noqa: PT017
                return seen, True
        return seen, False

    seen, failed = asyncio.run(main())

    assert [value for value, _ in seen] == list(range(len(seen)))
    assert failed or len(seen) == 3000
    assert children() <= others


# ------------------------------------------------------------------------------- the parent dies

WAITS = """
import asyncio
import actorflow as af
from tests.data.functions import waiting

async def main():
    async with af.data.numbers(1000).map(waiting, processes=2).open() as stream:
        pids = set()
        while len(pids) < 2:
            pids.add((await anext(stream))[1])
        print(*pids, flush=True)
        async for _ in stream:
            pass

if __name__ == "__main__":
    asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def parent(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process in a group of its own whose two children work on elements that take long."""
    (folder / "script.py").write_text(WAITS)
    with subprocess.Popen(
        [sys.executable, "script.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, [int(pid) for pid in process.stdout.readline().split()]
        finally:
            process.kill()


def test_ctrl_c_ends_the_parent_and_its_processes(tmp_path: Path) -> None:
    with parent(tmp_path) as (process, pids):
        assert len(pids) == 2
        assert all(map(is_running, pids))

        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate()

        assert process.returncode == -signal.SIGINT
        assert stderr.endswith("KeyboardInterrupt\n")
        assert not any(map(is_running, pids))


def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with parent(tmp_path) as (process, pids):
        assert all(map(is_running, pids))

        process.kill()
        process.communicate()  # its stderr is theirs too: it ends when they have

        while any(map(is_running, pids)):
            time.sleep(0.01)
