"""Samples of the random ops; they have no inputs."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.ops.samples import Case, sample, shapes

SEEDS = st.integers(0, 2**63 - 1)
DTYPES = st.sampled_from(["float16", "bfloat16", "float32", "float64"])


@sample("random_normal")
@st.composite
def random_normal(draw: st.DrawFn) -> Case:
    attrs = {"mean": draw(st.floats(-2, 2)), "stddev": draw(st.floats(0, 2))}
    return Case((), {"shape": draw(shapes()), "dtype": draw(DTYPES), "seed": draw(SEEDS), **attrs})


@sample("random_uniform")
@st.composite
def random_uniform(draw: st.DrawFn) -> Case:
    low = draw(st.floats(-2, 2))
    attrs = {"low": low, "high": low + draw(st.floats(0, 2))}
    return Case((), {"shape": draw(shapes()), "dtype": draw(DTYPES), "seed": draw(SEEDS), **attrs})
