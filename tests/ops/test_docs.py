"""What the docstrings of ops must tell."""

from __future__ import annotations

import actorflow.ops  # noqa: F401  fills the table
from actorflow.graph import opdef
from actorflow.graph.opdef import Effect

OF_METHODS = {Effect.READ, Effect.WRITE, Effect.WAIT}  # the methods of Variable and of queues tell


def test_every_op_has_a_docstring_that_tells_of_its_gradient() -> None:
    silent = [
        name
        for name, definition in opdef.table().items()
        if definition.effect not in OF_METHODS
        and definition.constructor.__module__.startswith("actorflow.")
        and "gradient" not in (definition.constructor.__doc__ or "").lower()
    ]

    assert silent == []
