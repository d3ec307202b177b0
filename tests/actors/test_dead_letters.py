"""Dead letters are counted, and whoever asked for a kind of them hears."""

from __future__ import annotations

from actorflow.actors.dead_letters import DeadLetters


def test_whoever_asked_for_a_kind_hears_of_each_message_of_that_very_type() -> None:
    letters, heard = DeadLetters(keep=2), list[tuple[str, object]]()
    letters.on(int, lambda target, message: heard.append((target, message)))

    for message in (1, True, "2", 3):
        letters.add("p1/runner", message)

    assert heard == [("p1/runner", 1), ("p1/runner", 3)]
    assert letters.count == 4 and [letter.kind for letter in letters.recent] == ["str", "int"]
