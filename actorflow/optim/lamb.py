"""LAMB: Adam for large batches, with a step as long as the parameter allows."""

from __future__ import annotations

import numpy as np

from actorflow.optim.elementwise import Slots, filled, in_blocks, mix, one_more, zero
from actorflow.optim.moments import quotient
from actorflow.optim.norms import norm
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Arrays, State, Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import not_negative, positive, weight


@rule("lamb")
def lamb(
    lr: Rate = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6, decay: float = 1e-2
) -> Transform:
    """LAMB: the direction of AdamW; the length is that of the parameter, layer by layer.

        u = mean / (sqrt(square) + eps) + decay * p            mean and square: those of Adam
        delta = -lr(t) * |p| / |u| * u                         the factor is 1 where |p| or |u| is 0

    The norms are those of one whole parameter, summed in float64; where one is spread over shards,
    each has its own.

    State: `count`, `mean` (m) and `square` (v), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, eps > 0 and decay >= 0.
    Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
        ICLR 2020, algorithm 2, with the identity for its phi.
    Deviation: none for sparse gradients, which it takes as dense ones: the norms are of all rows.
    Cost:   16 passes; three new arrays a parameter.
    """
    rate = as_schedule(lr)
    beta1, beta2, eps = weight("beta1", beta1), weight("beta2", beta2), positive("eps", eps)
    decay = not_negative("decay", decay)

    def init(params: Arrays) -> State:
        return {"count": zero(), "mean": filled(params), "square": filled(params)}

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        t = int(state["count"])
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            m, v = new
            mix(old[0], beta1, g, m, work)
            np.multiply(g, g, out=v)
            mix(old[1], beta2, v, v, work)
            # With the rate -1, since the length is not known yet: u is what Adam would add.
            quotient(m, v, t, beta1, beta2, eps, -1.0, out)
            # The decay counts for the direction, and so for the length.
            np.multiply(p, decay, out=work)
            np.add(out, work, out=out)

        # Wide: rounded once, after the length.
        wide, (mean, square) = in_blocks(step, grads, params, [state["mean"], state["square"]], wide=True)
        deltas = {}
        # A second pass: the norms are of whole parameters.
        for name, u in wide.items():
            length, allowed = norm([u]), norm([params[name]])
            # A parameter of zeros could never leave them, and a step of zeros has no direction.
            trust = allowed.over(length) if allowed.root > 0 and length.root > 0 else 1.0
            np.multiply(u, -lr_now * trust, out=u)
            deltas[name] = u.astype(grads[name].dtype, copy=False)
        return deltas, {"count": one_more(state["count"]), "mean": mean, "square": square}

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "eps": eps, "decay": decay}
    return Transform(name="lamb", config=config, init=init, update=update)
