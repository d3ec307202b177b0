"""Whole programs that map in processes: scripts, their ends, and what is seen at the terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.python import run_python

ROOT = Path(__file__).parents[3]

SCRIPT = """
import asyncio, os, sys, time
import numpy as np
from actorflow.data.workers.process_pool import ProcessMapper


def doubled(x):
    return x * 2

def named(x):
    return [__name__, os.path.basename(__file__)]

def asleep(x):
    print("asleep", os.getpid(), flush=True)
    time.sleep(600)

def told(x):
    print("out", x)
    print("err", x, file=sys.stderr)
    assert x != 3, "three"
    return x

async def mapped(function, values, processes=2):
    asyncio.get_running_loop().slow_callback_duration = 60  # of a busy machine, not of a leak
    pool = ProcessMapper(function, processes)
    await pool.start()
    try:
        return await pool.map(values, list(range(len(values))), 0)
    finally:
        await pool.close()
"""


def program(folder: Path, main: str, *, name: str = "script.py") -> Path:
    file = folder / name
    file.write_text(SCRIPT + textwrap.dedent(main))
    return file


def ran(*args: Any, cwd: Path = ROOT, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return run_python(
        "-X", "dev", "-W", "error", *args, cwd=cwd, input=stdin, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )


GUARDED = """
    if __name__ == "__main__":
        print("once")
        print(asyncio.run(mapped(doubled, [1, 2])))
        print(asyncio.run(mapped(named, [1])))
    """


@pytest.mark.slow
def test_a_function_of_the_script_is_found_and_its_main_part_runs_once(tmp_path: Path) -> None:
    done = ran(program(tmp_path, GUARDED))

    assert done.stderr == ""
    assert done.stdout == "once\n[2, 4]\n[['__actorflow_main__', 'script.py']]\n"


@pytest.mark.slow
def test_a_function_of_a_module_that_is_run_is_found(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    program(tmp_path / "package", GUARDED, name="script.py")

    done = ran("-m", "package.script", cwd=tmp_path)

    assert done.stderr == ""
    assert done.stdout == "once\n[2, 4]\n[['package.script', 'script.py']]\n"


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_so_and_starts_no_more_processes(tmp_path: Path) -> None:
    done = ran(program(tmp_path, "print(asyncio.run(mapped(doubled, [1, 2])))\n"))

    assert done.returncode == 1
    assert "a process cannot use __main__:doubled: its module runs a pipeline when it is imp" in done.stderr
    assert 'put what runs behind if __name__ == "__main__"' in done.stderr


@pytest.mark.slow
def test_a_function_typed_in_is_refused() -> None:
    done = ran("-", stdin=SCRIPT + "asyncio.run(mapped(doubled, [1]))\n")

    assert "ConfigError: doubled is defined at a prompt or in a text without a file" in done.stderr


@pytest.mark.slow
def test_what_functions_print_is_seen(tmp_path: Path) -> None:
    done = ran(program(tmp_path, 'if __name__ == "__main__": asyncio.run(mapped(told, [1, 2], 1))\n'))

    assert (done.stdout, done.stderr) == ("out 1\nout 2\n", "err 1\nerr 2\n")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-O"]])
def test_children_run_under_the_flags_of_their_parent(tmp_path: Path, flags: list[str]) -> None:
    done = ran(*flags, program(tmp_path, 'if __name__ == "__main__": asyncio.run(mapped(told, [3], 1))\n'))

    assert ("AssertionError: three" in done.stderr) is (not flags)


def state(pid: int) -> str | None:
    """The state of a process as the system has it, None when it is no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def await_ends(pids: list[int]) -> None:
    """Returns when all have ended; the suite's own limit ends a wait without end."""
    while any(state(pid) not in (None, "Z") for pid in pids):
        time.sleep(0.01)


ASLEEP = 'if __name__ == "__main__": asyncio.run(mapped(asleep, [1], 1))\n'


def started(file: Path) -> tuple[subprocess.Popen[str], int]:
    """A program, and its child that sleeps."""
    parent = subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline().split()[1])


@pytest.mark.slow
def test_children_end_when_their_parent_is_killed_whatever_they_do(tmp_path: Path) -> None:
    parent, child = started(program(tmp_path, ASLEEP))

    parent.kill()

    parent.communicate()
    await_ends([child])


@pytest.mark.slow
def test_ctrl_c_ends_parent_and_children_with_one_traceback(tmp_path: Path) -> None:
    parent, child = started(program(tmp_path, ASLEEP))

    os.killpg(parent.pid, signal.SIGINT)

    _, err = parent.communicate()
    await_ends([child])
    assert err.count("Traceback") <= 2  # KeyboardInterrupt, during CancelledError
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "Warning" not in err
    assert state(child) is None
