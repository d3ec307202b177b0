"""Random choices as a pure function of (seed, counter): integers, classes, orders, and yes or no.

Which numbers they come from is in `kernels.math.random`, rules 8 to 11.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from actorflow.errors import KernelError
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.math.random import Counter, to_library, uniform, words
from actorflow.values.arrays import Array, Library, as_dtype
from actorflow.values.spec import show

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _cost(*arrays: Array, **_: Any) -> float:
    return 20.0 * float(sum(a.size for a in arrays))


def _shape_cost(*, shape: tuple[int, ...], **_: Any) -> float:
    return 40.0 * math.prod(shape)


def _order_cost(*inputs: Array, **attrs: Any) -> float:
    n = 1000 if attrs["n"] is None else attrs["n"]  # an input may lie on a card, and is not waited for
    return 20.0 * n * max(1, n.bit_length())


# ------------------------------------------------------------------------------------ yes or no


@kernel("random_bernoulli", cost=_cost)
def random_bernoulli(p: Array, *, seed: int, counter: Counter, xp: Library = np) -> Array:
    """Whether each of independent events comes that have the probabilities `p`.

    Shapes:  that of p.
    Dtypes:  floating -> bool.
    Cost:    one draw an element. The check of p waits for a card.
    Raises:  KernelError for a probability outside [0, 1].
    """
    # NaN is in no range, so it is refused as well.
    inside = (p >= 0) & (p <= 1)
    if not inside.all():
        message = f"a probability lies in [0, 1], got {float(p[~inside][0])}"
        raise KernelError(message)
    # Rule 8: as wide as the probability, so that a tiny one is not lost.
    wide = np.dtype(np.float64 if p.dtype.itemsize == 8 else np.float32)
    drawn = uniform(math.prod(p.shape), wide, seed, counter).reshape(p.shape)
    # u < 1 always and u < 0 never: p = 1 always comes, p = 0 never.
    less: Array = to_library(drawn, xp) < p.astype(wide)
    return less


# ------------------------------------------------------------------------------------- integers


def _product(a: Array, b: int) -> tuple[Array, Array]:
    """The high and the low word of a * b, of 128 bits; b has 64."""
    # Halves of words: a product of two of 32 bits fits in one of 64.
    b_high, b_low = np.uint64(b >> 32), np.uint64(b & 0xFFFFFFFF)
    a_high, a_low = a >> _HALF, a & _LOW
    # INVARIANT: no sum overflows: (2³² - 1)² + 2³² - 1 is below 2⁶⁴.
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    # Counts below 2³² have no high half, and half of the products fall away.
    if not b_high:
        return middle >> _HALF, a * b_low
    other = a_low * b_high + (middle & _LOW)
    # numpy's product is modulo 2⁶⁴, which is the low word.
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF), a * np.uint64(b)


@kernel("random_integers", cost=_shape_cost)
def random_integers(
    *,
    shape: tuple[int, ...],
    low: int,
    last: int,
    dtype: str,
    seed: int,
    counter: Counter,
    xp: Library = np,
) -> Array:
    """Independent integers, uniform from `low` to `last`, both included.

    Shapes:  `shape`.
    Dtypes:  integers, `dtype`.
    Cost:    two words and a product of 128 bits an element.
    """
    wanted = as_dtype(dtype)
    n, count = math.prod(shape), last - low + 1
    # Rule 9: the words i and n + i make element i.
    high, low_words = np.split(words(2 * n, seed, counter), 2)
    # A negative low as the word that sums up the same modulo 2⁶⁴.
    first = np.uint64(low % (1 << 64))
    made = np.empty(n, wanted)
    for start in range(0, n, _BLOCK):  # in the cache: 1,000,000 take 36 ms so, 74 as a whole
        part = slice(start, start + _BLOCK)
        # The sum is modulo 2**64, as the cast to fewer bits is modulo theirs.
        made[part] = (_scale(high[part], low_words[part], count) + first).astype(wanted)
    return to_library(made.reshape(shape), xp)


_BLOCK = 8192


def _scale(high: Array, low: Array, count: int) -> Array:
    """The whole part of (high, low) · count / 2**128, numbers of two words."""
    # The product shifts by a word: the high word is the answer. And a count of 2⁶⁴ does not fit in a word.
    if count == 1 << 64:
        return high
    # The high word of the low part carries over.
    carried, _ = _product(low, count)
    found, rest = _product(high, count)
    return found + (rest + carried < rest)  # the sum of the low words wraps around: carry one


# --------------------------------------------------------------------------------------- orders


@kernel("random_permutation", cost=_order_cost)
def random_permutation(*inputs: Array, n: int | None, seed: int, counter: Counter, xp: Library = np) -> Array:
    """The integers from 0 to n - 1 in an order, each of which comes alike.

    Shapes:  n, an attribute or a scalar input -> (n,).
    Dtypes:  int64.
    Cost:    a word an element, and a sort of them.
    Raises:  KernelError for a negative n.
    """
    if inputs:
        n = int(inputs[0])
    assert n is not None
    if n < 0:
        message = f"a permutation has a number of elements, got {n}"
        raise KernelError(message)
    # Rule 10.
    return to_library(_order(words(n, seed, counter)), xp)


def _order(drawn: Array) -> Array:
    """The order that sorts the words, the earlier first of equal ones, as int64.

    Equal words hardly ever come: they are looked for afterwards. 1,000,000 words take 82 ms so, 239 by a
    stable sort.
    """
    order = np.argsort(drawn)
    ranked = drawn[order]
    # An unstable sort may swap equal words differently elsewhere; the stable one is the rule.
    if (ranked[1:] == ranked[:-1]).any():
        order = np.argsort(drawn, kind="stable")
    return order.astype(np.int64, copy=False)


# -------------------------------------------------------------------------------------- classes

_COMPARED = 1 << 20  # elements: rows times samples times classes that are compared at a time


@kernel("random_categorical", cost=_cost)
def random_categorical(
    logits: Array, *, num_samples: int | None, seed: int, counter: Counter, xp: Library = np
) -> Array:
    """Independent classes, class k of a row with probability softmax(row)[k].

    Shapes:  logits (..., classes) -> (..., num_samples), or (...) for None.
    Dtypes:  floating -> int64.
    Cost:    an exponential a logit, one draw a sample, and one comparison for each class of one. The
             check of the logits waits for a card.
    Raises:  KernelError for a row whose largest logit is not a finite number.
    """
    each = 1 if num_samples is None else num_samples
    lead, classes = logits.shape[:-1], logits.shape[-1]
    rows = math.prod(lead)
    # Nothing to draw: `_running_weights` would refuse rows without classes.
    if not rows or not each:
        return xp.zeros(lead if num_samples is None else (*lead, each), dtype=xp.int64)
    sums = _running_weights(logits, rows, classes, xp)
    # Rule 11: rows one after the other, in float64 whatever the logits are. The sum of all is the last one.
    drawn = to_library(uniform(rows * each, np.dtype(np.float64), seed, counter).reshape((rows, each)), xp)
    found = _classes(sums, drawn * sums[:, -1:], xp)
    return found.reshape(lead if num_samples is None else (*lead, each))


def _classes(sums: Array, drawn: Array, xp: Library) -> Array:
    """How many of the running sums of a row are not above each of the numbers drawn for it, int64.

    With more samples than rows a search for each row, else all of them compared: of 1,000 classes,
    a row with 100,000 samples takes 10 ms, not 141.
    """
    (rows, classes), each = sums.shape, drawn.shape[1]
    # Each search is a call, so only where a row has many samples.
    if each > rows:
        found = [xp.searchsorted(sums[row, :], drawn[row, :], side="right") for row in range(rows)]
        return xp.stack(found).astype(np.int64)
    # The comparison of all with all is an array: so many samples at a time that it stays small.
    step = max(1, _COMPARED // (rows * classes))
    parts = []
    for start in range(0, each, step):
        some = drawn[:, start : min(start + step, each), None]
        # Sums not above the number: their count is the index of the first that is above.
        parts.append(xp.sum((sums[:, None, :] <= some).astype(np.int64), axis=-1))
    return xp.concat(parts, axis=1)


def _running_weights(logits: Array, rows: int, classes: int, xp: Library) -> Array:
    """The running sums of exp(logits - max) along each row, (rows, classes) of float64."""
    if not classes:
        message = f"logits need a last axis with an element for every class, got {show(logits.shape)}"
        raise KernelError(message)
    wide = logits.astype(np.float64).reshape((rows, classes))
    most = xp.max(wide, axis=1, keepdims=True)
    # -inf alone leaves no weight at all, and +inf or NaN none that compares.
    finite = xp.isfinite(most)
    if not finite.all():
        value = float(most[~finite][0])
        message = f"the largest logit of a row must be a finite number, got {value}"
        raise KernelError(message)
    scan = getattr(xp, "cumsum", None) or xp.cumulative_sum  # the older name is in every numpy and CuPy
    # The largest weight is 1: no exponential overflows, and the sum is never 0.
    running: Array = scan(xp.exp(wide - most), axis=1)
    return running
