"""Pipelines as users write them: what they say of themselves, and what they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import actorflow as af
from actorflow import errors
from actorflow.data.pipeline import Pipeline
from actorflow.data.values.rng import bits
from tests.data import functions
from tests.data.pipelines import Drawn, Unsized, drawn, numbers_from


def numbers(n: int = 10) -> Pipeline:
    return Pipeline(numbers_from(n))


def loose() -> Any:
    """A pipeline to give arguments that its annotations refuse."""
    return numbers()


def elements(pipeline: Pipeline) -> list[Any]:
    async def main() -> list[Any]:
        return [element async for element in pipeline]

    return asyncio.run(main())


def decode(value: Any) -> Any:
    return value


async def later(value: Any) -> Any:
    return value


def test_arrays_map_shuffle_and_batch() -> None:
    images, labels = np.arange(40).reshape(10, 2, 2), np.arange(10)
    pipeline = (
        af.data.arrays({"image": images, "label": labels})
        .map(lambda e: {**e, "image": e["image"].astype("float32") / 2})
        .shuffle(4, seed=1)
        .batch(4)
        .prefetch(1)
    )

    batches = elements(pipeline)

    assert [len(batch["label"]) for batch in batches] == [4, 4, 2]
    assert batches[0]["image"].dtype == np.float32
    order = np.concatenate([batch["label"] for batch in batches])
    assert sorted(order) == list(range(10))
    assert np.array_equal(np.concatenate([batch["image"] for batch in batches]), images[order] / 2)


def test_every_method_returns_a_new_pipeline() -> None:
    first = numbers()

    first.map(decode).batch(3)

    assert elements(first) == list(range(10))


def test_unbatch_undoes_a_batch() -> None:
    assert [int(value) for value in elements(numbers().batch(3).unbatch())] == list(range(10))


def test_padded_batches_and_buckets() -> None:
    ragged = numbers(6).map(lambda n: np.full(n, n))

    assert [batch.tolist() for batch in elements(ragged.padded_batch(2, padding=-1))] == [
        [[-1], [1]],
        [[2, 2, -1], [3, 3, 3]],
        [[4, 4, 4, 4, -1], [5] * 5],
    ]
    assert [batch.shape for batch in elements(ragged.bucket(len, [2, 4], [2, 1, 3]))] == [
        (2, 1),
        (1, 2),
        (1, 3),
        (2, 5),
    ]


def test_a_random_map_gives_the_same_inline_and_on_threads() -> None:
    def noisy(value: int, generator: Any) -> tuple[int, int]:
        return value, int(generator.integers(2**30))

    def run(seed: int, threads: int | None) -> list[Any]:
        return elements(numbers(100).map(noisy, random=True, seed=seed, threads=threads).repeat(2))

    inline = run(3, None)
    assert inline == run(3, 1) == run(3, 2)
    assert inline[:100] != inline[100:]
    assert inline != run(4, None)


def test_what_has_no_seed_is_drawn_anew_at_every_opening() -> None:
    shuffled = numbers(1000).shuffle(1000)

    assert elements(shuffled) != elements(shuffled)


# -- what it says of itself --------------------------------------------------------------------------


@given(case=drawn())
def test_a_length_is_that_of_what_it_gives(case: Drawn) -> None:
    pipeline = case.pipeline()
    try:
        length = len(pipeline)
    except errors.InputError:
        return
    assert length == len(case.elements())


@pytest.mark.parametrize(
    ("pipeline", "length"),
    [
        (numbers().shuffle(3).map(decode, threads=2).prefetch(1).enumerate(), 10),
        (numbers().batch(3), 4),
        (numbers().batch(3, drop_remainder=True), 3),
        (numbers().repeat(3).padded_batch(7), 5),
        (numbers().repeat().take(25), 25),
        (numbers().skip(4).take(9), 6),
        (numbers(0).repeat().filter(decode), 0),
    ],
)
def test_lengths(pipeline: Pipeline, length: int) -> None:
    assert len(pipeline) == length


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        (lambda: numbers().filter(decode), "the number of elements is not known after filter 'decode'"),
        (lambda: numbers().flat_map(decode).batch(2), "not known after flat_map 'decode'"),
        (lambda: Pipeline(Unsized(3)), "not known after unsized"),
        (lambda: numbers().repeat().batch(3), r"there is no end after batch\(3\)"),
    ],
)
def test_what_has_no_length_says_which_stage_is_to_blame(pipeline: Callable[[], Pipeline], told: str) -> None:
    with pytest.raises(errors.InputError, match=told) as caught:
        len(pipeline())
    assert "defined at tests/data/test_pipeline.py:" in str(caught.value)


def test_a_repr_shows_the_stages() -> None:
    pipeline = numbers().map(decode).shuffle(3).repeat().repeat(2).batch(4).prefetch(1)

    assert repr(pipeline) == (
        "<Pipeline numbers → map 'decode' → shuffle(3) → repeat() → repeat(2) → batch(4) → prefetch(1)>"
    )


def test_a_capacity_is_the_sum_of_what_stages_hold() -> None:
    pipeline = numbers().shuffle(1000).batch(32).prefetch(4)
    capacity = pipeline.capacity

    told = {stage.label: stage.elements for stage in capacity.stages}
    assert told["shuffle(1000)"] == 1000
    assert told["batch(32)"] == 32
    assert told["queue"] == 4 + 2 * 2  # two batches of 32 are a chunk
    assert capacity.bytes == sum(stage.bytes or 0 for stage in capacity.stages)
    assert "shuffle(1000): 1000 elements, 8000 bytes" in str(capacity)
    assert numbers().map(decode).capacity.bytes is None
    assert numbers().map(decode, element_bytes=8).capacity.bytes == numbers().skip(1).capacity.bytes


def test_a_limit_in_bytes_is_what_the_queue_and_no_element_exceeds() -> None:
    mapped = numbers().map(decode, threads=2, max_bytes=100)
    held = {stage.label: stage.bytes for stage in mapped.padded_batch(4, padding=0).capacity.stages}
    close = {stage.label: stage for stage in numbers().prefetch(1000, max_bytes=100).capacity.stages}

    assert mapped.capacity.bytes is not None
    assert held["map 'decode', done"] == (2 * 2 * 64 + 64) * 100
    assert held["padded_batch(4)"] == 4 * 100
    assert (close["queue"].elements, close["queue"].bytes) == (1000 + 2 * 64, 2 * 64 * 8 + 100)
    told = numbers().map(decode, threads=2, max_bytes=100, element_bytes=8).capacity.bytes
    assert told is not None
    assert told < mapped.capacity.bytes / 5


def sized(n: int) -> np.ndarray:
    return np.zeros(n, np.uint8)


LIMITED: dict[str, Callable[[Pipeline], Pipeline]] = {
    "map inline": lambda p: p.map(sized).prefetch(50, max_bytes=300),
    "map": lambda p: p.map(sized, threads=2, max_bytes=300),
    "map, batches": lambda p: p.map(sized, threads=1, max_bytes=300).padded_batch(3).unbatch(),
}


@pytest.mark.parametrize("limited", LIMITED.values(), ids=LIMITED)
def test_a_queue_stays_below_its_limit_in_bytes(limited: Callable[[Pipeline], Pipeline]) -> None:
    async def main() -> int:
        async with limited(numbers(200)).open() as stream:
            given = 0
            async for _ in stream:
                given += 1
                for stage in stream.stats().stages:
                    assert stage.room_bytes is None or stage.fill_bytes <= stage.room_bytes == 300
            assert stream.stats().peak_bytes < 200 * 100  # without a limit chunks of 64 would wait
            return given

    assert asyncio.run(main()) == 200


@pytest.mark.parametrize("limited", LIMITED.values(), ids=LIMITED)
def test_an_element_larger_than_the_limit_is_an_error_at_that_element(
    limited: Callable[[Pipeline], Pipeline],
) -> None:
    seen = []

    async def main() -> None:
        async with limited(numbers(400)).open() as stream:
            async for element in stream:
                seen.append(element)  # noqa: PERF401  what came before an error is to stay

    with pytest.raises(
        errors.InputError, match="may hold 300 bytes, got 301 bytes in element 301 of epoch 0 alone"
    ):
        asyncio.run(main())
    assert len(seen) in {300, 301}  # three make a batch


def test_fingerprints_tell_pipelines_apart_but_not_how_they_run() -> None:
    plain = numbers().map(decode).batch(4)

    assert (
        plain.fingerprint
        == numbers().map(decode, threads=2).prefetch(1, max_bytes=9).batch(4).prefetch(2).fingerprint
    )
    others = [
        numbers(11).map(decode).batch(4),
        numbers().map(str).batch(4),
        numbers().map(decode).batch(5),
        numbers().map(decode).batch(4, drop_remainder=True),
        numbers().map(decode).shuffle(2, seed=1).batch(4),
        numbers().map(decode).shuffle(2, seed=2).batch(4),
        numbers().batch(4).map(decode),
    ]
    assert len({plain.fingerprint, *(other.fingerprint for other in others)}) == 8


class Later:
    async def __call__(self, value: Any) -> Any:
        return value


# -- what it refuses -----------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: loose().map(3), "map takes a function that can be called, got 3"),
    (lambda: loose().map(Later()), "map takes a function that is plain, no coroutine"),
    (lambda: loose().filter(partial(Later())), "filter takes a function that is plain, no coroutine"),
    (lambda: loose().map(later), "map takes a function that is plain, no coroutine"),
    (lambda: loose().map(decode, threads=0), "map takes threads from 1 on"),
    (lambda: loose().map(decode, threads=True), "map takes threads from 1 on"),
    (lambda: loose().map(decode, threads=1, processes=1), "map takes threads or processes not both"),
    (lambda: loose().map(decode, ordered=False), "ordered False only with threads or processes"),
    (lambda: loose().map(decode, ordered=1), "ordered as True or False, got 1"),
    (lambda: loose().map(decode, seed=1), "seed only with random=True"),
    (lambda: loose().map(decode, random=True, seed=1.5), "seed as a whole number"),
    (lambda: loose().filter(None), "filter takes a function"),
    (lambda: loose().shuffle(0), "shuffle takes size from 1 on, a whole number below"),
    (lambda: loose().shuffle(2**40), "shuffle takes size"),
    (lambda: loose().shuffle(3, seed="x"), "shuffle takes seed"),
    (lambda: loose().repeat(0), "repeat takes count from 1 on"),
    (lambda: loose().batch(1.0), "batch takes size"),
    (lambda: loose().batch(2, drop_remainder=None), "batch takes drop_remainder"),
    (lambda: loose().padded_batch(-1), "padded_batch takes size"),
    (lambda: loose().bucket(len, [3, 2], [1, 1, 1]), "bucket takes boundaries that ascend"),
    (lambda: loose().bucket(len, [3], [1]), "bucket takes sizes for each of the 2 buckets"),
    (lambda: loose().bucket(len, 3, [1]), "bucket takes boundaries as a sequence"),
    (lambda: loose().take(-1), "take takes count from 0 on"),
    (lambda: loose().skip("2"), "skip takes count"),
    (lambda: loose().enumerate(-1), "enumerate takes start"),
    (lambda: loose().prefetch(0), "prefetch takes size"),
]


@pytest.mark.parametrize(("make", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_what_cannot_be_meant_is_refused_at_the_line(make: Callable[[], object], told: str) -> None:
    with pytest.raises(errors.ConfigError, match=told) as caught:
        make()
    assert "defined at tests/data/test_pipeline.py:" in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    pipeline = loose().batch(np.int64(3), drop_remainder=np.bool_(True)).take(np.int8(2))

    assert len(elements(pipeline)) == 2


@pytest.mark.slow
def test_bits_are_the_same_inline_on_threads_and_in_processes() -> None:
    def all_of(**how: Any) -> list[Any]:
        async def main() -> list[Any]:
            pipeline = af.data.numbers(300).map(functions.with_bits, random="bits", seed=3, **how)
            return [element async for element in pipeline]

        return af.run(main())

    inline = all_of()

    assert inline == [(i, b) for i, b in enumerate(bits(3, 0, range(300)))]
    assert all_of(threads=2) == inline
    assert all_of(processes=2) == inline


def sums(value: Any, chance: Any) -> float:
    return float(value + chance.random())


@pytest.mark.parametrize("random", [True, "bits"])
def test_chance_is_that_of_the_epoch_where_a_chunk_has_several(random: Any) -> None:
    f = sums if random is True else functions.with_bits
    before = numbers(7).repeat(30).shuffle(100, seed=3)

    threads = elements(before.map(f, threads=2, random=random, seed=5))

    assert threads == elements(before.map(f, random=random, seed=5))
    if random == "bits":
        assert threads == elements(before.map(f, processes=2, random=random, seed=5))
