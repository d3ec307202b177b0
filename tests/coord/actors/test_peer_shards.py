"""Whom a shard works with: what it says before it has met them, and when it is the one to lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.actors.peer_shards import Introduction, PeerShards
from actorflow.coord.rules.commit import following_term, term_of_run
from actorflow.coord.rules.messages import Staged
from actorflow.runtime.messages import Terminated

FIRST, SECOND = term_of_run(1), term_of_run(2)


class Heard(af.Actor):
    """Notes what it hears, and tells who asks."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def receive(self, message: Any) -> list[Any] | None:
        if message == "what?":
            return self.heard
        if not isinstance(message, Terminated):
            self.heard.append(message)
        return None


class Place:
    """Two coordinators, of one run and the next, and three shards of which number 1 has these peers."""

    def __init__(self, system: af.ActorSystem) -> None:
        self.system = system
        self.refs = [system.spawn(Heard, name=f"coordinator{n}") for n in (1, 2)]
        self.shards = [system.spawn(Heard, name=f"shard{n}") for n in range(3)]
        self.fellows = PeerShards(1, 3)

    def meet(self, run: int) -> bool:
        return self.fellows.meet(
            Introduction(self.refs[run - 1], self.shards, term_of_run(run)), self.shards[1]
        )

    def gone(self, ref: af.Ref, *, over: bool = False) -> bool:
        return self.fellows.gone(Terminated(ref.name, None), over=over)

    async def heard(self) -> list[list[Any]]:
        return [await ref.ask("what?") for ref in self.refs]


def met(body: Callable[[Place], Any]) -> list[list[Any]]:
    async def main() -> Any:
        async with af.ActorSystem() as system:
            place = Place(system)
            body(place)
            return await place.heard()

    heard: list[list[Any]] = af.run(main())
    return heard


def test_what_a_later_coordinator_asked_for_waits_until_it_is_met_and_no_older_one_hears_it() -> None:
    def body(place: Place) -> None:
        place.meet(1)
        place.fellows.say(Staged(FIRST, 1, 0))
        place.fellows.say(Staged(SECOND, 1, 1))
        place.meet(2)
        place.fellows.say(Staged(SECOND, 1, 2))
        place.fellows.say(Staged(FIRST, 1, 3))

    first, second = met(body)

    assert first == [Staged(FIRST, 1, 0)]
    assert second == [Staged(SECOND, 1, 1), Staged(SECOND, 1, 2)]


def test_a_meeting_of_old_changes_nothing() -> None:
    def body(place: Place) -> None:
        assert place.meet(2)
        assert not place.meet(1)
        assert place.fellows.coordinator is place.refs[1]

    met(body)


def test_who_leads_when_the_coordinator_is_lost_and_that_nobody_does_after_a_later_fence() -> None:
    def body(place: Place) -> None:
        fellows = place.fellows
        place.meet(1)
        assert fellows.leads(FIRST) is None
        assert not place.gone(place.refs[1])
        assert fellows.leads(FIRST) is None, "another coordinator is no matter"
        assert not place.gone(place.refs[0])
        assert fellows.leads(FIRST) == following_term(FIRST, 1, 3)
        leaders = [fellows.leader]
        assert place.gone(place.shards[0])
        leaders.append(fellows.leader)
        assert leaders == [place.shards[0], None], "None: itself"
        lost = fellows.lost
        assert isinstance(lost, errors.ShardLost)
        assert fellows.leads(SECOND) is None, "the run of the next coordinator is not for it to end"

        place.meet(2)
        assert fellows.lost is None
        assert sorted(fellows.others) == [0, 2]
        assert not place.gone(place.shards[2], over=True)
        assert fellows.lost is None
        assert repr(fellows) == f"<PeerShards of shard 1: others [0], term {SECOND}>"

    met(body)


def test_a_shard_that_has_met_nobody_says_so() -> None:
    with pytest.raises(errors.InternalError, match="shard 1 has not met its coordinator, and has Staged"):
        PeerShards(1, 3).say(Staged(1, 1, 0))
