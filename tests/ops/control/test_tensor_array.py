"""TensorArray: written once, read often, differentiated; in a session, and as users misuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import actorflow as af
from actorflow import sim
from actorflow.errors import FeedError, FetchError, ListError, SpecError
from actorflow.ops.control.tensor_list import list_add
from actorflow.sim.engine.schedulers import Schedule
from actorflow.values.pytree import flatten
from tests.support.reference import evaluate
from tests.support.sessions import run_step
from tests.support.strategies import examples, run_drawn

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "float32")


def test_what_was_written_is_read_stacked_gathered_and_joined() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (3, 2), name="x")
        array = af.TensorArray("float32", 3, element_shape=(2,), name="rows")
        for i in (2, 0, 1):
            array = array.write(i, x[i])
        pieces = af.TensorArray("float32", element_shape=(None, 2)).split(x, [1, 2])
        copied = af.TensorArray("float32", element_shape=(2,)).scatter([1, 0], x[:2]).write(2, [7, 8])
        again = af.TensorArray("float32").unstack(x)
        found: dict[str, Any] = {
            "read": array.read(1),
            "stack": array.stack(),
            "gather": array.gather([2, 2]),
            "concat": pieces.concat(),
            "first": pieces.read(0),
            "scatter": copied.stack(),
            "of": af.TensorArray.of(x).read(-1 + af.constant(3)),
            "again": again.stack(),
            "sizes": (array.size(), pieces.size(), af.TensorArray("int32").size()),
        }

    made = run_step(graph, found, {x: ROWS})

    assert made["sizes"] == (3, 2, 0)
    wanted = {
        "read": ROWS[1],
        "stack": ROWS,
        "gather": ROWS[[2, 2]],
        "concat": ROWS,
        "first": ROWS[:1],
        "scatter": [[3, 4], [1, 2], [7, 8]],
        "of": ROWS[2],
        "again": ROWS,
    }
    for name, value in wanted.items():
        np.testing.assert_array_equal(made[name], value, err_msg=name)
    assert (array.dtype, array.element_shape) == (np.float32, (2,))
    assert repr(array) == "<TensorArray list_write_2:0 list of 3 × (2,) float32>"
    assert (found["stack"].shape, found["gather"].shape, found["concat"].shape) == ((3, 2), (2, 2), (None, 2))


def test_gradients_are_those_of_plain_ops() -> None:
    """Also of reads of one index several times, and the gradient of the gradient."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (3, 2), name="x")
        array = af.TensorArray("float32", element_shape=(2,))
        array = array.write(0, x[0] * x[1]).write(1, af.exp(x[2])).write(2, x[0])
        plain = [x[0] * x[1], af.exp(x[2]), x[0]]
        with_array = (
            af.sum(array.stack() ** 2) + af.sum(array.read(0) * array.read(2)) + af.sum(array.gather([1, 1]))
        )
        without = af.sum(af.stack(plain) ** 2) + af.sum(plain[0] * plain[2]) + 2 * af.sum(plain[1])
        found = []
        for y in (with_array, without):
            (grad,) = af.gradients(y, x)
            assert isinstance(grad, af.Tensor)
            found.append([y, grad, *af.gradients(af.sum(grad * grad), x)])

    made = run_step(graph, found, {x: ROWS / 4})

    for a, b in zip(*made, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_an_array_does_not_change_when_it_is_written() -> None:
    with af.Graph() as graph:
        first = af.TensorArray("float32", element_shape=()).write(0, 1.0)
        left, right = first.write(1, 2.0), first.write(1, 3.0).write(2, 4.0)
        found = [first.stack(), left.stack(), right.stack()]

    assert [m.tolist() for m in run_step(graph, found)] == [[1], [1, 2], [1, 3, 4]]


def test_an_array_is_taken_apart_and_put_together() -> None:
    """So loops and branches carry it, beside tensors and in any structure."""
    with af.Graph():
        x = af.placeholder("float32", (2,), name="x")
        array = af.TensorArray("float32", 4, element_shape=(2,))

        leaves, build = flatten({"state": x, "made": array})
        again = build([x, array.write(0, x).flow])

        assert leaves[0] is x
        assert leaves[1] is array.flow
        assert isinstance(again["made"], af.TensorArray)
        assert again["made"].spec == array.spec
        with pytest.raises(SpecError, match=r"a TensorArray takes a list of tensors, got \(2,\) float32"):
            build([x, x])


def test_an_array_is_the_same_whatever_the_passes_do() -> None:
    """Equal lists become one node, none becomes a constant, and what nobody asks for goes."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), name="x")
        arrays = [af.TensorArray("float32", element_shape=(2,)) for _ in range(2)]
        arrays = [a.write(0, af.constant([1.0, 2.0])).write(1, x + 0.0) for a in arrays]
        found = [
            arrays[0].stack() + arrays[1].stack(),
            arrays[0].read(0),
            af.TensorArray.of(af.ones((3, 2))).stack(),
        ]

    whole = run_step(graph, found, {x: ROWS[0]})
    plain = run_step(graph, found, {x: ROWS[0]}, passes=())

    for a, b, told in zip(whole, plain, evaluate(graph, found, {x: ROWS[0]}), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, told)


def test_a_large_array_is_stacked_on_a_thread_and_counted_in_the_times_of_kernels() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 512), name="x")
        y = af.TensorArray.of(x).stack()

    async def main() -> tuple[Any, Any]:
        async with af.Session(graph, threads=1) as session:
            value = np.arange(512 * 600, dtype="float32").reshape(600, 512)
            made = [await session.run(y, {x: value}) for _ in range(3)]
            assert all(np.array_equal(m, value) for m in made)
            return session.kernel_seconds(), repr(session)

    times, text = af.run(main())

    assert ("list_stack", "/cpu:0") in times
    assert "list" not in text


@settings(deadline=None, max_examples=examples(10))
@given(schedule=sim.schedules())
def test_no_schedule_changes_what_versions_hold(schedule: Schedule) -> None:
    """Many nodes write to one version, and some of them read on a thread."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (3, 2), name="x")
        base = af.TensorArray.of(x)
        forks = [af.TensorArray("float32").unstack(x).write(3 + i, x[i]) for i in range(3)]
        forks += [af.TensorArray.around(list_add(base.flow, fork.flow)) for fork in (base, base.of(x * x))]
        y = af.sum(af.concat([fork.gather([0, 2]) for fork in forks] + [base.stack()], 0) * x[0])
        found = [y, *af.gradients(y, x)]

    made = run_drawn(graph, schedule, lambda s: s.run(found, {x: ROWS}))

    for a, b in zip(made, evaluate(graph, found, {x: ROWS}), strict=True):
        np.testing.assert_array_equal(a, b)


# --------------------------------------------------------------------------------------- misuse

BUILT: list[tuple[Callable[[af.TensorArray, af.Tensor], Any], str]] = [
    (lambda a, x: a.write(0, af.ones((3,))), "list_write takes elements that fit (2,) float32, got (3,) float32"),
    (lambda a, x: a.write(0, af.ones((2,), "float64")), "got (2,) float64"),
    (lambda a, x: a.write(0, [0.5j, 1]), "no float32 tensor can hold"),
    (lambda a, x: af.exp(a), "exp takes no lists, got a list of 3 × (2,) float32"),
    (lambda a, x: x + a, "add takes no lists, got a list of 3 × (2,) float32"),
    (lambda a, x: af.Variable(a, name="v"), "a variable holds one tensor, got a list of 3 × (2,) float32"),
    (lambda a, x: a.write(3, x[0]), "list of 3 × (2,) float32> lies in [0, 3), got 3"),
    (lambda a, x: a.read(-1), "lies in [0, 3), got -1"),
    (lambda a, x: a.write(True, x[0]), "list_write takes integers, got () bool"),
    (lambda a, x: a.read(0.5), "list_read takes integers, got () float32"),
    (lambda a, x: a.unstack(af.ones((4, 2))), "got (4, 2) float32 for a list of 3 × (2,) float32"),
    (lambda a, x: a.scatter([0], af.ones((1, 3))), "that fit (2,) float32, got (3,) float32"),
    (lambda a, x: a.split(x, [1, 2]), "that fit (2,) float32, got (None, 2) float32"),
    (lambda a, x: af.TensorArray("float32", -1), "sizes cannot be negative"),
    (lambda a, x: af.TensorArray("float32", 1.5), "list_new takes an integer, or None as size, got 1.5"),  # type: ignore[arg-type]
    (lambda a, x: af.TensorArray("number"), "no tensor has dtype 'number'"),
    (lambda a, x: af.TensorArray(None), "a TensorArray takes a dtype, got None"),
    (lambda a, x: af.TensorArray.around(x), "a TensorArray takes a list of tensors, got (3, 2) float32"),
]  # fmt: skip


@pytest.mark.parametrize(("do", "said"), BUILT, ids=[said[:40] for _, said in BUILT])
def test_what_cannot_be_is_refused_at_the_users_line(do: Any, said: str) -> None:
    with af.Graph():
        x = af.placeholder("float32", (3, 2))
        array = af.TensorArray("float32", 3, element_shape=(2,))

        with pytest.raises(SpecError) as caught:
            do(array, x)

    assert said in caught.value.what
    assert caught.value.where is not None
    assert str(caught.value.where.defined_at).startswith("tests/ops/control/test_tensor_array.py:")


STEP: list[tuple[Callable[[af.TensorArray, af.Tensor], Any], str]] = [
    (lambda a, i: a.write(i, 1.0).write(i, 2.0).stack(), "an index is written once, got 1 again"),
    (lambda a, i: a.read(i), "what is read was written before, got index 1"),
    (lambda a, i: a.write(i + 2, 1.0).size(), "lies in [0, 3), got 3"),
    (lambda a, i: a.write(i, 1.0).stack(), "index 0 was never written"),
]


@pytest.mark.parametrize(("do", "said"), STEP, ids=[said[:40] for _, said in STEP])
def test_what_the_step_finds_names_the_users_line(do: Any, said: str) -> None:
    with af.Graph() as graph:
        i = af.placeholder("int32", (), name="i")
        y = do(af.TensorArray("float32", 3, element_shape=()), i)

    with pytest.raises(ListError) as caught:
        run_step(graph, y, {i: 1})

    assert said in caught.value.what
    assert caught.value.where is not None
    assert str(caught.value.where.defined_at).startswith("tests/ops/control/test_tensor_array.py:")
    assert caught.value.where.step == 1


def test_an_array_is_neither_fetched_nor_fed() -> None:
    with af.Graph() as graph:
        array = af.TensorArray("float32", element_shape=(), name="a").write(0, 1.0)
        y = array.read(0)

    for fetch in (array, [y, array.flow], "a", "list_write:0"):
        with pytest.raises(FetchError, match="a fetch is a tensor, got '.*', a list of") as refused:
            run_step(graph, fetch)
        assert refused.value.hint == "fetch its .stack(), .concat() or .read(i)"
    for feed in (array.flow, "list_write"):
        with pytest.raises(FeedError, match=r"a feed is an array, got 'list_write', a list of \(\) float32"):
            run_step(graph, y, {feed: np.zeros(3, "float32")})
