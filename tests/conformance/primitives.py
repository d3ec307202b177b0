"""What both sides have under the verbs: Switch, Merge, Enter, Exit, NextIteration and LoopCond.

So that a case of them is one program, which TensorFlow runs as raw ops and we as nodes of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.conformance.case import actorflow, tensorflow

Wire = Any
"""An output of a node, of one side or the other; a number in what it carries, or a truth."""


class Primitives(Protocol):
    """Builds nodes. `frame` names the loops in which a node stands, the outermost first."""

    def number(self, value: int) -> Wire:
        """A number from outside."""

    def truth(self, value: bool) -> Wire:
        """A truth from outside."""

    def add(self, *wires: Wire, frame: str = "", after: Sequence[Wire] = ()) -> Wire:
        """The sum; once all of `after` are there."""

    def less(self, a: Wire, b: Wire, frame: str = "") -> Wire:
        """Whether a < b."""

    def switch(self, data: Wire, pred: Wire, frame: str = "") -> tuple[Wire, Wire]:
        """The outputs for false and for true, of which one is dead."""

    def merge(self, *wires: Wire, frame: str = "") -> tuple[Wire, Wire]:
        """The one input that is alive, and its index."""

    def enter(
        self, x: Wire, name: str, frame: str = "", *, constant: bool = False, parallel: int = 10
    ) -> Wire:
        """Into the first turn of loop `name`; a constant into every turn."""

    def exit(self, x: Wire, frame: str) -> Wire:
        """Out of the loop."""

    def next_iteration(self, x: Wire, frame: str) -> Wire:
        """To the next turn."""

    def loop_cond(self, x: Wire, frame: str) -> Wire:
        """What decides about another turn."""

    def loop_merge(self, entered: Wire, frame: str) -> Wire:
        """A Merge of what entered and of what `close` brings back."""

    def close(self, merged: Wire, back: Wire) -> None:
        """Makes `back`, a NextIteration, the other input of a `loop_merge`."""

    def run(self, *wires: Wire) -> Any:
        """What the wires carry in a step, or how it fails."""


Program = Callable[[Primitives], Any]


def primitive(name: str) -> Callable[[Program], Program]:
    """Makes a program of primitives a case, of both sides."""

    def add(program: Program) -> Program:
        @tensorflow(name)
        def _(s: Any) -> Any:
            return program(s.primitives())

        actorflow(name)(program)
        return program

    return add
