from __future__ import annotations

import fcntl
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.soak import main
from tests.soaking.crew import Worker
from tests.soaking.state import load
from tests.soaking.worker import Ask, Collected, Told
from tests.support.busy import HANG_S

ROOT = Path(__file__).parents[1]

PLANTED = """
import os, time
from hypothesis import given, strategies as st

@given(st.integers())
def test_quick(n): ...

@given(st.integers())
def test_slow(n):
    time.sleep(0.01)

@given(st.integers(0, 1000), st.booleans())
def test_fails(n, flag):
    assert n < 100

@given(st.integers())
def test_hangs(n):
    while True: ...

@given(st.integers())
def test_dies(n):
    os._exit(7)
"""

RECORDING = """
from hypothesis import given, strategies as st

@given(st.integers(), st.lists(st.floats()))
def test_records(n, numbers):
    with open("drawn.txt", "a") as file:
        print(n, numbers, file=file)

@given(st.floats())
def test_another(x): ...
"""

SHORT = """
import pytest
from hypothesis import given, strategies as st

@given(st.booleans())
def test_drawn_out(x): ...

@pytest.mark.skip(reason="no device")
@given(st.integers())
def test_skipped(x): ...
"""


def soak(where: Path, *given: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.soak", "--laws", ".", *given]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=where, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def read_until(process: subprocess.Popen[str], **wanted: int) -> str:
    """Returns what `process` says until each of `wanted` stood in that many of its slices."""
    assert process.stdout is not None
    said = []
    while any(sum(word in line for line in said if "seed" in line) < n for word, n in wanted.items()):
        line = process.stdout.readline()
        assert line, "".join(said)
        said.append(line)
    return "".join(said)


def ended(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=HANG_S)
    return out


@pytest.mark.slow
def test_laws_share_the_time_and_what_fails_hangs_or_dies_does_not_stop_the_others(tmp_path: Path) -> None:
    source = tmp_path / "test_planted.py"
    source.write_text(PLANTED)

    process = soak(tmp_path, "--minutes", "0.3", "--limit", "1.5", "--write")
    out = read_until(process, failed=1, lost=2, test_quick=3, test_slow=3)
    process.send_signal(signal.SIGINT)
    out += ended(process)

    assert process.returncode == 1, out
    assert "stopped; the slices in flight are not counted" in out
    state, _ = load(tmp_path / ".soak/state.json")
    spent = {law.rpartition("::")[2]: share for law, share in state.shares.items()}
    # That shares are even is a law of tests/soaking/test_shares.py; here a busy machine has its say.
    assert spent["test_quick"].examples > spent["test_slow"].examples > 0, out
    assert [spent[law].rounds for law in ("test_fails", "test_hangs", "test_dies")] == [1, 1, 1], out
    kept = (tmp_path / ".soak/failures.txt").read_text()
    assert "keep:   @example(n=100, flag=False)\n" in kept
    assert re.search(r"law:    test_planted.py::test_hangs\nraised: Hung: no end after 1.5 s", kept)
    assert "line 18 in test_hangs" in kept
    assert re.search(r"law:    test_planted.py::test_dies\nraised: Crashed: .*: exit status 7", kept)
    assert "rested: test_planted.py::test_fails: it failed, and is not run again" in out
    assert "@example(n=100, flag=False)\n@given(st.integers(0, 1000)" in source.read_text()
    with pytest.raises(AssertionError, match="n=100"):
        settings(phases=[Phase.explicit])(runpy.run_path(str(source))["test_fails"])()


@pytest.mark.slow
def test_a_soak_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED)
    path = tmp_path / ".soak/state.json"
    given = ("-k", "quick or slow", "--minutes")

    killed = soak(tmp_path, "--workers", "1", *given, "0.2")
    read_until(killed, passed=4)
    killed.send_signal(signal.SIGKILL)
    ended(killed)
    before, message = load(path)
    resumed = soak(tmp_path, "--workers", "1", *given, "0.2")
    out = read_until(resumed, passed=1)
    resumed.send_signal(signal.SIGINT)
    out += ended(resumed)

    assert message is None
    assert len(before.slices) >= 4
    assert resumed.returncode == 0, out
    after, _ = load(path)
    assert (before.run, after.run) == (1, 2)
    assert after.slices[: len(before.slices)] == before.slices
    assert len(after.slices) > len(before.slices)
    assert sum(share.rounds for share in after.shares.values()) == len(after.slices)
    assert set(after.shares) >= {"test_planted.py::test_hangs"}, "a law that -k leaves out is not gone"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with two laws that pass."""
    (tmp_path / "test_recording.py").write_text(RECORDING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.slow
def test_a_slice_repeated_by_its_seed_draws_the_same_examples(
    planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = planted / "drawn.txt"
    law, another = "test_recording.py::test_records", "test_recording.py::test_another"
    worker = Worker(planted / "worker.log", ".", "")
    assert collected(worker).laws == [law, another]
    told = [turn(worker, each, seed, 60) for each, seed in [(law, 1), (another, 2), (law, 3)]]
    worker.stop()
    whole = drawn.read_text().splitlines()
    drawn.unlink()

    status = main(["--laws", ".", "--repeat", law, "--seed", "3", "--examples", "60"])

    same = drawn.read_text().splitlines()
    assert status == 0
    assert [each.ran for each in told] == [60, 60, 60]
    assert "passed: 60 examples" in capsys.readouterr().out
    assert len(set(same)) > 20
    assert same == whole[-len(same) :]
    assert same != whole[: len(same)]


@pytest.mark.slow
def test_a_law_that_hypothesis_refuses_fails_and_the_worker_lives_on(planted: Path) -> None:
    (planted / "test_refused.py").write_text(
        "from hypothesis import given, strategies as st\n\n@given(st.integers())\ndef test_x(n=1): ...\n"
    )
    worker = Worker(planted / "worker.log", ".", "refused or another")
    assert collected(worker).others == ["test_recording.py::test_records"]

    told = [turn(worker, law, 1, 5) for law in ("test_refused.py::test_x", "test_recording.py::test_another")]

    worker.stop()
    assert [each.outcome for each in told] == ["failed", "passed"]
    assert "Cannot apply @given to a function with defaults" in told[0].failures[0].error


def collected(worker: Worker) -> Collected:
    answer = None
    while answer is None:
        answer = worker.hear()
    assert isinstance(answer, Collected)
    return answer


def turn(worker: Worker, law: str, seed: int, n: int) -> Told:
    worker.ask(Ask(law, seed, n, shrink=False, limit_s=30.0))
    answer = None
    while answer is None:
        answer = worker.hear()
    assert isinstance(answer, Told)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-k", "nobody"), "no law in . matches 'nobody'\n  2 laws are there in all"),
        (("--repeat", "x::test_y", "--seed", "1", "--examples", "1"), ". has no law x::test_y"),
    ],
)
def test_laws_that_are_not_there_are_misuse(
    planted: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    status = main(["--laws", ".", "--workers", "1", *given])

    assert status == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_laws_that_do_not_load_are_misuse(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (planted / "test_broken.py").write_text("import nothing_of_that_name")

    status = main(["--laws", ".", "--workers", "1"])

    assert status == 2
    assert "1 files of laws do not load" in capsys.readouterr().err


@pytest.mark.slow
def test_a_soak_ends_early_when_every_law_rests_and_replaces_a_worker_that_grew(
    planted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (planted / "test_short.py").write_text(SHORT)
    (planted / ".soak").mkdir()
    (planted / ".soak/state.json").write_text("of another kind")
    monkeypatch.setattr("tests.soaking.soak.WORKER_GROWTH_BYTES", -1)

    status = main(["--laws", ".", "--minutes", "5", "--workers", "1", "-k", "short", "--fresh"])

    out = capsys.readouterr().out
    assert status == 0
    assert "the state so far is kept as .soak/state.json.old-1" in out
    assert re.search(r"worker replaced: it grew to \d+ MiB, last by test_short.py::test_drawn", out)
    assert "rested: test_short.py::test_drawn_out: it has no examples that it did not draw" in out
    assert "rested: test_short.py::test_skipped: skipped: Skipped: no device" in out
    assert "in all; 0 of 2 laws not reached in this run" in out


def test_two_soaks_do_not_share_a_state(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (planted / ".soak").mkdir()
    with (planted / ".soak/state.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        status = main(["--laws", ".", "--workers", "1"])

    assert status == 2
    assert "another soak is using .soak/state.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--repeat", "x::test_y"), "go together"),
        (("--minutes", "0"), "must be above 0, got 0"),
        (("--workers", "0"), "must be 1 or more, got 0"),
    ],
)
def test_misuse_of_the_command_line_exits_with_2(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err
