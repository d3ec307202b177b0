"""The end of an epoch that one worker found holds only while nobody has a batch behind it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.coord.rules.batch_order import EpochLengths
from actorflow.coord.rules.contribution_table import Permits
from actorflow.coord.rules.messages import Batch
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.errors import CoordinationError, ProgramError
from tests.coord.world import World

POLICIES: list[Policy] = [Sync(), Async(), StaleSync(1), Backup(2, 3)]
SIZES = st.lists(st.integers(0, 9), min_size=3, max_size=3)


def ran(policy: Policy, sizes: list[int], choices: list[int], agreement: Any, epochs: int = 2) -> World:
    world = World(policy, 3, epochs=epochs, agreement=agreement)
    for worker, size in zip(world.workers.values(), sizes, strict=True):
        worker.size = size
    for choice in choices:
        if busy := world.busy():
            world.deliver(busy[choice % len(busy)])
    world.finish()
    return world


def law(policy: Policy, sizes: list[int], choices: list[int], agreement: Any) -> None:
    world = ran(policy, sizes, choices, agreement)
    assert len(world.ends) == 1
    error = world.ends[0].error
    begun = {f"worker{p.rank}" for p in world.permits if p.batch.epoch == 0}
    known = {size for (name, size) in zip(world.workers, sizes, strict=True) if name in begun}
    if known == {0}:
        assert isinstance(error, ProgramError), (sizes, error)
    elif len(known) == 1:
        assert error is None
    else:
        assert isinstance(error, CoordinationError), (sizes, error)
        assert "'worker" in error.what
        named = error.what.split("'")[1]
        assert world.workers[named].size != max(known), error.what


@pytest.mark.parametrize("agreement", ["all", "per_shard"])
@settings(deadline=None, max_examples=60)
@given(policy=st.sampled_from(POLICIES), sizes=SIZES, choices=st.lists(st.integers(0, 99), max_size=60))
def test_no_run_ends_well_when_workers_had_different_batches(
    agreement: str, policy: Policy, sizes: list[int], choices: list[int]
) -> None:
    law(policy, sizes, choices, agreement)


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    "fault", ["nobody looks at the end", "the word of one is enough", "the first without a batch is believed"]
)
def test_the_law_finds_a_planted_fault(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault == "nobody looks at the end":
        monkeypatch.setattr(Permits, "_end_for", lambda permits, rank: None)
    elif fault == "the first without a batch is believed":
        empty = EpochLengths.empty

        def first(lengths: EpochLengths, out: Mapping[int, Any]) -> ProgramError | None:
            return empty(lengths, {rank: each for rank, each in out.items() if rank in lengths.none})

        monkeypatch.setattr(EpochLengths, "empty", first)
    else:
        monkeypatch.setattr(EpochLengths, "note_computed", lambda lengths, *said: None)
        monkeypatch.setattr(EpochLengths, "note_end", lambda lengths, *said: None)
    draw = Random(0)
    found = []
    for _ in range(60):
        sizes = [draw.randint(0, 5) for _ in range(3)]
        choices = [draw.randint(0, 99) for _ in range(60)]
        try:
            law(draw.choice(POLICIES), sizes, choices, "all")
        except AssertionError as error:
            found.append(error)
    assert found


def test_the_one_with_fewer_is_named_and_the_batch_of_another() -> None:
    lengths = EpochLengths()
    assert lengths.note_computed("worker0", Batch(0, 9)) is None
    wrong = lengths.note_end("worker1", 0, 8)
    assert wrong is not None
    assert wrong.what == (
        "'worker1' has 8 batches of epoch 0, but 'worker0' has computed batch 9 already, counted from 0"
    )


def test_an_end_that_another_found_elsewhere_is_named() -> None:
    lengths = EpochLengths()
    lengths.note_end("worker1", 0, 2)
    wrong = lengths.note_end("worker0", 0, 1)
    assert wrong is not None
    assert wrong.what == "'worker0' has 1 batch of epoch 0, but 'worker1' has 2"


def test_an_epoch_without_batches_waits_for_the_word_of_all_who_look() -> None:
    lengths = EpochLengths()
    out = {0: ("worker0", 7, 3), 1: ("worker1", 8, 3)}
    assert lengths.empty({}) is None
    lengths.note_none(0, 7)
    lengths.note_none(1, 5)  # under a permit of before
    assert lengths.empty(out) is None
    lengths.note_none(1, 8)
    wrong = lengths.empty(out)
    assert wrong is not None
    assert wrong.what == "every epoch needs a batch, but batches(3) gave none to 'worker0'"


def test_what_is_known_of_epochs_does_not_grow() -> None:
    lengths = EpochLengths()
    for epoch in range(50):
        lengths.note_computed("worker0", Batch(epoch, 3))
        lengths.note_end("worker0", epoch, 4)
    assert len(lengths.ends) <= 3
    assert len(lengths.furthest) <= 3
