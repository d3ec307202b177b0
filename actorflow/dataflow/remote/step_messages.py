"""The messages between a session over many processes and their runners: records only, no behaviour.

A step has a number in its session, which grows in the order in which steps start. Messages from the
session to one runner keep their order within a lane; AbortPart, SettlePart and PartFailed are on the control
lane. They may overtake the others, and be overtaken, as by the StartPart of a step that begins after a
SettlePart was sent. The rules on both sides (`rendezvous`, `step_completion`) are made for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actorflow.errors import ActorflowError
from actorflow.transport.codec.registry import travels

Output = tuple[str, int]
"""A port, by the name of its node: the numbers of nodes may differ between processes."""


@travels("step.process")
@dataclass(frozen=True, slots=True)
class SessionProcess:
    """One of the processes of a session.

    Attributes:
        name: As in addresses.
        devices: Whole names; the first is its host.
        incarnation: Which one of it the session means.
    """

    name: str
    devices: tuple[str, ...]
    incarnation: int


@travels("step.prepare")
@dataclass(frozen=True, slots=True)
class PreparePart:
    """Session → runner, asked: install your part of a program; answered with PartPrepared.

    Attributes:
        session: Its address, unique among all.
        plan: Number of the plan in that session.
        first: The smallest number that a step may have of which the runner has not heard.
        fetches: What is fetched.
        feeds: What is fed.
        placement: The first device of each node that is needed and runs, by name.
        moved: What a placer has moved: nodes of the program by index, and their devices.
        after: The control inputs that it has given to nodes.
        controls: For what its transfers wait: (node, output, device, nodes).
        lower: Whether all loops, branches and calls run as nodes of their own; see `plan.control.flatten`.
        home: The process where the fetches lie.
        processes: All of the session's.
        passes: Which passes make the program cheaper.
        digest: What `plan.partition.partition.digest` says of the program on the session's side.
        initialises: The variable to which the one fetched value is given as its initial one; empty for none.
    """

    session: str
    plan: int
    first: int
    fetches: tuple[Output, ...]
    feeds: tuple[Output, ...]
    placement: tuple[tuple[str, str], ...]
    home: str
    processes: tuple[SessionProcess, ...]
    passes: tuple[str, ...]
    digest: int
    initialises: str = ""
    moved: tuple[tuple[int, str], ...] = ()
    after: tuple[tuple[int, tuple[int, ...]], ...] = ()
    controls: tuple[tuple[int, int, str, tuple[int, ...]], ...] = ()
    lower: bool = False


@travels("step.prepared")
@dataclass(frozen=True, slots=True)
class PartPrepared:
    """Runner → session: the part is installed, by this incarnation of the process."""

    process: str
    incarnation: int


@travels("step.start")
@dataclass(frozen=True, slots=True)
class StartPart:
    """Session → runner: run your part once.

    Attributes:
        number: The step's, larger than that of every StartPart before.
        step: What random kernels count by; steps that give initial values have 0.
        feeds: Values of those feeds that the part needs.
    """

    session: str
    number: int
    plan: int
    step: int
    feeds: tuple[Any, ...]


@travels("step.token")
@dataclass(frozen=True, slots=True)
class Token:
    """Runner → runner: what crosses once a step, or once a turn of a loop; delivered at most once.

    Attributes:
        key: Which transfer of the partitioning it is.
        value: An array; None when dead.
        dead: Whether the branch was not taken.
        source: Who sent it, in which incarnation.
        turns: In which turn of each loop around it, the outermost first.
    """

    session: str
    number: int
    key: int
    value: Any
    dead: bool
    source: str
    incarnation: int
    turns: tuple[int, ...] = ()


@travels("step.done")
@dataclass(frozen=True, slots=True)
class PartDone:
    """Runner → session: the part has run.

    Attributes:
        values: Those of the fetches that lie there.
        holds: Whether it keeps something until SettlePart: what it took, or what it knows of takes.
        spent: Numbers of takes, wherever they were made, that were used there.
        refused: Whether an initial value was not wanted any more.
    """

    number: int
    process: str
    values: tuple[Any, ...]
    holds: bool
    spent: tuple[int, ...]
    refused: bool = False


@travels("step.failed")
@dataclass(frozen=True, slots=True)
class PartFailed:
    """Runner → session, control lane: the part has failed, and with it the step."""

    number: int
    process: str
    error: ActorflowError


@travels("step.abort")
@dataclass(frozen=True, slots=True)
class AbortPart:
    """Session → runner, control lane: end your part, begun or not; answered with PartAborted."""

    session: str
    number: int
    error: ActorflowError


@travels("step.aborted")
@dataclass(frozen=True, slots=True)
class PartAborted:
    """Runner → session, control lane: nothing of the step happens there any more.

    Attributes:
        holds: Whether it keeps what it took until SettlePart.
        spent: Numbers of takes, wherever they were made, that were used there.
        waits: What the part waited for, one phrase each.
    """

    number: int
    process: str
    holds: bool
    spent: tuple[int, ...]
    waits: tuple[str, ...]


@travels("step.settle")
@dataclass(frozen=True, slots=True)
class SettlePart:
    """Session → runner, control lane: how the step has ended, for who holds something of it.

    Unless it ended well it is answered with PartSettled.

    Attributes:
        well: Whether whoever ran it has its values; else what was taken and not spent is given back.
        spent: Numbers of takes that were used, wherever.
    """

    session: str
    number: int
    well: bool
    spent: tuple[int, ...]


@travels("step.settled")
@dataclass(frozen=True, slots=True)
class PartSettled:
    """Runner → session, control lane: what it took and nobody has used is back in its place.

    It answers a SettlePart that is not `well`. A step that starts after it finds what came back.
    """

    number: int
    process: str


@travels("step.drop")
@dataclass(frozen=True, slots=True)
class DropPlan:
    """Session → runner: no step of this plan comes any more."""

    session: str
    plan: int


@travels("step.close")
@dataclass(frozen=True, slots=True)
class CloseSession:
    """Session → runner: no step comes any more; what still runs is aborted, plans are dropped."""

    session: str
