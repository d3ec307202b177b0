"""Constant folding: what depends on constants alone is computed once, when the plan is made.

Only what is small and quick, since it happens on the event loop and the value stays in memory.
"""

from __future__ import annotations

import math

from actorflow.errors import PlacementError
from actorflow.kernels.definition import registry
from actorflow.plan.passes.rewrite import Rewriting, is_free
from actorflow.plan.placement.devices import parse_device
from actorflow.plan.program import Constant, PlanNode, Program
from actorflow.values import arrays, lease
from actorflow.values.arrays import Array

_LARGEST_BYTES = 64 * 1024  # of a value that is larger than all it is made of
_MOST_WORK = 1e6  # as kernels estimate it: about a millisecond


def fold_constants(program: Program) -> Program:
    """Returns the program with constants in place of the nodes that depend on nothing else."""
    rewriting = Rewriting(program)
    for i, node in rewriting:
        # A card's last digits may differ from the host's, and passes keep the bits.
        if is_free(node) and _on_host(node) and all(isinstance(s, Constant) for s in node.inputs):
            values = _compute(node, [s.value for s in node.inputs if isinstance(s, Constant)])
            if values is not None:
                rewriting.put(i, *(Constant(lease.read_only_copy(value)) for value in values))
    return rewriting.result()


def _on_host(node: PlanNode) -> bool:
    return parse_device(node.device).kind == "cpu"


def _compute(node: PlanNode, inputs: list[Array]) -> tuple[Array, ...] | None:
    """Returns the outputs of a node, None when they are to be left to the step."""
    if not all(spec.is_static for spec in node.outputs):  # a list never is, and no constant holds one
        return None
    made = sum(math.prod(d or 0 for d in s.shape or ()) * s.dtype.itemsize for s in node.outputs)
    # Never more than the inputs take already, which folding lets go of, or what is little.
    if made > max(_LARGEST_BYTES, sum(map(arrays.nbytes, inputs))):
        return None
    try:
        kernel = registry.find(node.op)
        # It would be computed on the event loop, while planning.
        if kernel.cost(*inputs, **node.attrs) > _MOST_WORK:
            return None
        found = arrays.quietly(kernel.function, *inputs, **node.attrs)
    except PlacementError:  # computed by no kernel: an actor's op
        return None
    # Left where it is: it fails in the step, at its node.
    except Exception:  # noqa: BLE001  the step runs it again, and says where it failed
        return None
    values = found if isinstance(found, tuple) else (found,)
    fits = all(s.fits(v.shape, v.dtype) for s, v in zip(node.outputs, values, strict=True))
    # As planned from specs: what does not fit them is an error that its node is to report.
    return values if fits else None
