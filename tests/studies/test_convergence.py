"""The convergence study: what a run gives, that it is the same each time, and how results are told."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from studies import convergence
from studies.runs import AWARE, LOCAL, Result, Run, done, policy_of
from studies.tables import Spread, cell, table

RUN = Run(policy="backup", workers=3, stragglers=True, seed=0, rate=0.4, epochs=1)


def result(run: Run, reached_s: float | None = 2.0, *, loss: float = 0.3) -> Result:
    return Result(run, reached_s, 20, 5.0, 45, loss, 0.9, 1.5, 7)


@pytest.mark.slow
def test_a_run_is_the_same_each_time_and_drops_what_is_late() -> None:
    one, other = done(RUN), done(RUN)

    assert one == other
    assert one.dropped > 10
    assert one.staleness == 0.0
    assert one.loss < 2.0


@pytest.mark.slow
def test_one_worker_learns_what_a_session_learns() -> None:
    alone = replace(RUN, policy="sync", workers=1, stragglers=False)

    cluster, local = done(alone), done(replace(alone, policy=LOCAL))

    assert (cluster.loss, cluster.accuracy, cluster.updates) == (local.loss, local.accuracy, local.updates)
    assert local.took_s == pytest.approx(45 * 0.1, rel=0.05)
    assert local.took_s < cluster.took_s < 1.2 * local.took_s


@pytest.mark.slow
def test_the_quick_study_prints_a_row_for_each_policy_and_writes_every_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.json"

    assert convergence.main(["--quick", "--jobs", "1", "--json", str(file)]) == 0

    rows = [line.split(" | ")[0].strip("| ") for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert rows == ["policy", "---", LOCAL, *convergence.POLICIES]
    written = json.loads(file.read_text())
    assert len(written) == 2 * (1 + len(convergence.POLICIES))
    assert {run["updates"] for run in written if run["run"]["policy"] == AWARE} == {45}


def test_every_policy_has_a_rate_that_was_tried() -> None:
    assert {run.rate for run in convergence.planned()} <= set(convergence.RATES)
    assert {run.seed for run in convergence.tuning()}.isdisjoint(convergence.SEEDS)


def test_the_best_rate_reaches_the_loss_soonest_or_comes_closest() -> None:
    found = [
        result(run, {0.05: None, 0.1: 3.0, 0.2: 2.0}.get(run.rate), loss=run.rate)
        for run in convergence.tuning()
    ]
    never = [replace(each, reached_s=None, loss=1 - each.run.rate) for each in found]

    assert set(convergence.best(found).values()) == {0.2}
    assert set(convergence.best(never).values()) == {0.8}


def test_backup_waits_for_all_but_one() -> None:
    assert str(policy_of(RUN)) == "backup:2/3"
    assert str(policy_of(replace(RUN, policy=AWARE))) == "async"
    assert str(policy_of(replace(RUN, policy="stale:4"))) == "stale:4"


def test_a_spread_says_how_many_seeds_never_came_there() -> None:
    assert Spread.of([1.0, 2.0, 3.0]).text(1) == "2.0 ± 1.0"
    assert Spread.of([1.0, None, 3.0]).text(1) == "2.0 ± 1.4 (2 of 3)"
    assert Spread.of([None]).text(1) == "never"


def test_a_row_tells_steady_runs_and_those_with_stragglers_apart() -> None:
    runs = [replace(RUN, stragglers=stragglers, seed=seed) for stragglers in (False, True) for seed in (0, 1)]
    results = [result(run, 4.0 if run.stragglers else 2.0 + run.seed) for run in runs]

    assert [r.run.seed for r in cell(results, "backup", 3, stragglers=True)] == [0, 1]
    assert "| backup | 3 | 0.4 | 2.5 ± 0.7 | 4.0 ± 0.0 | 20 ± 0 | 0.900 ± 0.000 |" in table(results)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="make study installs matplotlib")
def test_the_figure_is_drawn_alike_each_time(tmp_path: Path) -> None:
    from studies.plot import draw

    results = [result(replace(run, seed=seed)) for run in convergence.quick() for seed in (0, 1)]
    for name in ("one.svg", "two.svg"):
        draw(results, tmp_path / name)

    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert "Sync: waits for all" in text
