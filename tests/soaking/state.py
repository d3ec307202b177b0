"""The state of a soak on disk: the share of each law, and the seed of each slice.

Written whole after each slice: to a file beside it, synced, renamed over it. A process killed at
any time leaves the state before the slice or the one after it. A file that can't be used is put
aside under another name, never deleted.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tests.soaking.shares import Share

FORMAT = 1
SLICES_KEPT = 5_000


@dataclass(frozen=True, slots=True)
class Slice:
    """One turn of one law. `examples` were asked for; with `seed`, they repeat it."""

    run: int
    law: str
    seed: int
    examples: int
    ran: int
    seconds: float
    outcome: str


@dataclass(slots=True)
class State:
    """What all runs have done; `run` is the number of the last one. The oldest slices are forgotten."""

    run: int = 0
    shares: dict[str, Share] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)

    def only(self, laws: Iterable[str]) -> list[str]:
        """Drops laws that are not among `laws`, adds those that are new, and returns what was dropped."""
        wanted = sorted(laws)
        dropped = sorted(set(self.shares).difference(wanted))
        self.shares = {law: self.shares.get(law, Share()) for law in wanted}
        return dropped


def save(path: Path, state: State) -> None:
    """Writes `state` so that `path` is always whole."""
    content = {
        "format": FORMAT,
        "run": state.run,
        "shares": {law: asdict(share) for law, share in sorted(state.shares.items())},
        "slices": [asdict(each) for each in state.slices[-SLICES_KEPT:]],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with beside.open("w") as file:
        json.dump(content, file, indent=0)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(path: Path) -> tuple[State, str | None]:
    """Returns the state at `path`, and what to tell the user when it was put aside for a new one."""
    if not path.exists():
        return State(), None
    try:
        return _read(path.read_bytes()), None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        kept = put_aside(path)
        return State(), f"{path} can't be resumed: {error}\n  kept as {kept}; this soak starts from nothing"


def put_aside(path: Path) -> Path:
    """Renames `path` to the first free `path.old-N` and returns that."""
    n = 1
    while (kept := path.with_name(f"{path.name}.old-{n}")).exists():
        n += 1
    return path.rename(kept)


def _read(content: bytes) -> State:
    found = json.loads(content)
    if not isinstance(found, dict):
        raise TypeError(f"it holds a {type(found).__name__}, not an object")
    if found.get("format") != FORMAT:
        raise ValueError(f"its format is {found.get('format')!r}, this program reads {FORMAT}")
    shares = {law: Share(**_checked(Share, entry)) for law, entry in found["shares"].items()}
    slices = [Slice(**_checked(Slice, entry)) for entry in found["slices"]]
    return State(int(found["run"]), shares, slices)


_ACCEPTED: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,)}


def _checked(kind: type, entry: dict[str, Any]) -> dict[str, Any]:
    for each in fields(kind):
        value = entry[each.name]
        wanted = _ACCEPTED[str(each.type)]
        if not isinstance(value, wanted) or (isinstance(value, (int, float)) and not 0 <= value < math.inf):
            raise ValueError(f"{kind.__name__}.{each.name} can't be {value!r}")
    return entry
