"""Barriers in steps: components that meet, takes that wait, closing, and steps that end early."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.state.barrier import BarrierActor, InsertMany, TakeMany
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.resource_actor import WriteOnce
from actorflow.errors import StepAborted
from actorflow.values.spec import spec
from tests.actors.heard import ask
from tests.support.sessions import run


class Pairs:
    """A barrier of (image of two, label), and its ops."""

    def __init__(self, **options: Any) -> None:
        with af.Graph() as self.graph:
            names = ["image", "label"]
            barrier = af.state.Barrier(["float32", "int32"], [(2,), ()], names=names, name="pairs", **options)
            self.keys = af.placeholder("bytes", (None,), name="keys")
            self.images = af.placeholder("float32", None, name="images")
            self.labels = af.placeholder("int32", (None,), name="labels")
            self.put_images = barrier.insert_many("image", self.keys, self.images)
            self.put_labels = barrier.insert_many("label", self.keys, self.labels)
            self.take = barrier.take_many(2)
            self.take_none = barrier.take_many(0)
            self.take_small = barrier.take_many(5, allow_small_batch=True)
            self.broken = af.math.check_numerics(
                af.log(af.cast(self.take.components["label"], "float32") * 0.0 - 1.0)
            )
            self.ready, self.incomplete = barrier.ready_size(), barrier.incomplete_size()
            self.close = barrier.close()
            self.drop = barrier.close(cancel_pending_enqueues=True)

    async def image(self, session: af.Session, keys: bytes) -> None:
        values = np.array([[k, -k] for k in keys], "float32")
        await session.run(self.put_images, {self.keys: [bytes([k]) for k in keys], self.images: values})

    async def label(self, session: af.Session, keys: bytes) -> None:
        values = np.array(list(keys), "int32")
        await session.run(self.put_labels, {self.keys: [bytes([k]) for k in keys], self.labels: values})

    async def both(self, session: af.Session, keys: bytes) -> None:
        await self.image(session, keys)
        await self.label(session, keys)

    async def sizes(self, session: af.Session) -> tuple[int, int]:
        ready, incomplete = await session.run([self.ready, self.incomplete])
        return int(ready), int(incomplete)


def test_components_meet_by_key_and_leave_stacked_in_order_of_first_sight() -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        await b.label(session, b"ab")
        await b.image(session, b"ba")
        return await session.run(b.take)

    taken = run(b.graph, body)

    assert taken.indices.tolist() == [0, 0]
    assert taken.keys.tolist() == [b"a", b"b"]
    assert taken.components["image"].tolist() == [[97, -97], [98, -98]]
    assert taken.components["label"].tolist() == [97, 98]


def test_a_take_waits_and_the_sizes_tell_what_is_there() -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(b.take))
        await b.both(session, b"a")
        await b.label(session, b"b")
        before = await b.sizes(session)
        assert not taking.done()
        await b.image(session, b"b")
        await taking
        return before, await b.sizes(session)

    assert run(b.graph, body) == ((1, 1), (0, 0))


def test_nothing_taken_has_the_shapes_of_its_components() -> None:
    b = Pairs()

    taken = run(b.graph, lambda session: session.run(b.take_none))

    assert (taken.keys.shape, taken.components["image"].shape) == ((0,), (0, 2))


def test_errors_name_the_barrier_the_node_and_the_line() -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        await b.label(session, b"a")
        with pytest.raises(errors.StateError) as twice:
            await b.label(session, b"a")
        await session.run(b.close)
        with pytest.raises(errors.OutOfRange) as dry:
            await session.run(b.take)
        return twice.value, dry.value

    twice, dry = run(b.graph, body)

    assert str(twice) == (
        "key b'a' of barrier 'pairs' has component 1 already\n"
        "  where: node pairs/insert_many_1, op barrier_insert_many, step 2, device /cpu:0, "
        f"defined at {b.put_labels.node.defined_at}"
    )
    assert dry.what == "barrier 'pairs' is closed and has insufficient elements (requested 2, total size 1)"


def test_a_close_may_be_followed_by_one_that_drops_what_is_incomplete() -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        await b.both(session, b"a")
        await b.label(session, b"b")
        waiting = asyncio.create_task(session.run(b.take))
        await session.run(b.close)
        assert not waiting.done()
        await session.run(b.drop)
        with pytest.raises(errors.OutOfRange):
            await waiting
        return (await session.run(b.take_small)).keys.tolist()

    assert run(b.graph, body) == [b"a"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.zeros((1, 3), "float32"), r"component 0 of barrier 'pairs' must be \(2,\) float32 for each key"),
        (np.zeros((2, 2), "float32"), r"a value for each, got \(1,\) keys and values of \(2, 2\)"),
        (np.float32(1), r"got \(1,\) keys and values of \(\)"),
    ],
)
def test_values_that_do_not_fit_are_refused_in_the_step(values: Any, said: str) -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.SpecError, match=said):
            await session.run(b.put_images, {b.keys: [b"a"], b.images: values})
        return await b.sizes(session)

    assert run(b.graph, body) == (0, 0)


def test_a_step_that_fails_gives_back_what_it_took() -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        await b.both(session, b"abc")
        with pytest.raises(errors.NumericError):
            await session.run(b.broken)
        return (await session.run(b.take)).keys.tolist(), await b.sizes(session)

    assert run(b.graph, body) == ([b"a", b"b"], (1, 0))


def test_a_cancelled_take_leaves_its_place_to_the_next() -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        first = asyncio.create_task(session.run(b.take))
        second = asyncio.create_task(session.run(b.take))
        await asyncio.sleep(0)
        first.cancel()
        await b.both(session, b"ab")
        return (await second).keys.tolist()

    assert run(b.graph, body) == [b"a", b"b"]


def test_whoever_waits_when_the_session_closes_is_told() -> None:
    b = Pairs()

    async def main() -> Any:
        async with af.Session(b.graph) as session:
            waiting = asyncio.create_task(session.run(b.take))
            await asyncio.sleep(0)
        with pytest.raises(errors.ActorflowError):
            await waiting

    af.run(main())


def test_a_deadline_tells_which_barrier_the_step_waits_for() -> None:
    b = Pairs()

    with pytest.raises(
        errors.DeadlinePassed, match=r"waits for '\S*/barrier/pairs' to answer pairs/take_many"
    ):
        run(b.graph, lambda session: session.run(b.take, deadline_s=0.02))


def test_components_are_the_barrier_s_own_copies() -> None:
    b = Pairs()

    async def body(session: af.Session) -> Any:
        values = np.ones((2, 2), "float32")
        await session.run(b.put_images, {b.keys: [b"a", b"b"], b.images: values})
        values[:] = 9
        await b.label(session, b"ab")
        return (await session.run(b.take)).components["image"]

    image = run(b.graph, body)

    assert image.tolist() == [[1, 1], [1, 1]]


def test_inserts_and_sizes_of_one_step_follow_program_order() -> None:
    with af.Graph() as graph:
        barrier = af.state.Barrier("int32", ())
        sizes = []
        for k in range(3):
            sizes.append(barrier.ready_size())
            barrier.insert_many(0, [bytes([k])], [k])
        nodes = [af.arrays.identity(t) for t in sizes]
        puts = [f"barrier/insert_many{s}:0" for s in ("", "_1", "_2")]

    values, _ = run(graph, lambda s: s.run([nodes, puts]))

    assert [int(v) for v in values] == [0, 1, 2]


def test_a_retried_insert_is_answered_and_not_applied_again() -> None:
    actor = BarrierActor("b", [spec("int32")], None)
    body = InsertMany(0, np.array([b"a"], object), np.array([1], "int32"))

    said = [ask(actor, WriteOnce(body, Source("s"), sequence)).said for sequence in (1, 2, 2, 1)]

    assert len(actor.rule_state.ready) == 2
    assert said[:3] == [[True], [True], [True]]
    assert "write 1 of 's' was applied once; its answer is gone since write 2" in str(said[3][0])


def test_what_is_answered_to_a_step_that_has_ended_goes_back() -> None:
    """Two takes of one step wait; the error of the first ends the step before the second is answered."""
    actor = BarrierActor("b", [spec("int32")], None)
    ended = ask(actor, TakeMany(1, allow_small=False))
    ended.error = StepAborted("it ended")

    ask(actor, InsertMany(0, np.array([b"a"], object), np.array([1], "int32")))

    assert ended.said == []
    assert len(actor.rule_state.ready) == 1


def test_a_component_keeps_nothing_of_those_beside_it_alive() -> None:
    actor = BarrierActor("b", [spec("float32", (2,))], None)
    keys, values = np.array([b"a", b"b"], object), np.ones((2, 2), "float32")

    ask(actor, WriteOnce(InsertMany(0, keys, values), Source("s"), 1))

    for ready in actor.rule_state.ready:
        memory = ready.components[0].base
        assert memory.base is None
        assert memory.nbytes == 8
