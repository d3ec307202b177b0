"""What `actorflow simulate` prints and writes, and what it refuses before it simulates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from actorflow.cli import main
from actorflow.cli.exit_codes import STOPPED
from studies.paper import figures, plot
from studies.paper.numbers import figure
from studies.paper.report import Line, Panel, assumptions, number, percent, residual

DOCS = Path(__file__).parents[2] / "docs"

SMALL = {
    "backup": ["--workers", "3", "--backups", "2", "--steps", "6"],
    "sync-step": ["--curves", "scalar", "dense-100MB", "--workers", "1", "2", "--steps", "2"],
    "ps-scaling": ["--ps", "1", "2", "--workers", "4", "--steps", "1"],
}


PAGE = (DOCS / "figures.md").read_text().splitlines()


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["simulate", *arguments]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"(simulated \d+ %\n)*", err)  # on a slow machine it says how far it is
    return out.splitlines()


def written(tmp_path: Path, name: str, *more: str) -> dict[str, Any]:
    file = tmp_path / "rows.json"
    assert main(["simulate", name, *SMALL[name], "--json", str(file), *more]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_backup_prints_its_tables_and_where_each_number_is_from(capsys: pytest.CaptureFixture[str]) -> None:
    lines = simulated(capsys, "backup", *SMALL["backup"], "--auto")

    assert lines[0] == "Backup workers (figure 8c): the first 3 of 3 + b; 6 steps, seed 0"
    assert [line.split()[0] for line in lines if re.match(r"[012]  ", line)] == ["0", "1", "2"]
    assert len([line for line in lines if re.match(r" *(exponential|pareto) ", line)]) == 6
    assert any(
        re.fullmatch(r'Backup\("auto", 6\) waits for [1-6] of 6, after 20 rounds with all\.', li)
        for li in lines
    )
    assert any(re.fullmatch(r"  base_s +1\.862 +fitted +a step of .*", line) for line in lines)
    assert any(re.fullmatch(r"  median_s +digitised +figure 8c.*", line) for line in lines)


def test_backup_writes_rows_of_b(tmp_path: Path) -> None:
    found = written(tmp_path, "backup")

    assert [row["b"] for row in found["rows"]] == [0, 1, 2]
    for row in found["rows"]:
        assert {"b", "median_s", "p90_s", "normalised", "paper_s", "residual", "exact_s"} <= row.keys()
        assert row["paper_s"] is None  # the paper has 50 workers
        assert row["residual"] is None
        assert 1.5 < row["median_s"] < row["p90_s"]
    assert found["rows"][0]["normalised"] == 1.0
    assert {row["distribution"] for row in found["unfitted"]} == {"exponential", "pareto"}
    assert found["auto"] is None
    assert found["parameters"]["base_s"] == {
        "value": 1.862,
        "origin": "fitted",
        "note": "a step of a worker that nothing disturbs",
    }


def test_backup_has_the_papers_numbers_beside_those_of_50_workers(tmp_path: Path) -> None:
    found = written(tmp_path, "backup", "--workers", "50", "--backups", "0", "--steps", "2")

    (row,) = found["rows"]
    assert row["paper_s"] == 2.26
    assert row["residual"] == pytest.approx(row["median_s"] / 2.26 - 1)


def test_sync_step_writes_a_row_for_each_curve_and_number_of_workers(tmp_path: Path) -> None:
    found = written(tmp_path, "sync-step")

    axes = [(row["curve"], row["workers"]) for row in found["rows"]]
    assert axes == [(curve, n) for curve in ("scalar", "dense-100MB") for n in (1, 2)]
    first, second = found["rows"][:2]
    assert first["paper"] == pytest.approx(1e3 / 541)
    assert first["residual"] == pytest.approx(first["measured"] / first["paper"] - 1)
    assert first["batches_s"] == pytest.approx(1e3 / first["measured"])
    assert second["paper"] is second["residual"] is None
    assert found["unit"] == "ms a step"


def test_ps_scaling_writes_a_row_for_each_softmax_workers_and_servers(tmp_path: Path) -> None:
    found = written(tmp_path, "ps-scaling")

    axes = [(row["softmax"], row["workers"], row["ps_tasks"]) for row in found["rows"]]
    assert axes == [(softmax, 4, p) for softmax in ("full", "sampled") for p in (1, 2)]
    assert found["rows"][0]["paper"] == 112
    assert found["rows"][0]["measured"] > 0
    assert found["rows"][0]["residual"] == pytest.approx(found["rows"][0]["measured"] / 112 - 1)


def test_the_tables_say_where_the_model_misses_most(capsys: pytest.CaptureFixture[str]) -> None:
    lines = simulated(capsys, "ps-scaling", *SMALL["ps-scaling"])

    assert any(re.fullmatch(r"Half of the 4 points are within \d+ % of the paper\.", line) for line in lines)
    worst = next(line for line in lines if line.startswith("Farthest off: "))
    assert len(re.findall(r"(full|sampled), 4 workers, [12] PS \([+-][\d.]+ %\)", worst)) == 3
    assert any("no mechanism" in line for line in lines)


def test_the_gain_of_a_second_server_stands_beside_that_of_more_workers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = simulated(capsys, "ps-scaling", "--ps", "1", "2", "--workers", "4", "5", "--steps", "1")

    gains = [line.split("  ") for line in lines if re.search(r"×\d", line)]
    assert len(gains) == 2 * 3
    assert [line[-1] for line in gains[:3]] == ["×5.62", "-", "-"]


def test_where_the_paper_has_no_number_the_tables_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    lines = simulated(capsys, "ps-scaling", "--ps", "3", "--workers", "5", "--steps", "1")

    assert "The paper has no number for these." in lines
    assert [line.split()[-2:] for line in lines if re.match(r" *(full|sampled) +5 ", line)] == [
        ["-", "-"]
    ] * 2


def test_the_same_seed_writes_the_same_rows(tmp_path: Path) -> None:
    first = written(tmp_path, "sync-step", "--seed", "3")

    assert written(tmp_path, "sync-step", "--seed", "3") == first
    assert written(tmp_path, "sync-step", "--seed", "4") != first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: FIGURE"),
        (["backup", "--steps", "1"], "--steps: must be an integer of at least 2, got '1'"),
        (["backup", "--workers", "0"], "--workers: must be an integer between 1 and 4096, got '0'"),
        (["backup", "--seed", "x"], "--seed: must be an integer of at least 0, got 'x'"),
        (["sync-step", "--curves", "round"], "invalid choice: 'round'"),
        (["sync-step", "--workers", "1", "0"], "--workers: must be an integer between 1 and 4096, got '0'"),
        (["ps-scaling", "--ps", "-1"], "--ps: "),
    ],
)
def test_a_wrong_number_is_explained_and_exits_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", *arguments])

    assert caught.value.code == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation would fail the test."""

    def runs(*_: object, **__: object) -> None:
        pytest.fail("it was simulated")

    monkeypatch.setattr(figures, "backup_report", runs)


@pytest.mark.usefixtures("nothing_runs")
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "rows.json"

    assert main(["simulate", "backup", "--json", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"ProgramError: {file} must be a file that can be written, got No such file")


@pytest.mark.usefixtures("nothing_runs")
def test_without_matplotlib_a_plot_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda name: None)

    assert main(["simulate", "backup", "--plot", str(tmp_path / "a.svg")]) == 2
    err = capsys.readouterr().err
    assert err == (
        "ProgramError: --plot needs matplotlib, which is not installed\n"
        '  try:   pip install "actorflow[examples]"\n'
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("nothing_runs")
def test_a_plot_is_of_a_kind_that_can_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "backup", "--plot", str(tmp_path / "a.txt")]) == 2
    assert "--plot writes .svg, .png, .pdf, got" in capsys.readouterr().err


def test_ctrl_c_stops_it_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stops(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(figures, "backup_report", stops)

    assert main(["simulate", "backup"]) == STOPPED
    assert capsys.readouterr().out == "stopped by Ctrl-C\n"


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_plot_has_the_curves_and_the_papers(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    file, again = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    lines = [Line("ours", [1, 10], [1.0, 2.0], [None, 3.0]), Line("more", [1, 10], [1.0, 2.0], [None, None])]
    panels = [Panel("workers", "batches/s", lines, logarithmic=True), Panel("b", "s", lines)]

    for each in (file, again):
        plot.draw(panels, "a title", each)

    assert file.read_bytes() == again.read_bytes()
    if suffix == ".svg":
        text = file.read_text()
        assert all(f">{label}<" in text for label in ("ours", "more", "the paper", "workers", "a title"))


def test_a_residual_is_by_how_much_more_was_simulated() -> None:
    assert percent(residual(1.1, 1.0)) == "+10.0 %"
    assert percent(residual(0.5, 1.0)) == "-50.0 %"
    assert percent(residual(1.0, None)) == "-"
    assert number(1234.5, 1) == "1,234.5"
    assert number(None, 2) == "-"


# -- the page --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_the_page_has_what_each_model_assumes_and_a_small_plot(name: str) -> None:
    assert list(assumptions(figure(name))) == [line for line in assumptions(figure(name)) if line in PAGE]
    assert any(re.fullmatch(f"actorflow simulate {name}( --auto)?", line) for line in PAGE)
    assert any(f"](figures/{name}.svg)" in line for line in PAGE)
    assert (DOCS / "figures" / f"{name}.svg").stat().st_size < 50_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["backup", "--backups", "0"], r"0  |exponential +0|pareto +0"),
        (["sync-step", "--curves", "scalar", "dense-1GB", "--workers", "1", "10"], "scalar|dense"),
        (["ps-scaling", "--ps", "1", "2", "4", "--workers", "4"], "(full|sampled) +4 +"),
    ],
    ids=SMALL,
)
def test_the_page_has_the_rows_that_the_command_prints(
    arguments: list[str], rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = [line.split() for line in PAGE]

    found = [line.split() for line in simulated(capsys, *arguments) if re.match(rf" *({rows})", line)]
    found = [cells for cells in found if not any("×" in cell for cell in cells)]

    assert len(found) >= 3
    assert found == [cells for cells in found if cells in page]


@pytest.mark.parametrize("name", SMALL)
def test_a_dash_prints_the_rows_instead(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", name, *SMALL[name], "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)

    assert printed == written(tmp_path, name)
    assert not (tmp_path / "-").exists()


def test_one_step_and_one_point_are_said_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--curves", "scalar", "--workers", "1", "--steps", "1"]
    lines = simulated(capsys, "sync-step", *few)

    assert lines[0].endswith(": 1 step, seed 0")
    assert any(re.fullmatch(r"The one point is \d+ % off the paper\.", line) for line in lines)
    lines = simulated(capsys, "ps-scaling", "--ps", "1", "--workers", "4", "--steps", "1")
    assert lines[0].endswith(": 1 step a worker, seed 0")


@pytest.mark.parametrize(
    "arguments",
    [
        ["sync-step", "--workers", "100000"],
        ["ps-scaling", "--ps", "4097"],
        ["ps-scaling", "--workers", "9" * 5000],
        ["backup", "--workers", "4097"],
    ],
)
def test_there_are_limits_to_what_is_simulated(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", *arguments])
    assert re.search(r"must be an integer between 1 and 4096, got '\d{4,60}'", capsys.readouterr().err)
