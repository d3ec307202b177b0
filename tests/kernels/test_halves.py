"""What adds up or multiplies many halves does so in float32, and rounds once.

The law: of the same numbers in float32 a kernel gives the same result but for the last digit of the
half. In float16 ones add up to 2048 at most, in bfloat16 to 256, so thousands of them tell.
"""

from __future__ import annotations

from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given as draw_from
from hypothesis import strategies as st

from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.kernels.definition import registry
from actorflow.values.arrays import as_dtype
from tests.kernels.nn.test_softmax_portable import usable
from tests.ops.samples import SAMPLES
from tests.ops.test_conformance import COMPUTED, FEW, converted, laid_out, quiet

for path in sorted((Path(__file__).parents[1] / "ops").glob("samples_*.py")):
    import_module(f"tests.ops.{path.stem}")

HALVES = ("float16", "bfloat16")
LAYOUTS = ("rows first", "columns first", "backwards, every other")
MANY = 4100


class Use(NamedTuple):
    """An op and what it is given; floating inputs become halves."""

    op: str
    inputs: tuple[np.ndarray, ...]
    attrs: dict[str, Any]

    def __str__(self) -> str:
        shapes = " ".join("x".join(map(str, a.shape)) or "()" for a in self.inputs)
        told = ",".join(f"{k}={v}" for k, v in self.attrs.items() if k in ("axis", "ord", "groups", "mode"))
        return f"{self.op} {shapes} {told}".strip()


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape)


def drawn(*shape: int, low: float = 0.5, high: float = 1.5) -> np.ndarray:
    return np.random.default_rng(prod(shape)).uniform(low, high, shape)


def near_one(*shape: int) -> np.ndarray:
    """Numbers whose products stay in the range of a float16; a bfloat16 knows few of them."""
    return np.where(np.random.default_rng(0).uniform(size=shape) < 0.5, 1 - 2**-8, 1 + 2**-7)


def places(count: int, shape: tuple[int, ...], dtype: str = "int32") -> np.ndarray:
    return np.random.default_rng(1).integers(0, count, shape).astype(dtype)


def uses() -> list[Use]:
    return [*reductions(), *scans(), *scattered(), *pooled(), *products(), *convolutions(), *networks()]


def reductions() -> list[Use]:
    found = []
    for values in (ones, drawn):
        for x, axis in ((values(MANY), None), (values(MANY, 3), 0), (values(3, MANY), 1),
                        (values(MANY, 2), None), (values(70, 3, 60), (0, 2))):  # fmt: skip
            some = {"axis": axis, "keepdims": False}
            found += [Use(op, (x,), some) for op in ("sum", "mean", "logsumexp")]
            found += [Use("vector_norm", (x,), {**some, "ord": order}) for order in (0.0, 1.0, 2.0, 3.0)]
            found += [Use(op, (x,), {**some, "correction": 1.0}) for op in ("var", "std")]
        for like in ((), (3,), (1, 3), (MANY, 1), (1, 1)):
            found.append(Use("sum_to", (values(MANY, 3), np.zeros(like)), {}))
        found.append(Use("tile_grad", (values(MANY, 3), np.zeros((1, 3))), {"repetitions": (MANY, 1)}))
        found.append(Use("bincount", (places(2, (MANY,), "int64"), values(MANY)), {"minlength": 0}))
    for shape, axis in (((MANY,), None), ((MANY, 3), 0), ((3, MANY), 1)):
        found.append(Use("prod", (near_one(*shape),), {"axis": axis, "keepdims": True}))
    return found


def scans() -> list[Use]:
    found = []
    for shape, axis in (((MANY,), 0), ((MANY, 3), 0), ((3, MANY), 1)):
        some = {"axis": axis, "include_initial": True}
        found += [Use("cumulative_sum", (x,), some) for x in (ones(*shape), drawn(*shape))]
        found.append(Use("cumulative_prod", (near_one(*shape),), some))
    for shape in ((MANY, 1), (MANY, 16)):
        steps = ones(*shape), ones(*shape)
        found += [Use("linear_recurrence", steps, {"axis": 0, "reverse": r}) for r in (False, True)]
    return found


def scattered() -> list[Use]:
    found = []
    for values in (ones, drawn):
        rows, at = values(MANY, 3), places(2, (MANY,))
        found += [
            Use("scatter_add", (drawn(2, 3), at, rows), {"axis": 0}),
            Use("scatter_add", (drawn(3, 2), at, values(3, MANY)), {"axis": 1}),
            Use("scatter_nd_add", (drawn(2, 3), at[:, None], rows), {"batch_dims": 0}),
            Use("put_along_axis", (drawn(2, 3), places(2, (MANY, 3)), rows), {"axis": 0, "how": "add"}),
            Use("gather_grad", (rows, np.zeros((2, 3)), at), {"axis": 0}),
            Use("gather_grad", (values(3, MANY), np.zeros((3, 2)), at), {"axis": 1}),
        ]
        for op in ("segment_sum", "segment_mean"):
            found.append(Use(op, (rows, np.sort(at)), {"num_segments": None}))
            found.append(Use(f"unsorted_{op}", (rows, at), {"num_segments": 3}))
    rows = near_one(MANY, 3)
    found.append(Use("segment_prod", (rows, np.zeros(MANY, "int32")), {"num_segments": 1}))
    found.append(Use("unsorted_segment_prod", (rows, places(2, (MANY,))), {"num_segments": 2}))
    return found


def pooled() -> list[Use]:
    """One window of many pixels, and one pixel of many windows."""
    windows = {
        "size": (64, 65),
        "strides": (1, 1),
        "padding": "VALID",
        "dilations": (1, 1),
        "ceil_mode": False,
    }
    means = {**windows, "count_include_pad": False, "divisor": None}
    resized = {
        "scale": None, "method": "linear", "coordinates": "half_pixel", "rounding": "floor",
        "exclude_outside": False, "cubic": -0.75, "antialias": True,
    }  # fmt: skip
    small, large = (1, 2, 2, 3), (1, 128, 129, 3)
    peak = np.zeros((1, 127, 129, 1))
    peak[0, 63, 64] = 1  # the maximum of all windows
    patches = {"size": (64, 65), "strides": (1, 1), "padding": "VALID", "dilations": (1, 1)}
    found = []
    for values in (ones, drawn):
        found += [
            Use("avg_pool", (values(1, 65, 66, 3),), means),
            Use("avg_pool", (values(1, 65, 66, 3),), {**means, "divisor": 1}),
            Use("avg_pool_grad", (values(1, 64, 65, 2), np.zeros((1, 127, 129, 2))), {**means, "divisor": 2}),
            Use("adaptive_avg_pool", (values(1, 90, 91, 3),), {"size": (2, 1)}),
            Use("adaptive_avg_pool_grad", (values(1, 300, 2), np.zeros((1, 4, 2))), {"size": (300,)}),
            Use("extract_patches_grad", (values(1, 4, 5, 64 * 65), np.zeros((1, 67, 69, 1))), patches),
            Use("resize", (values(*large),), {**resized, "size": (2, 2)}),
            Use("resize_grad", (values(*large), np.zeros(small)), {**resized, "size": (128, 129)}),
        ]
        margins = {"paddings": ((MANY, 0), (0, 0)), "mode": "edge"}
        found.append(Use("pad_grad", (values(MANY + 2, 3), np.zeros((2, 3))), margins))
    found.append(Use("max_pool_grad", (peak, values(1, 64, 65, 1)), windows))
    return found


def products() -> list[Use]:
    found = []
    for values in (ones, drawn):
        a, b = values(3, MANY), values(MANY, 2)
        plain = {"transpose_a": False, "transpose_b": False}
        found += [
            Use("matmul", (a, b), plain),
            Use("matmul", (a.T, b), {**plain, "transpose_a": True}),
            Use("matmul", (a, b.T), {**plain, "transpose_b": True}),
            Use("matmul", (values(2, 1, MANY), values(2, MANY, 1)), plain),
            Use("vecdot", (a, values(3, MANY)), {"axis": -1}),
            Use("vecdot", (values(MANY, 3), values(MANY, 3)), {"axis": -2}),
            Use("einsum", (a, b), {"equation": "ab,bc->ac"}),
            Use("einsum", (a, b, values(MANY)), {"equation": "ab,bc,b->"}),
            Use("einsum", (a,), {"equation": "ab->a"}),
        ]
    found.append(Use("cross", (drawn(MANY, 3), drawn(MANY, 3) + 0.125), {"axis": -1}))
    return found


def convolutions() -> list[Use]:
    """Many channels, many filters, many places; and a group of one channel, whose window is large."""
    attrs = {"strides": (1, 1), "padding": "VALID", "dilations": (1, 1), "groups": 1}
    found = []
    for values in (ones, drawn):
        one, many = values(1, 3, 3, 4), values(1, 3, 3, 1100)
        back, dy = values(2, 2, 4, 1100), values(1, 2, 2, 1100)
        found += [
            Use("conv", (many, values(2, 2, 1100, 3)), attrs),
            Use("conv", (many, values(2, 2, 550, 4)), {**attrs, "groups": 2}),
            Use("conv", (values(1, 64, 65, 3), values(64, 65, 1, 3)), {**attrs, "groups": 3}),
            Use("conv_grad_input", (dy, back, one), attrs),
            Use("conv_grad_input", (dy, back[:, :, :2], one), {**attrs, "groups": 2}),
            Use("conv_grad_input", (many, values(1, 1, 4, 1100), one), attrs),
            Use("conv_transpose", (dy, back), {**attrs, "strides": (2, 2)}),
        ]
        images, grads = values(1, 65, 66, 4), values(1, 64, 65, 4)
        for groups in (1, 2, 4):
            given = images, grads, np.zeros((2, 2, 4 // groups, 4))
            found.append(Use("conv_grad_filter", given, {**attrs, "groups": groups}))
    image = values(1, 32, 33, 3)
    found.append(
        Use("conv_transpose", (image, values(64, 65, 1, 3)), {**attrs, "padding": "SAME", "groups": 3})
    )
    return found


def networks() -> list[Use]:
    found = []
    for values in (ones, drawn):
        rows, labels = values(3, MANY), places(MANY, (3,))
        found += [
            Use("softmax", (rows,), {"axis": -1}),
            Use("softmax", (rows.T,), {"axis": 0}),
            Use("log_softmax", (rows,), {"axis": -1}),
            Use("softmax_cross_entropy", (rows, labels), {}),
            Use("softmax_cross_entropy_grad", (rows, labels, values(3)), {}),
        ]
        few, much = drawn(2, 4, 8), drawn(2, MANY, 8)
        attention = {"scale": 0.125, "is_causal": False}
        found += [
            Use("scaled_dot_product_attention", (few, much, values(2, MANY, 5)), attention),
            Use(
                "scaled_dot_product_attention_grad",
                (values(2, MANY, 5), much, few, values(2, 4, 5)),
                attention,
            ),
        ]
    for axis, shape, kept in (((0,), (MANY, 3), (1, 3)), ((1,), (3, MANY), (3, 1))):
        how = {"axis": axis, "epsilon": 1e-5, "centre": True}
        scale = ones(*shape[1:])
        found.append(Use("normalise", (drawn(*shape), scale, scale), how))
        inputs = drawn(*shape), drawn(*shape), drawn(*kept).astype("float32"), ones(*kept).astype("float32")
        found.append(Use("normalise_grad", (*inputs, scale, scale), how))
    return found


USES = uses()


def steps(made: Any, told: Any) -> int:
    """The largest number of steps from one half to the next on the way between the two; NaN is NaN."""

    def counted(a: Any) -> np.ndarray:
        bits = np.ascontiguousarray(a).view(np.int16).astype(np.int64)
        return np.where(bits < 0, -(2**15) - bits, bits)

    wide = np.asarray(made, "float32"), np.asarray(told, "float32")
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    return int(np.where(same, 0, np.abs(counted(made) - counted(told))).max(initial=0))


def in_both(function: Any, inputs: Any, attrs: Any, dtype: str) -> list[tuple[Any, Any]]:
    """(computed of halves, computed of the same numbers in float32) for each output that is a half."""
    half = as_dtype(dtype)
    with quiet():
        made = function(*inputs, **attrs)
        told = function(*(a.astype("float32") if a.dtype == half else a for a in inputs), **attrs)
        made, told = (m if isinstance(m, tuple) else (m,) for m in (made, told))
        return [(m, t.astype(half)) for m, t in zip(made, told, strict=True) if m.dtype == half]


def kernels(op: str) -> list[Any]:
    """Those that numpy can run: the one for every library, and its own."""
    return [
        registry.table()[op, lib].on(np) for lib in (registry.EVERY, "numpy") if (op, lib) in registry.table()
    ]


@pytest.mark.parametrize("use", USES, ids=str)
@pytest.mark.parametrize("dtype", HALVES)
def test_many_halves_are_added_up_in_float32(use: Use, dtype: str) -> None:
    given = [a.astype(as_dtype(dtype)) if a.dtype == np.float64 else a for a in use.inputs]
    compared = 0
    for layout in LAYOUTS:
        inputs = given if layout == "rows first" else [laid_out(a, layout) for a in given]
        for function in kernels(use.op):
            for made, told in in_both(function, inputs, use.attrs, dtype):
                assert np.isfinite(made.astype("float32")).any(), "nothing is left to compare"
                assert steps(made, told) <= 1, f"{layout}, by {function}: {made}, of float32 {told}"
                compared += 1

    assert compared


NOT_ONCE = {"nextafter": "the next number is another one in each dtype"}
FLOATING = [
    op
    for op in COMPUTED
    if op in SAMPLES
    and opdef.lookup(op).effect is Effect.PURE
    and set(HALVES) & set(SAMPLES[op].dtypes)
    and op not in NOT_ONCE
]


@pytest.mark.parametrize("op", FLOATING)
def test_halves_are_rounded_once(op: str) -> None:
    """Of few elements: for every op, so for those that come."""

    @FEW
    @draw_from(data=st.data())
    def law(data: st.DataObject) -> None:
        case = data.draw(SAMPLES[op].cases)
        for dtype in HALVES:
            half = converted(case, dtype)
            if dtype not in SAMPLES[op].dtypes or "dtype" in case.attrs or not usable(op, half):
                continue
            for function in kernels(op):
                for made, told in in_both(function, half.inputs, half.attrs, dtype):
                    assert steps(made, told) <= 1, f"by {function}: {made}, of float32 {told}"

    law()


@pytest.mark.parametrize(("dtype", "most"), [("float16", 2048), ("bfloat16", 256)])
def test_a_sum_in_halves_would_be_caught(dtype: str, most: int) -> None:
    half = as_dtype(dtype)
    total = half.type(0)
    for _ in range(MANY):
        total = half.type(total + half.type(1))

    assert total == most
    assert steps(total, half.type(MANY)) > 1


SPECIAL = (np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 2.0, 2.0**-13)
ORDERED: list[tuple[str, dict[str, Any]]] = [
    *((op, {"axis": -1, "keepdims": False}) for op in ("max", "min", "argmax", "argmin")),
    *((op, {"axis": -1, "descending": d}) for op in ("sort", "argsort") for d in (False, True)),
    *(("topk", {"k": k, "axis": -1, "largest": largest}) for k in (2, 6) for largest in (False, True)),
    *((op, {"axis": -1}) for op in ("cumulative_max", "cumulative_min")),
    *((op, {}) for op in ("unique_values", "unique_all")),
]


@pytest.mark.parametrize(("op", "attrs"), ORDERED)
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_have_the_order_of_float32(op: str, attrs: dict[str, Any], dtype: str) -> None:
    """With NaN, infinities and both zeros; which of these is the larger is left open."""
    random, half = np.random.default_rng(0), as_dtype(dtype)
    for _ in range(50):
        x = random.choice(SPECIAL, (3, 12)).astype(half)
        for function in kernels(op):
            with quiet():
                made, told = function(x, **attrs), function(x.astype("float32"), **attrs)
            made, told = (m if isinstance(m, tuple) else (m,) for m in (made, told))
            for m, t in zip(made, told, strict=True):
                np.testing.assert_array_equal(m.astype("float32"), t.astype("float32"))
