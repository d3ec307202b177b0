"""Draws of `st.data()` inside a simulated test: the same in every run of one example.

A law runs its program several times for one example: first without deviations, to learn its points,
then under the schedule, and many times when a failure is reduced. What the body draws has to be the
same in all of them. So the n-th draw from a strategy is kept and given again; once the runs of the
example proper are over, nothing further is drawn, and a run that asks for more is another program.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any


class Undrawn(Exception):
    """A run of a reduction draws what no run of the example has drawn."""


class Redrawn:
    """Stands for hypothesis' data object, and remembers.

    Args:
        data: The object that `st.data()` gave.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self._drawn: dict[str, list[Any]] = {}
        self._asked: Counter[str] = Counter()
        self._settled = False

    def begin(self) -> None:
        """A run begins: it is given what the runs before it were given."""
        self._asked.clear()

    def settle(self) -> None:
        """The runs of the example are over: nothing new is drawn any more."""
        self._settled = True

    def draw(self, strategy: Any, label: Any = None) -> Any:
        """Returns what `strategy` gave when it was asked for the same time in an earlier run, or draws.

        Raises:
            Undrawn: it would have to draw after `settle`.
        """
        key = repr(strategy)
        n = self._asked[key]
        self._asked[key] += 1
        drawn = self._drawn.setdefault(key, [])
        if n == len(drawn):
            if self._settled:
                message = f"draw {n + 1} from {key} was not part of the example"
                raise Undrawn(message)
            drawn.append(self._data.draw(strategy, label))
        return copy.deepcopy(drawn[n])

    def __repr__(self) -> str:
        return repr(self._data)
