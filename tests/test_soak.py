from __future__ import annotations

import fcntl
import json
import math
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.soak import main
from tests.soaking import keeping, report, shares
from tests.soaking.crew import Worker
from tests.soaking.falsified import falsified
from tests.soaking.report import Failure
from tests.soaking.shares import Share
from tests.soaking.state import FORMAT, Slice, State, load, save
from tests.soaking.worker import Ask, Collected, Told
from tests.strategies import examples

ROOT = Path(__file__).parents[1]

# ------------------------------------------------------------------------------- sharing


@settings(max_examples=examples(60), deadline=None)
@given(costs=st.lists(st.floats(1e-5, 0.5), min_size=2, max_size=8), rounds=st.integers(1, 60))
def test_no_law_is_ever_ahead_of_another_by_more_than_its_last_turn(costs: list[float], rounds: int) -> None:
    all_shares = {f"law {n}": Share() for n in range(len(costs))}
    last = dict.fromkeys(all_shares, 0.0)

    for _ in range(rounds):
        law = shares.next_law(all_shares, ())
        assert law is not None
        n = shares.asked(all_shares[law], 1.0)
        last[law] = n * costs[int(law[4:])]
        all_shares[law] = shares.ran(all_shares[law], n, n, last[law], 0)

        least = min(share.turn_s for share in all_shares.values())
        assert all(share.turn_s - last[law] <= least + 1e-9 for law, share in all_shares.items())


@given(cost=st.floats(1e-4, 1.0))
def test_a_slice_is_as_long_as_asked_once_the_rate_is_known(cost: float) -> None:
    share = Share()
    for _ in range(6):
        n = shares.asked(share, 2.0)
        share = shares.ran(share, n, n, n * cost, 0)

    took = shares.asked(share, 2.0) * cost

    assert took <= 2.0 + 1e-6
    assert took >= min(2.0 - 2 * cost, shares.MOST_EXAMPLES * cost - cost)


def test_the_first_turn_is_short_and_the_next_grows_by_ten_at_most() -> None:
    first = shares.asked(Share(), 10.0)
    second = shares.asked(shares.ran(Share(), first, first, 1e-6, 0), 10.0)

    assert (first, second) == (5, 50)


def test_after_a_turn_that_told_nothing_a_law_begins_with_few_again() -> None:
    known = Share(asked=10_000, rate=4_000.0)

    assert shares.asked(shares.ran(known, 10_000, 0, 60.0, 1), 10.0) == 5


def test_a_new_law_catches_up_by_its_cap_and_not_by_hours() -> None:
    old = {"a": Share(turn_s=3600.0), "b": Share(turn_s=3599.0), "new": Share()}

    level = shares.caught_up(old, most_s=40.0)

    assert {law: share.turn_s for law, share in level.items()} == {"a": 3600.0, "b": 3599.0, "new": 3560.0}
    assert shares.next_law(level, ()) == "new"
    assert shares.next_law(level, {"new"}) == "b"
    assert shares.next_law(level, {"new", "a", "b"}) is None


# --------------------------------------------------------------------------------- state

STATE = State(
    3,
    {"x.py::test_a": Share(2, 300, 1.5, 1, 2.5, 200, 133.0)},
    [Slice(3, "x.py::test_a", 1 << 62, 200, 200, 1.0, "passed")],
)


def test_state_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.json"

    save(path, STATE)

    assert load(path) == (STATE, None)
    assert [each.name for each in path.parent.iterdir()] == ["state.json"]


def spoiled(**changes: Any) -> str:
    content = {"format": FORMAT, "run": 1, "shares": {}, "slices": []} | changes
    return json.dumps(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expecting value"),
        ('{"format": 1, "run": 2, "sha', "Unterminated"),
        ("[]", "it holds a list"),
        (spoiled(format=0), "its format is 0, this program reads 1"),
        (spoiled(shares={"a": {"rounds": 1}}), "examples"),
        (spoiled(shares={"a": {"rounds": -1}}), "Share.rounds can't be -1"),
        (spoiled(shares=[]), "list"),
        ('{"\xff": 1}', "codec"),
    ],
)
def test_a_state_that_cannot_be_used_is_put_aside_and_said_so(
    tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content.encode("latin-1"))
    (tmp_path / "state.json.old-1").write_text("of an earlier time")

    state, message = load(path)

    assert state == State()
    assert message is not None
    assert said in message
    assert str(tmp_path / "state.json.old-2") in message
    assert (tmp_path / "state.json.old-2").read_bytes() == content.encode("latin-1")
    assert not path.exists()


def test_laws_that_are_gone_are_dropped_and_new_ones_start_at_nothing() -> None:
    state = State(1, {"gone": Share(rounds=9), "stays": Share(rounds=4)})

    dropped = state.only(["stays", "new"])

    assert dropped == ["gone"]
    assert state.shares == {"new": Share(), "stays": Share(rounds=4)}


# ------------------------------------------------------------------------- what was found


def raised(*notes: str) -> AssertionError:
    error = AssertionError("assert 0")
    for note in notes:
        error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        (
            "Falsifying example: test_x(\n    n=1,  # or any other\n    text='a(b',\n)",
            "@example(n=1, text='a(b')",
        ),
        ("Other words: test_x(\n    self=1,\n    op='add',\n    n=[-1.5],\n)", "@example(n=[-1.5])"),
        ("F: test_x(n=-inf, m=nan)", "@example(n=-float('inf'), m=float('nan'))"),
        ("F: test_x(n=Path('a'))", "@example(n=Path('a'))"),
        ("F: test_x(f=lambda a: [b + a for b in [1]])", "@example(f=lambda a: [b + a for b in [1]])"),
    ],
)
def test_what_hypothesis_tells_becomes_an_example(note: str, kept: str) -> None:
    (found,) = falsified(raised("before", note, "after"), "test_x", {"self", "op"}, {"Path": Path})

    assert (found.example, found.why_not) == (kept, None)
    assert found.error.startswith("AssertionError: assert 0\nbefore\n")


def test_a_module_that_names_inf_itself_is_left_its_name() -> None:
    (found,) = falsified(raised("F: test_x(n=inf)"), "test_x", (), {"inf": math.inf})

    assert found.example == "@example(n=inf)"


@pytest.mark.parametrize(
    ("note", "why_not"),
    [
        ("F: test_x(data=data(...), n=<object at 0x1>)", "do not print as Python"),
        ("F: test_x(n=Graph(Node()))", "the test module has no Graph, Node"),
        ("F: test_x(1)", "have no names"),
        ("Falsifying explicit example: test_x(n=1)", "an @example of the law already"),
        ("F:\nstate = Machine()\nstate.teardown()", "told no arguments"),
        ("@example(n=", "the note is not Python: @example(n="),
    ],
)
def test_what_cannot_be_pasted_says_why(note: str, why_not: str) -> None:
    (found,) = falsified(raised(note), "test_x", (), {})

    assert found.why_not is not None
    assert why_not in found.why_not


def test_the_note_of_a_simulated_run_goes_before_what_hypothesis_tells() -> None:
    ready = "seed 7 again:\n@example(\n    plan=Plan('a>b#1 +5'),\n)\nand more"

    (found,) = falsified(raised("F: test_x(plan=Plan(1, 2))", ready), "test_x", (), {"Plan": print})

    assert found.example == "@example(\n    plan=Plan('a>b#1 +5'),\n)"
    assert found.why_not is None


def test_each_distinct_failure_of_a_group_is_found_once() -> None:
    group = ExceptionGroup(
        "two", [raised("F: test_x(n=1)"), raised("F: test_x(n=2)"), raised("F: test_x(n=2)")]
    )

    found = falsified(group, "test_x", (), {})

    assert [each.example for each in found] == ["@example(n=1)", "@example(n=2)"]


def test_a_failure_is_kept_once_whatever_its_seed(tmp_path: Path) -> None:
    path = tmp_path / "failures.txt"
    one, two = (falsified(raised(f"F: test_x(n={n})"), "test_x", (), {})[0] for n in (1, 2))

    assert (
        report.append(path, [Failure("law", 1, 5, "", "", one), Failure("law", 2, 5, "", "", one)], ".") == 1
    )
    assert (
        report.append(path, [Failure("law", 3, 9, "", "", one), Failure("law", 3, 9, "", "", two)], ".") == 1
    )

    assert re.findall(r"keep: +(.*)", path.read_text()) == ["@example(n=1)", "@example(n=2)"]


# -------------------------------------------------------------------------------- keeping

MODULE = '''"""Laws."""

from __future__ import annotations

from hypothesis import HealthCheck, given
from hypothesis import strategies as st


class TestAll:
    @staticmethod
    @given(
        st.integers(),
    )
    def test_x(n): ...


@given(st.integers())
def test_x(n): ...
'''


@pytest.mark.parametrize(
    ("law", "above"), [("test_x", "@given(st.integers())"), ("TestAll.test_x", "    @given(\n")]
)
def test_an_example_is_written_above_given_and_imported(tmp_path: Path, law: str, above: str) -> None:
    source = tmp_path / "laws.py"
    source.write_text(MODULE)
    indent = above[: -len(above.lstrip())]

    keeping.keep(source, law, "@example(\n    n=1,\n)")

    written = f"{indent}@example(\n{indent}    n=1,\n{indent})\n{above}"
    wanted = MODULE.replace(above, written).replace("HealthCheck, given", "HealthCheck, example, given")
    assert source.read_text() == wanted


@pytest.mark.parametrize(
    "head",
    [
        "import hypothesis\nfrom hypothesis import strategies as st\n",
        "from hypothesis import (  # all we need\n    given,\n    strategies as st,\n)\n",
        '"""Says."""\nimport hypothesis as hypothesis, hypothesis.strategies as st\n',
    ],
)
def test_example_is_imported_however_the_module_imports_hypothesis(tmp_path: Path, head: str) -> None:
    source = tmp_path / "laws.py"
    given_name = "given" if "given," in head else "hypothesis.given"
    source.write_text(f"{head}\n@{given_name}(st.integers(5, 9))\ndef test_x(n):\n    assert n != 1\n")

    keeping.keep(source, "test_x", "@example(n=1)")

    with pytest.raises(AssertionError):
        settings(phases=[Phase.explicit])(runpy.run_path(str(source))["test_x"])()


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "laws.py"
    source.write_text(MODULE + "\n\ndef test_plain(): ...\n")
    keeping.keep(source, "test_x", "@example(n=1)")
    before = source.read_text()

    for law, why in [
        ("test_x", "has it already"),
        ("test_y", "defines no"),
        ("TestAll", "class"),
        ("test_plain", "no @given"),
    ]:
        with pytest.raises(keeping.NotKept, match=why):
            keeping.keep(source, law, "@example( n = 1 )")

    assert source.read_text() == before


# ------------------------------------------------------------------------ whole processes

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
    out, _ = process.communicate(timeout=60)
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
    assert 0.4 < spent["test_quick"].seconds / spent["test_slow"].seconds < 2.5, out
    assert spent["test_quick"].examples > 10 * spent["test_slow"].examples, out
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
