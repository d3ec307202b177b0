"""Methods of tensors: what numpy, PyTorch and TensorFlow agree on works; the rest is told by its function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from tests.support.reference import evaluate

VALUES = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, 1.0]], "float32")

SAME_AS_NUMPY: dict[str, Callable[[Any], Any]] = {
    "sum": lambda t: t.sum(),
    "sum of an axis": lambda t: t.sum(1),
    "sum that keeps its axes": lambda t: t.sum(axis=0, keepdims=True),
    "mean": lambda t: t.mean(),
    "mean of an axis": lambda t: t.mean(axis=-1),
    "prod": lambda t: t.prod(0),
    "max": lambda t: t.max(),
    "min": lambda t: t.min(axis=1),
    "argmax": lambda t: t.argmax(axis=1),
    "argmin": lambda t: t.argmin(0),
    "all": lambda t: (t > 0).all(),
    "any": lambda t: (t > 3).any(axis=1),
    "reshape by sizes": lambda t: t.reshape(3, 2),
    "reshape by one": lambda t: t.reshape(-1),
    "reshape by a tuple": lambda t: t.reshape((1, -1)),
    "flatten": lambda t: t.flatten(),
    "squeeze": lambda t: t.reshape(1, 6).squeeze(),
    "squeeze of an axis": lambda t: t.reshape(1, 6, 1).squeeze(axis=0),
    "clip": lambda t: t.clip(0, 2),
    "clip by name": lambda t: t.clip(min=1),
    "astype": lambda t: t.astype("float64"),
    "T": lambda t: t.T,
    "mT": lambda t: t.mT,
    "a chain": lambda t: ((t - t.mean(axis=0)) ** 2).mean(axis=0).reshape(3, 1).T,
}


@pytest.mark.parametrize("method", SAME_AS_NUMPY)
def test_a_method_gives_what_that_of_an_array_gives(method: str) -> None:
    compute = SAME_AS_NUMPY[method]
    wanted = compute(VALUES) if method != "mT" else VALUES.T
    with af.Graph() as graph:
        x = af.placeholder("float32", (2, 3), name="x")
        found = compute(x)

    got = evaluate(graph, found, {x: VALUES})
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert got.shape == np.shape(wanted)


@pytest.mark.parametrize("method", SAME_AS_NUMPY)
def test_a_variable_has_the_methods_of_a_tensor(method: str) -> None:
    with af.Graph():
        v = af.Variable(VALUES, name="v")
        x = af.placeholder("float32", (2, 3), name="x")

        assert SAME_AS_NUMPY[method](v).spec == SAME_AS_NUMPY[method](x).spec


def test_a_method_builds_where_no_graph_is_open() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2, 3), name="x")

    assert x.mean().graph is x.T.graph is x.reshape(3, 2).graph is graph


def test_a_tensor_may_be_the_shape() -> None:
    with af.Graph():
        x = af.placeholder("float32", (2, 3), name="x")
        assert x.reshape(af.arrays.shape(x)).spec.dtype == "float32"


def test_the_number_of_axes_is_known_or_none() -> None:
    with af.Graph():
        assert af.placeholder("float32", (2, None)).ndim == 2
        assert af.placeholder("float32", None).ndim is None


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), None])
def test_the_transpose_of_what_is_no_matrix_is_refused(shape: Any) -> None:
    with af.Graph(), pytest.raises(af.errors.SpecError, match="T transposes matrices") as caught:
        _ = af.placeholder("float32", shape).T

    assert "af.transpose" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("transpose", "use af.transpose(tensor)"),
        ("repeat", "use af.repeat(tensor)"),
        ("std", "use af.std(tensor)"),
        ("size", "use af.arrays.size(tensor)"),
        ("exp", "use af.exp(tensor)"),
        ("permute", "use af.transpose(x, axes)"),
        ("view", "use af.reshape"),
        ("unsqueeze", "use af.expand_dims"),
        ("item", "fetch it: value = await session.run(tensor)"),
        ("numpy", "fetch it: value = await session.run(tensor)"),
        ("tolist", "fetch it: value = await session.run(tensor)"),
        ("eval", "fetch it: value = await session.run(tensor)"),
        ("detach", "use af.stop_gradient(x)"),
        ("backward", "use af.gradients(ys, xs), or af.minimize(loss, optimizer)"),
        ("grad", "use af.gradients(ys, [tensor])"),
        ("cumsum", "use af.cumulative_sum"),
        ("nothing_of_the_kind", None),
        ("__array_interface__", None),
    ],
)
@pytest.mark.parametrize("kind", ["tensor", "variable"])
def test_what_is_no_method_is_told_by_its_function(kind: str, name: str, hint: str | None) -> None:
    with af.Graph():
        t: Any = af.placeholder("float32", (3,)) if kind == "tensor" else af.Variable(VALUES, name="v")

        with pytest.raises(AttributeError) as caught:
            getattr(t, name)

    assert not hasattr(t, name)
    told = str(caught.value).splitlines()
    assert told[0] == f"{type(t).__name__!r} object has no attribute {name!r}"
    assert told[1:] == ([] if hint is None else [f"  try:   {hint}"])
