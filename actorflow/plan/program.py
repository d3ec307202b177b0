"""What one process runs for one set of fetches and feeds: dense, flat, and ready to become actors.

A program is data: nodes by index, each input an edge from a node's output or a constant. Loops and
branches are already in their tagged-token form (`NodeKind.SWITCH`, `MERGE`, `ENTER`, …): a node's
`frame` says where its inputs meet, the kind says where its output goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from actorflow.errors import Where
from actorflow.graph.node import Attr
from actorflow.plan.routine import Routine
from actorflow.values.arrays import Array
from actorflow.values.spec import Spec


class NodeKind(Enum):
    """How a node of a program is run, and which tag its output carries."""

    FEED = "feed"  # passes on a value that comes with Start
    FETCH = "fetch"  # hands its input to the step
    KERNEL = "kernel"  # calls a kernel
    ROUTINE = "routine"  # runs the bodies of a functional node, in one go
    RANDOM = "random"  # calls a kernel with a counter
    SEND = "send"  # hands its input, or a bare token, to the process attrs["destination"]
    RECV = "recv"  # passes on what the process attrs["source"] sent under attrs["key"]
    COPY = "copy"  # brings its input from the device attrs["source"] to its own
    REQUEST = "request"  # asks the actor of a resource, and goes on when the answer comes
    WAIT = "wait"  # asks likewise, and may wait for long: the end of the step takes the call back
    RELEASE = "release"  # ends an atomic block: tells the actors of all attrs["resources"] at once
    SWITCH = "switch"  # (data, predicate) -> (data if false, data if true); the other is dead
    MERGE = "merge"  # -> (the one live input, its index)
    ENTER = "enter"  # into iteration 0 of the child frame attrs["frame"]
    EXIT = "exit"  # to the tag that entered this frame
    NEXT_ITERATION = "next_iteration"  # to the next iteration of this frame
    LOOP_COND = "loop_cond"  # passes on the predicate that decides about another turn
    PASS = "pass"  # passes on its input, once those have fired for which it waits


class Edge(NamedTuple):
    """Output `output` of node `node`."""

    node: int
    output: int = 0


class Holding(Enum):
    """What an actor holds that nodes ask."""

    RESOURCE = "resource"
    OPTIMIZER = "optimizer"
    FUNCTION = "function"
    ACTOR = "actor"


class Holder(NamedTuple):
    """Which actor a node asks: of a resource by its name, of an optimizer or code of the user by its key."""

    kind: Holding
    name: str


class Constant(NamedTuple):
    """A value bound to an input port when the plan is made; no token travels for it."""

    value: Array


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of a program.

    Attributes:
        inputs: One entry an input port.
        controls: Indices of nodes that must have fired before, for the same tag.
        frame: Name path of the frame in which the inputs meet, `()` at the root; an Enter belongs
            to the frame that it leaves.
        resource: Whom a REQUEST or WAIT asks.
        routine: What a ROUTINE runs.
    """

    name: str
    op: str
    kind: NodeKind
    inputs: tuple[Edge | Constant, ...]
    controls: tuple[int, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    outputs: tuple[Spec, ...] = ()
    device: str = ""
    frame: tuple[str, ...] = ()
    resource: Holder | None = None
    routine: Routine | None = None
    where: Where = field(default_factory=Where)


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes in any order; `feeds` and `fetches` are indices of FEED and FETCH nodes, in order.

    Attributes:
        variables: Names of the variables that the program reads, writes, trains or locks.
        hidden: How many of the fetches, the last ones, nobody asked for: a step is not over before them.
        parallel_iterations: For each frame, how many of its iterations may be live at once.
    """

    nodes: tuple[PlanNode, ...]
    feeds: tuple[int, ...] = ()
    fetches: tuple[int, ...] = ()
    variables: frozenset[str] = frozenset()
    hidden: int = 0
    parallel_iterations: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Number of tokens that travel in one step when no loop turns: one an edge, one a feed."""
        edges = sum(1 for n in self.nodes for i in n.inputs if isinstance(i, Edge))
        return edges + sum(len(n.controls) for n in self.nodes) + len(self.feeds)
