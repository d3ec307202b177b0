"""The program in the README runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_program_of_the_readme_learns() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )

    assert ran.stderr == ""
    found = re.fullmatch(r"loss (\d+\.\d+) after 200 steps, [\d,]+ messages\n", ran.stdout)
    assert found is not None, ran.stdout
    assert float(found[1]) < 0.5
