from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.soaking.shares import Share
from tests.soaking.state import FORMAT, Slice, State, load, save

STATE = State(
    3,
    {"x.py::test_a": Share(2, 300, 1.5, 1, 2.5, 200, 133.0)},
    [Slice(3, "x.py::test_a", 1 << 62, 200, 200, 1.0, "passed")],
)


def test_state_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.json"

    save(path, STATE)

    assert load(path) == (STATE, None)
    assert [each.name for each in path.parent.iterdir()] == ["state.json"]


def spoiled(**changes: Any) -> str:
    content = {"format": FORMAT, "run": 1, "shares": {}, "slices": []} | changes
    return json.dumps(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expecting value"),
        ('{"format": 1, "run": 2, "sha', "Unterminated"),
        ("[]", "it holds a list"),
        (spoiled(format=0), "its format is 0, this program reads 1"),
        (spoiled(shares={"a": {"rounds": 1}}), "examples"),
        (spoiled(shares={"a": {"rounds": -1}}), "Share.rounds can't be -1"),
        (spoiled(shares=[]), "list"),
        ('{"\xff": 1}', "codec"),
    ],
)
def test_a_state_that_cannot_be_used_is_put_aside_and_said_so(
    tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content.encode("latin-1"))
    (tmp_path / "state.json.old-1").write_text("of an earlier time")

    state, message = load(path)

    assert state == State()
    assert message is not None
    assert said in message
    assert str(tmp_path / "state.json.old-2") in message
    assert (tmp_path / "state.json.old-2").read_bytes() == content.encode("latin-1")
    assert not path.exists()


def test_laws_that_are_gone_are_dropped_and_new_ones_start_at_nothing() -> None:
    state = State(1, {"gone": Share(rounds=9), "stays": Share(rounds=4)})

    dropped = state.only(["stays", "new"])

    assert dropped == ["gone"]
    assert state.shares == {"new": Share(), "stays": Share(rounds=4)}
