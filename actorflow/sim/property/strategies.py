"""Strategies: hypothesis draws how a run goes, and shrinks it to the few deviations that matter.

Schedules are drawn as a short list of deviations, `Drawn`: removing an entry removes a deviation,
and hypothesis looks for the shortest list. (Drawing every choice of a run on its own shrinks to the
fewest *draws*, which a run with many deviations may well have: 13-17 deviations where one is enough.)
One schedule in four is by seed, by priorities, or by a few delays anywhere; when such a one fails, it is
reduced to a plan afterwards.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.sim.engine.choice import FAULTS
from actorflow.sim.engine.faults import Faults, check_kind
from actorflow.sim.engine.plan import MAX_DEVIATIONS
from actorflow.sim.engine.schedulers import PCT, DelayBounded, Drawn, Schedule, Seeded
from actorflow.values.checks import is_whole

_FAR = 255
_ENTRIES = 6

_SEEDS = st.integers(0, 2**16 - 1)
_ENTRY = st.tuples(st.integers(0, _FAR), st.integers(0, _FAR), st.integers(0, 15))
_DRAWN: st.SearchStrategy[Schedule] = st.lists(
    _ENTRY, max_size=_ENTRIES, unique_by=lambda entry: entry[:2]
).map(lambda entries: Drawn(tuple(entries)))
_OTHERS: st.SearchStrategy[Schedule] = st.one_of(
    st.builds(Seeded, _SEEDS, st.sampled_from([0.05, 0.2, 1.0])),
    st.builds(PCT, _SEEDS, st.integers(1, 4)),
    st.builds(DelayBounded, _SEEDS, st.integers(1, 4)),
)


def schedules(*given: object) -> st.SearchStrategy[Any]:
    """Returns a strategy of schedules; the simplest is first come, first served.

    Raises:
        ConfigError: it is given anything: how long schedules are is not a matter of the test.
    """
    if given:
        message = f"schedules() takes nothing, got {', '.join(map(repr, given))}"
        raise ConfigError(message, hint="@settings(max_examples=...) is how many runs there are")
    return st.one_of(_DRAWN, _DRAWN, _DRAWN, _OTHERS)


def faults(**limits: int) -> st.SearchStrategy[Faults]:
    """Returns a strategy of faults; the simplest is none.

    Args:
        **limits: How many of each kind there may be in one run, such as `crash=1, drop=2`.

    Raises:
        ConfigError: an unknown kind, a limit that is not a whole number above 0, or more than 8 in all.
    """
    for kind, limit in limits.items():
        check_kind(kind)
        if not is_whole(limit, 1, plain=True):
            message = f"{kind} is how many there may be in one run, got {limit!r}"
            raise ConfigError(message)
    if sum(limits.values()) > MAX_DEVIATIONS:
        message = f"a run has at most {MAX_DEVIATIONS} faults in all, got {sum(limits.values())}"
        asked = ", ".join(f"{kind}={limit}" for kind, limit in limits.items())
        raise ConfigError(message, hint=f"each is how many there may be in one run: {asked}")
    kinds = [kind for kind in FAULTS for _ in range(limits.get(kind, 0))]
    if not kinds:
        return st.just(Faults())
    place = st.integers(0, _FAR)
    harms = st.tuples(*(st.none() | st.tuples(st.just(kind), place, place) for kind in kinds))
    return harms.map(lambda drawn: Faults(tuple(harm for harm in drawn if harm is not None)))
