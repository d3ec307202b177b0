"""The dtype bytes: where it comes in, what it may go through, and what refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import FeedError, PlacementError, SpecError
from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.plan.lower import lower
from actorflow.values import arrays
from actorflow.values.arrays import BYTES, as_dtype, whole
from tests.ops.samples import SAMPLES, Case
from tests.ops.test_conformance import COMPUTED, FEW
from tests.support.accepting import accepted
from tests.support.reference import call, evaluate

ANY = [
    name
    for name in COMPUTED
    if name in SAMPLES
    and (told := accepted(opdef.lookup(name))) is not None
    and any("bytes" in names and "float64" in names for names in told.inputs)
]
"""The ops that take numbers and bytes alike: they move elements, or compare them, and look no deeper."""


def named(x: np.ndarray) -> np.ndarray:
    """The same array with each number spelt out, a zero byte behind it."""
    made = np.empty(x.shape, BYTES)
    made.reshape(-1)[:] = [b"%r\0" % float(v) for v in np.asarray(x).reshape(-1)]
    return made


def test_the_ops_of_structure_take_bytes() -> None:
    assert {
        "reshape", "transpose", "concat", "stack", "unstack", "split", "gather", "gather_nd", "slice", "where",
        "equal", "not_equal", "broadcast_to", "tile", "flip", "boolean_mask", "identity", "shape", "size",
    } <= set(ANY)  # fmt: skip


@pytest.mark.parametrize("op", ANY)
def test_an_op_of_structure_does_with_bytes_what_it_does_with_numbers(op: str) -> None:
    """Naming the numbers before is naming them afterwards."""

    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case: Case = data.draw(SAMPLES[op].cases)
        spelt = [named(x) if x.dtype == np.float64 else x for x in case.inputs]

        for of_numbers, of_bytes in zip(
            call(op, case.inputs, case.attrs), call(op, spelt, case.attrs), strict=True
        ):
            told = named(of_numbers) if of_numbers.dtype == np.float64 else of_numbers
            assert of_bytes.dtype == told.dtype and of_bytes.shape == told.shape
            np.testing.assert_array_equal(of_bytes, told)

    law()


def test_no_op_takes_bytes_that_has_not_said_so() -> None:
    def rule(inputs: Any, attrs: Any) -> Any:
        return inputs

    table: Any = opdef.table()
    try:
        opdef.op("planted_for_bytes", spec=rule)(lambda x: None)
        with pytest.raises(SpecError, match=r"planted_for_bytes takes no bytes, got \(2,\) bytes"):
            opdef.lookup("planted_for_bytes").spec([af.Spec((2,), BYTES)], {})
    finally:
        del table["planted_for_bytes"]


@pytest.mark.parametrize("dtype", ["bytes", bytes, np.bytes_, object, np.dtype("S3")])
def test_bytes_are_named_in_every_usual_way(dtype: Any) -> None:
    with af.Graph():
        x = af.placeholder(dtype, (None,), name="x")

    assert repr(x) == "<Tensor x:0 (None,) bytes>"
    assert as_dtype(dtype) == BYTES


REFUSED: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda x: x + x, "add takes no bytes, got (2,) bytes", "af.strings.to_number and af.io.decode_raw"),
    (lambda x: x + 1, "no bytes tensor can hold int 1: it is a number; give bytes", ""),
    (lambda x: af.equal(x, [1, 2]), "equal needs equal dtypes, got (2,) bytes and (2,) int32", "bytes mix with bytes only"),
    (lambda x: af.sum(x), "sum takes no bytes", ""),
    (lambda x: af.zeros_like(x), "zeros_like takes no bytes", ""),
    (lambda x: af.cast(x, "int32"), "cast takes no bytes", "af.strings.to_number"),
    (lambda x: af.cast([1], "bytes"), "cast makes no bytes, got (1,) bytes", "af.strings.as_bytes makes bytes of numbers"),
    (lambda x: af.Variable([b"a"], name="v"), "a variable holds numbers or bool, got (1,) bytes for 'v'", "a queue"),
    (lambda x: af.constant("text"), "elements must be bytes, got str 'text'; text is given as bytes", ""),
    (lambda x: af.constant([b"a", "b"]), "got str 'b' at index (1,); text is given as bytes, encode it", ""),
    (lambda x: af.constant([b"a", 1]), "elements must be bytes, got int 1 at index (1,)", ""),
    (lambda x: af.placeholder(str, ()), "no tensor has dtype <class 'str'>", ""),
    (lambda x: af.strings.length([1]), "bytes_length takes bytes, got (1,) int32", "af.strings.as_bytes and af.io.encode_raw"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "said", "hint"), REFUSED, ids=[said for _, said, _ in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(
    build: Callable[[Any], Any], said: str, hint: str
) -> None:
    with af.Graph(), pytest.raises(SpecError) as caught:
        build(af.placeholder("bytes", (2,)))

    assert said in str(caught.value)
    assert hint in str(caught.value)


def test_constants_keep_zero_bytes_at_the_end() -> None:
    with af.Graph() as graph:
        af.constant([[b"a\0", b""], [b"\0", b"b"]])
        af.constant(b"one\0")
        af.constant(np.array([b"ab", b"c"]))

    assert [c.tolist() for c in graph.constants] == [[[b"a\0", b""], [b"\0", b"b"]], b"one\0", [b"ab", b"c"]]
    assert {c.dtype for c in graph.constants} == {BYTES}


def test_a_graph_with_bytes_is_written_and_read() -> None:
    with af.Graph() as graph:
        x = af.placeholder("bytes", (None,), name="x")
        af.strings.join([x, [b"a\0"]], b"\xff")

    data, constants = af.io.to_data(graph)
    again = af.io.from_data(data, constants)

    assert data["nodes"][0]["outputs"] == [[[None], "bytes"]]
    assert again.nodes == graph.nodes
    assert again.constants[0].tolist() == [b"a\0"]
    with pytest.raises(
        af.errors.GraphError, match="a constant must be an array, got list: elements must be bytes"
    ):
        af.io.from_data(data, [["text"]])


@pytest.mark.parametrize("process", ["", "/job:ps/task:0/device:"])
def test_a_plan_puts_no_bytes_on_a_card(process: str) -> None:
    cpu, gpu = (f"{process or '/'}{device}" for device in ("cpu:0", "gpu:0"))
    with af.Graph() as graph, af.device(gpu):
        x = af.placeholder("bytes", (None,), name="x")
        y = af.concat([x, x], 0, name="y")

    with pytest.raises(PlacementError) as caught:
        lower(graph, [y.port], [x.port], [cpu, gpu])

    assert caught.value.what == f"bytes stay on the host, got (None,) bytes for 'concat' on {gpu}"
    assert "node y" in str(caught.value.where) and caught.value.hint == "place it on /cpu:0 with af.device"


def test_every_op_that_makes_bytes_of_numbers_is_pure() -> None:
    makers = [n for n, d in opdef.table().items() if (a := accepted(d)) and a.outputs == ("bytes",)]

    assert "as_bytes" in makers
    assert {opdef.lookup(n).effect for n in makers} == {Effect.PURE}


# ------------------------------------------------------------------------------------ in steps


def test_bytes_are_fed_computed_with_and_fetched() -> None:
    with af.Graph() as graph:
        x = af.placeholder("bytes", (None,), name="x")
        wanted = [af.concat([x, [b"end"]], 0), x[0], af.gather(x, 1), af.where(af.equal(x, b"ab"), x, b"no")]

    async def program() -> list[Any]:
        async with af.Session(graph) as session:
            return list(await session.run(wanted, {x: [b"ab", b"c\0"]}))

    joined, first, second, chosen = af.run(program())
    assert joined.tolist() == [b"ab", b"c\0", b"end"]
    assert (first.shape, first.dtype, first[()], second[()]) == ((), BYTES, b"ab", b"c\0")
    assert chosen.tolist() == [b"ab", b"no"]


@pytest.mark.parametrize(
    ("fed", "said"),
    [
        (
            ["a"],
            "feed 'x' must fit (None,) bytes, got list: elements must be bytes, got str 'a' at index (0,)",
        ),
        (np.array(["a", b"b"], object), "got ndarray: elements must be bytes, got str 'a'"),
        ([b"a", 3], "elements must be bytes, got int 3 at index (1,)"),
        (np.array([b"a"]), "feed 'x' must fit (None,) bytes, got (1,) bytes8"),
        (np.array([1.0]), "feed 'x' must fit (None,) bytes, got (1,) float64"),
        ([[b"a"]], "feed 'x' must fit (None,) bytes, got (1, 1) bytes"),
    ],
)
def test_what_is_fed_as_bytes_is_looked_at(fed: Any, said: str) -> None:
    with af.Graph() as graph:
        x = af.placeholder("bytes", (None,), name="x")
        y = af.arrays.identity(x)

    async def program() -> None:
        async with af.Session(graph) as session:
            await session.run(y, {x: fed})

    with pytest.raises(FeedError) as caught:
        af.run(program())
    assert said in caught.value.what


def test_bytes_are_no_feed_of_a_placeholder_for_numbers() -> None:
    with af.Graph() as graph:
        x = af.placeholder("int32", (None,), name="x")
        y = af.arrays.identity(x)

    async def program(fed: Any) -> None:
        async with af.Session(graph) as session:
            await session.run(y, {x: fed})

    for fed in ([b"1"], np.array([b"1"], object)):
        with pytest.raises(FeedError, match=r"must fit \(None,\) int32"):
            af.run(program(fed))


def test_bytes_wait_in_a_queue_one_by_one_and_in_batches() -> None:
    with af.Graph() as graph:
        x = af.placeholder("bytes", (None,), name="x")
        queue = af.state.FIFOQueue(8, ["bytes", "int32"], [(), ()], name="q")
        put = queue.enqueue_many([x, [1, 2, 3]])
        one, several = queue.dequeue(), queue.dequeue_many(2)

    async def program() -> Any:
        async with af.Session(graph) as session:
            await session.run(put, {x: [b"a\0", b"", b"c"]})
            return await session.run(one), await session.run(several)

    (first, number), (rest, numbers) = af.run(program())
    assert (first[()], first.dtype, int(number)) == (b"a\0", BYTES, 1)
    assert (rest.tolist(), rest.dtype, numbers.tolist()) == ([b"", b"c"], BYTES, [2, 3])


def test_a_single_element_is_an_array_with_a_dtype() -> None:
    assert (whole(b"a\0").shape, whole(b"a\0").dtype, whole(b"a\0")[()]) == ((), BYTES, b"a\0")
    assert whole(np.float32(1)) == 1
    assert arrays.row(np.array([b"a", b"b"], object), 1)[()] == b"b"
    with af.Graph() as graph:
        x = af.placeholder("bytes", (2,))
        first = x[0]
    assert evaluate(graph, first, {x: np.array([b"a", b"b"], object)})[()] == b"a"


@pytest.mark.parametrize("given", [2**70, [1, 2**70], {"a": 1}, [None], object])
def test_what_is_neither_a_number_nor_bytes_is_refused_by_its_type(given: Any) -> None:
    with af.Graph(), pytest.raises(SpecError, match="values are numbers of at most 64 bits, or bytes, got "):
        af.constant(given)
