"""What docs/extending.md shows is what there is: programs that lie in files, and an op that is added as it says."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support.python import run_python

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FENCE = r"```py\n(?P<block>.*?)^```\n"


def ran(*arguments: str, at: Path = ROOT) -> str:
    """What a program prints; its modules come from `at`."""
    done = run_python(*arguments, cwd=at, env={**os.environ, "PYTHONPATH": str(at)})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own_op.py", "own_wire.py"])
def test_a_program_that_lies_in_a_file_is_that_file_and_prints_what_stands_below(name: str) -> None:
    found = re.search(
        rf"\]\(\.\./examples/{name}\)\):\n\n{FENCE}\n```text\n(?P<said>.*?)^```\n",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
    assert found is not None
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")

    assert text.endswith(found["block"])
    assert ran(f"examples/{name}") == found["said"]


@pytest.mark.slow
def test_an_op_that_is_added_as_the_page_says_passes_the_suite(tmp_path: Path) -> None:
    for folder in ("actorflow", "tests", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, block in re.findall(
        rf"^`(actorflow/\S+)` is new.*?:\n\n{FENCE}", PAGE, re.MULTILINE | re.DOTALL
    ):
        assert not (tmp_path / path).exists()
        (tmp_path / path).write_text(block, encoding="utf-8")
    (sample,) = re.findall(rf"`tests/ops/samples_math.py`[^`]*:\n\n{FENCE}", PAGE, re.MULTILINE | re.DOTALL)
    (call,) = re.findall(rf"`tests/ops/calls.py`[^`]*:\n\n{FENCE}", PAGE, re.MULTILINE | re.DOTALL)
    with (tmp_path / "tests/ops/samples_math.py").open("a", encoding="utf-8") as samples:
        samples.write(sample)
    calls = tmp_path / "tests/ops/calls.py"
    text = calls.read_text(encoding="utf-8")
    assert text.count("] = {\n    # one tensor\n") == 1
    calls.write_text(
        text.replace("] = {\n    # one tensor\n", f"] = {{\n{call}    # one tensor\n"), encoding="utf-8"
    )

    written = ran("-m", "actorflow.public.exports", at=tmp_path)

    assert "actorflow/public/math.py" in written
    suite = ("tests/ops", "tests/kernels/test_halves.py", "tests/public")
    asked = (
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-k",
        "log_cosh or every_computed or lists_are or has_a_valid_call",
    )
    told = ran(*asked, *suite, at=tmp_path)
    assert "test_gradient_is_what_differences_measure, 1 ops: log_cosh" in told
