"""What a newcomer writes first and gets wrong: each refusal says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import ops
from actorflow.errors import ActorflowError


def x() -> af.Tensor:
    return af.placeholder("float32", (4, 3))


def whole() -> af.Tensor:
    return af.constant([1, 2])


def vector() -> af.Tensor:
    return af.constant([1.0, 2.0, 3.0])


BUILT: dict[str, tuple[Callable[[], Any], str]] = {
    "shape for dtype": (lambda: af.placeholder((None, 3), "float32"), "shape=(None, 3)"),  # type: ignore[arg-type]
    "list for dtype": (lambda: af.placeholder([4], "int32"), "shape=[4]"),  # type: ignore[arg-type]
    "shape alone": (lambda: af.placeholder((None, 3)), "shape=(None, 3)"),
    "number for dtype": (lambda: af.placeholder(3, (3,)), "shape=3"),
    "dtype for shape": (lambda: af.zeros("int32", (3,)), "dtype='int32'"),  # type: ignore[arg-type]
    "minus one": (lambda: af.placeholder("float32", (-1, 3)), "from feed to feed: (None, 3)"),
    "minus one in a spec": (lambda: af.Spec((-1,), "float32"), "from feed to feed: (None,)"),  # type: ignore[arg-type]
    "a number for a shape": (lambda: af.placeholder("float32", 3), "one axis is a tuple as well: (3,)"),  # type: ignore[arg-type]
    "matrix @ vector": (lambda: x() @ vector(), "af.tensordot(a, b, 1)"),
    "vector @ matrix": (lambda: vector() @ af.matrix_transpose(x()), "af.expand_dims(a, 0)"),
    "vector @ vector": (lambda: vector() @ vector(), "af.vecdot(a, b)"),
    "matrix @ number": (lambda: x() @ 2.0, "write a * b"),
    "float * integers": (lambda: x() * np.arange(3), "af.cast(x, 'float32')"),
    "float + tensor of integers": (lambda: x() + whole(), "af.cast(x, 'float32')"),
    "half + integers": (lambda: af.cast(x(), "float16") + whole(), "af.cast(x, 'float16')"),
    "integers / number": (lambda: whole() / 2, "af.cast(x, 'float32'), or divide whole numbers"),
    "exp of integers": (lambda: af.exp(whole()), "af.cast(x, 'float32')"),
    "softmax of integers": (lambda: af.nn.softmax(whole()), "af.cast(x, 'float32')"),
    "sizes of reshape": (lambda: af.reshape(x(), (5,)), "it has 12 elements; one size may be -1"),
    "two open sizes": (lambda: af.reshape(x(), (-1, -1)), "name all sizes but one"),
    "squeeze": (lambda: af.squeeze(x(), 0), "leave axis out, or name axes not known to be larger"),
    "squeeze of another": (lambda: af.squeeze(af.zeros((4, 1, 1)), 0), "name axes of size 1: 1, 2"),
    "pad": (lambda: af.arrays.pad(x(), [(1, 1)]), "one pair for each of 2 axes"),
    "an axis twice": (lambda: af.sum(x(), (0, 0)), "name each axis once"),
    "axis of a scalar": (lambda: af.sum(af.constant(1.0), 0), "a scalar has no axis"),
}


@pytest.mark.parametrize(("build", "hint"), BUILT.values(), ids=BUILT)
def test_a_refusal_while_building_says_what_to_write(build: Callable[[], Any], hint: str) -> None:
    with af.Graph(), pytest.raises(ActorflowError) as caught:
        build()

    assert hint in (caught.value.hint or "")


def of_axis(name: str, *args: Any) -> Callable[[int], Any]:
    return lambda axis: getattr(ops, name)(x(), *args, axis=axis)


AXES: dict[str, Callable[[int], Any]] = {
    **{
        name: of_axis(name)
        for name in (
            "softmax", "log_softmax", "std", "var", "logsumexp", "argmax", "argmin",
            "sum", "mean", "max", "min", "prod", "median", "cumulative_sum", "flip", "sort", "argsort",
            "vector_norm", "count_nonzero", "diff",
        )
    },
    "quantile": of_axis("quantile", 0.5),
    "split": of_axis("split", 2),
    "gather": of_axis("gather", [0]),
    "expand_dims": of_axis("expand_dims"),
    "concat": lambda axis: af.concat([x(), x()], axis),
    "stack": lambda axis: af.stack([x(), x()], axis),
    "transpose": lambda axis: af.transpose(x(), (0, axis)),
}  # fmt: skip


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("axis", [5, -6])
def test_an_axis_that_is_not_there_is_told_with_those_that_are(name: str, axis: int) -> None:
    with af.Graph(), pytest.raises(ActorflowError) as caught:
        AXES[name](axis)

    assert "axes count from 0 to" in (caught.value.hint or "")


def test_the_error_of_median_is_placed_at_median() -> None:
    with af.Graph(), pytest.raises(ActorflowError) as caught:
        af.math.median(x(), axis=5)

    assert caught.value.where is not None
    assert caught.value.where.op == "median"


def run_wrong(run: Callable[[Any, af.Tensor], Any]) -> str:
    with af.Graph() as graph:
        fed = af.placeholder("float32", (None, 3), name="images")
        y = fed * 2.0
    with af.Session(graph) as session, pytest.raises(ActorflowError) as caught:
        run(session, y)
    return caught.value.hint or ""


@pytest.mark.parametrize(
    ("run", "hint"),
    [
        (lambda s, y: s.run(y, x=1.0), "feeds are one dict, by tensor: run(fetches, {x: value})"),
        (lambda s, y: s.run(y, images=1.0), "run(fetches, {images: value})"),
        (lambda s, y: s.run("y"), "pass the tensor itself, without quotes"),
        (lambda s, y: s.run(["loss"]), "pass the tensor itself, without quotes"),
        (lambda s, y: s.run(3.0), "a value needs no step"),
        (lambda s, y: s.run(np.ones(3)), "a value needs no step"),
        (lambda s, y: s.run(s.graph), "fetch a tensor of it"),
        (lambda s, y: s.run(y, {"images": np.ones((2, 4))}), "reshape it to (None, 3)"),
        (lambda s, y: s.run(y, {"images": np.ones((3,), "int64")}), "reshape it to (None, 3)"),
    ],
)
def test_a_refusal_of_a_run_says_what_to_write(run: Callable[[Any, af.Tensor], Any], hint: str) -> None:
    assert hint in run_wrong(run)


def test_a_feed_of_a_wrong_shape_and_dtype_is_told_both() -> None:
    hint = run_wrong(lambda s, y: s.run(y, {"images": np.ones((2, 4))}))

    assert ".astype('float32')" in hint


def test_a_feed_of_a_wrong_dtype_alone_is_not_reshaped() -> None:
    hint = run_wrong(lambda s, y: s.run(y, {"images": np.ones((2, 3))}))

    assert "reshape" not in hint
