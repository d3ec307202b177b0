"""The optimizers: stochastic gradient descent, with momentum, and Adam.

In the formulas g is the gradient, t the number of updates applied before, so 0 at the first, and
the delta is what is added to the parameter. `lr` is a number or a schedule of t.

The state of float16 and bfloat16 parameters is float32, and so is the arithmetic; that of others
has their own dtype. It runs block by block in new arrays: an update allocates what it returns, and a
few blocks.

All of them take sparse gradients (see `transform`), lazily: the rows that a gradient does not touch
keep their parameters, velocities, means and squares bit for bit, and these do not decay meanwhile.
A dense gradient with zeros there would have moved them on.
"""

from __future__ import annotations

import numpy as np

from actorflow.optim.elementwise import Slots, Step, accumulator, elementwise, mix, one_more, zero
from actorflow.optim.moments import quotient
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Arrays, State, Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import flag, positive, weight
from actorflow.values.sparse import as_rows, values_of


@rule("sgd")
def sgd(lr: Rate) -> Transform:
    """Gradient descent: `delta = -lr(t) * g`.

    State: `count`.
    Raises: ConfigError for a rate that is negative or not finite.
    Source: Robbins, Monro, "A stochastic approximation method", 1951, equation 6.
    """
    rate = as_schedule(lr)

    def init(params: Arrays) -> State:
        return {"count": zero()}

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        # The rate of this update is that of the count before it.
        lr_now = rate(int(state["count"]))
        deltas = {k: as_rows(_scale(values_of(g), -lr_now), g) for k, g in grads.items()}
        return deltas, {"count": one_more(state["count"])}

    return Transform(name="sgd", config={"lr": plain(rate)}, init=init, update=update, sparse=True)


@rule("momentum")
def momentum(lr: Rate, beta: float = 0.9, nesterov: bool = False) -> Transform:
    """Descent along a decaying sum of gradients.

        v' = beta * v + g
        delta = -lr(t) * v'                    or, with nesterov, -lr(t) * (g + beta * v')

    State: `count`, `velocity` (v, zeros at first).
    Raises: ConfigError for a bad rate, or unless 0 <= beta < 1.
    Source: Polyak 1964 and Nesterov 1983, in the form of Sutskever, Martens, Dahl, Hinton, "On the
        importance of initialization and momentum in deep learning", ICML 2013, equations 1 to 4.
    Deviation: the learning rate scales the sum and not each gradient, so that a schedule acts at
        once; equal to the source for a constant rate. As in TensorFlow and PyTorch, parameters are
        stored at the point where nesterov takes its gradient. Of a sparse gradient, only the rows
        that it touches have their velocity decay and move by it.
    """
    rate = as_schedule(lr)
    beta, nesterov = weight("beta", beta), flag("nesterov", nesterov)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            (v,) = new
            np.multiply(old[0], beta, out=v)
            np.add(v, g, out=v)
            # -lr * (g + beta * v') term by term, for v' itself is kept.
            np.multiply(v, -lr_now * beta if nesterov else -lr_now, out=out)
            if nesterov:
                np.multiply(g, lr_now, out=work)
                np.subtract(out, work, out=out)

        return step

    config = {"lr": plain(rate), "beta": beta, "nesterov": nesterov}
    return elementwise("momentum", config, {"velocity": 0.0}, at)


@rule("adam")
def adam(lr: Rate = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Transform:
    """Adam: descent along the mean gradient over the root of its mean square.

        m' = beta1 * m + (1 - beta1) * g
        v' = beta2 * v + (1 - beta2) * g**2
        delta = -lr(t) * (m' / (1 - beta1**(t+1))) / (sqrt(v' / (1 - beta2**(t+1))) + eps)

    State: `count`, `mean` (m) and `square` (v), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, or unless eps > 0.
    Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1.
    Deviation: of a sparse gradient, only the rows that it touches have m and v decay and move, with
        the t of all updates: PyTorch's SparseAdam. (TensorFlow's sparse Adam moves all rows.)
    Cost:   11 passes; three new arrays a parameter, of the touched rows when the gradient is sparse.
    """
    rate = as_schedule(lr)
    beta1, beta2, eps = weight("beta1", beta1), weight("beta2", beta2), positive("eps", eps)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            m, v = new
            # m' and v' in their slots; nothing else is kept.
            mix(old[0], beta1, g, m, work)
            np.multiply(g, g, out=v)
            mix(old[1], beta2, v, v, work)
            quotient(m, v, t, beta1, beta2, eps, lr_now, out)

        return step

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "eps": eps}
    return elementwise("adam", config, {"mean": 0.0, "square": 0.0}, at)


def _scale(array: Array, factor: float) -> Array:
    """Returns a new array, `array * factor` rounded to its dtype."""
    # In float32 at least, and rounded once.
    wide = accumulator(array)
    out = np.empty(array.shape, wide)
    return np.multiply(array, factor, dtype=wide, out=out).astype(array.dtype, copy=False)
