"""What an update proposes: deltas that fit their variables, and the values that they lead to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actorflow import arrays
from actorflow.actors.gradients import Gradients
from actorflow.arrays import Array
from actorflow.errors import NumericError, StateError
from actorflow.finite import not_finite_value, seem_finite
from actorflow.rows import Rows, plus_rows
from actorflow.spec import show


def bytes_of(gradient: Any) -> int:
    """Returns the bytes of a gradient, of one of some rows those of the rows."""
    return arrays.nbytes(gradient[1] if type(gradient) is tuple else gradient)


def check_deltas(who: str, deltas: Gradients, params: Mapping[str, Array], grads: Gradients) -> None:
    """Raises StateError naming the first delta of a rule that does not fit its variable."""
    given: Any = deltas
    if not isinstance(given, Mapping) or set(given) != set(params):
        got = f"{sorted(given)}" if isinstance(given, Mapping) else type(given).__name__
        message = f"{who} must return one delta for each of {sorted(params)}, got {got}"
        raise StateError(message)
    for name, param in params.items():
        delta = deltas[name]
        if getattr(delta, "shape", None) != param.shape or delta.dtype != param.dtype:
            got = f"{show(delta.shape)} {delta.dtype.name}" if hasattr(delta, "dtype") else repr(delta)
            message = f"{who}'s delta for {name!r} must be {show(param.shape)} {param.dtype.name}, got {got}"
            raise StateError(message, hint="deltas are added to the variable: keep its shape and dtype")
        if type(delta) is Rows and not delta.same_rows(grads[name]):
            rows = f"{grads[name]!r:.60}, got {delta!r}"
            message = f"{who}'s delta for {name!r} must have the rows of its gradient, {rows}"
            raise StateError(message, hint="make it with af.optim.as_rows")


def propose(
    params: Mapping[str, Array], deltas: Gradients, looks: bool
) -> tuple[Gradients, NumericError | None]:
    """The values that the deltas lead to, of the same rows; if it looks, what is wrong with the first."""
    proposed = {
        name: (plus_rows if type(deltas[name]) is Rows else arrays.plus)(param, deltas[name])
        for name, param in params.items()
    }
    if looks and not seem_finite([v.values if type(v) is Rows else v for v in proposed.values()]):
        for name, param in params.items():
            wrong = not_finite_value(name, param, proposed[name])
            if wrong is not None:
                return {}, wrong
    return proposed, None
