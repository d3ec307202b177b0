"""What users write of several sources: `zip`, `concatenate` and `interleave`."""

from __future__ import annotations

from typing import Any

from actorflow.data.pipeline import Pipeline
from actorflow.data.sources.combined import in_turn, one_by_one, side_by_side
from actorflow.data.sources.protocol import Once, Source
from actorflow.data.values import arguments


def zip(*pipelines: Pipeline) -> Pipeline:
    """Tuples of one element of each source; ends with the shortest.

    Args:
        pipelines: Sources without stages; put the stages behind.

    >>> import actorflow as af
    >>> len(af.data.zip(af.data.numbers(9), af.data.numbers(4)))
    4
    """
    return Pipeline(side_by_side(_sources("zip", pipelines)))


def concatenate(*pipelines: Pipeline) -> Pipeline:
    """The elements of the first source, then those of the next: one epoch, whose elements are numbered on.

    Args:
        pipelines: Sources without stages; put the stages behind.

    >>> import actorflow as af
    >>> len(af.data.concatenate(af.data.numbers(9), af.data.numbers(4)))
    13
    """
    return Pipeline(one_by_one(_sources("concatenate", pipelines)))


def interleave(*pipelines: Pipeline, cycle: int | None = None, block: int = 1) -> Pipeline:
    """Elements of several sources in turn, until all have ended.

    To go on at a position, what comes before it is read and dropped.

    Args:
        pipelines: Sources without stages; put the stages behind.
        cycle: How many are open at once; where one ends the next takes its place. None: all.
        block: How many elements of one come before those of the next.
    """
    sources = _sources("interleave", pipelines)
    n = arguments.optional("interleave", "cycle", cycle)
    return Pipeline(in_turn(sources, n or len(sources), arguments.whole("interleave", "block", block)))


def _sources(verb: str, pipelines: tuple[Any, ...]) -> list[Source]:
    arguments.check(verb, "sources", pipelines, bool(pipelines), "at least one")
    # One source is allowed: a list of them may have been made by a program.
    found = []
    for each in pipelines:
        if not isinstance(each, Pipeline):
            arguments.check(verb, "sources", each, False, "that begin pipelines", "af.data.arrays(...)")
        source = each.bare
        hint = f"put the stages behind it: {verb}(a, b).map(...)"
        if source is None:
            arguments.check(verb, "sources", each, False, "without stages", hint)
        assert source is not None
        # Read again in every epoch, and from any position: what gives its elements once cannot be one of
        # several.
        once = source.once if isinstance(source, Once) else None
        arguments.check(verb, "sources", each, once is None, f"that can be read again: {once}")
        found.append(source)
    return found
