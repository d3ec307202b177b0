"""The story of a state machine keeps its last events, and goes with the error of a broken invariant."""

from __future__ import annotations

from actorflow.errors import InternalError
from actorflow.runtime.story import MOST_EVENTS, Story


def test_a_story_keeps_the_last_events() -> None:
    story = Story()
    for number in range(MOST_EVENTS + 5):
        story.append(("put", number))
    assert len(story) == MOST_EVENTS
    assert story[0] == ("put", 5)


def test_a_story_reads_as_one_line_with_the_newest_last() -> None:
    story = Story()
    assert str(story) == "nothing yet"
    story.append(("begin",))
    story.append(("staged", 2, "worker0"))
    assert str(story) == "begin > staged(2, 'worker0')"


def test_the_error_of_a_broken_invariant_carries_the_story() -> None:
    story = Story()
    story.append(("commit", 3))
    error = story.broken("versions differ by at most one, got 3 and 5")
    assert isinstance(error, InternalError)
    assert error.what == "versions differ by at most one, got 3 and 5"
    assert error.__notes__ == ["  story: commit(3)"]
    assert error.copy().__notes__ == error.__notes__
