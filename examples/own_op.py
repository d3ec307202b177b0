"""An op of one's own, from outside the package: kernel, spec rule, gradient rule and constructor.

python examples/own_op.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import actorflow as af
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import build_one
from actorflow.graph.opdef import op
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, unary


@kernel("log_cosh")
@in_float32
def kernel_of_log_cosh(x: Any, *, xp: Any = np) -> Any:
    """|x| + log(1 + e^(-2|x|)) - log 2, which does not overflow."""
    size = xp.abs(x)
    return size + xp.log1p(xp.exp(-2 * size)) - x.dtype.type(np.log(2))


def gradient_of_log_cosh(use: Use, grad: af.Tensor) -> Sequence[af.Tensor | None]:
    """The gradient g·tanh x."""
    return [grad * af.tanh(use.inputs[0])]


@op("log_cosh", spec=unary("log_cosh", DtypeClass.FLOATING), gradient=gradient_of_log_cosh)
@api_function
def log_cosh(x: Any, *, name: str | None = None) -> af.Tensor:
    """The logarithm of cosh x of floats, without overflow; gradient g·tanh x."""
    return build_one("log_cosh", [x], name=name)


async def main() -> None:
    """Computes it, and checks its gradient of the first and the second order."""
    with af.Graph() as graph:
        x = af.placeholder("float64", (None,), name="x")
        y = log_cosh(x)
        (slope,) = af.gradients(y, [x])
    async with af.Session(graph) as session:
        for value in await session.run([y, slope], {x: np.array([-1000.0, -1.0, 0.0, 1.0])}):
            print(value.round(4).tolist())
    await af.testing.check_gradients(y, x, {x: np.array([0.5, -1.5])}, order=2)
    try:
        with graph:
            log_cosh([1, 2])
    except af.errors.SpecError as error:
        print(error.what.splitlines()[0])


if __name__ == "__main__":
    af.run(main())
