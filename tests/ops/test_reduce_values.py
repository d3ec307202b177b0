"""Reductions, scans, sorting, sets and segments compute what numpy's own functions or plain loops do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.ops.samples_reduce  # noqa: F401  fills the table of samples
from actorflow.errors import SpecError
from actorflow.graph import opdef
from actorflow.values.spec import Spec
from tests.ops.samples import SAMPLES
from tests.ops.test_conformance import converted, quiet
from tests.support.reference import call
from tests.support.strategies import examples


def initial(f: Any, first: Any) -> Callable[..., Any]:
    def wanted(x: Any, *, axis: int, include_initial: bool) -> Any:
        y = f(x, axis, dtype=x.dtype)
        edge = np.full_like(np.take(x, [0] if x.shape[axis] else [], axis), first)
        if not x.shape[axis]:
            edge = np.full([1 if i == axis % x.ndim else d for i, d in enumerate(x.shape)], first, x.dtype)
        return np.concatenate([edge, y], axis) if include_initial else y

    return wanted


def recurrence(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    r = np.moveaxis(b.copy(), axis, 0)
    factors = np.moveaxis(a, axis, 0)
    order = range(len(r))[::-1] if reverse else range(len(r))
    before = None
    for k in order:
        if before is not None:
            r[k] = factors[k] * r[before] + r[k]
        before = k
    return np.moveaxis(r, 0, axis)


def ordered(f: Any) -> Callable[..., Any]:
    def wanted(x: Any, *, axis: int, descending: bool) -> Any:
        if not descending:
            return f(x, axis, kind="stable")
        order = np.argsort(-x.astype(np.float64), axis, kind="stable")
        return order if f is np.argsort else np.take_along_axis(x, order, axis)

    return wanted


def best(x: Any, *, k: int, axis: int, largest: bool) -> Any:
    order = np.argsort(x.astype(float) * (-1 if largest else 1), axis, kind="stable")
    first = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, first, axis), first


def in_top(predictions: Any, targets: Any, *, k: int) -> Any:
    out = np.zeros(targets.shape, bool)
    for i in np.ndindex(targets.shape):
        if 0 <= targets[i] < predictions.shape[-1]:
            out[i] = sum(predictions[i] > predictions[i][targets[i]]) < k
    return out


def unique(x: Any) -> Any:
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return values, first, inverse.reshape(x.shape), counts


def segments(f: Any, nothing: Any) -> Callable[..., Any]:
    def wanted(x: Any, ids: Any, *, num_segments: int | None) -> Any:
        k = num_segments if num_segments is not None else (int(ids[-1]) + 1 if len(ids) else 0)
        rows = [x[ids == i] for i in range(k)]
        none = np.full(x.shape[1:], nothing(x.dtype) if callable(nothing) else nothing, x.dtype)
        folded = [f(r, axis=0).astype(x.dtype) if len(r) else none for r in rows]
        return np.stack(folded) if k else np.zeros((0, *x.shape[1:]), x.dtype)

    return wanted


def lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def quantile_positions(x: Any, *, q: float, axis: int) -> Any:
    at = q * (x.shape[axis] - 1)
    low = int(at)
    return np.int64(low), np.int64(min(low + 1, x.shape[axis] - 1)), np.asarray(at - low, x.dtype)


REFERENCE: dict[str, Callable[..., Any]] = {
    "mean": np.mean,
    "prod": lambda x, **attrs: np.prod(x, dtype=x.dtype, **attrs),
    "any": np.any,
    "all": np.all,
    "count_nonzero": np.count_nonzero,
    "argmin": np.argmin,
    "var": lambda x, *, correction, **attrs: np.var(x, ddof=correction, **attrs),
    "std": lambda x, *, correction, **attrs: np.std(x, ddof=correction, **attrs),
    "logsumexp": lambda x, **attrs: np.log(np.sum(np.exp(x), **attrs)),
    "vector_norm": lambda x, **attrs: np.linalg.vector_norm(x, **attrs),
    "quantile_positions": quantile_positions,
    "cumulative_sum": initial(np.cumsum, 0),
    "cumulative_prod": initial(np.cumprod, 1),
    "cumulative_max": np.maximum.accumulate,
    "cumulative_min": np.minimum.accumulate,
    "linear_recurrence": recurrence,
    "sort": ordered(np.sort),
    "argsort": ordered(np.argsort),
    "topk": best,
    "in_top_k": in_top,
    "searchsorted": np.searchsorted,
    "unique_values": lambda x: unique(x)[0],
    "unique_counts": lambda x: (unique(x)[0], unique(x)[3]),
    "unique_inverse": lambda x: (unique(x)[0], unique(x)[2]),
    "unique_all": unique,
    "nonzero": lambda x, rank: np.nonzero(x),
    "bincount": lambda x, w=None, *, minlength: np.bincount(x, w, minlength),
    "histogram": np.histogram,
}
for way, f, nothing in (
    ("sum", np.sum, 0),
    ("mean", np.mean, 0),
    ("prod", np.prod, 1),
    ("max", np.max, lowest),
    ("min", np.min, highest),
):
    REFERENCE[f"segment_{way}"] = REFERENCE[f"unsorted_segment_{way}"] = segments(f, nothing)


def test_every_op_of_the_family_has_a_reference() -> None:
    family = {"reduce", "scan", "sort", "sets", "segment", "statistics"}
    ours = {n for n, d in opdef.table().items() if d.constructor.__module__.split(".")[-1] in family}

    assert ours - set(REFERENCE) == {"max", "min", "argmax", "count"}


COMPARED = {"float64", "float32", "int32", "int8", "uint8", "uint64", "bool"}
LEFT_OUT = {"histogram": {"float32"}}  # numpy rounds the ends of the range to it before it divides it


@pytest.mark.parametrize("op", REFERENCE)
def test_it_computes_what_numpy_does(op: str) -> None:
    compared = set()

    @settings(max_examples=examples(15), deadline=None)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = data.draw(SAMPLES[op].cases)
        for dtype in sorted(set(SAMPLES[op].dtypes) & COMPARED - LEFT_OUT.get(op, set())):
            typed = converted(case, dtype)
            try:
                opdef.lookup(op).spec([Spec(a.shape, a.dtype) for a in typed.inputs], typed.attrs)
            except SpecError:
                continue
            with quiet():
                made = call(op, typed.inputs, typed.attrs)
                told = REFERENCE[op](*typed.inputs, **typed.attrs)
            compared.add(dtype)
            rtol = 3e-6 if dtype == "float32" else 1e-13
            for m, t in zip(made, told if isinstance(told, tuple) else (told,), strict=True):
                np.testing.assert_allclose(m, t, rtol=rtol, atol=rtol, err_msg=f"{op} {dtype}")

    law()
    assert "float64" in compared
