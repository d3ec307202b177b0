"""Accumulators in steps: gradients that meet, takes that wait, and steps that end early."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.state.accumulator import AccumulatorActor, ApplyGradient
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.resource_actor import WriteOnce
from actorflow.values.spec import spec
from tests.actors.heard import ask
from tests.support.sessions import run


class Means:
    """A dense accumulator of vectors, and its ops."""

    def __init__(self, shape: Any = (2,), reduction: str = "mean", dtype: str = "float32") -> None:
        self.dtype = dtype
        with af.Graph() as self.graph:
            grads = af.state.ConditionalAccumulator(dtype, shape, reduction, name="grads")
            self.total = af.Variable(np.zeros(2, dtype), name="total")
            self.grad = af.placeholder(dtype, None, name="grad")
            self.local = af.placeholder("int64", (), name="local")
            self.apply = grads.apply_grad(self.grad, self.local)
            self.take_one, self.take_two = grads.take_grad(1), grads.take_grad(2)
            self.count, self.step = grads.num_accumulated(), grads.global_step()
            self.set = grads.set_global_step(self.local)
            taken = grads.take_grad(1)
            self.fail = af.gather(taken, [9])
            moved = self.total.assign_add(grads.take_grad(1))
            with af.control_dependencies([moved]):
                self.move_and_fail = af.gather(moved, [9])
            self.read = self.total.read()

    async def bring(self, session: af.Session, grad: Any, step: int = 0) -> bool:
        feeds = {self.grad: np.asarray(grad, self.dtype), self.local: np.int64(step)}
        return bool(await session.run(self.apply, feeds))

    async def state(self, session: af.Session) -> tuple[int, int]:
        count, step = await session.run([self.count, self.step])
        return int(count), int(step)


def test_a_take_gives_the_mean_of_all_that_are_there() -> None:
    m = Means()

    async def body(session: af.Session) -> Any:
        for k in (1, 2, 6):
            await m.bring(session, [k, -k])
        return (await session.run(m.take_two)).tolist(), await m.state(session)

    assert run(m.graph, body) == ([3, -3], (0, 1))


def test_a_take_may_give_the_sum() -> None:
    m = Means(reduction="sum", dtype="int32")

    async def body(session: af.Session) -> Any:
        for k in (1, 2, 6):
            await m.bring(session, [k, -k])
        return await session.run(m.take_two)

    np.testing.assert_array_equal(run(m.graph, body), np.array([9, -9], "int32"), strict=True)


def test_a_gradient_that_is_too_old_is_dropped_and_told_so() -> None:
    m = Means()

    async def body(session: af.Session) -> Any:
        await session.run(m.set, {m.local: np.int64(3)})
        return [await m.bring(session, [1, 1], k) for k in (2, 3, 4)], await m.state(session)

    assert run(m.graph, body) == ([False, True, True], (2, 3))


def test_takes_wait_in_order() -> None:
    m = Means()

    async def body(session: af.Session) -> Any:
        two = asyncio.create_task(session.run(m.take_two))
        one = asyncio.create_task(session.run(m.take_one))
        await asyncio.sleep(0)
        await m.bring(session, [1, 1])
        await asyncio.sleep(0)
        assert not one.done() and not two.done()
        await m.bring(session, [3, 3])
        await two
        await m.bring(session, [7, 7], 1)
        return two.result().tolist(), (await one).tolist()

    assert run(m.graph, body) == ([2, 2], [7, 7])


def test_the_first_gradient_settles_the_sizes_that_are_open() -> None:
    m = Means(shape=(None,))

    async def body(session: af.Session) -> Any:
        await m.bring(session, [1, 1, 1])
        await session.run(m.take_one)
        with pytest.raises(errors.SpecError) as caught:
            await m.bring(session, [1, 1], 1)
        return caught.value

    error = run(m.graph, body)

    line = m.apply.node.defined_at
    assert str(error) == (
        "a gradient for accumulator 'grads' must be (3,) float32, got (2,) float32\n"
        f"  where: node grads/apply_grad, op accumulator_apply_grad, step 3, device /cpu:0, defined at {line}"
    )


def test_a_step_of_no_scalar_is_refused_in_the_step() -> None:
    with af.Graph() as graph:
        local = af.placeholder("int64", None)
        apply = af.state.ConditionalAccumulator("float32", (), name="grads").apply_grad(1.0, local)

    with pytest.raises(errors.SpecError, match=r"the step of accumulator 'grads' is a scalar, got \(2,\)"):
        run(graph, lambda s: s.run(apply, {local: np.zeros(2, "int64")}))


def test_a_gradient_that_is_too_old_settles_nothing() -> None:
    m = Means(shape=(None,))

    async def body(session: af.Session) -> Any:
        await session.run(m.set, {m.local: np.int64(1)})
        await m.bring(session, [1, 1, 1])
        return await m.bring(session, [1, 1], 1)

    assert run(m.graph, body)


def test_the_step_cannot_be_set_back() -> None:
    m = Means()

    async def body(session: af.Session) -> Any:
        await session.run(m.set, {m.local: np.int64(3)})
        with pytest.raises(errors.StateError, match="is 3, and cannot be set back to 2"):
            await session.run(m.set, {m.local: np.int64(2)})

    run(m.graph, body)


def test_a_step_that_fails_gives_back_what_it_took_step_and_all() -> None:
    m = Means()

    async def body(session: af.Session) -> Any:
        await m.bring(session, [1, 1])
        with pytest.raises(errors.KernelError):
            await session.run(m.fail)
        state = await m.state(session)
        await m.bring(session, [3, 3])
        return state, (await session.run(m.take_two)).tolist()

    assert run(m.graph, body) == ((1, 0), [2, 2])


def test_a_step_that_fails_after_it_has_written_what_it_took_gives_nothing_back() -> None:
    m = Means()

    async def body(session: af.Session) -> Any:
        await m.bring(session, [1, 2])
        with pytest.raises(errors.KernelError):
            await session.run(m.move_and_fail)
        return await m.state(session), (await session.run(m.read)).tolist()

    assert run(m.graph, body) == ((0, 1), [1, 2])


def test_gradients_of_one_step_are_added_in_program_order() -> None:
    grads = [1e8, 1.0, -1e8, 1.0]
    with af.Graph() as graph:
        accumulator = af.state.ConditionalAccumulator("float32", (), "sum")
        applied = [accumulator.apply_grad(g) for g in grads]
        count = accumulator.num_accumulated()
        take = accumulator.take_grad(4)
    expected = np.float32(0)
    for grad in grads:
        expected = expected + np.float32(grad)

    async def body(session: af.Session) -> Any:
        _, found = await session.run([applied, count])
        return int(found), await session.run(take)

    assert run(graph, body) == (4, expected)


def test_an_accumulator_trains() -> None:
    """Two workers bring a gradient each, of one step; one step applies their mean."""
    with af.Graph() as graph:
        w = af.Variable(np.zeros(2, "float32"), name="w")
        accumulator = af.state.ConditionalAccumulator("float32", (2,))
        x = af.placeholder("float32", (2,))
        bring = accumulator.apply_grad(af.gradients(af.sum(w * x), [w])[0], accumulator.global_step())
        train = af.apply_gradients([accumulator.take_grad(2)], [w], af.optim.sgd(1.0))

    async def body(session: af.Session) -> Any:
        training = asyncio.create_task(session.run(train))
        for k in (1, 3):
            await session.run(bring, {x: np.full(2, k, "float32")})
        await training
        return (await session.run(w)).tolist()

    assert run(graph, body) == [-2, -2]


class Rows:
    """A sparse accumulator of a table of five rows."""

    def __init__(self, **options: Any) -> None:
        with af.Graph() as self.graph:
            grads = af.state.SparseConditionalAccumulator("float32", (5, 1), name="rows", **options)
            self.values = af.placeholder("float32", (None, 1))
            self.indices = af.placeholder("int32", (None,))
            self.apply = grads.apply_grad(af.IndexedSlices(self.values, self.indices, (5, 1)))
            self.take = grads.take_grad(2)
            taken = grads.take_grad(1)
            self.fail = af.gather(taken.values, [99])
            self.count = grads.num_accumulated()

    async def bring(self, session: af.Session, grad: dict[int, float]) -> None:
        values = np.array(list(grad.values()), "float32").reshape(-1, 1)
        await session.run(self.apply, {self.values: values, self.indices: np.array(list(grad), "int32")})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 1, 2, 3]),
        ({"per_index": True}, [2, 2, 2, 6]),
        ({"reduction": "sum"}, [2, 2, 4, 6]),
    ],
)
def test_rows_are_added_up_by_index_and_their_union_taken_in_order(
    options: Any, expected: list[float]
) -> None:
    r = Rows(**options)

    async def body(session: af.Session) -> Any:
        await r.bring(session, {3: 1, 0: 2})
        await r.bring(session, {-1: 6, 3: 3, 1: 2})
        return await session.run(r.take)

    taken = run(r.graph, body)

    assert taken.indices.tolist() == [0, 1, 3, 4]
    assert taken.values.ravel().tolist() == expected
    assert taken.shape == (5, 1)


def test_rows_that_are_no_rows_are_refused_in_the_step() -> None:
    r = Rows()

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.SpecError, match=r"lie in \[-5, 5\), got 7"):
            await r.bring(session, {0: 1, 7: 1})
        feeds = {r.values: np.ones((1, 1), "float32"), r.indices: np.zeros(2, "int32")}
        said = r"an index for each, got \(1, 1\) float32 and indices \(2,\)"
        with pytest.raises(errors.SpecError, match=said):
            await session.run(r.apply, feeds)
        return int(await session.run(r.count))

    assert run(r.graph, body) == 0


def test_rows_come_back_from_a_step_that_fails() -> None:
    r = Rows(reduction="sum")

    async def body(session: af.Session) -> Any:
        await r.bring(session, {3: 1})
        with pytest.raises(errors.KernelError):
            await session.run(r.fail)
        await r.bring(session, {3: 2, 0: 5})
        return await session.run(r.take)

    taken = run(r.graph, body)

    assert (taken.indices.tolist(), taken.values.ravel().tolist()) == ([0, 3], [5, 3])


def test_a_retried_gradient_is_added_once() -> None:
    actor = AccumulatorActor("a", spec("float32"), "sum")
    body = ApplyGradient((np.float32(2),), np.int64(0))

    said = [ask(actor, WriteOnce(body, Source("s"), 1)).said for _ in range(2)]

    assert said == [[True], [True]]
    assert actor.rule_state.sum.count == 1
