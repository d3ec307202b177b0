"""Drawn pipelines, and what they must give: list comprehensions over whole epochs, written for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from actorflow.data.pipeline import Pipeline
from actorflow.data.sources.in_memory import SliceSource

Epoch = list[Any]


def numbers_from(n: int) -> SliceSource:
    """The integers below n."""
    return SliceSource("numbers", n, lambda a, b: list(range(a, b)), 8)


@dataclass(frozen=True)
class Unsized:
    """The integers below `size_` from a source that does not know how many there are, as text files do."""

    size_: int
    name: str = "unsized"
    size: int | None = None
    blocking: bool = False
    element_bytes: int | None = 8

    def open(self, start: int, epoch: int) -> Any:
        return numbers_from(self.size_).open(start, epoch)


@dataclass(frozen=True)
class Blocking:
    """The integers below `size`, read on a thread."""

    size: int
    name: str = "blocking"
    blocking: bool = True
    element_bytes: int | None = 8

    def open(self, start: int, epoch: int) -> Any:
        return numbers_from(self.size).open(start, epoch)


class _Later:
    def __init__(self, size: int, start: int) -> None:
        self.reader = numbers_from(size).open(start, 0)

    async def read(self, n: int) -> list[int]:
        return self.reader.read(min(n, 3))

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Awaited:
    """The integers below `size`, each three after an await."""

    size: int
    name: str = "awaited"
    blocking: bool = False
    element_bytes: int | None = 8

    def open(self, start: int, epoch: int) -> Any:
        return _Later(self.size, start)


SOURCES: list[Callable[[int], Any]] = [numbers_from, Unsized, Blocking, Awaited]


@dataclass(frozen=True)
class Step:
    """One stage: how to add it, and what it makes of the epochs so far."""

    says: str
    add: Callable[[Pipeline], Pipeline]
    model: Callable[[list[Epoch]], list[Epoch]]
    shuffles: bool = False

    def __repr__(self) -> str:
        return self.says


def folded(value: Any) -> int:
    """A number that tells elements apart, however nested by batches, and in which order they stand."""
    found = 0
    for part in value if isinstance(value, Iterable) else [value]:
        found = (found * 31 + (folded(part) if isinstance(part, Iterable) else int(part))) % 1_000_003
    return found


def plus_one(value: int) -> int:
    return value + 1


def even(value: int) -> bool:
    return value % 2 == 0


def several(value: int) -> list[int]:
    return [value + 100 * i for i in range(value % 3)]


def each(f: Callable[[Epoch], Epoch]) -> Callable[[list[Epoch]], list[Epoch]]:
    return lambda epochs: [f(epoch) for epoch in epochs]


def cut(epoch: Epoch, size: int, drop: bool) -> Epoch:
    parts = [epoch[i : i + size] for i in range(0, len(epoch), size)]
    return [folded(part) for part in parts if not (drop and len(part) < size)]


def steps(*, shuffled: bool = False) -> st.SearchStrategy[Step]:
    """Stages; `shuffled` adds those whose order the model does not know."""
    small = st.integers(1, 5)
    threads = st.sampled_from([None, None, 1, 2])
    found: list[st.SearchStrategy[Step]] = [
        threads.map(
            lambda n: Step(
                f"map(threads={n})",
                lambda p: p.map(plus_one, threads=n, max_bytes=20 if n == 2 else None),
                each(lambda e: [plus_one(v) for v in e]),
            )
        ),
        st.just(Step("filter", lambda p: p.filter(even), each(lambda e: [v for v in e if even(v)]))),
        st.just(
            Step(
                "flat_map", lambda p: p.flat_map(several), each(lambda e: [w for v in e for w in several(v)])
            )
        ),
        st.integers(0, 6).map(lambda n: Step(f"take({n})", lambda p: p.take(n), each(lambda e: e[:n]))),
        small.map(lambda n: Step(f"skip({n})", lambda p: p.skip(n), each(lambda e: e[n:]))),
        st.tuples(small, st.booleans()).map(
            lambda a: Step(
                f"batch{a}",
                lambda p: p.batch(a[0], drop_remainder=a[1]).map(folded),
                each(lambda e: cut(e, *a)),
            )
        ),
        st.tuples(small, st.sampled_from([None, 8, 20])).map(
            lambda a: Step(f"prefetch{a}", lambda p: p.prefetch(a[0], max_bytes=a[1]), each(list))
        ),
        st.just(
            Step(
                "enumerate",
                lambda p: p.enumerate(1).map(folded),
                each(lambda e: list(map(folded, enumerate(e, 1)))),
            )
        ),
    ]
    if shuffled:
        found.append(
            st.tuples(small, st.integers(0, 3)).map(
                lambda a: Step(f"shuffle{a}", lambda p: p.shuffle(a[0], seed=a[1]), each(list), shuffles=True)
            )
        )
    return st.one_of(found)


@dataclass(frozen=True)
class Drawn:
    """A pipeline, and the elements it must give.

    Attributes:
        size: Elements of the source.
        source: Makes the source.
        parts: Stages, with a `repeat` between two groups of them.
        repeats: How often what stands before is repeated.
    """

    size: int
    source: Callable[[int], Any]
    parts: tuple[tuple[Step, ...], ...]
    repeats: tuple[int, ...]

    def pipeline(self) -> Pipeline:
        made = Pipeline(self.source(self.size))
        for k, part in enumerate(self.parts):
            for step in part:
                made = step.add(made)
            if k < len(self.repeats):
                made = made.repeat(self.repeats[k])
        return made

    def elements(self) -> list[Any]:
        """What a whole run gives; where something shuffles, in the order of the source."""
        epoch: Epoch = list(range(self.size))
        for k, part in enumerate(self.parts):
            epochs = [epoch]
            for step in part:
                epochs = step.model(epochs)
            [epoch] = epochs
            if k < len(self.repeats):
                epoch = epoch * self.repeats[k]
        return epoch


def drawn(*, shuffled: bool = False, most: int = 12, stages: int = 3) -> st.SearchStrategy[Drawn]:
    """Pipelines of up to three groups of stages, repeated and nested."""

    def of(repeats: tuple[int, ...]) -> st.SearchStrategy[Drawn]:
        part = st.lists(steps(shuffled=shuffled), max_size=stages).map(tuple)
        return st.builds(
            Drawn,
            st.integers(0, most),
            st.sampled_from(SOURCES),
            st.tuples(*[part] * (len(repeats) + 1)),
            st.just(repeats),
        )

    return st.lists(st.integers(1, 3), max_size=2).map(tuple).flatmap(of)
