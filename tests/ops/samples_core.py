"""Samples of the core ops: elementwise, logic, reductions, shapes, choosing and joining, matmul."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import (
    Case,
    bools,
    broadcast_shapes,
    dims,
    integers,
    one,
    reducing,
    sample,
    several,
    shapes,
    two,
    values,
)

ONE_INPUT = (
    "negative", "abs", "exp", "square", "sign", "tanh", "sigmoid", "relu", "identity", "stop_gradient",
    "zeros_like", "ones_like",
)  # fmt: skip
for op in ONE_INPUT:
    sample(op)(one)
for op in ("log", "sqrt"):
    sample(op)(lambda: one(0.1, 3))
sample("floor")(one)

for op in ("add", "subtract", "multiply", "maximum", "minimum"):
    sample(op)(two)
for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    sample(op)(two)
sample("divide")(lambda: two(0.5, 2))
sample("pow")(lambda: two(0.3, 2))


@sample("logical_and", dtypes=("bool",))
@sample("logical_or", dtypes=("bool",))
@st.composite
def two_bools(draw: st.DrawFn) -> Case:
    return Case(tuple(bools(draw, s) for s in broadcast_shapes(draw, 2)))


@sample("logical_not", dtypes=("bool",))
@st.composite
def one_bool(draw: st.DrawFn) -> Case:
    return Case((bools(draw, draw(shapes())),))


@sample("where")
@st.composite
def where(draw: st.DrawFn) -> Case:
    condition, *rest = broadcast_shapes(draw, 3)
    return Case((bools(draw, condition), *several(draw, rest)))


@sample("relu_grad")
@st.composite
def relu_grad(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    return Case(tuple(several(draw, [shape, shape])))


@sample("check_numerics")
@st.composite
def check_numerics(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(empty=True))),), {"message": "loss"})


@sample("cast")
@st.composite
def cast(draw: st.DrawFn) -> Case:
    return Case(
        (values(draw, draw(shapes(empty=True)), 0.1, 3),),
        {"dtype": draw(st.sampled_from(["float64", "complex128", "int8", "uint64", "bool", "float32"]))},
    )


@sample("custom_gradient", no_gradient="its rule is the user's, right or wrong")
@st.composite
def custom_gradient(draw: st.DrawFn) -> Case:
    y, x = several(draw, [draw(shapes()), draw(shapes())])
    return Case((y, x), {"object": "rule", "outputs": 1}, {"rule": lambda grad: grad})


# --------------------------------------------------------------------------------- reductions

for op in ("mean", "max", "min"):
    sample(op)(reducing)
sample("sum")(lambda: reducing(empty=True))
sample("argmax")(lambda: reducing(tuples=False))
sample("count")(lambda: reducing(keepdims=False))


# ------------------------------------------------------------------------------------- shapes


@sample("reshape")
@st.composite
def reshape(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    new = [*draw(st.permutations(shape)), *draw(st.sampled_from([[], [1]]))]
    if draw(st.booleans()) and new:
        new[draw(st.integers(0, len(new) - 1))] = -1
    if draw(st.booleans()):
        return Case((values(draw, shape), np.array(new, "int32")), {"shape": None}, late=True)
    return Case((values(draw, shape),), {"shape": tuple(new)})


@sample("reshape_like")
@st.composite
def reshape_like(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    return Case(tuple(several(draw, [shape, tuple(draw(st.permutations(shape)))])))


@sample("transpose")
@st.composite
def transpose(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    perm = draw(st.none() | st.permutations(range(len(shape))).map(tuple))
    if perm and draw(st.booleans()):
        perm = tuple(a - len(shape) for a in perm)
    return Case((values(draw, shape),), {"perm": perm})


@sample("expand_dims")
@st.composite
def expand_dims(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    axis: Any = draw(st.integers(-len(shape) - 1, len(shape)))
    if draw(st.booleans()):
        axis = tuple(draw(st.sampled_from([(0, -1), (0, 1), (-1, -2)])))
    return Case((values(draw, shape),), {"axis": axis})


@sample("squeeze")
@st.composite
def squeeze(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    ones = [i for i, d in enumerate(shape) if d == 1]
    axis: Any = None
    if draw(st.booleans()) and ones:
        axis = draw(st.sampled_from(ones)) - draw(st.sampled_from([0, len(shape)]))
        if draw(st.booleans()):
            axis = tuple(draw(st.lists(st.sampled_from(ones), unique=True)))
    return Case((values(draw, shape),), {"axis": axis})


@st.composite
def small_and_large(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    large = draw(shapes(empty=True))
    small = large[draw(st.integers(0, len(large))) :]
    ones = draw(st.integers(0, 2 ** len(small) - 1))
    return tuple(1 if ones >> i & 1 else d for i, d in enumerate(small)), large


@sample("broadcast_to")
@st.composite
def broadcast_to(draw: st.DrawFn) -> Case:
    small, large = draw(small_and_large())
    if draw(st.booleans()):
        return Case((values(draw, small), np.array(large, "int32")), {"shape": None}, late=True)
    return Case((values(draw, small),), {"shape": large})


@sample("broadcast_like")
@st.composite
def broadcast_like(draw: st.DrawFn) -> Case:
    return Case(tuple(several(draw, list(draw(small_and_large())))))


@sample("sum_to")
@st.composite
def sum_to(draw: st.DrawFn) -> Case:
    small, large = draw(small_and_large())
    return Case(tuple(several(draw, [large, small])))


# ------------------------------------------------------------------------- choosing and joining


@st.composite
def indexes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A basic index for an array of `shape`, in the form that attributes hold."""
    parts: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        ends = st.none() | st.integers(-size - 1, size + 1)
        step = st.none() | st.sampled_from([-2, -1, 1, 2])
        part = st.tuples(st.just("slice"), ends, ends, step)
        parts.append(draw(st.integers(-size, size - 1) | part if size else part))
    for extra in ("new", "..."):
        if draw(st.booleans()):
            parts.insert(draw(st.integers(0, len(parts))) if extra == "new" else len(parts), extra)
    return tuple(parts)


@sample("slice")
@st.composite
def slice_(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    return Case((values(draw, shape),), {"index": draw(indexes(shape))})


@sample("slice_grad")
@st.composite
def slice_grad(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    index = draw(indexes(shape))
    plain = {"new": None, "...": ...}
    numpy_index = tuple(slice(*p[1:]) if isinstance(p, tuple) else plain.get(p, p) for p in index)
    piece = np.zeros(shape)[numpy_index].shape
    return Case(tuple(several(draw, [piece, shape])), {"index": index})


def pieces(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], int]:
    """Shapes that can be joined along the axis."""
    shape = draw(shapes(1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    at = axis % len(shape)
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    return [(*shape[:at], n, *shape[at + 1 :]) for n in sizes], axis


@sample("concat")
@st.composite
def concat(draw: st.DrawFn) -> Case:
    given, axis = pieces(draw)
    return Case(tuple(several(draw, given)), {"axis": axis})


@sample("concat_grad")
@st.composite
def concat_grad(draw: st.DrawFn) -> Case:
    given, axis = pieces(draw)
    whole = np.concatenate([np.zeros(s) for s in given], axis).shape
    return Case(tuple(several(draw, [whole, *given])), {"axis": axis})


def table_and_indices(draw: st.DrawFn) -> tuple[tuple[int, ...], np.ndarray, int]:
    shape = draw(shapes(1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    indices = integers(
        draw, draw(shapes(0, 2)), -shape[axis], shape[axis] - 1, draw(st.sampled_from(["int32", "int64"]))
    )
    return shape, indices, axis


@sample("gather")
@st.composite
def gather(draw: st.DrawFn) -> Case:
    shape, indices, axis = table_and_indices(draw)
    return Case((values(draw, shape), indices), {"axis": axis})


@sample("gather_grad")
@st.composite
def gather_grad(draw: st.DrawFn) -> Case:
    shape, indices, axis = table_and_indices(draw)
    piece = np.take(np.zeros(shape), indices, axis).shape
    grad, params = several(draw, [piece, shape])
    return Case((grad, params, indices), {"axis": axis})


@sample("one_hot", dtypes=("int32",))
@st.composite
def one_hot(draw: st.DrawFn) -> Case:
    indices = integers(draw, draw(shapes()), -1, 4)
    return Case(
        (indices,),
        {"depth": draw(st.integers(0, 4)), "dtype": draw(st.sampled_from(["float32", "bool", "bfloat16"]))},
    )


# ------------------------------------------------------------------------------------ products


@sample("matmul")
@st.composite
def matmul(draw: st.DrawFn) -> Case:
    m, k, n = draw(dims), draw(st.integers(0, 3)), draw(dims)
    lead_a, lead_b = (s[:1] for s in broadcast_shapes(draw, 2))
    flags = {"transpose_a": draw(st.booleans()), "transpose_b": draw(st.booleans())}
    if lead_a and lead_b and 1 not in (lead_a[0], lead_b[0]):
        lead_b = lead_a
    a = (*lead_a, *((k, m) if flags["transpose_a"] else (m, k)))
    b = (*lead_b, *((n, k) if flags["transpose_b"] else (k, n)))
    assert prod(a) <= 27
    return Case(tuple(several(draw, [a, b])), flags)
