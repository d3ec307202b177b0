"""Samples of the ops of networks: softmax and its losses, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.ops.samples import Case, integers, sample, several, shapes, values

if TYPE_CHECKING:
    import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16", "int32")


@sample("softmax", dtypes=FLOATS)
@sample("log_softmax", dtypes=FLOATS)
@st.composite
def softmax(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1))
    return Case((values(draw, shape),), {"axis": draw(st.integers(-len(shape), len(shape) - 1))})


def labelled(draw: st.DrawFn) -> tuple[tuple[int, ...], np.ndarray, int]:
    """The shape of some examples, their labels, and the number of classes."""
    examples, classes = draw(shapes(max_rank=2)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from(["int32", "int64", "uint8"]))
    return examples, integers(draw, examples, 0, classes - 1, dtype), classes


@sample("softmax_cross_entropy", dtypes=FLOATS)
@st.composite
def softmax_cross_entropy(draw: st.DrawFn) -> Case:
    examples, labels, classes = labelled(draw)
    return Case((values(draw, (*examples, classes)), labels))


@sample("softmax_cross_entropy_grad", dtypes=FLOATS)
@st.composite
def softmax_cross_entropy_grad(draw: st.DrawFn) -> Case:
    examples, labels, classes = labelled(draw)
    logits, dy = several(draw, [(*examples, classes), examples])
    return Case((logits, labels, dy))


@sample("dropout", dtypes=FLOATS)
@st.composite
def dropout(draw: st.DrawFn) -> Case:
    attrs = {"rate": draw(st.sampled_from([0.1, 0.5, 0.9])), "seed": draw(st.integers(0, 2**63 - 1))}
    return Case((values(draw, draw(shapes())),), attrs)
