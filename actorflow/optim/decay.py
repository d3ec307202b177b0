"""Parts of a chain that scale gradients or deltas, or draw parameters towards zero.

Weight decay comes in two kinds, which are the same for plain gradient descent and no other rule:

    chain(l2(1e-4), momentum(0.1))             coupled: part of the gradient, and what is made of it
    chain(momentum(0.1), weight_decay(1e-5))   decoupled: beside the rule, at a rate of its own

Of a sparse gradient the rows that it leaves out do not decay; `centralise` takes it as a dense one.
"""

from __future__ import annotations

import numpy as np

from actorflow.optim.elementwise import Slots, Step, elementwise, in_blocks
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Arrays, State, Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import finite, not_negative


@rule("l2")
def l2(decay: float) -> Transform:
    """Adds the gradient of `decay / 2 * sum(p**2)`: `g + decay * p`. Stands before a rule.

    State: none, an empty tuple.
    Raises: ConfigError unless the decay is finite and not negative.
    Source: the weight decay of Krogh, Hertz, "A simple weight decay can improve generalization",
        NIPS 1991, as a term of the loss.
    """
    decay = not_negative("decay", decay)

    def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
        np.multiply(p, decay, out=out)
        np.add(out, g, out=out)

    return _stateless("l2", {"decay": decay}, step, passes=True)


@rule("weight_decay")
def weight_decay(rate: Rate) -> Transform:
    """Shrinks each parameter by a share of itself: `delta - rate(t) * p`. Stands after a rule.

    The rate is not multiplied by that of the rule: `chain(adam(lr), weight_decay(lr * decay))` does
    what `adamw(lr, decay=decay)` does.

    State: `count`.
    Raises: ConfigError for a rate that is negative or not finite.
    Source: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019, equation 1.
    """
    chosen = as_schedule(rate)

    def at(t: int) -> Step:
        rate_now = chosen(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            # In `out`: g may be the delta that is taken from.
            np.multiply(p, rate_now, out=out)
            np.subtract(g, out, out=out)

        return step

    return elementwise("weight_decay", {"rate": plain(chosen)}, {}, at, passes=True)


@rule("scale")
def scale(factor: float) -> Transform:
    """Multiplies everything by `factor`, which may be negative: `chain(scale(-1.0), rule)` goes uphill.

    Alone, a negative factor descends as `sgd` does, and `minimize` refuses any other.

    State: none, an empty tuple.
    Raises: ConfigError unless the factor is finite.
    """
    factor = finite("factor", factor)

    def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
        np.multiply(g, factor, out=out)

    # A negative factor descends: what comes out are deltas then.
    return _stateless("scale", {"factor": factor}, step, passes=factor >= 0)


@rule("centralise")
def centralise() -> Transform:
    """Takes from each gradient of two axes or more its mean over all axes but the last.

    Of a weight (inputs, outputs), whose columns each make one output, every column then has the mean 0.
    Other gradients pass.

    State: none, an empty tuple.
    Source: Yong et al., "Gradient centralization", ECCV 2020, equation 1.
    """

    def centred(g: Array) -> Array:
        # A bias has no axis to be centred over.
        if g.ndim < 2 or g.size == 0:
            return g
        # In float64: the mean of many is not to shift what is left.
        mean = np.mean(g, axis=tuple(range(g.ndim - 1)), keepdims=True, dtype=np.float64)
        return np.subtract(g, mean, dtype=np.float64).astype(g.dtype)

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        return {k: centred(g) for k, g in grads.items()}, state

    return Transform(name="centralise", config={}, init=lambda params: (), update=update, filter=True)


def _stateless(name: str, config: dict[str, float], step: Step, *, passes: bool) -> Transform:
    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        # The same blocks as rules with a state, and no count.
        return in_blocks(step, grads, params, ())[0], state

    return Transform(
        name=name, config=config, init=lambda params: (), update=update, sparse=True, filter=passes
    )
