"""Says after a run which ops the conformance suite has covered."""

from __future__ import annotations

import re
from typing import Any

CHECKED = re.compile(r"test_conformance\.py::(test_\w+)\[([\w.]+)\]")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    covered: dict[str, set[str]] = {}
    for report in terminalreporter.stats.get("passed", []):
        found = CHECKED.search(report.nodeid)
        if found:
            covered.setdefault(found[1], set()).add(found[2])
    for law, ops in sorted(covered.items()):
        terminalreporter.write_line(f"{law}, {len(ops)} ops: {', '.join(sorted(ops))}")
