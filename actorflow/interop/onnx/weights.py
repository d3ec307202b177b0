"""Which initialisers of an ONNX model are weights, which `load` can make variables of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actorflow.errors import OnnxError
from actorflow.interop.onnx.proto import dtype_of
from actorflow.values.arrays import is_floating

# Inputs that are no weights although they may be floating initialisers: from which one on, per op.
_NO_WEIGHTS = {
    "BatchNormalization": 3, "Clip": 1, "DequantizeLinear": 1, "OneHot": 2, "Pad": 1, "QuantizeLinear": 1,
    "Range": 0, "Resize": 1, "Upsample": 1,
}  # fmt: skip


def weights(graph: Any, trainable: bool | Iterable[str]) -> frozenset[str]:
    """Returns the names of the initialisers that become variables: those given, or all that look like it."""
    if not isinstance(trainable, bool):
        return frozenset(trainable)
    if not trainable:
        return frozenset()
    settings = {
        name
        for node in graph.node
        if node.op_type in _NO_WEIGHTS
        for name in list(node.input)[_NO_WEIGHTS[node.op_type] :]
    }
    # A weight has an axis: scalars are settings.
    found = (t.name for t in graph.initializer if t.dims and t.name not in settings and _is_float(t))
    return frozenset(found)


def _is_float(tensor: Any) -> bool:
    try:
        return is_floating(dtype_of(tensor.data_type))
    except OnnxError:
        return False  # noted when it is read
