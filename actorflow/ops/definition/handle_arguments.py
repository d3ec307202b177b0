"""Arguments of the methods of handles: each is held to what it may be, at the user's line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor
from actorflow.ops.definition.arguments import plain_integers
from actorflow.runtime.call_site import source_line
from actorflow.values import checks
from actorflow.values.checks import Refusal, is_whole
from actorflow.values.spec import Dim, Spec, spec


def spec_error(message: str, hint: str | None = None) -> SpecError:
    """Returns the error to raise, placed at the user's line."""
    return SpecError(message, where=Where(defined_at=source_line()), hint=hint)


_AT_LINE = Refusal(error=spec_error)


def whole(value: Any, what: str, least: int | None = None) -> int:
    """Returns an integer that is at least `least`; raises SpecError for what is none."""
    # A bool is an integer to Python, and hardly ever meant as one.
    found = None if isinstance(value, bool) else plain_integers(value)
    # In 64 bits, as attributes and actors hold it.
    low = -(2**63) if least is None else max(least, -(2**63))
    if isinstance(found, int) and is_whole(found, low, 2**63 - 1):
        return found
    kind = "an integer" if least is None else f"an integer of at least {least}"
    known = "it must be known while the graph is built: give a number of Python"
    hint = known if isinstance(value, Tensor) else None
    raise _AT_LINE.of(what, value, kind, hint)


def limit(value: Any, what: str) -> int | None:
    """Returns None for no limit, or an integer of at least 1; raises SpecError for anything else."""
    if value is None:
        return None
    try:
        return whole(value, what, 1)
    except SpecError as error:
        error.hint = error.hint or "None is no limit"
        raise


def flag(value: Any, what: str) -> bool:
    """Returns True or False; raises SpecError for anything else."""
    return checks.flag(what, value, plain=True, refusal=_AT_LINE)


def choice(value: Any, what: str, choices: Sequence[str]) -> str:
    """Returns one of the texts; raises SpecError for anything else."""
    return checks.choice(what, value, choices, refusal=_AT_LINE)


def is_no_dtype(value: Any) -> bool:
    """Tells whether what stands for a dtype is nothing, or has one itself: a tensor, an array, a spec."""
    # A tensor or an array in place of a dtype: hint at that, and not at its numbers.
    return value is None or (hasattr(value, "shape") and not isinstance(value, np.dtype | type))


def check_spec(owner: str, dtype: Any, shape: Iterable[Dim] | None) -> Spec:
    """Returns the spec of what `owner` holds; raises SpecError for what is no dtype or no shape."""
    if is_no_dtype(dtype):
        message = f"{owner} takes a dtype, got {dtype!r:.60}"
        raise spec_error(message, 'for instance "float32"')
    try:
        return spec(dtype, shape)
    except SpecError as error:
        raise error.at(Where(defined_at=source_line())) from None
