"""Transforms made of others: one after the other, and limits on gradients to put in front."""

from __future__ import annotations

from typing import Any

from actorflow.errors import ConfigError
from actorflow.optim.norms import norm, scale_down
from actorflow.optim.transform import (
    Arrays,
    State,
    Transform,
    check_transform,
    described,
    joint_of,
    made,
    rule,
)
from actorflow.values.arrays import Array
from actorflow.values.checks import check, positive, sequence
from actorflow.values.sparse import as_rows, values_of


def chain(*parts: Transform) -> Transform:
    """Runs the parts in order; each takes the deltas of the one before as its gradients.

        chain(clip_by_global_norm(1.0), adam(1e-3))

    A part may limit gradients in front of a rule or deltas behind it. Of parts that all pass gradients, such
    as limits, the chain does so too, and `minimize` refuses it.

    State: a tuple, the state of each part. Takes sparse gradients when all parts do.
    Raises: ConfigError without a part; for a part that is no Transform; for a rule behind
        `masked(rule)`, which gives zeros for the names outside, and nothing to go on with.
    """
    check("parts", parts, len(parts) > 0, "at least one transform")
    for number, part in enumerate(parts, 1):
        check_transform(f"part {number} of a chain", part)
    _check_masks(parts)

    def init(params: Arrays) -> State:
        return tuple(part.init(params) for part in parts)

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        deltas, after = dict(grads), []
        # Each part takes what the one before gave.
        for part, before in zip(parts, state, strict=True):
            deltas, new = part.update(deltas, before, params)
            after.append(new)
        return deltas, tuple(after)

    config = {"parts": tuple(map(described, parts))}
    # A chain is handed sparse gradients only if no part would have to make them dense.
    sparse, only_filters = all(part.sparse for part in parts), all(part.filter for part in parts)
    return Transform(
        name="chain", config=config, init=init, update=update, sparse=sparse, filter=only_filters,
        joint=joint_of(parts),
    )  # fmt: skip


def _check_masks(parts: tuple[Transform, ...]) -> None:
    for i, part in enumerate(parts):
        # A limit behind a masked rule has zeros to limit, which is harmless; a rule would make steps of
        # nothing.
        behind = next((later for later in parts[i + 1 :] if not later.filter), None)
        if part.name == "masked" and not part.filter and behind is not None:
            message = (
                f"a masked rule gives zeros for the names outside, got {behind.name} behind it in a chain"
            )
            raise ConfigError(
                message, hint="partition({pattern: rule, ...}) gives each name a rule of its own"
            )


@rule("chain")
def _chain_from_config(parts: Any) -> Transform:
    return chain(*map(made, sequence("parts", parts)))


@rule("clip_by_global_norm")
def clip_by_global_norm(limit: float) -> Transform:
    """Scales all gradients by one factor, `limit / norm`, when their common norm exceeds `limit`.

    `norm = sqrt(sum of g**2 over every element of every gradient)`, summed in float64 and without
    overflow. No shard of several could tell it; there, `clip_by_norm` limits each gradient alone. Half
    precision is scaled in float32, and rounded once. Gradients that hold NaN or infinity become NaN, as
    a whole, and are not hidden.
    Sparse gradients stay sparse; the rows that they do not touch are zeros and add nothing.

    State: none, an empty tuple.
    Raises: ConfigError unless the limit is positive and finite.
    Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
        ICML 2013, algorithm 1.
    """
    limit = positive("limit", limit)

    def init(params: Arrays) -> State:
        return ()

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        values = {name: values_of(g) for name, g in grads.items()}
        length = norm(values.values())
        # As they are: most updates are not limited.
        if length.within(limit):
            return dict(grads), state
        return {k: as_rows(scale_down(v, length, limit), grads[k]) for k, v in values.items()}, state

    config = {"limit": limit}
    return Transform(
        name="clip_by_global_norm", config=config, init=init, update=update, sparse=True, filter=True,
        joint="clip_by_global_norm",
    )  # fmt: skip
