"""A rule that acts once in several updates, with the mean of their gradients."""

from __future__ import annotations

import numpy as np

from actorflow.optim.elementwise import accumulator, filled, one_more, zero
from actorflow.optim.transform import (
    Arrays,
    Config,
    State,
    Transform,
    check_transform,
    described,
    made,
    rule,
)
from actorflow.values.arrays import Array
from actorflow.values.checks import positive_whole


def accumulate(inner: Transform, every: int) -> Transform:
    """Gives `inner` the mean of the gradients of `every` updates, and between them moves nothing.

    So batches of a size that does not fit are taken in pieces. `inner` counts its own updates, and
    its schedules run by those. Sparse gradients are added up as dense ones.

    State: `count`, `sum` (of the gradients since the last move, zeros at first), `inner`.
    Raises: ConfigError unless inner is a Transform and every >= 1.
    """
    check_transform("inner", inner)
    every = positive_whole("every", every)

    def init(params: Arrays) -> State:
        return {"count": zero(), "sum": filled(params), "inner": inner.init(params)}

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        total = {
            # A new array each time: the state that was given may be put back.
            name: np.add(state["sum"][name], g, out=np.empty(g.shape, accumulator(g)))
            for name, g in grads.items()
        }
        count = one_more(state["count"])
        # ORDER: counted first, so that the every-th update is the one that moves.
        if int(count) % every:
            # Zeros and not nothing: every name of the gradients has a delta.
            deltas = {name: np.zeros(g.shape, g.dtype) for name, g in grads.items()}
            return deltas, {"count": count, "sum": total, "inner": state["inner"]}
        mean = {
            # Written over the total, which this update alone has.
            name: np.multiply(t, 1 / every, out=t).astype(grads[name].dtype, copy=False)
            for name, t in total.items()
        }
        # `inner` counts its own updates.
        deltas, after = inner.update(mean, state["inner"], params)
        # The sum begins anew; the old state keeps the one that was.
        return deltas, {"count": count, "sum": filled(grads), "inner": after}

    config = {"inner": described(inner), "every": every}
    return Transform(
        name="accumulate", config=config, init=init, update=update, filter=inner.filter, joint=inner.joint
    )


@rule("accumulate")
def _accumulate_from_config(inner: Config, every: int) -> Transform:
    return accumulate(made(inner), every)
