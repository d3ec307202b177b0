"""The proposal of an update: deltas that fit their variables, the values and state they lead to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.optimizer.gradients import Gradients
from actorflow.dataflow.optimizer.optimizer_state import Apart, OptimizerState, named
from actorflow.errors import NumericError, StateError
from actorflow.values import arrays
from actorflow.values.arrays import Array, NDArray
from actorflow.values.finite import floats_of, not_finite_state, not_finite_value, seem_finite
from actorflow.values.sparse import SparseRows, plus_rows
from actorflow.values.spec import show


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
        if type(delta) is SparseRows and not delta.same_rows(grads[name]):
            rows = f"{grads[name]!r:.60}, got {delta!r}"
            message = f"{who}'s delta for {name!r} must have the rows of its gradient, {rows}"
            raise StateError(message, hint="make it with af.optim.as_rows")


@dataclass(slots=True)
class NewState:
    """What is to become of an optimizer's state.

    Attributes:
        rule: What the optimizer is called.
        before: The state now.
        after: That after the update.
    """

    rule: str
    before: OptimizerState
    after: Apart


def propose(
    params: Mapping[str, Array], deltas: Gradients, state: NewState | None
) -> tuple[Gradients, NumericError | None]:
    """The values that the deltas lead to, of the same rows; with a state to look at, what is wrong first.

    Leaves of the state that are no floats, or the same objects as before, are not looked at.
    """
    proposed = {
        name: (plus_rows if type(deltas[name]) is SparseRows else arrays.plus)(param, deltas[name])
        for name, param in params.items()
    }
    if state is None:
        return proposed, None
    seen = [v.values if type(v) is SparseRows else v for v in proposed.values()]
    leaf_before, leaves = state.before.leaf, state.after.leaves
    for path, leaf in leaves.items():
        if leaf is leaf_before(path):
            continue
        kind = leaf.dtype.kind if type(leaf) is NDArray else ""
        if kind == "f":  # a plain array is the usual case, and an update of small ones is mostly calls
            seen.append(leaf)
        elif kind not in ("i", "u", "b"):
            seen.extend(floats_of(leaf))
    if seem_finite(seen):
        return proposed, None
    for name, param in params.items():
        wrong = not_finite_value(name, param, proposed[name])
        if wrong is not None:
            return {}, wrong
    for path, leaf in leaves.items():
        if leaf is not leaf_before(path) and floats_of(leaf):
            wrong = not_finite_state(state.rule, named(path), leaf_before(path), leaf)
            if wrong is not None:
                return {}, wrong
    return proposed, None
