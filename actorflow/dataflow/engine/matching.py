"""The matching rule of tagged-token dataflow, whether a node may fire, as pure functions.

A node meets its tokens at its mailbox, per tag. One `Pending` is what has arrived of one node for
one tag; `offer` takes a token and says whether the node fires now, and with what.

The rule is that of TensorFlow's executor (`reference executor.cc`, white paper section 4.4). An ordinary node
waits for all its inputs; a Merge fires with the first live data input once all its controls have arrived.

Departure: in a loop the Merge of a variable expects its Enter inputs in iteration 0 and its
NextIteration inputs in every later one (two rules for one node, see `FrameTemplate`; a Merge of
branches has one), so that a loop entered by dead tokens ends like any other region, without
counting outstanding operations.

This form is the reference. `dataflow.engine.iteration_state` keeps the same state flat and mutable for all
nodes of a tag, and `dataflow.engine.node` compiles it into closures; laws hold them equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from actorflow.errors import InternalError
from actorflow.runtime.messages import DEAD

CONTROL = -1
"""The port on which control tokens arrive."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a node waits for.

    Attributes:
        data: Number of data inputs that will arrive for one tag.
        controls: Number of control inputs.
        merge: Whether one live data input is enough.
    """

    data: int
    controls: int = 0
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """What has arrived. INVARIANT: `fired` only once; then no input is kept."""

    missing: int
    controls: int
    values: tuple[Any, ...]
    dead: bool = False
    fired: bool = False


@dataclass(frozen=True, slots=True)
class Firing:
    """The node fires. `values` is None when it is dead; for a Merge, (value, input index)."""

    values: tuple[Any, ...] | None


def init(rule: Rule) -> Pending:
    """Returns the state of a node for a tag before any token."""
    return Pending(rule.data, rule.controls, (None,) * rule.data)


def offer(rule: Rule, pending: Pending, port: int, value: Any) -> tuple[Pending, Firing | None]:
    """Takes one token and returns the new state and the firing that it completes, if any.

    Args:
        rule: What the node waits for.
        pending: What has arrived so far.
        port: Index of the data input, or CONTROL.
        value: The value, or DEAD.

    Raises:
        InternalError: when a Merge gets two live inputs for one tag.
    """
    return _offer_merge(pending, port, value) if rule.merge else _offer_all(pending, port, value)


def _offer_all(pending: Pending, port: int, value: Any) -> tuple[Pending, Firing | None]:
    # Dead as soon as any input is, data or control.
    dead = pending.dead or value is DEAD
    if port == CONTROL:
        after = replace(pending, controls=pending.controls - 1, dead=dead)
    else:
        values = (*pending.values[:port], value, *pending.values[port + 1 :])
        after = replace(pending, missing=pending.missing - 1, values=values, dead=dead)
    # Known to be dead it still waits for all inputs, so that every buffer is released and every tag ends.
    if after.missing or after.controls:
        return after, None
    return _fired(after), Firing(None if dead else after.values)


def _offer_merge(pending: Pending, port: int, value: Any) -> tuple[Pending, Firing | None]:
    if port == CONTROL:
        # The deadness of its controls does not count: they only say when.
        after = replace(pending, controls=pending.controls - 1)
    elif value is DEAD:
        # Dead inputs are counted: only when all have come is a merge without a live one dead. After it has
        # fired they are swallowed.
        after = replace(pending, missing=pending.missing - 1)
    elif pending.fired or (pending.values and pending.values[0] is not None):
        # Two branches were taken for one tag: whoever built the graph let them.
        raise InternalError("a merge got two live inputs for one tag")
    else:
        # Kept with its port: a merge says which input it was.
        after = replace(pending, missing=pending.missing - 1, values=((value, port),))
    live = bool(after.values) and after.values[0] is not None
    # Fires once: with the live input, or, when no data can come any more, dead. Controls come before either.
    if after.fired or after.controls or not (live or after.missing == 0):
        return after, None
    return _fired(after), Firing(after.values[0] if live else None)


def _fired(pending: Pending) -> Pending:
    # Its inputs are released with the firing.
    return replace(pending, values=(), fired=True)
