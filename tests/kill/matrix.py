"""What is done to which process of a real cluster, and how that is to end.

`docs/surviving.md` has the same table for readers; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """Whom it hits."""

    WORKER = "worker"
    BACKUP = "backup"
    PS = "ps"
    CHIEF = "chief"
    LAUNCHER = "launcher"


class Harm(Enum):
    """What happens to it: killed, stopped for less than the limits of links, stopped for longer."""

    KILL = "SIGKILL"
    PAUSE = "short SIGSTOP"
    LONG = "long SIGSTOP"


class Fate(Enum):
    """How it ends."""

    GOES_ON = "training goes on to its end"
    ERROR = "a typed error names the process"
    CHILDREN_EXIT = "all children exit"


@dataclass(frozen=True, slots=True)
class Cell:
    """One of the table.

    Attributes:
        role: Whom it hits.
        harm: What happens.
        fate: How it ends.
        code: The exit code of `actorflow launch`.
        says: Patterns, all of which the user reads; `{victim}` is the name of the process.
        returns: Whether the process takes part in updates again.
        stalls: Whether no update is made meanwhile: None where that is not looked at.
    """

    role: Role
    harm: Harm
    fate: Fate = Fate.GOES_ON
    code: int = 0
    says: tuple[str, ...] = ()
    returns: bool = False
    stalls: bool | None = None

    @property
    def name(self) -> str:
        """Returns what it is called."""
        return f"{self.role.value}-{self.harm.name.lower()}"


KILLED = ("{victim} was killed by SIGKILL", r"{victim} is started again \(life 2\)")
GONE = ("ShardLost: .*{victim}",)
ALONE = (r"{victim}: ShardLost: shard \d, of 'ps\d', is gone", r"ps\d ended with 69: the coordinator is gone")
"""The chief says which shard has given it up, and the launcher that shards have missed the chief."""


MATRIX = (
    Cell(Role.WORKER, Harm.KILL, says=KILLED, returns=True),
    Cell(Role.WORKER, Harm.PAUSE, returns=True, stalls=True),
    Cell(Role.WORKER, Harm.LONG, returns=True),
    Cell(Role.BACKUP, Harm.KILL, says=KILLED, returns=True),
    Cell(Role.BACKUP, Harm.PAUSE, returns=True, stalls=False),
    Cell(Role.BACKUP, Harm.LONG, returns=True, stalls=False),
    Cell(Role.PS, Harm.KILL, Fate.ERROR, 1, GONE),
    Cell(Role.PS, Harm.PAUSE, stalls=True),
    Cell(Role.PS, Harm.LONG, Fate.ERROR, 1, GONE),
    Cell(Role.CHIEF, Harm.KILL, Fate.ERROR, 69, ("chief was killed by SIGKILL, and with it the run",)),
    Cell(Role.CHIEF, Harm.PAUSE, stalls=True),
    Cell(Role.CHIEF, Harm.LONG, Fate.ERROR, 1, ALONE),
    Cell(Role.LAUNCHER, Harm.KILL, Fate.CHILDREN_EXIT, -9),
    Cell(Role.LAUNCHER, Harm.PAUSE, stalls=False),
    Cell(Role.LAUNCHER, Harm.LONG, stalls=False),
)
"""All cells."""
