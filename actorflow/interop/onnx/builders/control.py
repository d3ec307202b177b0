"""ONNX's If, Loop and Scan where the way that they take is known when the model is loaded.

If builds the branch that is taken; Loop and Scan build their bodies once for each step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.constant_values import known_value

LONGEST = 1024
"""How many steps a loop may have, so that a number read by mistake does not fill the memory."""


@builder("", "If")
def _if(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    taken = bool(node.value(0).reshape(-1)[0])
    # The other branch is never built, so it may have ops that are not there.
    node.ignore("then_branch", "else_branch")
    return [ops.identity(y) for y in node.body("then_branch" if taken else "else_branch", ())]


@builder("", "Loop")
def _loop(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    # Both must be known: a loop is written out.
    node.require(0, 1)
    # Without a number it may go on for long: see LONGEST.
    most = int(node.value(0).reshape(-1)[0]) if node.has(0) else LONGEST
    goes_on = not node.has(1) or bool(node.value(1).reshape(-1)[0])
    state = list(inputs[2:])
    rows: list[list[Tensor]] = []
    step = 0
    while goes_on and step < most:
        # ORDER: before the body is built: each step adds nodes.
        _check_length(node, step + 1)
        found = node.body("body", (ops.constant(step, "int64"), ops.constant(True), *state))
        # A condition that the body computes from constants is known, too.
        more = known_value(found[0])
        if more is None:
            node.refuse("whether the loop goes on must be known when the model is loaded")
        goes_on = bool(np.all(more))
        state = list(found[1 : 1 + len(state)])
        rows.append(list(found[1 + len(state) :]))
        step += 1
    # Of no rows neither the shape nor the number is known.
    if not rows and len(node.outputs) > len(state):
        node.refuse("a loop without a step has no outputs to stack")
    return [ops.identity(x) for x in state] + [ops.stack(list(row)) for row in zip(*rows, strict=True)]


@builder("", "Scan")
def _scan(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    # Scan of opset 8 has a batch axis and lengths.
    if opset < 9:
        node.refuse("Scan is read from opset 9 on", "onnx.version_converter.convert_version")
    count = node.attr("num_scan_inputs")
    # States come first, then what is scanned.
    state, scanned = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outputs = len(node.outputs) - len(state)
    in_axes = node.attr("scan_input_axes", (0,) * count)
    in_ways = node.attr("scan_input_directions", (0,) * count)
    out_axes = node.attr("scan_output_axes", (0,) * outputs)
    out_ways = node.attr("scan_output_directions", (0,) * outputs)
    (steps,) = node.sizes(len(state), (in_axes[0],))
    _check_length(node, steps)
    pieces = [
        _in_order(ops.unstack(x, axis, steps), way)
        for x, axis, way in zip(scanned, in_axes, in_ways, strict=True)
    ]
    rows: list[Sequence[Tensor]] = []
    for step in range(steps):
        found = node.body("body", (*state, *(piece[step] for piece in pieces)))
        state, row = list(found[: len(state)]), found[len(state) :]
        rows.append(row)
    stacked = [
        ops.stack(_in_order(list(row), way), axis)
        for row, axis, way in zip(zip(*rows, strict=True), out_axes, out_ways, strict=True)
    ]
    return [ops.identity(x) for x in state] + stacked


def _in_order(pieces: Sequence[Tensor], backwards: int) -> list[Tensor]:
    return list(reversed(pieces)) if backwards else list(pieces)


def _check_length(node: OnnxNode, steps: int) -> None:
    if steps > LONGEST:
        node.refuse(f"a loop may have {LONGEST} steps, which are built one by one, got {steps}")
