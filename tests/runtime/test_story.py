"""The story of a state machine keeps its last events, and goes with the error of a broken invariant."""

from __future__ import annotations

import pytest

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


class Queue:
    __slots__ = ("_waiting", "items", "story")

    def __init__(self, items: int, waiting: int) -> None:
        self.items, self._waiting, self.story = items, waiting, Story()


def test_the_first_invariant_that_does_not_hold_is_told_with_the_fields() -> None:
    queue = Queue(items=2, waiting=1)
    queue.story.append(("put", 2))
    queue.story.check(queue, {"a queue has two items": True})

    with pytest.raises(InternalError) as raised:
        queue.story.check(
            queue, {"a queue has two items": True, "nobody waits beside items": False, "never": False}
        )

    assert raised.value.what == "nobody waits beside items, got waiting=1, items=2"
    assert raised.value.__notes__ == ["  story: put(2)"]
