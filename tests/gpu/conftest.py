"""The tests that need a card: why they are skipped without one, and what they say at the end.

On a machine with a card, from the root of the repository: `sh tests/gpu/run.sh`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from actorflow.runtime.clock import SystemClock

_NOW = SystemClock().now


@cache
def why_not() -> str | None:
    """Why there is no card to test on; None when there is one."""
    try:
        import cupy
    except ImportError as error:
        return f"no card: CuPy cannot be imported ({error})"
    try:
        cards = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no card: {error}"
    return None if cards else "no card: CUDA sees none"


class _Absent(pytest.Module):
    """A module without a card to run on: one line instead of 3,400."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        assert self.obj  # it is imported all the same, and told of where that fails
        pytest.skip(why_not() or "", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Without a card its tests are not even begun: each costs a millisecond."""
    return _Absent.from_parent(parent, path=module_path) if why_not() else None


@pytest.fixture(scope="session")
def until() -> float:
    """When to begin no further test: GPU_TESTS_S seconds from now, since time on a card is lent."""
    return _NOW() + float(os.environ.get("GPU_TESTS_S", "inf"))


@pytest.fixture(autouse=True)
def card(until: float) -> None:
    if _NOW() > until:
        pytest.skip("out of time")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was compared, what was measured, and one line for every failure."""
    say = terminalreporter.write_line
    cases: dict[str, dict[str, int]] = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "figure":
                say(f"measured: {value}")
            elif name == "compared":
                op, dtype, n = value
                cases.setdefault(op, {})[dtype] = n
    if cases:
        n_pairs = sum(n > 0 for found in cases.values() for n in found.values())
        n_cases = sum(n for found in cases.values() for n in found.values())
        say(
            f"compared: {len(cases)} ops, {n_pairs} pairs of op and dtype, {n_cases} cases, each in two layouts"
        )
        for op, found in sorted(cases.items()):
            say(f"  {op}: {' '.join(d for d, n in found.items() if n)}")
    late = sum("out of time" in str(r.longrepr) for r in terminalreporter.stats.get("skipped", []))
    if late:
        say(f"out of time: {late} tests did not begin; raise GPU_TESTS_S, or choose with -k")
    failed: list[Any] = terminalreporter.stats.get("failed", [])
    for report in failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = " | ".join(str(crash.message if crash else report.longrepr).splitlines())
        say(f"failed: {report.nodeid.split('::')[-1]}: {text[:900]}")
