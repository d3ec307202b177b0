"""Cells over whole sequences: `rnn` and `bidirectional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.nn.cells import Cell, State, check_state, rows_of, step_cell, zeros_of
from actorflow.nn.stacked import Stacked
from actorflow.ops.array.arrange import swapaxes
from actorflow.ops.array.constants import constant
from actorflow.ops.array.fill import arange
from actorflow.ops.array.identity import cast
from actorflow.ops.array.join import stack, unstack
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.array.slicing import concat
from actorflow.ops.control.mapping import fill_turns, stack_turns, turns, with_count
from actorflow.ops.control.recompute import recompute as computed_again
from actorflow.ops.control.tensor_list import list_read
from actorflow.ops.control.tensor_list_rows import list_unstack
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.math.elementwise import subtract
from actorflow.ops.math.logic import less, where
from actorflow.ops.math.reduce import max
from actorflow.ops.nn.recurrent import sequence_lengths
from actorflow.runtime.call_site import source_line
from actorflow.values.pytree import flatten
from actorflow.values.spec import ListSpec


@api_function
@in_graph_of_inputs
def rnn(
    cell: Any,
    x: Any,
    lengths: Any = None,
    initial: Any = None,
    *,
    reverse: bool = False,
    time_major: bool = False,
    unroll: bool = False,
    recompute: bool = False,
    parallel_iterations: int = 10,
    training: bool | None = None,
    name: str | None = None,
) -> tuple[Tensor, State]:
    """Runs a cell over sequences; returns the outputs of all steps, and the last state.

    Sequences of a batch may differ in length: beyond its own length the state of a sequence is held and
    its outputs are zero, whatever numbers x holds there. Steps that no sequence has are not computed.

    What the cell makes of the input alone is one product for all steps; the rest is a loop, one turn a
    step, or with `unroll` nodes for each step: the same numbers, to the bit, and a graph that grows with
    the steps.

    Shapes:   x (rows, steps, inputs), or with `time_major`, which saves two copies, (steps, rows, inputs);
              lengths (rows,) -> outputs (rows, steps, units), or (steps, rows, units), and the state
    Dtypes:   that of the cell; lengths integers in [0, steps]
    Gradient: to x, initial and the variables of the cell; of any order
    Raises:   SpecError for what does not fit; GraphError for another structure of `initial` than that of
              the cell's state. In the step KernelError for a length that is negative or beyond the
              steps, and SpecError for another number of them than rows.

    Args:
        cell: A `Cell`; or several, `stacked`, which run one after the other.
        x: The sequences.
        lengths: How many steps each has; None for all steps.
        initial: The state before the first step; zeros by default.
        reverse: Goes from the last step of each sequence to its first. Outputs stay at their steps.
        time_major: Whether steps come before rows, in x and outputs.
        unroll: Builds nodes for every step, of which the number is known then.
        recompute: Keeps states alone for the gradient, and computes the rest of a step again: less memory.
        parallel_iterations: How many steps may be under way at once, when turns run as nodes.
        training: Whether it trains: what stacked cells with dropout need to know.
        name: Of the loop.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, None, 8), name="x")
    ...     outputs, (h, c) = af.nn.rnn(af.nn.LSTMCell(8, 16), x)
    ...     print(outputs.spec, h.spec)
    (None, None, 16) float32 (None, 16) float32
    """
    x = as_tensor(x)
    with error_context("rnn"):
        if not isinstance(cell, Cell | Stacked):
            message = f"rnn runs a cell, got {type(cell).__name__} {cell!r:.60}"
            raise SpecError(message, hint="for instance af.nn.LSTMCell; your own is a subclass of af.nn.Cell")
        if x.spec.rank is None or x.spec.rank < 2 + (not time_major):
            message = f"rnn runs over sequences (rows, steps, inputs), or time-major, got {x.spec}"
            raise SpecError(message, hint="give x its axes, with af.expand_dims or af.arrays.ensure_shape")
        # Steps first: a list of rows is unstacked along it.
        xs = x if time_major else swapaxes(x, 0, 1)
        ends = None if lengths is None else _lengths(lengths, xs)
    run = _RnnRun(reverse, unroll, recompute, parallel_iterations, name or "rnn")
    if isinstance(cell, Stacked):
        # Stacked cells run layer by layer, so that the inputs of each are one product.
        start = cell.initial(rows_of(xs, 1)) if initial is None else initial
        check_state(cell, start)
        states: list[State] = []
        for layer, state in zip(cell.cells, start, strict=True):
            # Dropout stands between two of them, not before the first.
            xs = xs if not states else cell.between(xs, training)
            xs, after = run.over(layer, xs, ends, state)
            states.append(after)
        outputs, last = xs, tuple(states)
    else:
        outputs, last = run.over(cell, xs, ends, initial)
    return (outputs if time_major else swapaxes(outputs, 0, 1)), last


@api_function
@in_graph_of_inputs
def bidirectional(
    forward: Any,
    backward: Any,
    x: Any,
    lengths: Any = None,
    initial: Any = None,
    *,
    time_major: bool = False,
    unroll: bool = False,
    recompute: bool = False,
    parallel_iterations: int = 10,
    training: bool | None = None,
    name: str | None = None,
) -> tuple[Tensor, tuple[State, State]]:
    """Runs one cell over sequences from the front and another from the back; joins their outputs.

    Each step so sees the whole of its sequence. Every sequence is read from its own last step on.

    Shapes:   as `rnn`; the outputs (rows, steps, units of forward + units of backward)
    Dtypes:   those of the cells, the same
    Gradient: as of `rnn`
    Raises:   as `rnn`.

    Args:
        forward: The cell that reads from the first step on.
        backward: That which reads from the last on; its last state is that at the first step.
        x: The sequences.
        lengths: How many steps each has.
        initial: The first states of both, a pair; zeros by default.
        time_major: As of `rnn`.
        unroll: As of `rnn`.
        recompute: As of `rnn`.
        parallel_iterations: As of `rnn`.
        training: As of `rnn`.
        name: Of the loops.
    """
    if initial is not None and not (isinstance(initial, tuple | list) and len(initial) == 2):
        message = f"bidirectional begins with two states, forward and backward, got {initial!r:.60}"
        raise GraphError(message, where=Where(op="bidirectional", defined_at=source_line()))
    first, second = (None, None) if initial is None else initial
    settings: dict[str, Any] = {
        "time_major": time_major,
        "unroll": unroll,
        "recompute": recompute,
        "parallel_iterations": parallel_iterations,
        "training": training,
        "name": name,
    }
    there, end = rnn(forward, x, lengths, first, **settings)
    back, start = rnn(backward, x, lengths, second, reverse=True, **settings)
    return concat([there, back], -1), (end, start)


# ---------------------------------------------------------------------------------------- one layer


@dataclass(frozen=True, slots=True)
class _RnnRun:
    """How layers run; see `rnn`."""

    reverse: bool
    unroll: bool
    recompute: bool
    parallel_iterations: int
    name: str

    def over(self, cell: Cell, x: Tensor, ends: Tensor | None, initial: State) -> tuple[Tensor, State]:
        """Runs one cell over x (steps, rows, inputs); returns outputs (steps, rows, units) and state."""
        # One product for all steps, before the loop.
        xs = cell.projected(x)
        if initial is None:
            initial = cell.initial(rows_of(x, 1))
        check_state(cell, initial)
        leaves, whole = flatten(initial)
        first = [as_tensor(leaf) for leaf in leaves]
        # What a step computes besides states is computed again for the gradient.
        step = computed_again(cell.step) if self.recompute else cell.step

        def turn(projected: Tensor, t: Any, state: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
            before = whole(state)
            output, after = step_cell(cell, step(projected, before), before)
            made = [as_tensor(leaf) for leaf in flatten(after)[0]]
            # Held state by state: a sequence that has ended keeps the last it had.
            return output, made if ends is None else _hold(t, ends, made, state)

        if self.unroll:
            outputs, last = self._unroll(turn, xs, first)
        else:
            outputs, last = self._loop(turn, xs, ends, first)
        # Zeros whatever the cell made of numbers behind the end.
        if ends is not None:
            outputs = where(_within(ends, outputs), outputs, constant(0, outputs.dtype))
        return outputs, whole(last)

    def _unroll(
        self, turn: Callable[..., Any], xs: Tensor, state: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        count = rows_of(xs, 0)
        if not isinstance(count, int) or not count:
            message = f"rnn unrolls a known number of steps, one or more, got x {xs.spec}"
            where_ = Where(op="rnn", defined_at=source_line())
            raise SpecError(
                message, where=where_, hint="leave out unroll=True, or fix it with af.arrays.ensure_shape"
            )
        rows = unstack(xs)  # not slices, whose gradients are sums of as many arrays as large as xs
        made: list[Any] = [None] * count
        # ORDER: backwards through the steps, outputs at their own.
        for t in reversed(range(count)) if self.reverse else range(count):
            made[t], state = turn(rows[t], constant(t, "int32"), state)
        return stack(made), state

    def _loop(
        self, turn: Callable[..., Any], xs: Tensor, ends: Tensor | None, first: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        rows = list_unstack(xs)
        steps = as_tensor(rows_of(xs, 0))
        # No turn that all sequences have left behind; the 0 is for a batch without rows.
        count = steps if ends is None else max(concat([constant([0], "int32"), ends], 0))

        def body(i: Tensor, *state: Tensor) -> tuple[Sequence[Any], Sequence[Any]]:
            # The turns count up in any case.
            t = subtract(subtract(count, 1), i) if self.reverse else i
            output, after = turn(list_read(rows, t), t, state)
            return after, [output]

        last, (outputs,) = turns(
            count, body, first, parallel_iterations=self.parallel_iterations, name=self.name
        )
        known = rows_of(xs, 0)
        # As many turns as steps: nothing to fill.
        if ends is None and isinstance(known, int) and known:
            return with_count(stack_turns(outputs, reverse=self.reverse), known), last
        return _fill(outputs, xs, reverse=self.reverse), last


def _fill(outputs: Tensor, xs: Tensor, *, reverse: bool) -> Tensor:
    """The outputs of the turns there were at their steps, and zeros at all others."""
    assert isinstance(outputs.spec, ListSpec)
    element = outputs.spec.element
    tail = (None,) if element.shape is None else element.shape[1:]
    if None in tail:
        message = f"the outputs of a cell have a known size, got {element}"
        raise SpecError(message, where=Where(op="rnn", defined_at=source_line()))
    # Rows and steps may be known in the step alone.
    like = zeros_of([rows_of(xs, 0), rows_of(xs, 1), *tail], element.dtype)
    return fill_turns(outputs, like, reverse=reverse)


def _hold(t: Tensor, ends: Tensor, after: Sequence[Tensor], before: Sequence[Tensor]) -> list[Tensor]:
    """The next state, and that before for sequences that have ended."""
    goes_on = less(t, ends)
    # A choice and no product: 0 times NaN is NaN.
    return [where(_widen(goes_on, new, 1), new, old) for new, old in zip(after, before, strict=True)]


def _within(ends: Tensor, outputs: Tensor) -> Tensor:
    """Which of the outputs (steps, rows, …) lie within their sequence."""
    steps = _numbers(rows_of(outputs, 0))
    return _widen(less(expand_dims(steps, 1), expand_dims(ends, 0)), outputs, 2)


def _numbers(steps: Any) -> Tensor:
    """The numbers of so many steps."""
    return arange(steps, dtype="int32") if isinstance(steps, int) else arange(steps)


def _widen(mask: Tensor, x: Tensor, axes: int) -> Tensor:
    """A mask of the first `axes` axes of x, with as many axes as x."""
    if x.spec.rank is None:
        message = f"a cell makes tensors of known rank, got {x.spec}"
        raise SpecError(message, where=Where(op="rnn", defined_at=source_line()))
    return expand_dims(mask, tuple(range(axes, x.spec.rank))) if x.spec.rank > axes else mask


# ------------------------------------------------------------------------------------------- checks


def _lengths(lengths: Any, xs: Tensor) -> Tensor:
    """The lengths as int32; SpecError unless they are a vector of integers, one for each row."""
    return cast(sequence_lengths(lengths, xs), "int32")
