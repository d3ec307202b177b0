"""What a functional node runs in one go: its bodies as programs, and how they follow each other.

Plain data, made when the plan is made and written out as one function when it is installed. Only bodies
that do nothing but compute become a routine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actorflow.plan.program import Program


class ControlFlow(Enum):
    """How the bodies of a routine follow each other."""

    LOOP = "loop"  # condition, turn, condition, turn, ...
    BRANCH = "branch"  # one of them
    CALL = "call"  # the only one


@dataclass(frozen=True, slots=True)
class Routine:
    """The bodies of a functional node as programs.

    Each takes as feeds what the node is given: for a LOOP the loop variables and the captures, else the
    captures. Its fetches are its results, then the values that are kept of it.

    Attributes:
        control_flow: How they follow each other.
        bodies: Of a LOOP its condition and its turn.
        results: How many results there are: of a LOOP, loop variables.
        kept: For each further output of the node where its value comes from, as (body, fetch); None where
            nobody asks for it.
        frame: The name of the frame of a LOOP, as random numbers know it.
        most: After so many turns a LOOP ends; None for no limit.
        draws: Whether random numbers are drawn somewhere within.
    """

    control_flow: ControlFlow
    bodies: tuple[Program, ...]
    results: int
    kept: tuple[tuple[int, int] | None, ...] = ()
    frame: str = ""
    most: int | None = None
    draws: bool = False

    @property
    def outputs(self) -> int:
        """How many outputs the node has."""
        # a loop has one output more: how often it turned
        return self.results + (self.control_flow is ControlFlow.LOOP) + len(self.kept)

    def programs(self) -> Iterator[Program]:
        """Yields the programs of the bodies, and those within them."""
        for program in self.bodies:
            yield program
            for node in program.nodes:
                if node.routine is not None:
                    yield from node.routine.programs()
