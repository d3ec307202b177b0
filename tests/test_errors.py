from __future__ import annotations

import pytest

from actorflow.errors import ActorError, said


class Unprintable(Exception):
    def __str__(self) -> str:
        return self.detail  # type: ignore[attr-defined, no-any-return]  # what a hasty author writes


class Wordless(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such row"), "ValueError: no such row"),
        (ValueError(), "ValueError"),
        (ActorError("it stopped", hint="ask again"), "ActorError: it stopped\n  try:   ask again"),
        (Unprintable(), "Unprintable (its text cannot be shown: AttributeError)"),
        (Wordless(), "Wordless (its text cannot be shown: TypeError)"),
    ],
)
def test_said_gives_type_and_text_of_any_exception(error: Exception, text: str) -> None:
    assert said(error) == text
