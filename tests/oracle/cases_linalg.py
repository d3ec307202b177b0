"""Cases of products, systems, factors."""

from __future__ import annotations

import numpy as np

from tests.oracle.cases import call, each

each("matmul", lambda d: call(d.real(2, 3), d.real(3, 2)), lambda d: call(d.real(2, 1, 2), d.real(2, 2)))
each("mm", lambda d: call(d.real(2, 3), d.real(3, 2)))
each("__rmatmul__", lambda d: call(d.real(3, 2), d.real(2, 3)))
each("bmm", lambda d: call(d.real(2, 2, 3), d.real(2, 3, 1)))
each("dot, vdot, outer", lambda d: call(d.real(3), d.real(3)))
each(
    "linalg.vecdot",
    lambda d: call(d.real(2, 3), d.real(3)),
    lambda d: call(d.real(3, 2), d.real(3, 2), dim=0),
)
each("mv", lambda d: call(d.real(2, 3), d.real(3)))
each("inner", lambda d: call(d.real(2, 3), d.real(2, 3)))
each(
    "tensordot",
    lambda d: call(d.real(2, 3), d.real(3, 2), 1),
    lambda d: call(d.real(2, 3), d.real(3, 2), [[0], [1]]),
)
each(
    "einsum",
    lambda d: call([d.real(2, 3), d.real(3, 2)], "ij,jk->ki"),
    lambda d: call([d.real(3, 3)], "ii->i"),
)
each("kron", lambda d: call(d.real(2, 1), d.real(1, 3)))
each("cross, linalg.cross", lambda d: call(d.real(2, 3), d.real(2, 3), dim=1))
each("linalg.multi_dot", lambda d: call([d.real(2, 3), d.real(3, 2), d.real(2, 1)]))
each("addmm, addmm decomposed", lambda d: call(d.real(2, 2), d.real(2, 3), d.real(3, 2), beta=0.5, alpha=2.0))
each("addbmm", lambda d: call(d.real(2, 2), d.real(2, 2, 1), d.real(2, 1, 2), beta=0.5))
each("baddbmm", lambda d: call(d.real(2, 2, 2), d.real(2, 2, 1), d.real(2, 1, 2), beta=0.5))
each("addmv", lambda d: call(d.real(2), d.real(2, 3), d.real(3), beta=0.5))
each("addr", lambda d: call(d.real(2, 3), d.real(2), d.real(3), beta=0.5))
each("trace", lambda d: call(d.real(2, 3)))
each("linalg.matrix_power", lambda d: call(d.regular(2, 2), 3), lambda d: call(d.regular(2, 2), -2))
each("matrix_exp", lambda d: call(d.unit(2, 2)))
each("linalg.vander", lambda d: call(d.real(3), N=3))

# ---------------------------------------------------------------------------------------- systems

each(
    "linalg.solve", lambda d: call(d.regular(2, 2), d.real(2, 2)), lambda d: call(d.regular(2, 2), d.real(2))
)
each("linalg.solve_ex", lambda d: call(d.regular(2, 2), d.real(2, 2)))
each("linalg.solve_triangular", lambda d: call(np.triu(d.regular(3, 3)), d.real(3, 1), upper=True))
each("triangular_solve", lambda d: call(d.real(3, 1), np.tril(d.regular(3, 3)), False))
each("cholesky_solve", lambda d: call(d.real(2, 1), np.tril(d.regular(2, 2)), upper=False))
each("cholesky_inverse", lambda d: call(np.tril(d.regular(2, 2)), upper=False))
each("linalg.inv, linalg.inv_ex, linalg.det, linalg.slogdet", lambda d: call(d.regular(3, 3)))
each("logdet", lambda d: call(d.definite(2)))
each("linalg.pinv, pinverse", lambda d: call(d.real(3, 2)))
each("linalg.pinv hermitian", lambda d: call(d.definite(2), hermitian=True))
each("linalg.pinv singular", lambda d: call(d.real(3, 1), d.real(2, 1)))
each("linalg.matrix_rank", lambda d: call(np.outer(d.real(3), d.real(3))))
each("linalg.matrix_rank hermitian", lambda d: call(d.definite(3), hermitian=True))
each("linalg.lstsq", lambda d: call(d.real(3, 2), d.real(3, 1)))
each("linalg.lstsq grad_oriented", lambda d: call(d.real(3, 2), d.real(3, 1), driver="gels"))

# ---------------------------------------------------------------------------------------- factors

each(
    "linalg.cholesky, linalg.cholesky_ex, cholesky",
    lambda d: call(d.definite(2)),
    lambda d: call(d.definite(2), upper=True),
)
each("linalg.qr", lambda d: call(d.real(3, 2)))
each("qr", lambda d: call(d.real(3, 2)))
each("linalg.eigh", lambda d: call(d.definite(3), settled="out_fn"))
each("linalg.eigvalsh", lambda d: call(d.definite(3)))
each("linalg.svdvals, linalg.cond", lambda d: call(d.real(2, 3)))
each("linalg.svd", lambda d: call(d.real(2, 3), full_matrices=False, settled="fn_UVh"))
each("svd", lambda d: call(d.real(3, 2), settled="fn_UVh"))
