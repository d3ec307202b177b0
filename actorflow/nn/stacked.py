"""Recurrent cells on top of each other, with dropout between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from actorflow.graph.builder import Tensor, as_tensor
from actorflow.nn.cells import Cell, State, check_state, rows_of
from actorflow.nn.layer import Layer
from actorflow.ops.nn.softmax import dropout as dropped


class Stacked(Layer):
    """Cells of which each takes the outputs of the one before as its x; see `stack_cells`.

    Attributes:
        cells: They.
        dropout: The part of the outputs between two of them that is dropped in training.
    """

    def __init__(self, cells: Sequence[Cell], *, dropout: float = 0.0, name: str | None = None) -> None:
        super().__init__("stacked", name)
        many: Any = cells
        if not isinstance(many, tuple | list) or not many or not all(isinstance(c, Cell) for c in many):
            what = f"takes a list of cells, one or more, got {cells!r:.60}"
            raise self.refusal(what)
        # Told here, where the numbers stand, and not by a product in the first step.
        for below, above in pairwise(many):
            if below.units != above.inputs:
                what = f"takes cells that fit, got {below.units} units under {above.inputs} inputs"
                raise self.refusal(what)
        self.check_part("it is the part that is dropped", dropout=dropout)
        self.cells = list(cells)
        self.dropout = float(dropout)
        listed = [v for cell in self.cells for v in cell.variables]
        self.variables = list({v.name: v for v in listed}.values())  # a cell that comes twice is listed once

    @property
    def treedef(self) -> str:
        """How the state is built: that of each cell, in a tuple."""
        inner = ", ".join(cell.treedef for cell in self.cells)
        # The comma of a tuple of one, as `treedef` writes it.
        return f"({inner},)" if len(self.cells) == 1 else f"({inner})"

    def initial(self, rows: Any) -> tuple[State, ...]:
        """Returns the states before the first step: of `rows` rows, a number or an int32 scalar."""
        return tuple(cell.initial(rows) for cell in self.cells)

    def between(self, x: Tensor, training: bool | None) -> Tensor:
        """The outputs of a cell as the next one takes them."""
        if not self.dropout:
            return x
        if training is None:
            what = f"needs to know whether it trains, for its dropout of {self.dropout}"
            raise self.refusal(what, "pass training=True or training=False")
        self.check_flags(training=training)
        with self.scope():
            return dropped(x, self.dropout, training=training)

    def __call__(
        self, x: Any, state: tuple[State, ...] | None = None, *, training: bool | None = None
    ) -> tuple[Tensor, tuple[State, ...]]:
        """Builds one step of all cells over x (rows, inputs), from their `initial` state if none is given."""
        x = as_tensor(x)
        states = self.initial(rows_of(x, 0)) if state is None else state
        check_state(self, states)
        after: list[State] = []
        for cell, one in zip(self.cells, states, strict=True):
            # As in `rnn`: between two cells.
            x = self.between(x, training) if after else x
            x, new = cell(x, one)
            after.append(new)
        return x, tuple(after)


def stack_cells(cells: Sequence[Cell], *, dropout: float = 0.0, name: str | None = None) -> Stacked:
    """Returns cells on top of each other, for `rnn`, or for single steps as a cell takes them.

    Their state is a tuple with that of each. `rnn` runs them one after the other, each over all steps, so
    that the inputs of each are one product. Dropout draws anew for every step.

    Args:
        cells: From the lowest on; the inputs of each are the units of the one below.
        dropout: The part of the outputs between two of them that is dropped in training.
        name: Of the layer; by default `stacked`, `stacked_1`, …

    Raises:
        SpecError: for what are no cells, and for cells that do not fit on each other.

    >>> with af.Graph():
    ...     cells = af.nn.stack_cells([af.nn.GRUCell(8, 16), af.nn.GRUCell(16, 16)], dropout=0.1)
    ...     x = af.placeholder("float32", (None, 20, 8), name="x")
    ...     outputs, states = af.nn.rnn(cells, x, training=True)
    ...     print(outputs.spec, len(states))
    (None, 20, 16) float32 2
    """
    return Stacked(cells, dropout=dropout, name=name)
