"""What is said of the next update: of a commit in plain words, since it mostly goes well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actorflow.coord.rules.commit import CommitPhase
from actorflow.coord.rules.run_health import describe_wait, describe_work


def rounds(phase: CommitPhase) -> Any:
    members = [SimpleNamespace(process=f"worker{rank}") for rank in range(3)]
    return SimpleNamespace(
        version=6,
        contributions=None,
        members=SimpleNamespace(members=members),
        commitment=SimpleNamespace(phase=phase, missing={1, 0}, chosen=((0, 12), (2, 14))),
    )


@pytest.mark.parametrize(
    ("phase", "said"),
    [(CommitPhase.STAGING, "have yet to be ready for it"), (CommitPhase.COMMITTING, "have yet to apply it")],
)
def test_a_commit_is_told_without_alarm(phase: CommitPhase, said: str) -> None:
    text = describe_work(rounds(phase), 0.0)

    assert text == f"update 7 is made of what worker0, worker2 sent: ps0, ps1 {said}"
    assert "answer" not in text


def test_who_ends_a_run_says_that_they_do_not_answer() -> None:
    assert describe_wait(rounds(CommitPhase.STAGING), 0.0).endswith("and do not answer")
