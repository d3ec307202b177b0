"""A chief that does not build its program is told of, and not waited for without end."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.cli.starting import EVERY_S, FIRST_S, Starting, times
from actorflow.errors import NotReady
from actorflow.launch.starts import Used
from tests.support.busy import HANG_S
from tests.support.runs import own_runs
from tests.support.virtual_loop import VirtualLoop


@given(waited_s=st.floats(0, 1e6), more_s=st.floats(0, 1e3))
def test_it_is_said_at_ten_seconds_and_every_thirty_from_then_on(waited_s: float, more_s: float) -> None:
    said = times(waited_s)
    assert said == sum(at <= waited_s for at in (FIRST_S + k * EVERY_S for k in range(said + 2)))
    assert times(waited_s + more_s) >= said


def watched(
    folder: Path, ready_s: float, built_after_s: float | None
) -> tuple[list[str], list[NotReady], float]:
    """Watches a chief in virtual time: what was said, why it was given up, and how long that took."""
    lines: list[str] = []
    reasons: list[NotReady] = []

    async def main() -> float:
        loop = asyncio.get_running_loop()
        over, since = asyncio.Event(), loop.time()

        def fail(reason: NotReady) -> None:
            reasons.append(reason)
            over.set()

        Starting("digits.py", folder, ready_s, lines.append, fail)
        if built_after_s is not None:
            loop.call_later(built_after_s, (folder / "chief.17.m").touch)
        try:
            async with asyncio.timeout(1000):
                await over.wait()
        except TimeoutError:
            pass
        return loop.time() - since

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        took_s = runner.run(main())
    return lines, reasons, took_s


def test_a_chief_that_never_builds_is_given_up_after_ready_s(tmp_path: Path) -> None:
    lines, (reason,), took_s = watched(tmp_path, 60.0, None)
    assert [line.split(";")[0] for line in lines] == [
        "chief has not built digits.py yet, after 10 s",
        "chief has not built digits.py yet, after 40 s",
    ]
    assert took_s == pytest.approx(60.0)
    assert reason.what == "the chief must have built digits.py within 60 s of its start, and has not"
    assert reason.hint is not None
    assert "--ready-s" in reason.hint


def test_a_chief_that_builds_late_is_waited_for(tmp_path: Path) -> None:
    lines, reasons, _ = watched(tmp_path, 60.0, 20.0)
    assert len(lines) == 1
    assert reasons == []


def test_a_chief_that_works_on_a_busy_machine_is_given_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = iter(range(10_000))
    monkeypatch.setattr("actorflow.cli.starting.processor_times", lambda _: {"chief": Used(0.2 * next(used))})
    lines, (reason,), took_s = watched(tmp_path, 60.0, None)
    assert took_s > 200
    assert "while it worked on a busy machine" in reason.what
    assert len(lines) > 3


@pytest.mark.processes
def test_a_program_that_hangs_while_it_is_imported_ends_the_run(tmp_path: Path) -> None:
    program = tmp_path / "hangs.py"
    program.write_text("import time\ntime.sleep(1000)\n")
    argv = [sys.executable, "-m", "actorflow", "launch", str(program), "--ready-s", "0.7"]
    with own_runs() as left:
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S)
        assert ran.returncode == 69
        assert left() == []  # nothing was printed, so there are no logs either
    said = re.sub(r", of \d+ s that passed while it worked on a busy machine", "", ran.stderr)
    assert said.splitlines() == [
        f"NotReady: the chief must have built {program} within 0.7 s of its start, and has not",
        "  try:   see what its import and build(seed) wait for, or give it longer: --ready-s",
    ]
