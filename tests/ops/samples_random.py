"""Samples of the random ops; few have inputs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import Case, sample, shapes, values

SEEDS = st.integers(0, 2**63 - 1)
DTYPES = st.sampled_from(["float16", "bfloat16", "float32", "float64"])
FLOATS = ("float32", "float64", "float16", "bfloat16", "int32")


@sample("random_normal")
@sample("random_truncated_normal")
@st.composite
def random_normal(draw: st.DrawFn) -> Case:
    attrs = {"mean": draw(st.floats(-2, 2)), "stddev": draw(st.floats(0, 2))}
    return Case((), {"shape": draw(shapes(empty=True)), "dtype": draw(DTYPES), "seed": draw(SEEDS), **attrs})


@sample("random_uniform")
@st.composite
def random_uniform(draw: st.DrawFn) -> Case:
    low = draw(st.floats(-2, 2))
    attrs = {"low": low, "high": low + draw(st.floats(0, 2))}
    return Case((), {"shape": draw(shapes(empty=True)), "dtype": draw(DTYPES), "seed": draw(SEEDS), **attrs})


@sample("random_exponential")
@st.composite
def random_exponential(draw: st.DrawFn) -> Case:
    return Case((), {"shape": draw(shapes(empty=True)), "dtype": draw(DTYPES), "seed": draw(SEEDS)})


@sample("random_bernoulli", dtypes=FLOATS)
@st.composite
def random_bernoulli(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(empty=True)), 0, 1),), {"seed": draw(SEEDS)})


@sample("random_integers")
@st.composite
def random_integers(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]))
    held = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    low, last = sorted(draw(st.tuples(held, held)))
    attrs = {"low": low, "last": last, "dtype": dtype, "seed": draw(SEEDS)}
    return Case((), {"shape": draw(shapes(empty=True)), **attrs})


@sample("random_permutation")
@st.composite
def random_permutation(draw: st.DrawFn) -> Case:
    n, seed = draw(st.integers(0, 5)), draw(SEEDS)
    if draw(st.booleans()):
        return Case((), {"n": n, "seed": seed})
    return Case(
        (np.array(n, draw(st.sampled_from(["int32", "int64", "uint8"]))),),
        {"n": None, "seed": seed},
        late=True,
    )


@sample("random_categorical", dtypes=FLOATS)
@st.composite
def random_categorical(draw: st.DrawFn) -> Case:
    lead, classes = draw(shapes(max_rank=2, empty=True)), draw(st.integers(1, 4))
    attrs = {"num_samples": draw(st.none() | st.integers(0, 3)), "seed": draw(SEEDS)}
    return Case((values(draw, (*lead, classes)),), attrs)
