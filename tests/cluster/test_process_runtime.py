"""Real processes find each other in any order, come back as later lives, and end for a reason that they know."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import Any

import pytest

import actorflow as af
from actorflow.cluster.entry import code_of
from actorflow.cluster.process.discovery_client import ChiefTimeouts
from actorflow.cluster.process.messages import (
    DISCOVERY_CLIENT,
    PROCESS_AGENT,
    AddressTable,
    Introduce,
    ProcessCounts,
    Quit,
)
from actorflow.errors import ActorDied, ActorflowError, CoordinatorLost, Fenced, Misplaced, PeerRefused
from tests.cluster.stations import NAMES, SOON, Stations, stations, until
from tests.support.busy import HANG_S, counted
from tests.support.linear import regression

HASTE = ChiefTimeouts(ready_s=0.2, lost_s=0.3, again_s=0.02, answer_s=0.2)


async def ended(station: Any) -> ActorflowError | None:
    async with asyncio.timeout(HANG_S):
        reason: ActorflowError | None = await station.ended
    return reason


@pytest.mark.parametrize("order", list(permutations(NAMES))[::5])
def test_they_meet_whoever_comes_first(order: tuple[str, ...]) -> None:
    async def main() -> None:
        async with stations(order) as them:
            await until(them.complete)
            table = them.there["chief"].table
            assert {here.name for here in table.entries} == set(NAMES)
            assert {(who, whom) for who, whom, _ in them.hub.dialled} == {
                (NAMES[j], NAMES[k]) for j in range(4) for k in range(j)
            }

    af.run(main())


def test_one_that_comes_late_is_reached_by_all() -> None:
    async def main() -> None:
        async with stations(["worker1", "chief", "worker0"]) as them:
            await until(them.complete)
            await them.open("ps0", 5)
            await until(them.complete)

    af.run(main())


def test_a_later_life_is_dialled_at_its_new_address_and_reached_again() -> None:
    async def main() -> None:
        async with stations(NAMES) as them:
            await until(them.complete)
            await them.kill("ps0")
            before = len(them.hub.dialled)
            await them.open("ps0", 2)
            await until(them.complete)
            await until(lambda: them.there["chief"].table.find("ps0").incarnation == 2)  # type: ignore[union-attr]
            new = {(who, whom) for who, whom, _ in them.hub.dialled[before:]}
            assert new == {("ps0", "chief"), ("worker0", "ps0"), ("worker1", "ps0")}
            ask = them.there["worker1"].process.hub.ref(f"ps0/{PROCESS_AGENT}").ask(Introduce())
            assert await ask == 2

    af.run(main())


def test_an_earlier_life_finds_that_others_go_on_without_it() -> None:
    async def main() -> None:
        async with stations(NAMES) as them:
            await until(them.complete)
            old = them.there.pop("worker0")
            await them.open("worker0", 2)
            try:
                assert isinstance(reason := await ended(old), Fenced)
                assert "knows a later life of this process" in reason.what
                assert (reason.hint or "").startswith("is another worker0 running?")
            finally:
                await old.close()

    af.run(main())


def test_the_chief_lets_them_go() -> None:
    async def main() -> None:
        async with stations(["chief", "ps0"], cluster=("chief", "ps0")) as them:
            await until(them.complete)
            post = them.there["chief"].process.hub
            assert await post.ref(f"ps0/{PROCESS_AGENT}").ask(Quit()) is True
            assert await ended(them.there["ps0"]) is None

    af.run(main())


def test_who_never_hears_of_a_chief_says_so() -> None:
    async def main() -> None:
        async with stations() as them:
            ps = await them.open("ps0", patience=HASTE)
            reason = await ended(ps)
            assert isinstance(reason, CoordinatorLost)
            assert str(reason).startswith("the chief has not answered for 0.2 s\n  try:   start it")

    af.run(main())


def test_who_is_refused_by_its_chief_says_so_and_names_keys() -> None:
    async def main() -> None:
        async with stations() as them:
            ps = await them.open("ps0", patience=HASTE)
            ps.ways.refused["chief"] = "9 handshakes in a row were refused at x"  # type: ignore[attr-defined]
            reason = await ended(ps)
            assert isinstance(reason, PeerRefused)
            assert (
                reason.what
                == "a process and its chief have a key in common; 9 handshakes in a row were refused at x"
            )
            assert "`actorflow keys`" in (reason.hint or "")
            assert code_of(reason) == 2

    af.run(main())


def test_a_chief_that_stays_away_is_lost_after_a_while() -> None:
    async def main() -> None:
        async with stations(["chief", "ps0"]) as them:
            worker = await them.open("worker0", patience=HASTE)
            await until(them.complete)
            await asyncio.sleep(2 * HASTE.ready_s)
            assert not worker.ended.done(), "it waits no longer for a first word"
            await them.kill("chief")
            reason = await ended(worker)
            assert isinstance(reason, CoordinatorLost)
            assert reason.what == "the chief is gone, and has not come back for 0.3 s"

    af.run(main())


def test_a_chief_that_begins_anew_is_another() -> None:
    async def main() -> None:
        async with stations(["chief", "ps0", "worker0"]) as them:
            await until(them.complete)  # so the worker has heard from the chief where the ps is
            await them.kill("chief")
            await them.open("chief", 2)
            reason = await ended(them.there["worker0"])
            assert isinstance(reason, CoordinatorLost)
            assert "the chief has begun anew" in reason.what

    af.run(main())


def test_a_silence_of_the_chief_that_passes_ends_nothing() -> None:
    async def main() -> None:
        async with stations(["chief", "ps0", "worker0"]) as them:
            await until(them.complete)
            chief = them.there["chief"].ways
            away = them.hub.there.pop("hub:chief")
            await until(lambda: "chief" not in them.there["ps0"].reachable())
            them.hub.there["hub:chief"] = away
            assert chief is away
            await until(them.complete)
            await asyncio.sleep(SOON.silence_s)
            assert not any(station.ended.done() for station in them.there.values())

    af.run(main())


def test_another_program_is_refused() -> None:
    async def main() -> None:
        async with stations(["chief"]) as them:
            other = await them.open("worker0", program=regression(dropout=0.5))
            assert isinstance(reason := await ended(other), PeerRefused)
            assert "all processes must run one program" in reason.what

    af.run(main())


def test_another_seed_is_refused_in_other_words() -> None:
    async def main() -> None:
        async with stations(["chief"]) as them:
            other = await them.open("worker0", program=regression(seed=5))
            assert isinstance(reason := await ended(other), PeerRefused)
            assert reason.what == "all processes must be given one seed, got 0 at 'chief' and 5 here"
            assert "--seed" in (reason.hint or "")

    af.run(main())


def test_one_that_the_cluster_does_not_have_is_told_so() -> None:
    async def main() -> None:
        async with stations(["chief"]) as them:
            them.names = (*NAMES, "worker7")
            stranger = await them.open("worker7")
            assert isinstance(reason := await ended(stranger), Misplaced)
            assert "there are 2 workers, numbers 0 to 1, got worker7" in reason.what
            chief = them.there["chief"]
            await them.kill("worker7")
            await until(lambda: not chief.process.hub.peers()["worker7"])  # which is no matter to anybody
            assert not chief.ended.done()
            assert chief.reachable() == ()
            assert chief.losses == {}

    af.run(main())


def test_one_that_counts_otherwise_is_told_so() -> None:
    async def main() -> None:
        async with stations() as them:
            await them.open("chief", counts=ProcessCounts(1, 2, "--ps", "--workers"))
            await them.open("worker1", counts=ProcessCounts(1, 2, "--ps", "ACTORFLOW_WORKERS"))
            other = await them.open("worker0", counts=ProcessCounts(1, 3, "--ps", "ACTORFLOW_WORKERS"))
            assert isinstance(reason := await ended(other), Misplaced)
            assert "got 3 at worker0 (ACTORFLOW_WORKERS) and 2 at the chief (--workers)" in reason.what
            assert code_of(reason) == 2
            table = them.there["chief"].table
            await until(lambda: them.there["chief"].table.find("worker1"))
            assert table.find("worker0") is None
            assert not them.there["worker1"].ended.done()

    af.run(main())


def test_a_process_ends_with_an_actor_that_it_needs() -> None:
    async def main() -> None:
        async with stations(["chief", "ps0"]) as them:
            ps = them.there["ps0"]
            await until(them.complete)
            ps.process.system.actors[DISCOVERY_CLIENT].signal(AddressTable((None,)))  # type: ignore[arg-type]
            assert isinstance(reason := await ended(ps), ActorDied)
            assert reason.what == "'neighbours' failed, without which this process is of no use"

    af.run(main())


@pytest.mark.parametrize("there", [["ps0"], ["chief", "ps0", "worker0"], NAMES])
def test_closing_takes_no_time_whoever_is_there(there: list[str]) -> None:
    async def main() -> float:
        async with stations(there) as them:
            if "chief" in there:
                await until(them.complete)
            with counted() as seconds:
                await them.close("ps0")
            took_s = seconds()
            if "chief" in there:  # the others hear it at once
                await until(lambda: "ps0" not in them.there["chief"].reachable(), SOON.silence_s)
            return took_s

    assert af.run(main()) < 0.5


def test_what_cannot_open_leaves_nothing() -> None:
    class Broken(af.errors.ActorflowError):
        pass

    async def main() -> None:
        made = Stations()

        def refuse(*_: Any) -> Any:
            raise Broken("no sockets")

        made.hub = refuse  # type: ignore[assignment]
        with pytest.raises(Broken):
            await made.open("ps0")
        made.hub = Stations().hub
        made.names = ("chief", "ps0", "ps/1")  # no such name can be attached
        with pytest.raises(af.errors.ActorflowError):
            await made.open("ps0")
        assert made.there == {}
        await asyncio.sleep(0.02)
        assert made.hub.there == {}
        assert len(asyncio.all_tasks()) == 1

    af.run(main())
