"""Samples of the ops of networks: pooling, softmax and its losses, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from actorflow.spec import windows
from tests.ops.samples import Case, dims, integers, sample, several, shapes, values

if TYPE_CHECKING:
    import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16", "int32")


def slides(draw: st.DrawFn) -> tuple[tuple[int, int], dict[str, Any], tuple[int, ...], tuple[int, int]]:
    """A window, how it slides, the shape of images that it fits on, and how many windows they hold."""
    size = draw(st.tuples(dims, dims))
    attrs: dict[str, Any] = {
        "strides": draw(st.tuples(dims, dims)),
        "padding": draw(st.sampled_from(["SAME", "VALID"])),
    }
    least = (1, 1) if attrs["padding"] == "SAME" else size
    height, width = (draw(st.integers(low, low + 3)) for low in least)
    image = (draw(st.integers(1, 2)), height, width, draw(st.integers(1, 2)))
    rows = windows(height, size[0], attrs["strides"][0], attrs["padding"])
    columns = windows(width, size[1], attrs["strides"][1], attrs["padding"])
    assert rows is not None
    assert columns is not None
    return size, attrs, image, (rows, columns)


@sample("max_pool", dtypes=FLOATS)
@st.composite
def max_pool(draw: st.DrawFn) -> Case:
    size, attrs, image, _ = slides(draw)
    return Case((values(draw, image),), {"size": size, **attrs})


@sample("max_pool_grad", dtypes=FLOATS)
@st.composite
def max_pool_grad(draw: st.DrawFn) -> Case:
    size, attrs, image, counted = slides(draw)
    given = [image, (image[0], *counted, image[3])]
    return Case(tuple(several(draw, given)), {"size": size, **attrs})


@sample("max_pool_gather", dtypes=FLOATS)
@st.composite
def max_pool_gather(draw: st.DrawFn) -> Case:
    size, attrs, image, _ = slides(draw)
    return Case(tuple(several(draw, [image, image])), {"size": size, **attrs})


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
