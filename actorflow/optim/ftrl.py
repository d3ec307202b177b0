"""Follow the regularised leader: online learning that sets parameters to exactly zero."""

from __future__ import annotations

import math

import numpy as np

from actorflow.optim.elementwise import Slots, Step, elementwise
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import check, not_negative, number


@rule("ftrl")
def ftrl(
    lr: Rate = 1e-3,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
    beta: float = 0.0,
    initial: float = 0.1,
) -> Transform:
    """FTRL-Proximal: where all gradients so far, with l1 and l2, would have put the parameter.

        n' = n + g**2
        z' = z + g - (n'**-lr_power - n**-lr_power) / lr(t) * p
        p' = 0                                                   where |z'| <= l1, else
        p' = (sign(z') * l1 - z') / ((beta + n'**-lr_power) / lr(t) + 2 * l2)
        delta = p' - p

    What a parameter was before the first update is forgotten for the most part; start from zeros.

    State: `count`, `square` (n, filled with `initial` at first), `linear` (z, zeros).
    Raises: ConfigError for a rate that is 0 at its first update or bad, unless l1, l2, beta and
        initial are >= 0, or unless lr_power <= 0.
    Source: McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013, algorithm 1,
        in TensorFlow's form: a power in place of the root, and 2 * l2 for the paper's lambda_2.
    Deviation: rows that a sparse gradient leaves out stay: the formula, which a gradient of zeros
        changes only at the first update, is for those that data has touched. Where n', beta and l2
        are all 0, so that the paper has 0 / 0, p' is 0.
    Cost:   about 20 passes, powers among them unless lr_power is -0.5; three new arrays a parameter.
    """
    rate = as_schedule(lr)
    # A schedule that begins at 0 would divide by it at once.
    check("lr", plain(rate), rate(0) > 0, "positive: the formula divides by it")
    l1, l2 = not_negative("l1", l1), not_negative("l2", l2)
    beta, initial = not_negative("beta", beta), not_negative("initial", initial)
    check("lr_power", lr_power, -math.inf < number(lr_power) <= 0, "finite, not positive")
    lr_power = float(lr_power)

    def at(t: int) -> Step:
        lr_now = rate(t)
        # And one that falls to 0 later.
        check(f"the rate of update {t}", lr_now, lr_now > 0, "positive: the formula divides by it")

        def raised(n: Array, out: Array) -> None:
            # A root costs a fraction of a power.
            if lr_power == -0.5:
                np.sqrt(n, out=out)
            else:
                np.power(n, -lr_power, out=out)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            n, z = new
            # n**-lr_power of before, while `out` is free.
            raised(old[0], work)
            np.multiply(g, g, out=n)
            np.add(n, old[0], out=n)
            raised(n, out)  # n'**-lr_power, used twice
            # The middle term of z', in `work`.
            np.subtract(out, work, out=work)
            np.multiply(work, 1 / lr_now, out=work)
            np.multiply(work, p, out=work)
            np.add(old[1], g, out=z)
            np.subtract(z, work, out=z)
            np.add(out, beta, out=out)
            np.multiply(out, 1 / lr_now, out=out)
            np.add(out, 2 * l2, out=out)
            # n', beta and l2 are all 0: over infinity p' is 0, where the paper has 0 / 0.
            out[out == 0] = math.inf
            np.clip(z, -l1, l1, out=work)  # sign(z) * l1 where |z| > l1, else z, whose difference is 0
            np.subtract(work, z, out=work)
            np.divide(work, out, out=out)
            # p' becomes a delta.
            np.subtract(out, p, out=out)

        return step

    config = {"lr": plain(rate), "l1": l1, "l2": l2, "lr_power": lr_power, "beta": beta, "initial": initial}
    return elementwise("ftrl", config, {"square": initial, "linear": 0.0}, at)
