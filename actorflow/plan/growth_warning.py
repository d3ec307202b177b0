"""Warns of a graph that grows with every step: each is planned anew, and nothing is ever let go of.

Counted are the plans of which the fetches were built on the same lines of the program, each after the graph
had grown since the one before. A loop that builds its nodes outside of itself makes one such plan; one that
builds them inside makes one a turn.

Pure: a small state and what happens to it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

MANY = 100


@dataclass(slots=True)
class _Line:
    """The plans of some lines.

    Attributes:
        nodes: How large the graph was at the last of them.
        grown: At how many of them it was larger than at the one before.
    """

    nodes: int
    grown: int = 0


@dataclass(slots=True)
class GrowthWarning:
    """What is known of the plans of one session.

    Attributes:
        told: Whether it has been said that the graph grows.
    """

    told: bool = False
    _lines: dict[Hashable, _Line] = field(default_factory=dict)

    def count_plan(self, lines: Hashable, nodes: int) -> int:
        """Hears of a new plan, and returns how many plans there were of it if that is to be told, else 0.

        Args:
            lines: Where what it fetches was built.
            nodes: How many nodes the graph has.
        """
        if self.told:
            return 0
        line = self._lines.get(lines)
        if line is None:
            self._lines[lines] = _Line(nodes)
            return 0
        # Only what was planned after the graph had grown: plans of one graph for other feeds do not count.
        line.grown += nodes > line.nodes
        line.nodes = nodes
        self.told = line.grown >= MANY
        return line.grown + 1 if self.told else 0
