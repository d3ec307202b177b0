"""Samples of the ops of matrices and vectors; those with inverses are well conditioned."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import DTYPES, Case, broadcast_shapes, sample, several, shapes, values

LEADS = [(), (2,), (1,), (2, 1), (0,)]
leads = st.sampled_from(LEADS)

ALL = (*DTYPES, "int16", "int64", "uint16", "uint32", "uint64", "complex128")
"""Every dtype, for ops that move or add numbers."""

INEXACT = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "int32")
"""What LAPACK takes, halves by way of float32; int32 is refused."""


# ------------------------------------------------------------------------- products and parts


@sample("matrix_transpose", dtypes=ALL)
@st.composite
def matrices(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(2, empty=True))),))


def placed(x: np.ndarray, axis: int) -> np.ndarray:
    """The last axis moved to `axis`, where there is one."""
    return np.moveaxis(x, -1, max(axis, -x.ndim))


def lines(draw: st.DrawFn, size: int) -> Case:
    """Two arrays of vectors that broadcast, which lie along an axis that both have."""
    axis = draw(st.sampled_from([-1, -1, -2]))
    shapes = [s if axis == -1 or s else (1,) for s in broadcast_shapes(draw, 2)]
    a, b = several(draw, [(*s, size) for s in shapes])
    return Case((placed(a, axis), placed(b, axis)), {"axis": axis})


@sample("vecdot", dtypes=ALL)
@st.composite
def vecdot(draw: st.DrawFn) -> Case:
    return lines(draw, draw(st.sampled_from([2, 1, 0])))


@sample("cross", dtypes=ALL)
@st.composite
def cross(draw: st.DrawFn) -> Case:
    return lines(draw, 3)


@sample("matrix_band_part", dtypes=ALL)
@st.composite
def matrix_band_part(draw: st.DrawFn) -> Case:
    ends = st.none() | st.integers(-3, 3)
    return Case((values(draw, draw(shapes(2, empty=True))),), {"lower": draw(ends), "upper": draw(ends)})


# -------------------------------------------------------------------- systems and determinants


def orthogonal(rng: np.random.Generator, lead: tuple[int, ...], n: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(*lead, n, n)))[0]


def conditioned(draw: st.DrawFn, lead: tuple[int, ...], m: int, n: int) -> Any:
    """Matrices (*lead, m, n) whose singular values lie in [1, 3.2] and at least 0.4 apart."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    k = min(m, n)
    sizes = 3 - 0.6 * np.arange(k) + rng.uniform(-0.1, 0.1, (*lead, k))
    left, right = orthogonal(rng, lead, m)[..., :, :k], orthogonal(rng, lead, n)[..., :k, :]
    return (left * sizes[..., None, :]) @ right


sizes = st.sampled_from([2, 3, 1, 3, 0])


@sample("inv", dtypes=INEXACT)
@sample("det", dtypes=INEXACT)
@sample("slogdet", dtypes=INEXACT)
@st.composite
def square(draw: st.DrawFn) -> Case:
    n = draw(sizes)
    return Case((conditioned(draw, draw(leads), n, n),))


def leads_of_two(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return draw(
        st.sampled_from(
            [((), ()), ((), (2,)), ((2,), ()), ((2,), (2,)), ((1,), (2,)), ((2, 1), (2,)), ((0,), ())]
        )
    )


@sample("solve", dtypes=INEXACT)
@st.composite
def solve(draw: st.DrawFn) -> Case:
    lead_a, lead_b = leads_of_two(draw)
    n, columns = draw(sizes), draw(st.sampled_from([1, 2, 0]))
    return Case((conditioned(draw, lead_a, n, n), values(draw, (*lead_b, n, columns))))


@sample("triangular_solve", dtypes=INEXACT)
@st.composite
def triangular_solve(draw: st.DrawFn) -> Case:
    """With numbers in the half that is not read, too."""
    lead_a, lead_b = leads_of_two(draw)
    n, columns = draw(sizes), draw(st.sampled_from([1, 2, 0]))
    a, b = several(draw, [(*lead_a, n, n), (*lead_b, n, columns)])
    flags = {"lower": draw(st.booleans()), "adjoint": draw(st.booleans())}
    return Case((a + 4 * np.eye(n), b), flags)


# -------------------------------------------------------------------------------------- factors


def skewed(draw: st.DrawFn, lead: tuple[int, ...], n: int) -> Any:
    """Positive definite matrices, and something antisymmetric, which must not count."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    eigenvalues = 0.8 + 0.7 * np.arange(n) + rng.uniform(-0.1, 0.1, (*lead, n))
    vectors, other = orthogonal(rng, lead, n), rng.normal(size=(*lead, n, n))
    return (vectors * eigenvalues[..., None, :]) @ vectors.mT + 0.1 * (other - other.mT)


@sample("cholesky", dtypes=INEXACT)
@st.composite
def cholesky(draw: st.DrawFn) -> Case:
    return Case((skewed(draw, draw(leads), draw(sizes)),), {"upper": draw(st.booleans())})


@sample("eigh", dtypes=INEXACT)
@sample("eigvalsh", dtypes=INEXACT)
@st.composite
def symmetric(draw: st.DrawFn) -> Case:
    return Case((skewed(draw, draw(leads), draw(sizes)),))


@sample("matrix_exp", dtypes=INEXACT)
@st.composite
def matrix_exp(draw: st.DrawFn) -> Case:
    n = draw(sizes)
    return Case((values(draw, (*draw(leads), n, n), -1, 1) * draw(st.sampled_from([1, 0.1, 6])),))


def tall(draw: st.DrawFn) -> tuple[int, int]:
    return draw(st.sampled_from([(3, 2), (2, 2), (3, 3), (1, 1), (3, 1), (3, 0), (0, 0)]))


@sample("qr", dtypes=INEXACT)
@st.composite
def qr(draw: st.DrawFn) -> Case:
    """Tall ones: the gradient of wide ones must know their sizes."""
    return Case((conditioned(draw, draw(leads), *tall(draw)),))


@sample("svd", dtypes=INEXACT)
@sample("svdvals", dtypes=INEXACT)
@st.composite
def any_shape(draw: st.DrawFn) -> Case:
    m, n = draw(st.permutations(tall(draw)))
    return Case((conditioned(draw, draw(leads), m, n),))


@sample("pinv", dtypes=INEXACT)
@sample("matrix_rank", dtypes=INEXACT)
@st.composite
def with_cutoff(draw: st.DrawFn) -> Case:
    m, n = draw(st.permutations(tall(draw)))
    attrs = {"rtol": draw(st.sampled_from([None, 1e-3])), "eps": 2.0**-23}
    return Case((conditioned(draw, draw(leads), m, n),), attrs)
