"""Imports a script of `examples/` as it finds itself when it is run: beside its neighbours, and fresh."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def script(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """Returns the module; what it does when it is run has not happened. All is forgotten after the test."""
    monkeypatch.syspath_prepend(EXAMPLES)
    for path in EXAMPLES.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
        monkeypatch.setitem(sys.modules, path.stem, ModuleType(path.stem))  # so that it is taken away again
        del sys.modules[path.stem]
    return importlib.import_module(name)
