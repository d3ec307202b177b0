"""The harness collects before its rounds, which in a process that has all tests takes longer than they."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from benchmarks import harness


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a benchmark measures is not judged; that it freezes what was there before, is."""
    without = SimpleNamespace(collect=lambda: 0, freeze=gc.freeze, unfreeze=gc.unfreeze)
    monkeypatch.setattr(harness, "gc", without)
