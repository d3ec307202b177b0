"""What is done with bytes as text, against Python's own answers, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import DataError, SpecError
from actorflow.graph.graph import Graph
from actorflow.values.arrays import BYTES
from tests.support.reference import evaluate


def value(build: Callable[[Any], Any], x: list[Any]) -> Any:
    """What a graph of one input computes for `x`, as nested lists."""
    with Graph() as graph:
        fed = af.placeholder("bytes", np.array(x, object).shape)
        y = build(fed)
    return evaluate(graph, y, {fed: np.array(x, object)}).tolist()


DONE: list[tuple[Callable[[Any], Any], list[Any], list[Any]]] = [
    (af.strings.length, [b"", b"a\0", "é".encode()], [0, 2, 2]),
    (af.strings.lower, ["ÀB1".encode(), b"Z"], ["Àb1".encode(), b"z"]),
    (af.strings.upper, [b"aZ", b"\xe0"], [b"AZ", b"\xe0"]),
    (lambda x: af.strings.slice(x, 1, -1), [b"abcd", b"a", b""], [b"bc", b"", b""]),
    (lambda x: af.strings.slice(x, -2), [b"abcd", b"a"], [b"cd", b"a"]),
    (af.strings.strip, [b" a b\n", b"\t"], [b"a b", b""]),
    (lambda x: af.strings.strip(x, b"x\0"), [b"x\0ax", b"xx"], [b"a", b""]),
    (lambda x: af.strings.split(x, 3, b","), [b"a,b", b"a,,c\0", b""], [[b"a", b"b", b""], [b"a", b"", b"c\0"], [b""] * 3]),
    (lambda x: af.strings.split(x, 2, pad=b"-"), [b" a  b ", b""], [[b"a", b"b"], [b"-", b"-"]]),
    (lambda x: af.strings.join([x, b"=", x]), [b"a", b""], [b"a=a", b"="]),
    (lambda x: af.strings.join([x, [b"1", b"2"]], b"\xff"), [[b"a"], [b"b"]], [[b"a\xff1", b"a\xff2"], [b"b\xff1", b"b\xff2"]]),
    (lambda x: af.strings.regex_replace(x, rb"(\d+)", rb"<\1>"), [b"a12b3", b"x"], [b"a<12>b<3>", b"x"]),
    (lambda x: af.strings.regex_replace(x, b"a", b"\0", 1), [b"aa"], [b"\0a"]),
    (lambda x: af.strings.regex_match(x, b"[a-z]+"), [b"abc", b"abc1", b""], [True, False, False]),
    (lambda x: af.strings.regex_match(x, b"[a-z]", whole=False), [b"1a", b"11"], [True, False]),
]  # fmt: skip


@pytest.mark.parametrize(("build", "x", "told"), DONE)
def test_every_element_becomes_what_python_makes_of_it(
    build: Callable[[Any], Any], x: list[Any], told: list[Any]
) -> None:
    assert value(build, x) == told


def test_a_hash_is_the_same_everywhere_and_for_ever() -> None:
    """BLAKE2b of 8 bytes, the lowest first: what `printf actor | b2sum -l 64` says."""
    assert value(lambda x: af.strings.hash_bucket(x, 2**62), [b"", b"actor"]) == [
        3797230976420062948,
        2649497577021947140,
    ]
    assert value(lambda x: af.strings.hash_bucket(x, 10), [b"", b"actor"]) == [6, 0]
    assert value(lambda x: af.strings.hash_bucket(x, 10, seed=1), [b"a", b"b", b"c"]) != value(
        lambda x: af.strings.hash_bucket(x, 10), [b"a", b"b", b"c"]
    )


def test_hashes_fill_their_buckets_evenly() -> None:
    found = value(lambda x: af.strings.hash_bucket(x, 10), [b"%d" % i for i in range(5000)])

    counts = np.bincount(found)
    assert len(counts) == 10 and np.all(np.abs(counts - 500) < 110)


REFUSED: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda x: af.strings.join([]), "bytes_join needs at least one tensor", ""),
    (lambda x: af.strings.join([x, [1, 2]]), "bytes_join takes bytes, got (2,) int32", "make bytes of numbers"),
    (lambda x: af.strings.join([x, [b"a"] * 3]), "shapes must broadcast", ""),
    (lambda x: af.strings.join([x], ","), "bytes_join takes bytes as separator, got ','", "write b','"),  # type: ignore[arg-type]
    (lambda x: af.strings.split(x, 0), "bytes_split makes at least one part, got count 0", ""),
    (lambda x: af.strings.regex_match(x, b"(a"), "regex_match takes a regular expression, got '(a': missing )", ""),
    (lambda x: af.strings.regex_replace(x, b"a", rb"\1"), "regex_replace takes a regular expression", ""),
    (lambda x: af.strings.regex_match(x, "a"), "regex_match takes bytes as pattern, got 'a'", "write b'a'"),  # type: ignore[arg-type]
    (lambda x: af.strings.hash_bucket(x, 0), "hash_bucket takes at least one bucket", ""),
    (lambda x: af.strings.hash_bucket(x, 2, -1), "the seed of hash_bucket is in [0, 2**64), got -1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("build", "said", "hint"), REFUSED, ids=[said for _, said, _ in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(
    build: Callable[[Any], Any], said: str, hint: str
) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build(af.placeholder("bytes", (2,)))

    assert said in str(caught.value)
    assert hint in str(caught.value)
    assert "test_strings.py" in str(caught.value)


def test_an_element_of_too_many_parts_is_named_with_its_place_and_its_text() -> None:
    with pytest.raises(DataError) as caught:
        value(lambda x: af.strings.split(x, 2, b","), [[b"a"], [b"b,c," + b"d" * 80]])

    text = "b,c," + "d" * 56
    assert caught.value.what == (
        f"bytes_split cannot read the element at index (1, 0): it has 3 parts, more than 2, got b'{text}' "
        "and 24 more bytes"
    )


def test_a_failed_step_says_where_the_op_was_built() -> None:
    with Graph() as graph:
        x = af.placeholder("bytes", (None,), name="x")
        y = af.strings.to_number(x, "int32", name="ages")

    async def program() -> None:
        async with af.Session(graph) as session:
            await session.run(y, {x: [b"1", b"old"]})

    with pytest.raises(DataError) as caught:
        af.run(program())
    assert "to_number cannot read the element at index (1,)" in caught.value.what
    assert "node ages" in str(caught.value) and "test_strings.py" in str(caught.value)


def test_arrays_of_bytes_come_out() -> None:
    with Graph() as graph:
        y = af.strings.upper(af.constant(b"a"))

    made = evaluate(graph, y)
    assert (made.shape, made.dtype, made[()]) == ((), BYTES, b"A")
