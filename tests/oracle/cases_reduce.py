"""Cases of reductions, running totals, order."""

from __future__ import annotations

import math

import numpy as np

from tests.oracle.cases import call, each

NANS = np.array([[1.5, np.nan, -2.0], [0.5, 0.25, np.nan]])

for name in ["sum", "mean", "prod", "nansum", "nanmean"]:
    each(name, lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), 1, True))
each("amax, amin", lambda d: call(d.real(2, 3), (0, 1)), lambda d: call(d.real(2, 3), -1, True))
each("logsumexp", lambda d: call(d.real(2, 3), 1), lambda d: call(d.real(2, 3), (0, 1), True))
each("all, any", lambda d: call(np.array([[0.0, 1.0], [2.0, 3.0]]), 1), lambda d: call(np.zeros((0, 2)), 0))
each("count_nonzero", lambda d: call(np.array([[0.0, 1.0], [2.0, 3.0]]), 1))
each("max reduction_no_dim, min reduction_no_dim", lambda d: call(d.real(2, 3)))
each(
    "max reduction_with_dim, min reduction_with_dim",
    lambda d: call(d.real(2, 3), 1),
    lambda d: call(d.real(2, 3), 0, True),
)
each("aminmax", lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), dim=1))
each("argmax, argmin", lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), 1, True))

for name in ["var", "std", "var_mean", "std_mean"]:
    each(name, lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), 1, correction=0, keepdim=True))
    each(f"{name} unbiased", lambda d: call(d.real(2, 3), False))

# ----------------------------------------------------------------------------------------- norms

each(
    "linalg.vector_norm",
    lambda d: call(d.real(2, 3)),
    lambda d: call(d.real(2, 3), 1.5, 1),
    lambda d: call(d.real(2, 3), math.inf, 0, True),
)
each(
    "linalg.matrix_norm",
    lambda d: call(d.real(2, 3)),
    lambda d: call(d.real(2, 3), "nuc"),
    lambda d: call(d.real(2, 3), 1),
)
each(
    "linalg.norm", lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), 2), lambda d: call(d.real(4), 3)
)
each("linalg.norm subgradients_at_zero", lambda d: call(np.zeros((2, 2)), "fro"), lambda d: call(np.zeros(3)))
each("norm", lambda d: call(d.real(2, 3), 2), lambda d: call(d.real(2, 3), 3, 1))
each("norm fro", lambda d: call(d.real(2, 3), "fro"))
each("norm nuc", lambda d: call(d.real(2, 3), "nuc"))
each("norm inf", lambda d: call(d.real(2, 3), math.inf))
each("dist", lambda d: call(d.real(2, 3), d.real(3)), lambda d: call(d.real(3), d.real(3) + 0.2, 3))

# ------------------------------------------------------------------------------- running totals

each("quantile", lambda d: call(d.real(2, 3), 0.4), lambda d: call(d.real(2, 4), 0.3, 1, True))
each("median", lambda d: call(d.real(2, 3), 1), lambda d: call(d.real(5)))
each("cumsum, cumprod, cummax, cummin", lambda d: call(d.real(2, 3), 1), lambda d: call(d.real(3, 2), 0))
each("diff", lambda d: call(d.real(2, 4), 2), lambda d: call(d.real(2, 3), 1, 0, d.real(1, 3)))
each(
    "trapezoid, trapz", lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), np.array([0.0, 1.0, 3.0]))
)

# ----------------------------------------------------------------------------------------- order

each("sort", lambda d: call(d.real(2, 3)), lambda d: call(d.real(3, 2), 0, True))
each("argsort", lambda d: call(d.real(2, 3)), lambda d: call(d.real(3, 2), 0, True))
each("msort", lambda d: call(d.real(3, 2)))
each("topk", lambda d: call(d.real(2, 4), 2), lambda d: call(d.real(4, 2), 2, 0, False))
each("kthvalue", lambda d: call(d.real(2, 4), 2), lambda d: call(d.real(4), 3, 0, True))
each(
    "searchsorted",
    lambda d: call(np.sort(d.real(5)), d.real(2, 3)),
    lambda d: call(np.arange(4.0), np.array([0.0, 2.0, 9.0]), right=True),
)
each("bucketize", lambda d: call(d.real(2, 3), np.array([-0.5, 0.1, 0.6])))
each("unique", lambda d: call(np.array([2.0, 1.0, 2.0, -1.0]), return_inverse=True, return_counts=True))
each("bincount", lambda d: call(d.whole(4, 6), minlength=6), lambda d: call(d.whole(4, 6), d.real(6)))
each("histogram", lambda d: call(d.real(8), 4), lambda d: call(d.real(8), 3, range=[-1.0, 1.0]))
each("histc", lambda d: call(d.real(8), 4), lambda d: call(d.real(8), 3, -1, 1))
