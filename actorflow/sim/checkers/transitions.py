"""The steps of a model, each asked for once.

A search takes the same steps thousands of times. States become small integers, operations that
nothing but time tells apart share a row, and the row has the state after for each state before.
"""

from __future__ import annotations

from collections.abc import Sequence

from actorflow.errors import HistoryError
from actorflow.sim.checkers.models import Call, Model, Refusal, State
from actorflow.sim.history import Operation

REFUSED = -1


class Transitions:
    """The rows of a list of operations.

    Attributes:
        states: The state behind each integer.
        rows: For each operation, state before -> state after, or REFUSED; filled by `take`.
        observers: For each operation, whether it never changes the state.
        twins: For each operation, the number of its row: equal for operations that do the same.
    """

    __slots__ = ("_calls", "_ids", "_model", "observers", "rows", "states", "twins")

    def __init__(self, model: Model, operations: Sequence[Operation]) -> None:
        self._model = model
        self._calls = [Call.of(operation) for operation in operations]
        self._ids: dict[State, int] = {}
        self.states: list[State] = []
        self.observers = [model.observes(call) for call in self._calls]
        kinds: dict[tuple[Call, str], int] = {}
        rows: list[dict[int, int]] = []
        self.twins: list[int] = []
        for call in self._calls:
            # The text is in it because True == 1 == 1.0, and a model may tell them apart.
            twin = kinds.setdefault((call, repr(call)), len(rows))
            if twin == len(rows):
                rows.append({})
            self.twins.append(twin)
        self.rows = [rows[twin] for twin in self.twins]

    def number(self, state: State) -> int:
        """Returns the integer for a state."""
        try:
            number = self._ids.setdefault(state, len(self.states))
        except TypeError as wrong:
            message = f"the state of a model must be hashable, got {type(state).__name__} {state!r}"
            raise HistoryError(message, hint="make it of tuples, strings and numbers") from wrong
        if number == len(self.states):
            self.states.append(state)
        return number

    def take(self, index: int, before: int) -> int:
        """Returns the state after operation `index`, or REFUSED; asks the model the first time."""
        after = self.rows[index].get(before)
        if after is None:
            state = self._model.step(self.states[before], self._calls[index])
            after = REFUSED if isinstance(state, Refusal) else self.number(state)
            if self.observers[index] and after not in {before, REFUSED}:
                message = (
                    f"the model says that {self._calls[index]} only observes,"
                    f" but it changes {self.states[before]!r} to {state!r}"
                )
                raise HistoryError(message, hint="return False from observes() for it")
            self.rows[index][before] = after
        return after

    def why(self, index: int, before: int) -> str:
        """Returns why the model refuses operation `index` in that state."""
        refusal = self._model.step(self.states[before], self._calls[index])
        return refusal.why if isinstance(refusal, Refusal) else ""
