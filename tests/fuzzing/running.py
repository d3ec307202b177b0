"""Runs cases: each is told by a target, a seed and a number, and nothing else."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence

from tests.fuzzing.corpus import recorded
from tests.fuzzing.mutations import Mutator
from tests.fuzzing.targets import TARGETS
from tests.support.collecting import old_out_of_reach

_ROUND = 1000  # cases between two looks
_WEIGHED = (
    11  # one case of so many is run under tracemalloc, which makes it several times as long: of all targets
)
_MOST_BYTES = 4 << 20  # that a case may take: its frames have some KiB, and limits let one announce 256
_MOST_LEFT = 20_000  # objects more after a round than after the first


class Finding(Exception):
    """A case that did more than be taken or refused."""


def case(target: str, seed: int, number: int) -> None:
    """Runs one case; what it finds is raised as it is."""
    corpus = recorded()
    # Any function of the three would do; this one keeps neighbours apart.
    TARGETS[target][0](corpus, Mutator(seed * 1_000_003 + number, corpus.frames))


def fuzz(
    cases: int,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
    only: Sequence[str] = tuple(TARGETS),
) -> None:
    """Runs so many cases, of these targets by their shares.

    Raises:
        Finding: the first case that breaks a rule of its target, takes too much memory, or leaves too much.
    """
    turns = [name for name in only for _ in range(TARGETS[name][1])]
    recorded()
    settled = 0
    with old_out_of_reach():
        for number in range(cases):
            target = turns[number % len(turns)]
            _tried(target, seed, number, weighed=number % _WEIGHED == 0)
            if number % _ROUND == _ROUND - 1:
                progress(number + 1)
                gc.collect()
                left = len(gc.get_objects())
                settled = settled or left
                if left > settled + _MOST_LEFT:
                    message = f"{left - settled} objects are left of {number + 1} cases, the seed is {seed}"
                    raise Finding(message)
    progress(cases)


def _tried(target: str, seed: int, number: int, *, weighed: bool) -> None:
    if weighed:
        tracemalloc.start()
    try:
        case(target, seed, number)
        peak = tracemalloc.get_traced_memory()[1] if weighed else 0
    except Exception as error:
        message = f"{type(error).__name__}: {error}\n  repeat: {_repeat(target, seed, number)}"
        raise Finding(message) from error
    finally:
        if weighed:
            tracemalloc.stop()
    if peak > _MOST_BYTES:
        message = f"a case takes {peak:,} bytes, more than {_MOST_BYTES:,}\n  repeat: {_repeat(target, seed, number)}"
        raise Finding(message)


def _repeat(target: str, seed: int, number: int) -> str:
    return f"python -m tests.fuzz --repeat {target} --seed {seed} --case {number}"
