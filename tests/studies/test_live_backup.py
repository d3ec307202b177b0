"""The live backup study: what the simulator says of it, what it prints, and when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from studies import live_backup
from studies.live_backup import BACKUPS, off, points, simulated, table

STEPS = 60


@pytest.fixture(scope="module")
def virtual() -> list[list[float]]:
    return simulated(STEPS, 0)


@pytest.mark.slow
def test_a_simulated_cluster_takes_what_can_be_computed(virtual: list[list[float]]) -> None:
    found = points(virtual, virtual)

    assert [len(point.simulated_s) for point in found] == [STEPS] * len(BACKUPS)
    for point in found:
        assert median(point.simulated_s) == pytest.approx(point.exact_s, rel=0.06)
    assert found[0].exact_s > 1.1 * found[1].exact_s > 1.15 * found[2].exact_s


@pytest.mark.slow
def test_a_median_that_is_too_far_off_is_told(virtual: list[list[float]]) -> None:
    slower = [[1.08 * s for s in virtual[0]], [1.12 * s for s in virtual[1]], [0.85 * s for s in virtual[2]]]
    found = points(slower, virtual)

    assert [point.ratio for point in found] == pytest.approx([1.08, 1.12, 0.85])
    assert [line.split(":")[0] for line in off(found, 0.1)] == ["b = 1", "b = 2"]
    assert len(table(found).splitlines()) == 1 + len(BACKUPS)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "step_s", "code"), [(1.02, 0.001, 0), (1.2, 0.001, 1), (1.0, 0.02, 1)])
def test_it_prints_writes_and_fails_where_they_do_not_agree(
    virtual: list[list[float]],
    factor: float,
    step_s: float,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    tmp_path: Path,
) -> None:
    async def live(_steps: int, _seed: int) -> list[list[float]]:
        return [[factor * s for s in times] for times in virtual]

    async def took(_steps: int, _seed: int) -> list[float]:
        return [step_s]

    monkeypatch.setattr(live_backup, "live", live)
    monkeypatch.setattr(live_backup, "undelayed", took)
    monkeypatch.setattr(live_backup, "computing", took)
    monkeypatch.setattr(live_backup, "simulated", lambda _steps, _seed: virtual)

    assert live_backup.main(["--steps", str(STEPS), "--json", str(tmp_path / "all.json")]) == code

    out, err = capsys.readouterr()
    assert bool(err) is bool(code)
    assert "The first 6 - b of 6 workers; 60 updates, seed 0" in out
    assert len(json.loads((tmp_path / "all.json").read_text())["points"]) == len(BACKUPS)
