"""Which kernels are plain operators between numbers of numpy, for code that is written out.

A ufunc takes a microsecond to find out what two scalars are, the operator of numpy's scalars 30 to 100 ns.
Both give the same bits: that of the one operation of the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.spec import Spec

Described = Spec | Array
"""What has a shape and a dtype."""

_NUMBERS = {
    np.add: "+",
    np.subtract: "-",
    np.multiply: "*",
    np.less: "<",
    np.less_equal: "<=",
    np.greater: ">",
    np.greater_equal: ">=",
    np.equal: "==",
    np.not_equal: "!=",
}
_BOOLS = {np.logical_and: "&", np.logical_or: "|", np.logical_xor: "^"}
_HALVES = ("float16", "bfloat16")  # computed in float32 and rounded, by ways of their own


def operator(function: Any, inputs: Sequence[Described]) -> str | None:
    """Returns the operator that does what `function` does between scalars such as these; None for none.

    Args:
        function: What a kernel is bound to; only functions of numpy have operators.
        inputs: All of the same dtype and without axes, or there is none.
    """
    first = inputs[0]
    if len(inputs) != 2 or any(s.shape != () or s.dtype != first.dtype for s in inputs):
        return None
    try:
        if first.dtype.kind == "b":
            return _BOOLS.get(function)
        if first.dtype.kind in "iuf" and first.dtype.name not in _HALVES:
            return _NUMBERS.get(function)
    except TypeError:  # what cannot be hashed is no function of numpy
        return None
    return None


def scalar(value: Array) -> Any:
    """Returns an array without axes as a scalar of numpy; a scalar as it is."""
    return value[()]
