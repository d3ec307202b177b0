"""Gradients beyond `af.gradients`: forward mode, rules of your own, and recomputing.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.graph.custom import custom_gradient
from actorflow.graph.forward import hessian_vector_product, jvp
from actorflow.ops.control.recompute import recompute

__all__ = [
    "custom_gradient", "hessian_vector_product", "jvp", "recompute",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
