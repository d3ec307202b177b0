"""One graph of waits over processes, and its rings."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors.dump import OUTSIDE, PeerEntry, WaitEntry
from actorflow.cluster.inspect.reports import (
    LinkEntry,
    LoopEntry,
    MemberEntry,
    ProcessReport,
    RunEntry,
    ShardEntry,
    Totals,
)
from actorflow.cluster.inspect.wait_graph import ReportedWait, edges, rings

LOOP = LoopEntry(True, 0.0, 0.0, 0)
NAMES = ("chief", "ps0", "ps1", "worker0", "worker1")


def report(name: str, *waits: WaitEntry, **more: object) -> ProcessReport:
    peers = tuple(PeerEntry(other, True, 0, 0, 0, 0) for other in NAMES if other != name)
    return ProcessReport(name, 1, 100, 1.0, 1.0, LOOP, Totals(), waits=waits, peers=peers, **more)  # type: ignore[arg-type]


def link(peer: str, in_line: int, phase: str = "open") -> LinkEntry:
    return LinkEntry(peer, phase, "connected", 1, 0, 0, in_line, 0, 0, 0, 0, 0)


def seat(
    process: str, rank: int, state: str = "alive", number: int = 0, *, complete: bool = False
) -> MemberEntry:
    return MemberEntry(process, rank, 1, state, 0.1, number, 2.5 if number else 0.0, complete, "")


def drawn(*reports: ProcessReport) -> list[str]:
    return [str(edge) for edge in edges({each.name: each for each in reports})]


def test_a_wait_on_another_process_is_told_once_by_whoever_waits() -> None:
    worker = report("worker0", WaitEntry("worker", "ps0/shard", "ask", "Pull", 0.5))
    ps = report("ps0", WaitEntry("worker0", "shard", "ask", "Pull", 0.4))

    assert drawn(worker, ps) == ["worker0/worker -> ps0/shard: an answer to Pull, for 0.5 s"]


def test_where_whoever_waits_is_silent_the_other_side_tells() -> None:
    ps = report("ps0", WaitEntry("worker0", "shard", "ask", "Pull", 0.4))

    assert drawn(ps) == ["worker0 -> ps0/shard: an answer to Pull, for 0.4 s"]


def test_waits_inside_a_process_and_of_tasks_are_named_by_it() -> None:
    ps = report(
        "ps0", WaitEntry("shard", "w", "ask", "Read", 2.0), WaitEntry(OUTSIDE, "full", "room", "int", 1.0)
    )

    assert drawn(ps) == [
        "ps0/shard -> ps0/w: an answer to Read, for 2 s",
        "ps0 -> ps0/full: room for int, for 1 s",
    ]


def test_lines_of_links_are_edges_between_processes() -> None:
    worker = report("worker0", links=(link("ps0", 3), link("chief", 0), link("worker1", 2, "greeting")))

    assert drawn(worker) == [
        "worker0 -> ps0: 3 in line for credit",
        "worker0 -> worker1: 2 in line for a session, greeting",
    ]


SEATS = (
    seat("worker0", 0, complete=True),
    seat("worker1", 1, number=9),
    seat("worker2", 2, "dead"),
    seat("worker3", 3),
)


def test_the_coordinator_waits_for_permits_and_workers_wait_for_it() -> None:
    run = RunEntry("coordinator2", 2, 7, "sync", "idle", (), "…", 1.0, SEATS)
    ps = report("ps0", shard=ShardEntry(0, "idle", 7, (), 2, {}, (0.0, 0)))

    assert drawn(report("chief", run=run), ps) == [
        "chief/coordinator2 -> worker1/worker: the contribution of permit 9, for 2.5 s",
        "ps0/shard -> chief/coordinator2: a version beyond 7",
        "worker0/worker -> chief/coordinator2: the update after version 7",
        "worker3/worker -> chief/coordinator2: its next permit",
    ]


def test_who_pulls_a_version_that_is_being_made_waits_in_no_ring() -> None:
    """One shard has staged, the other one has not; a worker that is in the update has its next permit."""
    run = RunEntry("coordinator2", 2, 7, "sync", "staging", (1,), "…", 1.0, SEATS)
    ps0 = report("ps0", shard=ShardEntry(0, "ready", 7, (), 1, {}, (0.0, 0)))
    ps1 = report("ps1", shard=ShardEntry(1, "preparing", 7, (), 1, {}, (0.0, 0)))
    asks = [WaitEntry("worker", f"{ps}/shard", "ask", "Pull", 0.5) for ps in ("ps0", "ps1")]
    worker = report("worker1", *asks)

    found = edges({each.name: each for each in (report("chief", run=run), ps0, ps1, worker)})

    assert [str(edge) for edge in found] == [
        "worker1/worker -> ps0/shard: an answer to Pull, for 0.5 s",
        "worker1/worker -> ps1/shard: an answer to Pull, for 0.5 s",
        "chief/coordinator2 -> ps1/shard: its word, staging version 8",
        "ps0/shard -> chief/coordinator2: a version beyond 7",
        "worker0/worker -> chief/coordinator2: the update after version 7",
        "worker3/worker -> chief/coordinator2: its next permit",
    ]
    assert rings(found) == ()


def test_while_workers_are_awaited_the_coordinator_waits_for_them_and_over_for_nobody() -> None:
    seats = (seat("worker0", 0), seat("worker1", 1, "awaited"))
    gathering = RunEntry("coordinator1", 1, 0, "sync", "gathering", (), "", 1.0, seats)
    over = RunEntry("coordinator1", 1, 0, "sync", "over", (), "", 1.0, seats)

    assert "chief/coordinator1 -> worker1: its worker, awaited" in drawn(report("chief", run=gathering))
    assert drawn(report("chief", run=over)) == []


def test_a_ring_over_two_processes_is_found() -> None:
    one = report("worker0", WaitEntry("a", "worker1/b", "ask", "X", 1.0))
    two = report(
        "worker1", WaitEntry("b", "worker0/a", "ask", "Y", 1.0), WaitEntry("c", "b", "ask", "Z", 1.0)
    )

    found = edges({"worker0": one, "worker1": two})
    assert rings(found) == (("worker0/a", "worker1/b"),)


pairs = st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=20)


@given(pairs)
def test_a_name_is_in_a_ring_exactly_when_it_reaches_itself(drawn: Sequence[tuple[str, str]]) -> None:
    found = [ReportedWait(a, b, "ask", "") for a, b in drawn]
    reached = {(a, b) for a, b in drawn}
    for _ in range(7):
        reached |= {(a, d) for a, b in reached for c, d in reached if b == c}

    parts = rings(found)
    names = [name for part in parts for name in part]
    assert sorted(names) == sorted({a for a, b in reached if a == b})
    for part in parts:
        assert all((a, b) in reached for a in part for b in part), "all of a ring wait for each other"
