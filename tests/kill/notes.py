"""What the processes of `program` have noted, read by the one that harms them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from actorflow.coord.rules.messages import Batch, Updated
from actorflow.launch.process_id import ProcessId


@dataclass(slots=True)
class Life:
    """What one process has noted: one life of one name.

    Attributes:
        name: chief, ps0, …
        pid: Which process it is.
        lines: What it noted after that.
        values: The variables that it had when it looked at its end; none if it could not say.
        counts: How many updates each of these has counted itself.
        noted: How many updates the process had noted just before it looked, and just after.
    """

    name: str
    pid: ProcessId
    lines: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    noted: tuple[int, int] = (0, 0)

    def of(self, kind: str) -> list[Any]:
        """Returns what it noted of one kind."""
        return [line[kind] for line in self.lines if kind in line]


def read(folder: Path) -> list[Life]:
    """Returns all lives, the later of one name after the earlier; a line half written is left out."""
    lives = []
    for path in folder.glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        if not lines:
            continue
        pid = ProcessId.read(lines[0]["process"])
        assert pid is not None
        lives.append(Life(path.name.split("-")[0], pid, lines[1:], *_values(path.with_suffix(".npz"))))
    return sorted(lives, key=lambda life: (life.name, life.pid.started))


def _values(path: Path) -> tuple[dict[str, np.ndarray], dict[str, int], tuple[int, int]]:
    try:
        with np.load(path) as found:
            told = dict(found)
    except (OSError, ValueError, EOFError, BadZipFile):  # it was killed, perhaps while it wrote
        return {}, {}, (0, 0)
    before, after = told.pop("@").tolist()
    values = {name: value for name, value in told.items() if not name.endswith("@")}
    counts = {name: int(told[f"{name}@"]) - 1 for name in values}  # the first value is not an update's
    return values, counts, (before, after)


def updated(data: dict[str, Any]) -> Updated:
    """Returns an update from what `program.data` made of it."""
    return Updated(
        data["version"],
        tuple((rank, number, Batch(*batch), base) for rank, number, batch, base in data["chosen"]),
        bases=tuple(map(tuple, data["bases"])),
        steps=tuple(data["steps"]),
        dropped_by=tuple(data["dropped_by"]),
        alive=data["alive"],
    )
