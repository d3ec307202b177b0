"""ONNX's RNN, GRU and LSTM: one cell a time step where their number is known, else a loop over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder

Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""(x, state) -> the next state; its first part is the output."""

_ACTIVATIONS: dict[str, Callable[[Any], Tensor]] = {
    "Relu": ops.relu,
    "Sigmoid": ops.sigmoid,
    "Softplus": ops.softplus,
    "Softsign": ops.softsign,
    "Tanh": ops.tanh,
}


def _activations(node: OnnxNode, direction: int, default: tuple[str, ...]) -> list[Callable[[Any], Tensor]]:
    """The activations of one direction, each after the clipping that the model wants."""
    # Numbers of activations would be dropped in silence.
    for name in ("activation_alpha", "activation_beta"):
        if node.attr(name):
            node.refuse(f"activations take no {name.removeprefix('activation_')} here")
    # As often as there are directions.
    names = node.attr("activations") or default * 2
    known = {name.lower(): function for name, function in _ACTIVATIONS.items()}
    chosen = names[direction * len(default) : (direction + 1) * len(default)]
    unknown = [name for name in chosen if name.lower() not in known]
    if unknown:
        node.refuse(f"there is no activation {', '.join(unknown)}", f"there are {', '.join(_ACTIVATIONS)}")
    # 0 is ONNX's default for no clipping.
    limit = node.attr("clip", 0.0)

    def after_clipping(function: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        return lambda x: function(ops.clip(x, -limit, limit)) if limit else function(x)

    return [after_clipping(known[name.lower()]) for name in chosen]


def _over_time(
    node: OnnxNode, inputs: Inputs, states: tuple[int, ...], cell_of: Callable[[int], Cell]
) -> tuple[Tensor, ...]:
    """The outputs of every step and the last states, in each direction; `states` are the initial ones."""
    x = inputs[0]
    by_batch = node.attr("layout", 0)
    ways = node.choice("direction", {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}, "forward")
    hidden = node.attr("hidden_size") or node.sizes(2, (-1,))[0]
    # ONNX has steps first, unless the layout is by batch.
    if by_batch:
        x = ops.swapaxes(x, 0, 1)
    node.shape(0)
    steps, batch, _ = x.shape
    rows, lasts = [], []
    for d, backwards in enumerate(ways):
        cell = cell_of(d)
        state = tuple(_initial(node, inputs, i, d, x, (batch, hidden), bool(by_batch)) for i in states)
        # Of open length: a loop, which the step ends.
        if steps is None:
            row, last_state = _loop(x, inputs[4] if node.has(4) else None, cell, state, bool(backwards))
            rows.append(row)
            lasts.append(last_state)
            continue
        found: list[Tensor] = []
        for t in reversed(range(steps)) if backwards else range(steps):
            after = cell(ops.slice(x, t), state)
            # Sequences of a batch end at different steps.
            if node.has(4):
                state, shown = _within(inputs[4], t, state, after)
            else:
                state, shown = after, after[0]
            found.append(shown)
        # Outputs stand at their steps, whichever way they were made.
        rows.append(ops.stack(found[::-1] if backwards else found, 0))
        lasts.append(state)
    y = ops.stack(rows, 1)
    last = [ops.stack(parts, 1 if by_batch else 0) for parts in zip(*lasts, strict=True)]
    # The layout by batch has (n, t, directions, hidden).
    return ops.transpose(y, (2, 0, 1, 3)) if by_batch else y, *last


def _loop(
    x: Tensor, lengths: Tensor | None, cell: Cell, state: tuple[Tensor, ...], backwards: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The outputs of all steps, however many a step of the session has, and the last state."""

    def turn(before: tuple[Tensor, ...], row: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        t, now = row
        after = cell(now, before[1:])
        # The carried state has the output in front, which scan shows with it.
        if lengths is None:
            return (after[0], *after)
        kept, shown = _within(lengths, t, before[1:], after)
        return (shown, *kept)

    times = ops.arange(ops.constant(0, "int64"), ops.cast(ops.shape(x)[0], "int64"), ops.constant(1, "int64"))
    # A scan gives the state of each step; the last is wanted.
    shown, *states = ops.scan(turn, (times, x), (ops.zeros_like(state[0]), *state), reverse=backwards)
    # Backwards the last that was made stands first.
    end = 0 if backwards else -1
    return shown, tuple(ops.slice(each, end) for each in states)


def _within(
    lengths: Tensor, t: int | Tensor, before: tuple[Tensor, ...], after: tuple[Tensor, ...]
) -> tuple[tuple[Tensor, ...], Tensor]:
    """The state and the output behind step `t`: beyond its end a sequence keeps its state and shows 0."""
    goes_on = ops.expand_dims(ops.greater(lengths, t), 1)
    state = tuple(ops.where(goes_on, new, old) for new, old in zip(after, before, strict=True))
    return state, ops.where(goes_on, after[0], ops.zeros_like(after[0]))


def _initial(
    node: OnnxNode,
    inputs: Inputs,
    index: int,
    direction: int,
    x: Tensor,
    shape: tuple[int | None, int],
    by_batch: bool,
) -> Tensor:
    """The state before the first step: as given, or zeros for as many rows as `x` (t, n, …) has."""
    batch, hidden = shape
    if not node.has(index):
        if batch is not None:
            return ops.zeros((batch, hidden), x.dtype)
        row = ops.zeros((1, hidden), x.dtype)
        # As many rows as the step has.
        sizes = ops.concat([ops.shape(x)[1:2], ops.constant([hidden], "int32")], 0)
        return ops.ensure_shape(ops.broadcast_to(row, sizes), shape)
    return ops.slice(inputs[index], (slice(None), direction) if by_batch else direction)


def _weights(node: OnnxNode, inputs: Inputs, direction: int, gates: int) -> tuple[Tensor, Tensor, list[Any]]:
    """Weights of the input and of the state, and the 2·gates biases, of one direction."""
    w, r = (ops.slice(inputs[i], direction) for i in (1, 2))
    if not node.has(3):
        return w, r, [0.0] * (2 * gates)
    # Biases of the input, then of the state.
    return w, r, list(ops.split(ops.slice(inputs[3], direction), 2 * gates, 0))


@builder("", "RNN")
def _rnn(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    def cell_of(direction: int) -> Cell:
        (activate,) = _activations(node, direction, ("Tanh",))
        w, r, (wb, rb) = _weights(node, inputs, direction, 1)

        def cell(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (h,) = state
            both = ops.add(ops.matmul(x, w, transpose_b=True), ops.matmul(h, r, transpose_b=True))
            return (activate(ops.add(ops.add(both, wb), rb)),)

        return cell

    return _over_time(node, inputs, (5,), cell_of)


@builder("", "GRU")
def _gru(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    reset_late = node.attr("linear_before_reset", 0)

    def cell_of(direction: int) -> Cell:
        gate, new = _activations(node, direction, ("Sigmoid", "Tanh"))
        w, r, (wz, wr, wh, rz, rr, rh) = _weights(node, inputs, direction, 3)
        # Reset before the product: that of the candidate has a product of its own.
        _, _, r_hidden = ops.split(r, 3, 0)

        def cell(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (h,) = state
            xz, xr, xh = ops.split(ops.matmul(x, w, transpose_b=True), 3, -1)
            hz, hr, hh = ops.split(ops.matmul(h, r, transpose_b=True), 3, -1)
            update = gate(ops.add(ops.add(ops.add(xz, hz), wz), rz))
            reset = gate(ops.add(ops.add(ops.add(xr, hr), wr), rr))
            # linear_before_reset: the bias of the state is reset with it.
            if reset_late:
                past = ops.multiply(reset, ops.add(hh, rh))
            else:
                past = ops.add(ops.matmul(ops.multiply(reset, h), r_hidden, transpose_b=True), rh)
            proposed = new(ops.add(ops.add(xh, past), wh))
            return (ops.add(ops.multiply(ops.subtract(1.0, update), proposed), ops.multiply(update, h)),)

        return cell

    return _over_time(node, inputs, (5,), cell_of)


@builder("", "LSTM")
def _lstm(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    # Coupled: what enters and what stays are 1 together.
    coupled = node.attr("input_forget", 0)

    def cell_of(direction: int) -> Cell:
        gate, new, show = _activations(node, direction, ("Sigmoid", "Tanh", "Tanh"))
        w, r, biases = _weights(node, inputs, direction, 4)
        # Peepholes see the cell's state.
        peep = list(ops.split(ops.slice(inputs[7], direction), 3, 0)) if node.has(7) else [0.0] * 3

        def cell(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            h, c = state
            both = ops.add(ops.matmul(x, w, transpose_b=True), ops.matmul(h, r, transpose_b=True))
            # ONNX's order: i, o, f, c.
            i, o, f, n = (
                ops.add(ops.add(part, biases[k]), biases[4 + k])
                for k, part in enumerate(ops.split(both, 4, -1))
            )
            enters = gate(ops.add(i, ops.multiply(c, peep[0])))
            # ORDER: i and f look at the state before,
            stays = ops.subtract(1.0, enters) if coupled else gate(ops.add(f, ops.multiply(c, peep[2])))
            c = ops.add(ops.multiply(stays, c), ops.multiply(enters, new(n)))
            # and o at the state after.
            return ops.multiply(gate(ops.add(o, ops.multiply(c, peep[1]))), show(c)), c

        return cell

    return _over_time(node, inputs, (5, 6), cell_of)
