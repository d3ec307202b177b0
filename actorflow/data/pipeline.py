"""What users write: a pipeline, described stage by stage, that runs when it is opened."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from actorflow.data.run.iteration import Iteration
from actorflow.data.run.pipeline_plan import Capacity, Length, Stage, Workers, capacity, fingerprint
from actorflow.data.run.stream import Stream
from actorflow.data.sources.protocol import Source
from actorflow.data.stages.batching import BatchStage, BucketStage
from actorflow.data.stages.chain import Repeat
from actorflow.data.stages.operators import Enumerate, Filter, FlatMap, Map, Skip, Take
from actorflow.data.stages.shuffle import Shuffle
from actorflow.data.stages.stage import CallSite
from actorflow.data.values import arguments
from actorflow.data.values.collate import collate, rows
from actorflow.data.values.padding import check_padding, pad_batch
from actorflow.data.values.page_locked import HOST, on_the_way_to
from actorflow.data.workers.function_names import FunctionName, find, name_function
from actorflow.errors import ActorflowError, ConfigError, InputError, Where
from actorflow.runtime.call_site import source_line
from actorflow.values.checks import is_flag


def _same(count: float) -> Length:
    return count


# Nothing stays nothing, whatever a filter keeps.
def _unknown(count: float) -> Length:
    return 0 if count == 0 else None


class Pipeline:
    """A source and the stages behind it; immutable, every method returns a new one.

    It does nothing by itself: `open` runs it, as often as you like, and so does `async for`.

    Args:
        source: Where the elements come from.
    """

    __slots__ = ("_call_site", "_source", "_stages")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._call_site = CallSite(source.name, source_line())
        self._stages: tuple[Stage, ...] = ()

    # -- stages ------------------------------------------------------------------------------------

    def map(
        self,
        function: Callable[..., Any] | str,
        *,
        threads: int | None = None,
        processes: int | None = None,
        ordered: bool = True,
        random: bool | Literal["bits"] = False,
        seed: int | None = None,
        element_bytes: int | None = None,
        max_bytes: int | None = None,
    ) -> Pipeline:
        """Puts what `function` makes of each element in its place.

        Args:
            function: Of one element, or its name `"module:function"`; it must depend on nothing else, or a
                pipeline that goes on at a position would give other elements.
            threads: Runs it on so many threads; for what releases the interpreter's lock, as numpy does.
            processes: Runs it in so many processes; then it is found there by its name. In a simulated
                run it runs inline.
            ordered: False: with threads or processes, elements leave as they are done.
            random: Calls `function(element, generator)`, with a generator of numpy that depends on the
                seed, the epoch and the element's number alone; it is the element's own until the function
                has returned. `random="bits"` calls `function(element, bits)` with 64 random bits, an int:
                0.1 µs, where a generator takes 2 until it has given a number.
            seed: Of the chance; drawn when the pipeline is opened if there is none.
            element_bytes: How large what it gives is at most: for `capacity`, which else does not know.
            max_bytes: With threads or processes: a queue of so many bytes right behind the map, and no
                element larger than that.
        """
        # ORDER: the function first: the most likely mistake, and its name is part of the other messages.
        f = arguments.function("map", _find_function(function) if isinstance(function, str) else function)
        size = arguments.optional("map", "element_bytes", element_bytes, 0)
        as_bits = isinstance(random, str) and random == "bits"
        chance = as_bits or is_flag(random)
        arguments.check("map", "random", random, chance, "as True, False or 'bits'")
        random, seed = as_bits or bool(random), arguments.seed("map", seed)
        ordered = arguments.flag("map", "ordered", ordered)
        arguments.check("map", "seed", seed, random or seed is None, "only with random=True or random='bits'")
        n = arguments.optional("map", "threads", threads)
        m = arguments.optional("map", "processes", processes)
        arguments.check("map", "threads or processes", (n, m), n is None or m is None, "not both")
        arguments.check(
            "map", "ordered", ordered, ordered or bool(n or m), "False only with threads or processes"
        )
        count = n or m
        most = arguments.optional("map", "max_bytes", max_bytes)
        arguments.check("map", "max_bytes", most, bool(count or not most), "only with threads or processes")
        # Found by its name already here: in a process nobody would see why it was not.
        name = None if m is None else _name(f)
        workers = None if count is None else Workers(f, count, name, ordered, random, as_bits, seed)
        own = seed
        return self._with(
            f"map {arguments.name_of_function(f)!r}",
            f"random {'bits' if as_bits else random}, seed {seed}, ordered {ordered}",
            lambda place, drawn: Map(
                place, f, (drawn if own is None else own) if random else None, as_bits=as_bits
            ),
            _same,
            workers=workers,
            # What a function makes may have any size, unless the user says it.
            scales=False,
            element_bytes=size,
            max_bytes=most,
            unseeded=random and seed is None,
        )

    def filter(self, keep: Callable[[Any], Any]) -> Pipeline:
        """Keeps the elements for which `keep` is true."""
        f = arguments.function("filter", keep)
        label = f"filter {arguments.name_of_function(f)!r}"
        return self._with(label, "", lambda place, _: Filter(place, f), _unknown, looks=True)

    def shuffle(self, size: int, *, seed: int | None = None) -> Pipeline:
        """Mixes the order: holds `size` elements, and gives one drawn from them for each that comes.

        Before `repeat` every epoch is mixed by itself, in an order of its own, and ends with what is left
        in the buffer. After it, epochs mix.

        Args:
            size: Elements held; as many as an epoch has give every order the same chance.
            seed: Of the draws; drawn when the pipeline is opened if there is none.
        """
        n, own = arguments.whole("shuffle", "size", size), arguments.seed("shuffle", seed)
        # How many are held is part of the order, and the order part of what a position means.
        return self._with(
            f"shuffle({n})",
            f"seed {own}",
            lambda place, drawn: Shuffle(place, n, drawn if own is None else own),
            _same,
            holds=n,
            unseeded=own is None,
        )

    def repeat(self, count: int | None = None) -> Pipeline:
        """Runs everything before it `count` times, each an epoch; None: for ever, until one is empty."""
        n = arguments.optional("repeat", "count", count)
        times = math.inf if n is None else n
        return self._with(
            f"repeat({'' if n is None else n})",
            "",
            lambda place, _: Repeat(place, n),
            # For ever nothing is nothing.
            lambda length: 0 if length == 0 else length * times,
        )

    def batch(self, size: int, *, drop_remainder: bool = False) -> Pipeline:
        """Makes one element of every `size`: each array gets a new first axis, numbers become arrays.

        Args:
            size: Elements in a batch.
            drop_remainder: Drops the last batch of an epoch if it has fewer.
        """
        n = arguments.whole("batch", "size", size)
        drop = arguments.flag("batch", "drop_remainder", drop_remainder)
        return self._with(
            f"batch({n})",
            f"drop {drop}",
            lambda place, _: BatchStage(place, n, drop_remainder=drop, join=collate),
            partial(_batches, n, drop),
            holds=n,
            gathers=n,
        )

    def padded_batch(self, size: int, *, padding: Any = 0, drop_remainder: bool = False) -> Pipeline:
        """Makes one element of every `size`, whose arrays are padded to the largest of the batch.

        Args:
            size: Elements in a batch.
            padding: What new places hold: one number for all arrays, or a structure like the element's, with
                None for 0 (no bytes). What an array cannot hold, such as nan among integers, is an error.
            drop_remainder: Drops the last batch of an epoch if it has fewer.
        """
        verb, padding = "padded_batch", check_padding("padded_batch", padding)
        n = arguments.whole(verb, "size", size)
        drop = arguments.flag(verb, "drop_remainder", drop_remainder)
        return self._with(
            f"{verb}({n})",
            f"drop {drop}, padding {padding!r}",
            lambda place, _: BatchStage(
                place, n, drop_remainder=drop, join=lambda values: pad_batch(values, padding)
            ),
            partial(_batches, n, drop),
            holds=n,
            gathers=n,
            scales=False,
        )

    def bucket(
        self,
        length: Callable[[Any], int],
        boundaries: Sequence[int],
        sizes: Sequence[int],
        *,
        padding: Any = 0,
        drop_remainder: bool = False,
    ) -> Pipeline:
        """Makes padded batches of elements of like length.

        Args:
            length: Of an element.
            boundaries: Ascending. Bucket i has the lengths below boundary i, the last all others.
            sizes: How many elements make a batch, for each bucket: one more than boundaries.
            padding: What new places hold; see `padded_batch`.
            drop_remainder: Drops what is left in the buckets when an epoch ends.
        """
        f, drop = (
            arguments.function("bucket", length),
            arguments.flag("bucket", "drop_remainder", drop_remainder),
        )
        padding = check_padding("bucket", padding)
        bounds = arguments.whole_numbers("bucket", "boundaries", boundaries)
        counts = arguments.whole_numbers("bucket", "sizes", sizes)
        rising = all(a < b for a, b in pairwise(bounds))
        arguments.check("bucket", "boundaries", bounds, rising, "that ascend")
        fits = len(counts) == len(bounds) + 1
        arguments.check("bucket", "sizes", counts, fits, f"for each of the {len(bounds) + 1} buckets")
        return self._with(
            f"bucket {arguments.name_of_function(f)!r}",
            f"{bounds}, {counts}, drop {drop}, padding {padding!r}",
            lambda place, _: BucketStage(
                place, f, bounds, counts, drop_remainder=drop, join=lambda values: pad_batch(values, padding)
            ),
            _unknown,
            holds=sum(counts),
            # At most one batch of each bucket waits to be full.
            gathers=max(counts),
            scales=False,
            looks=True,
        )

    def take(self, count: int) -> Pipeline:
        """Ends every epoch after its first `count` elements."""
        n = arguments.whole("take", "count", count, 0)
        return self._with(f"take({n})", "", lambda place, _: Take(place, n), lambda length: min(length, n))

    def skip(self, count: int) -> Pipeline:
        """Leaves out the first `count` elements of every epoch."""
        n = arguments.whole("skip", "count", count, 0)
        return self._with(
            f"skip({n})", "", lambda place, _: Skip(place, n), lambda length: max(length - n, 0)
        )

    def enumerate(self, start: int = 0) -> Pipeline:
        """Makes pairs (index, element), counted from `start` in every epoch."""
        n = arguments.whole("enumerate", "start", start, 0)
        return self._with(f"enumerate({n})", "", lambda place, _: Enumerate(place, n), _same)

    def flat_map(self, function: Callable[[Any], Any]) -> Pipeline:
        """Puts the elements of the iterable that `function` gives for each in its place."""
        f = arguments.function("flat_map", function)
        label = f"flat_map {arguments.name_of_function(f)!r}"
        return self._with(
            label, "", lambda place, _: FlatMap(place, f), _unknown, scales=False, looks=True, expands=True
        )

    def unbatch(self) -> Pipeline:
        """Takes batches apart: one element for each row of their arrays."""
        return self._with(
            "unbatch",
            "",
            lambda place, _: FlatMap(place, rows),
            _unknown,
            scales=False,
            looks=True,
            expands=True,
        )

    def prefetch(self, size: int, *, max_bytes: int | None = None, device: str = HOST) -> Pipeline:
        """Works ahead of whoever takes, or of what stands behind it.

        Args:
            size: By up to so many elements.
            max_bytes: And by up to so many bytes; an element that alone has more is an error.
            device: Where elements go next. For a card, such as "/gpu:0", their arrays are copied into
                page-locked memory, from which it copies while it computes; see `data.values.page_locked`.

        Raises:
            PlacementError: for a card where CuPy, or the card, is missing.
        """
        n = arguments.whole("prefetch", "size", size)
        most = arguments.optional("prefetch", "max_bytes", max_bytes)
        try:
            # A card that is not there is told now, at the user's line, and not when the stream runs.
            copy = on_the_way_to(device)
        except ActorflowError as error:
            raise error.at(Where(defined_at=source_line())) from error.__cause__
        limit = "" if most is None else f", max_bytes={most}"
        label = f"prefetch({n}{limit}{'' if device == HOST else f', device={device!r}'})"
        operator = None if copy is None else lambda place, _: Map(place, copy)
        return self._with(label, "", operator, _same, room=n, max_bytes=most)

    def _with(
        self,
        label: str,
        told: str,
        operator: Callable[[CallSite, int], Any] | None,
        length: Callable[[float], Length],
        **more: Any,
    ) -> Pipeline:
        stage = Stage(
            call_site=CallSite(label, source_line()), settings=told, operator=operator, length=length, **more
        )
        # Immutable: streams that run, and pipelines made of this one, keep what they have.
        made = object.__new__(Pipeline)
        made._source, made._call_site, made._stages = self._source, self._call_site, (*self._stages, stage)
        return made

    # -- what it is --------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many elements it gives.

        Raises:
            InputError: nobody knows, there is no end, or more than `len` may give.
        """
        count: Length = self._source.size
        unknown = self._call_site
        for stage in self._stages:
            if count is None:
                break
            # From stage to stage, as far as anybody knows.
            count, unknown = stage.length(count), stage.call_site
        if count is None or count > sys.maxsize:
            why = "the number of elements is not known" if count is None else "there is no end"
            if count is not None and count != math.inf:
                why = f"{count} elements are more than {sys.maxsize}"
            what = f"this pipeline has no length: {why} after {unknown.label}"
            raise InputError(
                what, where=Where(defined_at=unknown.line), hint="count them, or end it with take(n)"
            )
        return int(count)

    @property
    def bare(self) -> Source | None:
        """Its source where there is no stage, else None."""
        return None if self._stages else self._source

    @property
    def capacity(self) -> Capacity:
        """What it may hold at once when it runs: elements, and bytes where they are known beforehand."""
        return capacity(self._call_site.label, self._source.element_bytes, self._stages)

    @property
    def line(self) -> str:
        """Where the user wrote its source: `file:line`."""
        return self._call_site.line

    def describe(self) -> str:
        """Returns what it is, as a sentence names it, with its line."""
        return f"{repr(self).strip('<>').replace('Pipeline', 'pipeline', 1)} at {self.line}"

    @property
    def fingerprint(self) -> str:
        """A short text that differs for pipelines that give different elements; functions count by name."""
        return fingerprint(self._source.name, self._source.size, self._stages)

    def __repr__(self) -> str:
        return (
            "<Pipeline "
            f"{' → '.join([self._call_site.label, *(stage.call_site.label for stage in self._stages)])}>"
        )

    # -- running it --------------------------------------------------------------------------------

    def open(self, position: Mapping[str, Any] | None = None) -> Stream:
        """Returns a stream of its elements, to be entered with `async with`.

        Args:
            position: Of another stream of this pipeline: goes on with what that would have given next.

        Raises:
            InputError: the position is of another pipeline.
        """
        return Stream(self._source, self._call_site, self._stages, position, describe=self.describe)

    def __aiter__(self) -> AsyncIterator[Any]:
        """Opens itself, gives every element, and leaves nothing behind."""
        return Iteration(self.open())


def _batches(size: int, drop: bool, length: float) -> Length:
    if length == math.inf:
        return math.inf
    return length // size if drop else math.ceil(length / size)


def _find_function(name: str) -> Callable[..., Any]:
    """Returns the function that a name means; raises ConfigError at the user's line."""
    try:
        return find(name_function(name))
    except ConfigError as error:
        raise error.at(Where(defined_at=source_line())) from error.__cause__


def _name(function: Callable[..., Any]) -> FunctionName:
    """Returns the name by which processes find a function; raises ConfigError at the user's line."""
    try:
        return name_function(function)
    except ConfigError as error:
        raise error.at(Where(defined_at=source_line())) from None
