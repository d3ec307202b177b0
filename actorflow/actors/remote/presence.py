"""The question to a process which of some actors are not there."""

from __future__ import annotations

from dataclasses import dataclass

from actorflow.transport.codec.registry import travels


@travels("actors.roll")
@dataclass(frozen=True, slots=True)
class PresenceQuestion:
    """Whoever has told many → process, asked: who of them is there now?

    Answered with a list that has for each actor None, or the ActorDied that one hears who asks it. It travels
    behind what was told before, so that it is answered when that has come.

    Attributes:
        actors: Their names.
        kind: The type of what they were told.
    """

    actors: tuple[str, ...]
    kind: str
