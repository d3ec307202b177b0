"""The example with real processes: it learns, and a worker that it kills is back before the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.busy import HANG_S

ROOT = Path(__file__).parents[2]


@pytest.mark.processes
def test_training_goes_on_while_a_worker_is_killed_and_comes_back() -> None:
    argv, env = [sys.executable, "examples/processes.py"], {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=HANG_S)

    assert ran.stderr == ""
    said = ran.stdout.splitlines()
    killed, back = said.index("worker1 is killed"), [": worker1 is back" in line for line in said]
    assert any(back[killed:]), ran.stdout
    assert "2 workers alive" in ran.stdout
    found = re.fullmatch(r"test accuracy (0\.\d+|1\.000) after 800 updates in [\d.]+ s", said[-1])
    assert found is not None, ran.stdout
    assert float(found[1]) >= 0.93
