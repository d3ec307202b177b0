"""Recurrent cells: RNN, LSTM and GRU, one step of a sequence at a time; `af.nn.rnn` runs them over all.

A cell splits its step in two. What depends on the input alone, `projected`, is computed for all steps of a
sequence in one product; `step` does the rest, which has to wait for the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from actorflow.errors import GraphError, Where
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.nn import init
from actorflow.nn.layer import Layer
from actorflow.ops.array.arrange import flatten
from actorflow.ops.array.fill import zeros
from actorflow.ops.array.join import split, stack
from actorflow.ops.array.shape_queries import ensure_shape, shape
from actorflow.ops.control.bodies import describe_structure, hint_of_none, state_like
from actorflow.ops.definition.arguments import number_or_none
from actorflow.ops.linalg.products import matmul
from actorflow.ops.math.elementwise import add, multiply, sigmoid, subtract, tanh
from actorflow.ops.nn.channels import reshape_channels
from actorflow.ops.nn.recurrent import lstm_step
from actorflow.ops.state.handle import can_be_called
from actorflow.runtime.call_site import source_line
from actorflow.values.pytree import treedef
from actorflow.values.spec import Dim

State = Any
"""The state of a cell: a tensor (rows, units), or a tuple of such."""


class Cell(Layer):
    """One step of a recurrent layer: (input, state) -> (output, next state).

    Subclass it for a cell of your own: make the variables in `__init__`, and write `step`, `initial`, and
    `projected` where a part of the step does not need the state.

    Attributes:
        inputs: Size of the last axis of x.
        units: Size of the last axis of the output.
        dtype: Of the variables, x, and the state.
    """

    def __init__(self, kind: str, inputs: int, units: int, dtype: Any, name: str | None) -> None:
        super().__init__(kind, name)
        self.check_positive(inputs=inputs, units=units)
        self.inputs, self.units = inputs, units
        self.dtype = self.floating(dtype)

    def initial(self, rows: Any) -> State:
        """Returns the state before the first step, zeros: of `rows` rows, a number or an int32 scalar."""
        return self.zeros(rows)

    def projected(self, x: Tensor) -> Tensor:
        """What of x a step uses, (…, inputs) -> (…, any); by default x itself."""
        return x

    def step(self, projected: Tensor, state: State) -> tuple[Tensor, State]:
        """Returns the output and the next state of what `projected` made of the rows of one step."""
        raise NotImplementedError

    def __call__(self, x: Any, state: State = None) -> tuple[Tensor, State]:
        """Builds one step over x (rows, inputs); the state is `initial` if there is none."""
        x = self.check_input(x, (self.inputs,), self.dtype, "make the cell with the inputs that x has")
        if state is None:
            state = self.initial(rows_of(x, 0))
        # Before anything is built from it.
        check_state(self, state)
        return step_cell(self, self.step(self.projected(x), state), state)

    @property
    def treedef(self) -> str:
        """How the state is built, its tensors as `*`."""
        return "*"

    def zeros(self, rows: Any) -> Tensor:
        """Returns zeros (rows, units)."""
        with self.scope():
            return zeros_of([rows, self.units], self.dtype)


def step_cell(cell: Cell, made: Any, before: State) -> tuple[Any, State]:
    """Returns the output and the next state that a step of a cell has made of the state `before`.

    Raises:
        GraphError: when it made something else, or a state of another structure.
    """
    where = Where(op=cell.local, defined_at=source_line())
    if not isinstance(made, tuple | list) or len(made) != 2:
        message = f"a step of cell {cell.name!r} returns (output, next state), got {describe_structure(made)}"
        raise GraphError(message, where=where, hint=hint_of_none(made))
    output, after = made
    rule = f"the next state of cell {cell.name!r} is built as the one before"
    return output, state_like(before, after, rule, where)


def zeros_of(sizes: Sequence[Any], dtype: Any) -> Tensor:
    """Returns zeros of sizes that are numbers, or scalars of the step; one element in memory."""
    # A scalar of the step as a size leaves the spec open; known ones are said to it again.
    known = tuple(n if isinstance(n, int) else None for n in sizes)
    if None not in known:
        # Broadcast from one element: no memory for zeros.
        return zeros(known, dtype)  # type: ignore[arg-type]
    return ensure_shape(zeros(stack([as_tensor(n) for n in sizes]), dtype), known)


def check_state(cell: Any, state: State) -> None:
    """Raises GraphError unless a state is built as a cell, or several stacked, have it."""
    got = treedef(state)
    if got != cell.treedef:
        message = f"the state of cell {cell.name!r} is built as {cell.treedef}, got {got}"
        where = Where(op=cell.local, defined_at=source_line())
        raise GraphError(message, where=where, hint=hint_of_none(state))


def rows_of(x: Tensor, axis: int) -> Any:
    """Returns the size of an axis: a number where it is known, else a scalar of the step."""
    known: Dim = None if x.shape is None else x.shape[axis]
    # A number keeps shapes known; only an open size costs a node.
    return shape(x)[axis] if known is None else known


class _Gated(Cell):
    """A cell with weights of `gates` gates, side by side: `w` of the input, `u` of the state, and `b`."""

    def __init__(
        self,
        kind: str,
        gates: int,
        inputs: int,
        units: int,
        weights: init.Maker,
        recurrent: init.Maker | None,
        biases: init.Maker,
        dtype: Any,
        name: str | None,
    ) -> None:
        super().__init__(kind, inputs, units, dtype, name)
        # Side by side, so that all gates are one product.
        self.wide = wide = gates * units
        # Orthogonal: products over many steps neither grow nor vanish.
        own = init.orthogonal() if recurrent is None else recurrent
        self.w = self.add_variable("w", weights, (inputs, wide), self.dtype, "weights")
        self.u = self.add_variable("u", own, (units, wide), self.dtype, "recurrent")
        self.b = self.add_variable("b", biases, (wide,), self.dtype, "biases")

    def projected(self, x: Tensor) -> Tensor:
        """`x @ w + b`, of all steps in one product."""
        x = self.check_input(x, (self.inputs,), self.dtype, "make the cell with the inputs that x has")
        rank = len(self.check_rank(x))
        with self.scope():
            # One product of matrices, and none for each step.
            flat = x if rank == 2 else flatten(x, 0, -2)
            y = add(matmul(flat, self.w), self.b)
            return y if rank == 2 else reshape_channels(y, x, (self.wide,))


class RNNCell(_Gated):
    """The simple recurrent cell: h' = activation(x @ w + b + h @ u); its output is h'.

    PyTorch's and Keras' equation; PyTorch's two biases are one here, their sum.

    Args:
        inputs: Size of the last axis of x.
        units: Size of the state.
        activation: Applied to the sum.
        weights: First values of `w`, (inputs, units).
        recurrent: First values of `u`, (units, units); orthogonal by default.
        biases: First values of `b`, (units,).
        dtype: Of the variables, of x and of the state.
        name: Of the layer; by default `rnn`, `rnn_1`, …

    Shapes:   x (rows, inputs), state (rows, units) -> output and state (rows, units)
    Raises:   SpecError for another x.

    >>> with af.Graph():
    ...     cell = af.nn.RNNCell(8, 16)
    ...     output, state = cell(af.placeholder("float32", (None, 8), name="x"))
    ...     output
    <Tensor rnn/tanh:0 (None, 16) float32>
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        activation: Callable[[Tensor], Tensor] = tanh,
        weights: init.Maker = init.glorot,
        recurrent: init.Maker | None = None,
        biases: init.Maker = init.zeros,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("rnn", 1, inputs, units, weights, recurrent, biases, dtype, name)
        given: Any = activation
        if not callable(given) or not can_be_called(given, self.b):
            what = f"takes a function of a tensor as activation, got {activation!r:.60}"
            raise self.refusal(what)
        self.activation = activation

    def step(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Builds the rest of the step; see the class."""
        with self.scope():
            h = as_tensor(self.activation(add(projected, matmul(state, self.u))))
        return h, h


class LSTMCell(_Gated):
    """The long short-term memory: a state (h, c), whose h is the output.

    The gates lie in the order i, f, g, o, PyTorch's and Keras', along the last axis of `w`, `u` and `b`:
    i, f, g, o = x @ w + b + h @ u; c' = σ(f)·c + σ(i)·tanh(g); h' = σ(o)·tanh(c'). PyTorch's two biases
    are one here, their sum.

    Args:
        inputs: Size of the last axis of x.
        units: Size of h and of c.
        weights: First values of `w`, (inputs, 4·units).
        recurrent: First values of `u`, (units, 4·units); orthogonal by default.
        biases: First values of `b`, (4·units,); by default 0, and `forget_bias` for the gate f.
        forget_bias: That; so a cell remembers before it has learned to.
        dtype: Of the variables, of x and of the state.
        name: Of the layer; by default `lstm`, `lstm_1`, …

    Shapes:   x (rows, inputs), state ((rows, units), (rows, units)) -> output (rows, units), state
    Raises:   SpecError for another x.

    Source: Hochreiter, Schmidhuber, "Long short-term memory", Neural Computation 9 (1997), with the forget
    gate of Gers, Schmidhuber, Cummins (2000); its bias: Jozefowicz, Zaremba, Sutskever, ICML 2015.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        weights: init.Maker = init.glorot,
        recurrent: init.Maker | None = None,
        biases: init.Maker | None = None,
        forget_bias: float = 1.0,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        # The refusal needs the layer's name, which `super().__init__` makes.
        given: Any = number_or_none(forget_bias)
        own = _biases(0.0 if given is None else given) if biases is None else biases
        super().__init__("lstm", 4, inputs, units, weights, recurrent, own, dtype, name)
        if given is None:
            what = f"needs a number as forget_bias, got {forget_bias!r:.60}"
            raise self.refusal(what)

    def initial(self, rows: Any) -> tuple[Tensor, Tensor]:
        """Returns the state before the first step, zeros (rows, units) twice."""
        return self.zeros(rows), self.zeros(rows)

    @property
    def treedef(self) -> str:
        """How the state is built: (h, c)."""
        return "(*, *)"

    def step(self, projected: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Builds the rest of the step; see the class."""
        h, c = state
        with self.scope():
            h, c, _ = lstm_step(add(projected, matmul(h, self.u)), c)
        return h, (h, c)


def _biases(forget: float) -> init.Maker:
    def make(shape: tuple[int, ...], dtype: Any) -> Any:
        values = np.zeros(shape, dtype)
        # The second quarter: i, f, g, o.
        units = shape[0] // 4
        values[units : 2 * units] = forget
        return values

    return make


class GRUCell(_Gated):
    """The gated recurrent unit; its output is its state h.

    The gates lie in the order r, z, n, PyTorch's, along the last axis of `w`, `u` and the biases (Keras
    has z before r): r = σ(x @ w_r + b_r + h @ u_r + bu_r), z alike, and h' = (1 - z)·n + z·h. The
    candidate n with `reset_after`, as PyTorch, cuDNN and Keras have it:
    n = tanh(x @ w_n + b_n + r·(h @ u_n + bu_n)); `b` is PyTorch's bias_ih and `bu` its bias_hh. Without,
    as in the paper: n = tanh(x @ w_n + b_n + (r·h) @ u_n), and there is no `bu`.

    Args:
        inputs: Size of the last axis of x.
        units: Size of h.
        reset_after: Whether the reset gate r is applied to the product or to h before it. One product a
            step is faster than two.
        weights: First values of `w`, (inputs, 3·units).
        recurrent: First values of `u`, (units, 3·units); orthogonal by default.
        biases: First values of `b`, and of `bu`, (3·units,).
        dtype: Of the variables, of x and of the state.
        name: Of the layer; by default `gru`, `gru_1`, …

    Shapes:   x (rows, inputs), state (rows, units) -> output and state (rows, units)
    Raises:   SpecError for another x.

    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP 2014.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        reset_after: bool = True,
        weights: init.Maker = init.glorot,
        recurrent: init.Maker | None = None,
        biases: init.Maker = init.zeros,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("gru", 3, inputs, units, weights, recurrent, biases, dtype, name)
        self.check_flags(reset_after=reset_after)
        # A bias of its own: r multiplies it along with the product.
        self.bu = self.add_variable("bu", biases, (3 * units,), self.dtype, "biases") if reset_after else None

    def step(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Builds the rest of the step; see the class."""
        n = self.units
        with self.scope():
            # After the product: one product serves all three gates.
            if self.bu is not None:
                xg, xn = split(projected, (2 * n, n), -1)
                hg, hn = split(add(matmul(state, self.u), self.bu), (2 * n, n), -1)
                r, z = split(sigmoid(add(xg, hg)), 2, -1)
                candidate = tanh(add(xn, multiply(r, hn)))
            else:
                # Before the product: r must be known first, so n has a product of its own.
                ug, un = split(as_tensor(self.u), (2 * n, n), -1)
                xg, xn = split(projected, (2 * n, n), -1)
                r, z = split(sigmoid(add(xg, matmul(state, ug))), 2, -1)
                candidate = tanh(add(xn, matmul(multiply(r, state), un)))
            # (1 - z)·n + z·h with one product fewer.
            h = add(candidate, multiply(z, subtract(state, candidate)))
        return h, h
