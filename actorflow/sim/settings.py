"""Numbers that a setting of the simulator may be; what is none is refused with what to pass."""

from __future__ import annotations

from functools import partial

from actorflow.sim.history.operation import shorten_value
from actorflow.values.checks import Refusal, number_within, whole

_SHORT = Refusal(show=shorten_value)

check_whole = partial(whole, refusal=_SHORT)
"""Raises ConfigError unless a setting is a whole number within bounds; see `values.checks.whole`."""

check_number = partial(number_within, refusal=_SHORT)
"""Raises ConfigError unless a setting is a number within bounds; see `values.checks.number_within`."""
