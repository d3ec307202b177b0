"""Linear algebra: factorisations, systems of equations, norms and products.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.ops.linalg.contraction import einsum, kron
from actorflow.ops.linalg.diagonal import diag_embed, diagonal
from actorflow.ops.linalg.factorisations import cholesky, eigh, eigvalsh, qr, svd, svdvals
from actorflow.ops.linalg.powers import matrix_exp, matrix_power
from actorflow.ops.linalg.products import cross, matrix_band_part, matrix_trace, outer
from actorflow.ops.linalg.spectrum import lstsq, matrix_norm, matrix_rank, pinv
from actorflow.ops.linalg.systems import cholesky_solve, det, inv, slogdet, solve, triangular_solve
from actorflow.ops.math.statistics import vector_norm

__all__ = [
    "cholesky", "cholesky_solve", "cross", "det", "diag_embed", "diagonal", "eigh", "eigvalsh", "einsum",
    "inv", "kron", "lstsq", "matrix_band_part", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_trace", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "triangular_solve",
    "vector_norm",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
