"""Faults that tests plant in state machines, which `validate` has to find."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from actorflow.errors import InternalError
from actorflow.runtime.validation import Validates


def plant(of: Any, path: str, value: Any) -> None:
    """Sets a field that lies somewhere in `of`: `sending.1.due`, where a number is a place in a sequence."""
    *way, last = path.split(".")
    setattr(reduce(_step, way, of), last, value)


def _step(of: Any, name: str) -> Any:
    return of[int(name)] if name.isdigit() else getattr(of, name)


def find(rule: Validates, what: str) -> InternalError:
    """Returns what `validate` raises, which says `what`, and has the story as its note."""
    with pytest.raises(InternalError, match=what) as found:
        rule.validate()
    assert found.value.__notes__[0].startswith("  story: ")
    return found.value
