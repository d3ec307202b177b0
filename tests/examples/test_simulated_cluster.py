"""The simulated cluster: it learns, does without a straggler, and takes a crashed worker back."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    spec = importlib.util.spec_from_file_location(
        "simulated_cluster_example", EXAMPLES / "simulated_cluster.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_training_goes_on_while_one_straggles_and_one_crashes(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    done = example.run(epochs=2, every=1)

    lines = capsys.readouterr().out.splitlines()
    updates = [line for line in lines if " update " in line]
    losses = [float(found[1]) for line in updates if (found := re.search(r"loss (\d\.\d+)", line))]
    alive = [int(found[1]) for line in updates if (found := re.search(r"(\d) alive", line))]
    left_out = dict(re.findall(r"(worker\d) (\d+)", updates[-1]))
    assert len(updates) == len(losses) == done.step
    assert losses[-1] < 0.6 * losses[0]
    assert min(alive) == 3
    assert alive[-1] == 4
    assert sum("crashes" in line for line in lines) == 1
    assert int(left_out["worker3"]) > int(left_out.get("worker0", 0))
    assert done.test["accuracy"] > 0.7
