"""Kernels of `ops.nn.ctc`: all ways to write labels over time, summed by dynamic programming.

The states of an example are its labels with a blank before, between and behind them. Ways are summed
as logarithms; what cannot be has one of -1e30, which stays finite whatever is added.

Source: Graves and others, "Connectionist temporal classification", ICML 2006, section 4.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.errors import KernelError, SpecError
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.nn.normalise import wide
from actorflow.kernels.nn.softmax_portable import log_softmax
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

NEVER = -1e30


def ctc_cost(logits: Array, labels: Array, *others: Array, **_: Any) -> float:
    """A softmax, and for each time a step of all states."""
    states = 2.0 * labels.shape[-1] + 1.0
    steps = float(logits.shape[0]) * float(logits.shape[1])
    cost: float = 14.0 * float(logits.size) + 40.0 * steps * states
    return cost


def _check(logits: Array, labels: Array, lengths: tuple[Array, Array], blank: int, xp: Library) -> Array:
    """Whether each label counts, (n, length).

    Raises:
        SpecError: for shapes, known late, that do not fit.
        KernelError: for a length or a label out of range.
    """
    n, time, classes = logits.shape
    # Without time there is no step to start from.
    if [a.shape[0] for a in (labels, *lengths)] != [n, n, n] or not time:
        shown = ", ".join(show(a.shape) for a in (logits, labels, *lengths))
        message = f"ctc_loss needs some time, and labels and two lengths for each example, got {shown}"
        raise SpecError(message)
    for given, most, what in zip(lengths, (time, labels.shape[1]), ("logits", "labels"), strict=True):
        wrong = (given < 0) | (given > most)
        if wrong.any():
            message = f"lengths of {what} must lie in [0, {most}], got {int(given[wrong][0])}"
            raise KernelError(message)
    # Labels behind an example's length are padding and may hold anything.
    counts = xp.arange(labels.shape[1]) < lengths[1][:, None]
    wrong = counts & ((labels < 0) | (labels >= classes) | (labels == blank))
    if wrong.any():
        message = (
            f"labels must lie in [0, {classes}), the number of classes, and not be the blank {blank}, "
            f"got {int(labels[wrong][0])}"
        )
        raise KernelError(message)
    return counts


class _Ways:
    """The states of all examples, and what the steps between them add up to.

    Attributes:
        states: The class of each state, (n, 2·length + 1).
        emitted: The logarithm of the probability of that class at each time, (n, time, states).
    """

    def __init__(
        self, logits: Array, labels: Array, lengths: tuple[Array, Array], blank: int, xp: Library
    ) -> None:
        counts = _check(logits, labels, lengths, blank, xp)
        n, time, _ = logits.shape
        self.xp = xp
        self.log_p = log_softmax(logits, axis=-1, xp=xp)
        # Padding becomes the blank, so that it is a class at all; no way ends there.
        whole = xp.where(counts, labels.astype(np.int64), xp.full_like(labels.astype(np.int64), blank))
        blanks = xp.full_like(whole, blank)
        first = xp.full_like(lengths[0].astype(np.int64)[:, None], blank)
        # blank, label, blank, label, …, and one more blank behind the last.
        pairs = xp.stack((blanks, whole), axis=-1).reshape((n, 2 * labels.shape[1]))
        self.states = xp.concat((pairs, first), axis=1)
        size = self.states.shape[1]
        at = xp.broadcast_to(self.states[:, None, :], (n, time, size))
        # The states' classes at all times at once: the loop over time takes slices.
        self.emitted = xp.take_along_axis(self.log_p, at, axis=2)
        self.time_of = lengths[0][:, None]
        number = xp.arange(size)
        # The last label, or the blank behind it: both are ends.
        end = 2 * lengths[1].astype(np.int64)[:, None]
        # A way begins with the first blank or the first label.
        self.first, self.last = number[None, :] < 2, (number == end) | (number == end - 1)
        # A blank between two labels may be left out where they differ.
        before = self._shift(self.states, 2, blank)
        self.skips = (self.states != blank) & (self.states != before) & (number >= 2)

    def _shift(self, a: Array, by: int, fill: float) -> Array:
        """`a` with each state's value at the state `by` further on; `fill` where none comes from."""
        xp, size = self.xp, a.shape[1]
        # No longer than the axis, which may have fewer states than the shift.
        gap = xp.full_like(a[:, : min(abs(by), size)], fill)
        parts = (gap, a[:, : max(size - by, 0)]) if by > 0 else (a[:, -by:], gap)
        return xp.concat(parts, axis=1)

    def _log_sum(self, *ways: Array) -> Array:
        """The logarithm of the sum of what the ways are logarithms of."""
        xp = self.xp
        together = xp.stack(ways, axis=0)
        top = xp.max(together, axis=0)
        # The largest is taken off: NEVER less NEVER is 0, which is why it is no infinity.
        return top + xp.log(xp.sum(xp.exp(together - top), axis=0))

    def forward(self) -> list[Array]:
        """For each time the sum of all ways from the start to each state, what it emits included."""
        xp, emitted = self.xp, self.emitted
        never = xp.full_like(emitted[:, 0, :], NEVER)
        # At time 0 only the two first states are reached.
        found = [xp.where(self.first, emitted[:, 0, :], never)]
        for t in range(1, emitted.shape[1]):
            now = found[-1]
            # Stay, go on by one, or leave out the blank between two different labels.
            skipped = xp.where(self.skips, self._shift(now, 2, NEVER), never)
            more = self._log_sum(now, self._shift(now, 1, NEVER), skipped) + emitted[:, t, :]
            # Behind the end of its time an example stays as it is, so the last entry holds for all.
            found.append(xp.where(t < self.time_of, more, now))
        return found

    def backward(self) -> list[Array]:
        """For each time the sum of all ways from each state to an end, what comes later included."""
        xp, emitted = self.xp, self.emitted
        never = xp.full_like(emitted[:, 0, :], NEVER)
        end = xp.where(self.last, xp.zeros_like(never), never)
        found = [end]
        for t in reversed(range(emitted.shape[1] - 1)):
            # What comes later is emitted by the state that is stepped to, so it is added before the shift.
            later = found[-1] + emitted[:, t + 1, :]
            skipped = self._shift(xp.where(self.skips, later, never), -2, NEVER)
            more = self._log_sum(later, self._shift(later, -1, NEVER), skipped)
            # At the last time of an example its ends are the start.
            found.append(xp.where(t + 1 < self.time_of, more, end))
        return found[::-1]

    def total(self, ends: Array) -> Array:
        """The logarithm of the probability of the labels, (n,), of what `forward` ends with."""
        xp = self.xp
        kept = xp.where(self.last, ends, xp.full_like(ends, NEVER))
        top = xp.max(kept, axis=1, keepdims=True)
        found = (top + xp.log(xp.sum(xp.exp(kept - top), axis=1, keepdims=True)))[:, 0]
        # In no time nothing is written: that is sure.
        at_once = self.time_of[:, 0] == 0
        empty = self.last[:, 0]
        return xp.where(at_once, xp.where(empty, xp.zeros_like(found), xp.full_like(found, NEVER)), found)


@kernel("ctc_loss", cost=ctc_cost)
def ctc_loss(
    logits: Array, labels: Array, logit_lengths: Array, label_lengths: Array, *, blank: int, xp: Library = np
) -> Array:
    """Minus the logarithm of the probability of the labels, infinite where there is no time for them.

    Shapes:  logits (n, time, classes), labels (n, length), lengths (n,) -> (n,).
    Dtypes:  logits floating, halves are computed in float32; the others integers.
    Cost:    a softmax and `time` steps of 2·length + 1 states.
    Raises:  SpecError, KernelError as `_check` does.
    """
    (found,) = wide(logits)
    ways = _Ways(found, labels, (logit_lengths, label_lengths), blank, xp)
    total = ways.total(ways.forward()[-1])
    # NEVER and what was added to it: impossible, which is an infinite loss.
    return xp.where(total > NEVER / 2, -total, xp.full_like(total, np.inf)).astype(logits.dtype)


@kernel("ctc_loss_grad", cost=ctc_cost)
def ctc_loss_grad(
    logits: Array,
    labels: Array,
    logit_lengths: Array,
    label_lengths: Array,
    dy: Array,
    *,
    blank: int,
    xp: Library = np,
) -> Array:
    """`(softmax(logits) - share of each class in all ways) * dy`, 0 behind the end of the logits.

    Shapes:  logits (n, time, classes), labels (n, length), lengths and dy (n,) -> that of logits.
    Dtypes:  logits and dy floating, halves are computed in float32; the others integers.
    Cost:    that of ctc_loss three times.
    """
    found, slope = wide(logits, dy)
    ways = _Ways(found, labels, (logit_lengths, label_lengths), blank, xp)
    forward = ways.forward()
    total = ways.total(forward[-1])
    # Of an impossible example no share can be told; its gradient is 0.
    possible = total > NEVER / 2
    # Ways through a state at a time: those to it, times those from it.
    joint = xp.stack(forward, axis=1) + xp.stack(ways.backward(), axis=1)
    # Divided by the probability of all: the share of the ways that pass there.
    shares = xp.exp(joint - xp.where(possible, total, xp.zeros_like(total))[:, None, None])
    # Several states are of one class, the blank above all: their shares are summed by a product.
    classes = (ways.states[:, :, None] == xp.arange(logits.shape[2])).astype(found.dtype)
    found = xp.exp(ways.log_p) - xp.matmul(shares, classes)
    counts = (xp.arange(logits.shape[1]) < logit_lengths[:, None]) & possible[:, None]
    zeros = xp.zeros_like(found)
    return xp.where(counts[:, :, None], found * slope[:, None, None], zeros).astype(logits.dtype)
