"""Who has a place in a cluster: counted by the chief, and counting as it does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.cluster.process.layout import name_processes
from actorflow.cluster.process.messages import AnnounceAddress, ProcessCounts
from actorflow.cluster.process.roster import MOST_STRANGERS, misplaced_error, stranger

some = st.integers(1, 5)


def here(name: str, counts: ProcessCounts | None = None) -> AnnounceAddress:
    return AnnounceAddress(name, 1, (f"at {name}",), counts=counts)


def places(ps: int, workers: int) -> tuple[str, ...]:
    return (*name_processes("ps", ps), *name_processes("worker", workers))


@given(
    mine=st.tuples(some, some), theirs=st.tuples(some, some), job=st.sampled_from(["ps", "worker"]), k=some
)
def test_one_has_a_place_that_is_counted_and_counts_alike(
    mine: tuple[int, int], theirs: tuple[int, int], job: str, k: int
) -> None:
    there, name = places(*mine), f"{job}{k - 1}"
    chief, told = ProcessCounts(*mine, "--ps", "--workers"), ProcessCounts(*theirs, "ACTORFLOW_PS", "Slurm")
    why = misplaced_error(here(name, told), chief, there)
    assert (why is None) == (mine == theirs and name in there)
    assert (misplaced_error(here(name), chief, there) is None) == (name in there), (
        "who was told nothing says nothing"
    )
    assert (misplaced_error(here(name, told), None, there) is None) == (name in there)


@pytest.mark.parametrize(
    ("name", "told", "said"),
    [
        (
            "worker0",
            ProcessCounts(1, 3, "--ps", "ACTORFLOW_WORKERS"),
            (
                "all processes of a cluster count workers alike, got 3 at worker0 (ACTORFLOW_WORKERS) and 2 at "
                "the chief (--workers)"
            ),
        ),
        (
            "worker1",
            ProcessCounts(2, 2, "torchrun", "torchrun"),
            "all processes of a cluster count ps alike, got 2 at worker1 (torchrun) and 1 at the chief (--ps)",
        ),
        (
            "worker5",
            ProcessCounts(1, 6, "--ps", "--workers"),
            (
                "all processes of a cluster count workers alike, got 6 at worker5 (--workers) and 2 at the "
                "chief (--workers): there are 2 workers, numbers 0 to 1, got worker5"
            ),
        ),
        ("ps1", None, "a process has a place in its cluster: there is 1 ps, number 0, got ps1"),
    ],
)
def test_it_is_told_both_numbers_and_who_said_them(name: str, told: ProcessCounts | None, said: str) -> None:
    why = misplaced_error(here(name, told), ProcessCounts(1, 2, "--ps", "--workers"), places(1, 2))
    assert why is not None
    assert why.what == said
    assert "--workers are the same for every process" in (why.hint or "")


@pytest.mark.parametrize(
    ("name", "ways", "greeted"),
    [
        ("worker5", 0, True),
        ("ps12", MOST_STRANGERS - 1, True),
        ("worker5", MOST_STRANGERS, False),
        ("worker0", 0, False),
        ("worker", 0, False),
        ("chief", 0, False),
        ("chief1", 0, False),
        ("worker1234567", 0, False),
        ("evil/worker1", 0, False),
    ],
)
def test_a_chief_greets_few_that_it_does_not_count(name: str, ways: int, greeted: bool) -> None:
    assert stranger(name, {"chief", "ps0", "worker0"}, ways) == greeted
