from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from benchmarks import registry
from benchmarks.__main__ import main
from benchmarks.harness import QUICK, Contest, Peer, Size, Unit
from benchmarks.registry import Benchmark


async def one_second(n: int) -> float:
    return 1.0


class Recorded:
    """A benchmark that only remembers how it was run."""

    def __init__(self) -> None:
        self.events: list[object] = []

    async def contests(self, size: Size) -> AsyncGenerator[Contest]:
        self.events.append(size)
        try:
            for metric in ("first", "second"):
                yield Contest(metric, Unit.OPS, 10, one_second, [Peer("peer", one_second, 1.0)])
        finally:
            self.events.append("closed")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found = Recorded()
    entry = Benchmark("recorded", "remembers how it was run", found.contests)
    monkeypatch.setattr(registry, "table", lambda: {"recorded": entry})
    return found


def test_list_says_what_each_benchmark_is_about(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--list"]) == 0

    assert capsys.readouterr().out.split() == ["recorded", "remembers", "how", "it", "was", "run"]


def test_a_benchmark_prints_a_row_a_metric_and_closes(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recorded", "--rounds", "3"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if " met" in line] == ["first", "second"]
    assert recorded.events == [Size(rounds=3), "closed"]


def test_quick_may_be_given_its_own_rounds(recorded: Recorded) -> None:
    main(["recorded", "--quick"])
    main(["recorded", "--quick", "--rounds", "1"])

    assert recorded.events[::2] == [QUICK, Size(1, QUICK.warm_up, QUICK.share)]


def test_json_holds_benchmark_machine_and_rows(recorded: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"

    main(["recorded", "--quick", "--json", str(file)])

    found = json.loads(file.read_text())
    assert set(found) == {"benchmark", "machine", "rows"}
    assert found["benchmark"] == "recorded"
    assert [row["metric"] for row in found["rows"]] == ["first", "second"]
    assert set(found["machine"]["peers"]) == {
        "grain",
        "jax",
        "ray",
        "msgpack_numpy",
        "pykka",
        "tensorflow",
        "torch",
        "xoscar",
    }


def test_a_file_that_cannot_be_written_is_told_before_measuring(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "rows.json"

    assert main(["recorded", "--quick", "--json", str(file)]) == 2

    assert (
        capsys.readouterr().err
        == f"{file} must be a file that can be written, got No such file or directory\n"
    )
    assert recorded.events == []


def test_the_table_is_printed_though_the_file_has_become_unwritable(
    recorded: Recorded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "rows.json"

    def rows_at_last(*_: object) -> list[object]:
        file.unlink()
        file.mkdir()
        return []

    monkeypatch.setattr("benchmarks.report.as_json", rows_at_last)

    assert main(["recorded", "--quick", "--json", str(file)]) == 2

    out, err = capsys.readouterr()
    assert "second" in out
    assert err.endswith(f"{file} must be a file that can be written, got Is a directory\n")


def test_an_unknown_name_lists_those_that_exist(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dispach"]) == 2

    assert "there is no benchmark 'dispach'; there are recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "name a benchmark, or --list them"),
        (["recorded", "--rounds", "0"], "needs a positive number, got '0'"),
        (["recorded", "--rounds", "few"], "needs a positive number, got 'few'"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err
