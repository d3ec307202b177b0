from __future__ import annotations

import re
from pathlib import Path

from tests.soaking import report
from tests.soaking.falsified import Falsified
from tests.soaking.report import Failure


def test_a_failure_is_kept_once_whatever_its_seed(tmp_path: Path) -> None:
    path = tmp_path / "failures.txt"
    one, two = (Falsified("AssertionError: assert 0", f"@example(n={n})", None) for n in (1, 2))

    assert (
        report.append(path, [Failure("law", 1, 5, "", "", one), Failure("law", 2, 5, "", "", one)], ".") == 1
    )
    assert (
        report.append(path, [Failure("law", 3, 9, "", "", one), Failure("law", 3, 9, "", "", two)], ".") == 1
    )

    assert re.findall(r"keep: +(.*)", path.read_text()) == ["@example(n=1)", "@example(n=2)"]
