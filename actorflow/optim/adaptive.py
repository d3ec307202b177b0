"""Rules that divide each element by what its own gradients have measured: AdaGrad, AdaDelta, RMSProp.

Formulas, state and sparse gradients: as basic.py says.
"""

from __future__ import annotations

import numpy as np

from actorflow.optim.elementwise import Slots, Step, elementwise, mix
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import flag, not_negative, positive, weight


@rule("adagrad")
def adagrad(lr: Rate = 1e-2, initial: float = 0.0, eps: float = 1e-10) -> Transform:
    """AdaGrad: the more an element has moved, the less it moves.

        s' = s + g**2
        delta = -lr(t) * g / (sqrt(s') + eps)

    State: `count`, `square` (s, filled with `initial` at first).
    Raises: ConfigError for a bad rate, unless initial >= 0, or unless eps > 0.
    Source: Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and stochastic
        optimization", JMLR 12, 2011, figure 1, with the diagonal matrix and no regulariser.
    Deviation: eps stands outside the root, as in PyTorch. TensorFlow begins with `initial` 0.1. Rows that
        a sparse gradient leaves out stay as zeros there would have left them.
    Cost:   6 passes; two new arrays a parameter.
    """
    rate = as_schedule(lr)
    initial, eps = not_negative("initial", initial), positive("eps", eps)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            (s,) = new
            # s' = s + g**2
            np.multiply(g, g, out=s)
            np.add(s, old[0], out=s)
            # The root into `work`: s itself is kept for the next update.
            np.sqrt(s, out=work)
            np.add(work, eps, out=work)
            np.divide(g, work, out=out)
            np.multiply(out, -lr_now, out=out)

        return step

    config = {"lr": plain(rate), "initial": initial, "eps": eps}
    return elementwise("adagrad", config, {"square": initial}, at)


@rule("adadelta")
def adadelta(lr: Rate = 1.0, rho: float = 0.9, eps: float = 1e-6) -> Transform:
    """AdaDelta: steps in the units of the parameter, with no rate to choose.

        v' = rho * v + (1 - rho) * g**2
        d = sqrt(u + eps) / sqrt(v' + eps) * g
        u' = rho * u + (1 - rho) * d**2
        delta = -lr(t) * d

    State: `count`, `square` (v) and `moved` (u), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= rho < 1, or unless eps > 0.
    Source: Zeiler, "ADADELTA: an adaptive learning rate method", 2012, algorithm 1; there lr is 1.
    Cost:   14 passes; three new arrays a parameter.
    """
    rate = as_schedule(lr)
    rho, eps = weight("rho", rho), positive("eps", eps)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            v, u = new
            # v' first, of which d needs the new value and u the old one.
            np.multiply(g, g, out=v)
            mix(old[0], rho, v, v, work)
            # d = sqrt((u + eps) / (v' + eps)) * g: one root for two.
            np.add(old[1], eps, out=out)
            np.add(v, eps, out=work)
            np.divide(out, work, out=out)
            np.sqrt(out, out=out)
            np.multiply(out, g, out=out)
            # u' of d**2, before the rate scales d.
            np.multiply(out, out, out=u)
            mix(old[1], rho, u, u, work)
            np.multiply(out, -lr_now, out=out)

        return step

    config = {"lr": plain(rate), "rho": rho, "eps": eps}
    return elementwise("adadelta", config, {"square": 0.0, "moved": 0.0}, at)


@rule("rmsprop")
def rmsprop(
    lr: Rate = 1e-2, rho: float = 0.9, beta: float = 0.0, centred: bool = False, eps: float = 1e-8
) -> Transform:
    """RMSProp: descent along the gradient over the root of its mean square.

        v' = rho * v + (1 - rho) * g**2
        a' = rho * a + (1 - rho) * g              with centred, else 0
        d = g / (sqrt(v' - a'**2) + eps)
        b' = beta * b + d                         with beta > 0, else d
        delta = -lr(t) * b'

    State: `count`, `square` (v), with centred `mean` (a), with beta > 0 `velocity` (b); zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= rho, beta < 1, or unless eps > 0.
    Source: Tieleman, Hinton, "Lecture 6.5: rmsprop", 2012; centred: Graves, "Generating sequences
        with recurrent neural networks", 2013, equations 38 to 41.
    Deviation: eps stands outside the root, as in PyTorch (TensorFlow and Graves: inside), and the
        rate scales b' and not d (equal for a constant rate). A variance that rounding makes negative
        counts as 0.
    Cost:   8 passes, 14 when centred and 2 more with beta; 2 to 4 new arrays a parameter.
    """
    rate = as_schedule(lr)
    rho, beta, eps = weight("rho", rho), weight("beta", beta), positive("eps", eps)
    centred = flag("centred", centred)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            v = new[0]
            np.multiply(g, g, out=v)
            mix(old[0], rho, v, v, work)
            if centred:
                mean = new[1]
                mix(old[1], rho, g, mean, work)
                np.multiply(mean, mean, out=work)
                np.subtract(v, work, out=work)
                # Rounding may make the variance negative.
                np.maximum(work, 0, out=work)
                np.sqrt(work, out=work)
            else:
                np.sqrt(v, out=work)
            np.add(work, eps, out=work)
            np.divide(g, work, out=out)
            # The rate scales the velocity, so that a schedule acts at once.
            if beta:
                velocity = new[-1]
                np.multiply(old[-1], beta, out=velocity)
                np.add(velocity, out, out=velocity)
                np.multiply(velocity, -lr_now, out=out)
            else:
                np.multiply(out, -lr_now, out=out)

        return step

    config = {"lr": plain(rate), "rho": rho, "beta": beta, "centred": centred, "eps": eps}
    # Only those slots that the settings need: others would be stored and never read.
    slots = ["square", *(["mean"] if centred else []), *(["velocity"] if beta else [])]
    return elementwise("rmsprop", config, dict.fromkeys(slots, 0.0), at)
