"""Arguments of the methods of handles: each is held to what it may be, at the user's line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor
from actorflow.ops.definition.arguments import plain_integers
from actorflow.runtime.call_site import source_line
from actorflow.values.spec import Dim, Spec, spec


def spec_error(message: str, hint: str | None = None) -> SpecError:
    """Returns the error to raise, placed at the user's line."""
    return SpecError(message, where=Where(defined_at=source_line()), hint=hint)


def whole(value: Any, what: str, least: int | None = None) -> int:
    """Returns an integer that is at least `least`; raises SpecError for what is none."""
    # A bool is an integer to Python, and hardly ever meant as one.
    found = None if isinstance(value, bool) else plain_integers(value)
    # In 64 bits, as attributes and actors hold it.
    if isinstance(found, int) and (least is None or found >= least) and -(2**63) <= found < 2**63:
        return found
    kind = "an integer" if least is None else f"an integer of at least {least}"
    message = f"{what} is {kind}, got {value!r:.60}"
    known = "it must be known while the graph is built: give a number of Python"
    raise spec_error(message, known if isinstance(value, Tensor) else None)


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
    if not isinstance(value, bool):
        message = f"{what} is True or False, got {value!r:.60}"
        raise spec_error(message)
    return value


def choice(value: Any, what: str, choices: Sequence[str]) -> str:
    """Returns one of the texts; raises SpecError for anything else."""
    if not isinstance(value, str) or value not in choices:
        message = f"{what} is {' or '.join(map(repr, choices))}, got {value!r:.60}"
        raise spec_error(message)
    return value


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
