"""Every kind of state can be shared by name: found from other graphs, checked, and dropped by a reset."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.systems import in_system

ONE = np.int64(1)


@dataclass(frozen=True)
class Kind:
    """One kind of state.

    Attributes:
        made: Its class.
        arguments: Those of one that is made.
        put: Builds what changes it; fetched by one session.
        seen: Builds what looks at it; fetched by another one.
        wanted: What that is to see after the change.
        others: Arguments that make other state of the same kind, by the attribute that the error names.
        waits: Builds what waits at a fresh one; None where nobody waits.
        told: What those who wait are told when it is reset.
    """

    made: Callable[..., Any]
    arguments: Mapping[str, Any]
    put: Callable[[Any], Any]
    seen: Callable[[Any], Any]
    wanted: Any
    others: Mapping[str, Mapping[str, Any]]
    waits: Callable[[Any], Any] | None = None

    def graph(self, shared_name: Any = "everybody's", **changes: Any) -> tuple[af.Graph, Any]:
        with af.Graph() as graph:
            return graph, self.made(**{**self.arguments, **changes}, name="mine", shared_name=shared_name)


QUEUE = {"capacity": 4, "dtypes": "int64", "shapes": ()}
_of_queues: dict[str, Any] = {
    "put": lambda q: q.enqueue(ONE),
    "seen": lambda q: q.dequeue(),
    "wanted": 1,
    "waits": lambda q: q.dequeue(),
}
_other_queues: dict[str, Mapping[str, Any]] = {
    "capacity": {"capacity": 5},
    "components": {"shapes": (2,)},
    "max_bytes": {"max_bytes": 100},
}


def _slices() -> Any:
    return af.IndexedSlices(np.ones(1, "float32"), np.array([2]), (3,))


KINDS: dict[str, Kind] = {
    "queue": Kind(af.state.FIFOQueue, QUEUE, **_of_queues, others=_other_queues),
    "shuffle_queue": Kind(
        af.state.RandomShuffleQueue,
        {**QUEUE, "min_after_dequeue": 0},
        **_of_queues,
        others={**_other_queues, "min_after_dequeue": {"min_after_dequeue": 1}},
    ),
    "priority_queue": Kind(
        af.state.PriorityQueue,
        {"capacity": 4, "dtypes": ["int64", "int64"], "shapes": [(), ()]},
        put=lambda q: q.enqueue((ONE, ONE)),
        seen=lambda q: q.dequeue()[1],
        wanted=1,
        waits=lambda q: q.dequeue()[1],
        others={**_other_queues, "components": {"shapes": [(), (2,)]}},
    ),
    "padding_queue": Kind(af.state.PaddingFIFOQueue, QUEUE, **_of_queues, others=_other_queues),
    "barrier": Kind(
        af.state.Barrier,
        {"dtypes": "int64", "shapes": ()},
        put=lambda b: b.insert_many(0, [b"key"], np.ones(1, "int64")),
        seen=lambda b: b.take_many(1).components[0],
        wanted=[1],
        waits=lambda b: b.take_many(1).keys,
        others={"components": {"shapes": (2,)}, "capacity": {"capacity": 3}},
    ),
    "accumulator": Kind(
        af.state.ConditionalAccumulator,
        {"dtype": "float32", "shape": ()},
        put=lambda a: a.apply_grad(np.float32(1)),
        seen=lambda a: a.take_grad(1),
        wanted=1.0,
        waits=lambda a: a.take_grad(1),
        others={"spec": {"shape": (2,)}, "reduction": {"reduction": "sum"}},
    ),
    "sparse_accumulator": Kind(
        af.state.SparseConditionalAccumulator,
        {"dtype": "float32", "shape": (3,)},
        put=lambda a: a.apply_grad(_slices()),
        seen=lambda a: a.take_grad(1).values,
        wanted=[1.0],
        waits=lambda a: a.take_grad(1).values,
        others={
            "spec": {"shape": (4,)},
            "reduction": {"reduction": "sum"},
            "per_index": {"per_index": True},
        },
    ),
    "hash_table": Kind(
        af.state.HashTable,
        {"key_dtype": "int64", "value_dtype": "int64", "default": -1},
        put=lambda t: t.insert([ONE], [ONE]),
        seen=lambda t: t.lookup(np.ones(1, "int64")),
        wanted=[1],
        others={
            "key": {"key_dtype": "int32"},
            "value": {"value_dtype": "int32"},
            "mutable": {"mutable": False},
            "max_size": {"max_size": 3},
        },
    ),
    "counter": Kind(
        af.state.Counter,
        {},
        put=lambda c: c.next(),
        seen=lambda c: c.read(),
        wanted=1,
        others={"start": {"start": -1}, "limit": {"limit": 3}},
    ),
    "stack": Kind(
        af.state.Stack,
        {"dtype": "int64", "shape": ()},
        put=lambda s: s.push(ONE),
        seen=lambda s: s.pop(),
        wanted=1,
        others={
            "spec": {"shape": (2,)},
            "max_size": {"max_size": 3},
            "max_bytes": {"max_bytes": 100},
        },
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@each_kind
def test_what_one_session_puts_in_another_one_sees(kind: Kind) -> None:
    (a, mine), (b, theirs) = kind.graph(), kind.graph()
    with a:
        put = kind.put(mine)
    with b:
        seen = kind.seen(theirs)

    async def body(system: af.ActorSystem) -> Any:
        async with af.Session(a, system=system) as s, af.Session(b, system=system) as t:
            await s.run(put)
            return (await t.run(seen)).tolist()

    assert in_system(body) == kind.wanted


@each_kind
def test_without_a_shared_name_every_session_has_its_own(kind: Kind) -> None:
    graph, mine = kind.graph(shared_name=None)
    with graph:
        put, seen = kind.put(mine), kind.seen(mine)

    async def body(system: af.ActorSystem) -> None:
        async with af.Session(graph, system=system) as s, af.Session(graph, system=system) as t:
            await s.run(put)
            looking = asyncio.create_task(t.run(seen))
            await asyncio.sleep(0.01)
            if kind.waits is not None:
                assert not looking.done()
                looking.cancel()
                await asyncio.wait([looking])
            else:
                result: Any = (await asyncio.gather(looking, return_exceptions=True))[0]
                assert isinstance(result, errors.OutOfRange) or result.tolist() != kind.wanted

    in_system(body)


@each_kind
def test_it_outlives_the_session_that_made_it(kind: Kind) -> None:
    (a, mine), (b, theirs) = kind.graph(), kind.graph()
    with a:
        put = kind.put(mine)
    with b:
        seen = kind.seen(theirs)

    async def body(system: af.ActorSystem) -> Any:
        async with af.Session(a, system=system) as s:
            await s.run(put)
        async with af.Session(b, system=system) as t:
            return (await t.run(seen)).tolist()

    assert in_system(body) == kind.wanted


@pytest.mark.parametrize(
    ("name", "attribute"), [(name, each) for name, kind in KINDS.items() for each in kind.others]
)
def test_other_definitions_are_refused_and_the_attribute_is_named(name: str, attribute: str) -> None:
    kind = KINDS[name]
    (a, mine), (b, theirs) = kind.graph(), kind.graph(**kind.others[attribute])
    with a:
        put = kind.put(mine)
    with b:
        size = next(getattr(theirs, verb) for verb in _LOOKS if hasattr(theirs, verb))()

    async def body(system: af.ActorSystem) -> None:
        async with af.Session(a, system=system) as s, af.Session(b, system=system) as t:
            await s.run(put)
            with pytest.raises(errors.StateError) as caught:
                await t.run(size)
            expected = f'shared name "everybody\'s" stands for a {name} of {attribute} '
            assert caught.value.what.startswith(expected), caught.value.what
            assert f", got {attribute} " in caught.value.what
            assert "test_sharing_kinds.py" in str(caught.value.where)

    in_system(body)


_LOOKS = ("size", "ready_size", "num_accumulated", "read")


QUEUES = ("queue", "shuffle_queue", "padding_queue", "priority_queue")


@pytest.mark.parametrize(("made", "opened"), [(a, b) for a in QUEUES for b in QUEUES if a != b])
def test_a_queue_of_another_kind_is_refused_and_the_kinds_are_named(made: str, opened: str) -> None:
    (a, mine), (b, theirs) = KINDS[made].graph(), KINDS[opened].graph()
    with a:
        put = KINDS[made].put(mine)
    with b:
        size = theirs.size()

    async def body(system: af.ActorSystem) -> None:
        async with af.Session(a, system=system) as s, af.Session(b, system=system) as t:
            await s.run(put)
            with pytest.raises(errors.StateError) as caught:
                await t.run(size)
            at = a.resources["mine"].defined_at
            said = f'shared name "everybody\'s" stands for a {made} made at {at}, got a {opened}'
            assert caught.value.what == said

    in_system(body)


def test_each_graph_has_names_of_its_own_for_the_components_of_a_shared_queue() -> None:
    """What is in the queue is the order; names are how one graph says it."""
    with af.Graph() as a:
        pairs = af.state.FIFOQueue(2, ["int64", "int64"], [(), ()], names=["x", "y"], shared_name="q")
        put = pairs.enqueue({"y": ONE * 2, "x": ONE})
    with af.Graph() as b:
        others = af.state.FIFOQueue(2, ["int64", "int64"], [(), ()], names=["y", "z"], shared_name="q")
        take = others.dequeue()

    async def body(system: af.ActorSystem) -> Any:
        async with af.Session(a, system=system) as s, af.Session(b, system=system) as t:
            await s.run(put)
            taken: Any = await t.run(take)  # a dict, since the queue has names
            return {name: int(value) for name, value in taken.items()}

    assert in_system(body) == {"y": 1, "z": 2}


@each_kind
def test_a_reset_tells_who_waits_and_makes_it_anew(kind: Kind) -> None:
    graph, mine = kind.graph()
    with graph:
        put, seen = kind.put(mine), kind.seen(mine)
        waits = None if kind.waits is None else kind.waits(mine)

    async def body(system: af.ActorSystem) -> Any:
        async with af.Session(graph, system=system) as session:
            if waits is not None:
                waiting = asyncio.create_task(session.run(waits))
                await asyncio.sleep(0.01)
                await af.state.reset(system)
                with pytest.raises(errors.ActorDied, match="was stopped before it could answer"):
                    await waiting
            await session.run(put)
            await af.state.reset(system)
            await session.run(put)
            return (await session.run(seen)).tolist()

    assert in_system(body) == kind.wanted


@each_kind
@pytest.mark.parametrize("wrong", ["", 3, b"n"])
def test_a_shared_name_is_a_text_and_not_empty(kind: Kind, wrong: Any) -> None:
    with pytest.raises(
        errors.GraphError, match="the shared name of a .* is a text and not empty, got"
    ) as caught:
        kind.graph(shared_name=wrong)

    assert "test_sharing_kinds.py" in str(caught.value.where)


@each_kind
def test_a_graph_declares_a_shared_name_once_in_a_container(kind: Kind) -> None:
    graph, _ = kind.graph()
    with graph:
        with af.state.container("another"):
            kind.made(**kind.arguments, shared_name="everybody's")
        with pytest.raises(errors.GraphError, match="declares shared state once, \"everybody's\" is 'mine'"):
            kind.made(**kind.arguments, shared_name="everybody's")


@each_kind
def test_a_graph_that_is_read_back_shares_the_same_state(kind: Kind) -> None:
    graph, mine = kind.graph()
    with graph:
        put, seen = kind.put(mine), kind.seen(mine)
    back = af.io.from_data(*af.io.to_data(graph))

    async def body(system: af.ActorSystem) -> Any:
        async with af.Session(graph, system=system) as s, af.Session(back, system=system) as t:
            await s.run(put)
            return (await t.run(f"{seen.node.name}:{seen.port.index}")).tolist()

    assert in_system(body) == kind.wanted


@each_kind
def test_its_docstring_says_what_a_shared_name_does(kind: Kind) -> None:
    assert "    shared_name: Under which all sessions of an actor system find the same" in (
        inspect.getdoc(kind.made) or ""
    )


CONTENTS: dict[str, Any] = {"default": -1, "initial": ([1, 2], [10, 20])}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"default": -2}, "default -1 made at {}, got default -2"),
        ({"initial": ([1, 3], [10, 20])}, "keys [1, 2] made at {}, got keys [1, 3]"),
        ({"initial": ([2, 1], [20, 10])}, "keys [1, 2] made at {}, got keys [2, 1]"),
        ({"initial": ([1, 2], [10, 21])}, "values [10, 20] made at {}, got values [10, 21]"),
        ({"initial": None}, "keys [1, 2] made at {}, got keys None"),
        ({"initial": (range(50), range(50))}, "keys [1, 2] made at {}, got keys [0, 1, 2, 3,"),
    ],
)
def test_a_shared_table_has_one_default_and_one_initial_contents(changes: Any, said: str) -> None:
    def built(**arguments: Any) -> tuple[af.Graph, Any, Any]:
        with af.Graph() as graph:
            table = af.state.HashTable("int64", "int64", **arguments, shared_name="t")
            return graph, table.export()[0], table.insert([9], [9])

    async def body(system: af.ActorSystem) -> Any:
        (a, keys, put), (b, theirs, _), (c, other, _) = (
            built(**CONTENTS),
            built(**CONTENTS),
            built(**{**CONTENTS, **changes}),
        )
        async with (
            af.Session(a, system=system) as s,
            af.Session(b, system=system) as t,
            af.Session(c, system=system) as u,
        ):
            await s.run(put)
            with pytest.raises(errors.StateError) as caught:
                await u.run(other)
            made_at = a.resources["hash_table"].defined_at
            expected = "shared name 't' stands for a hash_table of " + said.format(made_at)
            assert caught.value.what.startswith(expected), caught.value.what
            await s.run(keys)
            return (await t.run(theirs)).tolist()

    assert in_system(body) == [1, 2, 9]


def test_after_a_reset_a_shared_table_may_begin_with_other_contents() -> None:
    """Only who still says the old ones is refused, and only where it asks for the table."""

    def built(value: int) -> tuple[af.Graph, Any, Any]:
        with af.Graph() as graph:
            table = af.state.HashTable("int64", "int64", value, initial=([value], [value]), shared_name="t")
            return graph, table.export()[0], af.state.Counter().next()

    async def body(system: af.ActorSystem) -> Any:
        (a, keys, number), (b, theirs, _) = built(1), built(2)
        async with af.Session(a, system=system) as s, af.Session(b, system=system) as t:
            first = (await s.run(keys)).tolist()
            await af.state.reset(system)
            second = (await t.run(theirs)).tolist()
            counted = int(await s.run(number))
            with pytest.raises(errors.StateError, match=r"of default 2 made at .*, got default 1"):
                await s.run(keys)
            return first, second, counted

    assert in_system(body) == ([1], [2], 0)


def test_a_table_with_oov_buckets_is_not_shared() -> None:
    with af.Graph(), pytest.raises(errors.SpecError, match="a table with oov_buckets is not shared, got"):
        af.state.HashTable(
            "bytes", "int64", -1, initial=([b"a"], [0]), mutable=False, oov_buckets=2, shared_name="t"
        )


@pytest.mark.parametrize("seed", [None, 3])
def test_a_shared_shuffle_queue_draws_from_the_seed_of_whoever_comes_first(seed: int | None) -> None:
    """A seed that is left out depends on where in its graph the queue is declared."""

    def built(before: int, seed: int | None) -> tuple[af.Graph, Any, Any]:
        with af.Graph() as graph:
            for _ in range(before):
                af.state.Counter()
            queue = af.state.RandomShuffleQueue(99, 0, "int64", (), seed=seed, shared_name="q")
            return graph, queue.enqueue_many(np.arange(20)), queue.dequeue_many(20)

    async def body(system: af.ActorSystem) -> Any:
        (a, put, _), (b, _, take) = built(0, None), built(2, seed)
        async with af.Session(a, system=system) as s, af.Session(b, system=system) as t:
            await s.run(put)
            return sorted((await t.run(take)).tolist())

    assert in_system(body) == list(range(20))
