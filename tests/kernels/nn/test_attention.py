"""Attention in parts against all at once in float64: several parts, both kinds of masks, broadcast heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.errors import SpecError
from actorflow.kernels.nn import attention
from tests.support.arrays import drawn

SEEN = np.random.default_rng(0).random((2, 1, 300, 400)) < 0.7
SEEN[:, :, 7] = False
MASKS: dict[str, Any] = {
    "none": (),
    "bool": (SEEN,),
    "bool for keys": (SEEN[:, :, :1],),
    "added": (np.where(SEEN, drawn(*SEEN.shape), np.float32(-np.inf)),),
    "added for queries": (drawn(300, 1),),
    "added for keys and heads": (drawn(3, 1, 400),),
}
ATTRS = {"scale": 0.3, "is_causal": False}


def inputs(keys: int = 400) -> tuple[np.ndarray, ...]:
    return drawn(2, 3, 300, 8), drawn(2, 1, keys, 8), drawn(1, 3, keys, 5)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_parts_make_what_all_at_once_does(
    mask: str, is_causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "PART_BYTES", 400 * 4 * 64)  # five parts of queries
    arrays = (*inputs(), *MASKS[mask])
    attrs: dict[str, Any] = {"scale": 0.3, "is_causal": is_causal}
    dy = drawn(2, 3, 300, 5)

    made = attention.attention_in_parts(*arrays, **attrs)
    grads = attention.attention_grad_in_parts(dy, *arrays, **attrs)

    wide = [a if a.dtype == bool else a.astype(np.float64) for a in (dy, *arrays)]
    np.testing.assert_allclose(
        made, attention.scaled_dot_product_attention(*wide[1:], **attrs), rtol=1e-4, atol=1e-5
    )
    told = attention.scaled_dot_product_attention_grad(*wide, **attrs)
    assert len(grads) == len(told) == 3 + mask.startswith("added")
    for m, t in zip(grads, told, strict=True):
        assert (m.shape, m.dtype) == (t.shape, np.float32)
        np.testing.assert_allclose(m, t, rtol=1e-3, atol=1e-5 * max(1, np.abs(t).max()))


@pytest.mark.parametrize("keys", [100, 299, 300, 301, 500])
def test_causal_parts_where_keys_are_more_or_fewer_than_queries(
    keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "PART_BYTES", 4 * 100 * 64)
    arrays = inputs(keys)
    attrs: dict[str, Any] = {"scale": 0.3, "is_causal": True}

    made = attention.attention_in_parts(*arrays, **attrs)

    np.testing.assert_allclose(
        made, attention.scaled_dot_product_attention(*arrays, **attrs), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_parts_of_another_dtype(dtype: str) -> None:
    arrays = tuple(a.astype(dtype) for a in inputs())

    made = attention.attention_in_parts(*arrays, MASKS["added"][0], scale=0.3, is_causal=False)
    grads = attention.attention_grad_in_parts(made, *arrays, MASKS["added"][0], scale=0.3, is_causal=False)

    told = attention.scaled_dot_product_attention(*arrays, MASKS["added"][0], scale=0.3, is_causal=False)
    assert made.dtype == np.dtype(dtype)
    assert [g.dtype.name for g in grads] == [dtype] * 3 + ["float32"]
    np.testing.assert_allclose(made, told, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kernel", [attention.attention_in_parts, attention.scaled_dot_product_attention])
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((drawn(4, 5), drawn(6, 4), drawn(6, 2)), r"equal depth, and as many values as keys, got \(4, 5\), \(6, 4\)"),
        ((drawn(90, 5), drawn(60, 5), drawn(61, 2)), r"as many values as keys, got \(90, 5\), \(60, 5\), \(61, 2\)"),
        ((drawn(4, 5), drawn(6, 5), drawn(6, 2), drawn(2, 4, 6)), r"must broadcast to scores \(4, 6\), got \(2, 4, 6\)"),
    ],
)  # fmt: skip
def test_shapes_known_late_that_do_not_fit_are_refused(kernel: Any, arrays: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        kernel(*arrays, **ATTRS)
