"""Additions of Python numbers as ops, so that a firing costs nothing but dispatch.

Importing this module adds two ops and their kernels to the tables, as any program may.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.kernels.definition.registry import kernel
from actorflow.values.spec import Spec


def _same(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return inputs[:1]


@op("benchmark_number", spec=_same, gradient=NOT_DIFFERENTIABLE)
def number(x: Any) -> Tensor:
    """The only element of x, as a Python number."""
    return build_one("benchmark_number", [x])


@op("benchmark_add", spec=_same, gradient=NOT_DIFFERENTIABLE)
def add(a: Any, b: Any) -> Tensor:
    """The sum a + b of Python numbers."""
    return build_one("benchmark_add", [a, b])


@kernel("benchmark_number")
def _number(x: Any) -> Any:
    return x.item()


kernel("benchmark_add")(operator.add)
