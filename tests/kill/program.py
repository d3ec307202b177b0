"""A small program whose processes note what they do, for whoever kills them.

Every line is written at once into a file of the folder KILL_NOTES, so that it outlives its process:

    NAME-PID.jsonl      the process itself; at the chief each update that it began and each that it told of;
                        at a shard each update that it applied
    NAME-PID.npz        the variables of a shard that ended in peace, or could before it had to end; NAME@ is
                        which value it is, counted by the variable itself, and @ how many updates the shard had
                        noted just before it looked at the first, and just after the last

ORDER: a shard goes on after it has looked, until it is closed: an update may come that it notes, and that these
values do not have.

A worker takes its time with a batch as long as the file `slow` is there.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload
from unittest.mock import patch

import numpy as np
import pytest

import actorflow as af
from actorflow.cluster import trainer as training
from actorflow.cluster.process_runtime import ProcessRuntime
from actorflow.coord.rules.commit import Commitment
from actorflow.coord.rules.contribution_table import ContributionTable
from actorflow.coord.rules.messages import Updated
from actorflow.coord.rules.participant import Participant
from actorflow.dataflow.state.variable import Read
from actorflow.launch.process_id import ProcessId
from actorflow.plan.program import Holder, Holding
from tests.cluster.begun import about_to_begin
from tests.support.faults import planted
from tests.support.linear import linear

BATCHES = 1000
SLOW_S = 0.04
"""How long a worker is at a batch while the run is to be harmed."""

READ_S = 0.2
"""How long a shard that ends may take to tell its values."""


class _Batches(Sequence[Mapping[str, Any]]):
    """Those of an epoch, each a few rows that its number draws."""

    def __init__(self, seed: int, epoch: int, notes: Path | None) -> None:
        self._seed, self._epoch, self._notes = seed, epoch, notes

    def __len__(self) -> int:
        return BATCHES

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> Any:
        assert isinstance(index, int)
        if self._notes is not None and (self._notes / "slow").exists():
            time.sleep(SLOW_S)
        drawn = np.random.default_rng([self._seed, self._epoch, index])
        inputs = drawn.normal(size=(3, 4)).astype("float32")
        return {"x": inputs, "y": inputs @ np.full((4, 2), 0.5, "float32")}


def build(seed: int) -> af.Program:
    """A linear regression in two variables."""
    notes = Path(os.environ["KILL_NOTES"]) if "KILL_NOTES" in os.environ else None
    graph, loss, train = linear(seed, af.optim.momentum(0.01, 0.9))
    return af.Program(
        graph=graph,
        loss=loss,
        train=train,
        batches=lambda epoch: _Batches(seed, epoch, notes),
        epochs=1,
    )


# -- notes ------------------------------------------------------------------------------------------------


class _Notes:
    """Writes lines, each at once."""

    def __init__(self, folder: Path) -> None:
        self.name = os.environ["ACTORFLOW_JOB"]
        if self.name != "chief":
            self.name += os.environ["ACTORFLOW_TASK_INDEX"]
        self.path = folder / f"{self.name}-{os.getpid()}.jsonl"
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.write({"process": ProcessId.own().data()})

    def write(self, line: Mapping[str, Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())


def _note_updates(notes: _Notes) -> None:
    """At the chief: notes what the coordinator begins, and what whoever trains is told."""
    for_good = pytest.MonkeyPatch()
    chosen: list[Updated] = []

    @planted(for_good, ContributionTable, "make")
    def making(make: Any, self: ContributionTable, ranks: Any) -> Any:
        found = make(self, ranks)
        chosen.append(about_to_begin(self))
        return found

    @planted(for_good, Commitment, "begin")
    def beginning(begin: Any, self: Commitment, numbers: Any) -> Any:
        notes.write({"begun": data(replace(chosen[-1], version=self.version + 1))})
        return begin(self, numbers)

    @planted(for_good, training._ClusterUpdates, "_update_done")
    def telling(updated: Any, self: Any, heard: Updated, **progress: Any) -> Any:
        notes.write({"told": data(heard)})
        return updated(self, heard, **progress)


def _note_commits(notes: _Notes) -> None:
    """At a shard: notes what it has applied, and at its end its values."""
    committed, close = Participant.committed, ProcessRuntime.close
    noted = 0

    def applied(self: Participant) -> Any:
        nonlocal noted
        stage = committed(self)
        noted += 1
        notes.write({"applied": {"shard": self.shard, "version": self.version, "chosen": stage.chosen}})
        return stage

    async def closing(self: ProcessRuntime) -> None:
        try:
            async with asyncio.timeout(READ_S):
                before = noted
                values = await _values(self)
                values["@"] = np.array([before, noted])
                np.savez(notes.path.with_suffix(".npz"), **values)
        except TimeoutError:  # it is in the middle of something
            pass
        await close(self)

    patch.object(Participant, "committed", applied).start()
    patch.object(ProcessRuntime, "close", closing).start()


async def _values(station: ProcessRuntime) -> dict[str, Any]:
    found = {}
    for name in ("w", "b"):
        holder = station.process.executor.resources.find(Holder(Holding.RESOURCE, name))
        try:
            value = await holder.ask(Read())
        except af.errors.ActorflowError:  # it lies elsewhere
            continue
        found[name], found[f"{name}@"] = np.array(value[0]), np.array(value[1])
    return found


def data(updated: Updated) -> dict[str, Any]:
    """Returns an update as JSON has it."""
    return {
        "version": updated.version,
        "chosen": [
            [rank, number, [batch.epoch, batch.index], base] for rank, number, batch, base in updated.chosen
        ],
        "bases": updated.bases,
        "steps": updated.steps,
        "dropped_by": updated.dropped_by,
        "alive": updated.alive,
    }


if "KILL_NOTES" in os.environ and "ACTORFLOW_JOB" in os.environ:
    _notes = _Notes(Path(os.environ["KILL_NOTES"]))
    if _notes.name == "chief":
        _note_updates(_notes)
    elif _notes.name.startswith("ps"):
        _note_commits(_notes)
