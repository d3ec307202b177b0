"""Samples of einsum, equations of every kind with sizes drawn for their letters, and of kron."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import Case, sample, several
from tests.ops.samples_linalg import ALL

EQUATIONS = [
    "ij,jk->ik", "i,j->ij", "ij->ji", "ij->", "ii->", "ii->i", "i->ii", "ij,ij->j", "bij,bjk->bik", "iji,j->ij",
    "ij,kj->ik", "ki,k->i", "i,i->", ",i->i", "ij,jk,kl->il", "ij,j,jk,k->i", "...i,ij->...j", "...i,...i->...",
    "i...,...j->ij...", "...->", "...ij->...ji", "i...i->...", "ij...,j->...i", "abc,bcd->ad", "bi,bj,b->bij",
    "i,i,i,i,i,i->i", "...,...->...", "->", "...ii->...i", "ij,ik,il->jkl", "i...->...ii",
]  # fmt: skip


@sample("einsum", dtypes=ALL)
@st.composite
def einsum(draw: st.DrawFn) -> Case:
    equation = draw(st.sampled_from(EQUATIONS))
    sizes = {c: draw(st.sampled_from([2, 1, 3, 2])) for c in sorted(set(equation) - set(",.->"))}
    empty = draw(st.integers(0, 9)) == 0
    if empty and sizes:
        sizes[min(sizes)] = 0
    rests = [(), (2,), (1,), (1, 2), (2, 2), (2, 1)] if draw(st.booleans()) else [(2,), (2,)]
    given = []
    for text in equation.partition("->")[0].split(","):
        before, dots, after = text.partition("...")
        rest = draw(st.sampled_from(rests)) if dots else ()
        given.append((*(sizes[c] for c in before), *rest, *(sizes[c] for c in after)))
    assert all(np.prod(s) <= 64 for s in given)
    return Case(tuple(several(draw, given)), {"equation": equation})


@sample("kron", dtypes=ALL)
@st.composite
def kron(draw: st.DrawFn) -> Case:
    lead_a, lead_b = draw(st.sampled_from([((), ()), ((2,), ()), ((1,), (2,)), ((2, 1), (2,)), ((0,), ())]))
    m, n, p, q = (draw(st.sampled_from([2, 1, 2, 0])) for _ in range(4))
    return Case(tuple(several(draw, [(*lead_a, m, n), (*lead_b, p, q)])))
