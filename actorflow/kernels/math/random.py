"""Random numbers as a pure function of (seed, counter): Philox4x64-10, without hidden state.

A random kernel is handed `seed`, an attribute of its node, and `counter`, four integers
(c0, c1, c2, c3) that differ for every firing. The mapping is fixed, so that replays repeat and
another library can draw the same numbers:

1. Key: (seed, c3). Counter at the start: (0, c0, c1, c2), the lowest word first. All are taken
   modulo 2**64. Distinct (seed, counter) therefore draw from disjoint blocks. numpy's Philox adds
   one to the low word before each block, so the first block of four words is that of low word 1.
2. Uniform numbers in [0, 1). float64: each 64-bit word `w` gives `(w >> 11) * 2**-53`. float32:
   each word gives two numbers, its low half first, `(h >> 8) * 2**-24`.
3. `random_uniform` gives `low + (high - low) * u`, kept below `high`; where the dtype drawn does not
   hold high - low, it gives `low * (1 - u) + high * u`.
4. `random_normal` of n elements draws 2m uniform numbers, m = ceil(n / 2), and applies Box-Muller:
   `r = sqrt(-2 log(1 - u[:m]))`, `a = 2 pi u[m:]`; the elements are `r cos(a)`, then `r sin(a)`.
   Equal bits on one machine; across libraries equal up to the last digits of log, sin and cos.
   (float32, one million: 5 ms against 19 ms for numpy's ziggurat, whose rejections also make the
   position of a word in the stream unknown.)
   A device that is not the host's gets the host's numbers, copied: numpy and CuPy agree bit for bit.
5. float16 and bfloat16 are drawn as float32 and rounded; rounding may give `high` itself.
6. `random_truncated_normal`: from one uniform number `u` each, by inversion,
   `sqrt(2) * erfinv((2u - 1) * erf(sqrt(2)))`, kept in [-2, 2]; then times the deviation, plus the
   mean, in the dtype drawn. The kernel of erfinv is that of `kernels.math.special_erf` on numpy.
7. `random_exponential`: from one uniform number each, `-log1p(-u)`.
8. `random_bernoulli`: from one uniform number each, of the width of the probability's dtype, whether
   `u < p`: never for 0, always for 1, and else with p rounded up to a multiple of 2**-24 or 2**-53.
9. `random_integers` of n elements draws 2n words: element i is made of words i and n + i, as a number
   of 128 bits, `low + floor((words[i] * 2**64 + words[n + i]) * count / 2**128)`, count the integers
   in the range. So each comes with a probability that differs from 1/count by less than 2**-128.
10. `random_permutation`: the order that sorts n words, the earlier first of equal ones: every
   permutation alike, but for equal words, which come with a probability below n**2 * 2**-65.
11. `random_categorical`: by inversion, from one uniform number of float64 a sample, those of a row of
   logits one after the other. The weights `exp(logits - max)` are summed up in float64, in their
   order; the class is the first whose running sum is above `u` times the sum of all. So one of weight
   0 never comes. A card computes the weights itself: equal up to the last digits of exp.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from actorflow.kernels.definition.registry import find, kernel
from actorflow.values.arrays import Array, DType, Library, as_dtype

Counter = tuple[int, int, int, int]

_WORD = (1 << 64) - 1


class _PerThread(threading.local):
    """A generator of this thread, set anew for every draw; making one costs 17 µs, setting 3 µs."""

    def __init__(self) -> None:
        # Rule 1 sets key and counter anew before each draw; this key is never drawn from.
        self.philox = np.random.Philox(key=0)
        self.generator = np.random.Generator(self.philox)
        self.state: Any = self.philox.state  # a copy: its words are ours to write
        self.state["buffer_pos"] = 4  # the buffer of four words is used up
        self.state["has_uint32"] = 0


_thread = _PerThread()


def generator(seed: int, counter: Counter) -> np.random.Generator:
    """Returns this thread's generator, standing where `seed` and `counter` say.

    Use it up before the next call in the same thread: that one moves the same generator.
    """
    c0, c1, c2, c3 = counter
    state = _thread.state
    # Rule 1; everything is taken modulo 2**64.
    state["state"]["key"][:] = (seed & _WORD, c3 & _WORD)
    # The low word starts at 0, so two counters of a node differ in a word that drawing never reaches.
    state["state"]["counter"][:] = (0, c0 & _WORD, c1 & _WORD, c2 & _WORD)
    _thread.philox.state = state
    return _thread.generator


def uniform(n: int, dtype: DType, seed: int, counter: Counter) -> Array:
    """Returns `n` numbers in [0, 1), float64 when `dtype` is, float32 otherwise; rule 2."""
    # Rule 2.
    return generator(seed, counter).random(n, dtype=np.float64 if dtype == np.float64 else np.float32)


def words(n: int, seed: int, counter: Counter) -> Array:
    """Returns `n` words of 64 bits as they come; rule 1."""
    # Rule 1: words as they come, which no conversion to floats has shortened.
    drawn: Array = generator(seed, counter).bit_generator.random_raw(n)
    return drawn


def _draw_cost(*, shape: tuple[int, ...], **_: Any) -> float:
    """A draw costs about as much as twenty elements moved."""
    return 20.0 * math.prod(shape)


@kernel("random_uniform", cost=_draw_cost)
def random_uniform(
    *,
    shape: tuple[int, ...],
    low: float,
    high: float,
    dtype: str,
    seed: int,
    counter: Counter,
    xp: Library = np,
) -> Array:
    """Independent numbers, uniform in [low, high).

    Shapes:  `shape`.
    Dtypes:  floating, `dtype`.
    Cost:    one draw an element.
    """
    # Rule 5: halves are drawn as float32, which `uniform` gives for all but float64, and rounded at the end.
    wanted = as_dtype(dtype)
    out = uniform(math.prod(shape), wanted, seed, counter)
    # Rule 3.
    if (low, high) != (0.0, 1.0):
        if high - low <= float(np.finfo(out.dtype).max):
            np.multiply(out, high - low, out=out)
            np.add(out, low, out=out)
        else:  # both ends fit, and what is between them does not
            out = low * (1 - out) + high * out
        if high > low:  # rounding must not give `high` itself
            bounds = out.dtype.type(high), out.dtype.type(low)
            np.minimum(out, np.nextafter(*bounds), out=out)
    return to_library(out.reshape(shape).astype(wanted, copy=False), xp)


@kernel("random_normal", cost=_draw_cost)
def random_normal(
    *,
    shape: tuple[int, ...],
    mean: float,
    stddev: float,
    dtype: str,
    seed: int,
    counter: Counter,
    xp: Library = np,
) -> Array:
    """Independent numbers, normal with the given mean and standard deviation.

    Shapes:  `shape`.
    Dtypes:  floating, `dtype`. float32 reaches 5.77 standard deviations, float64 8.57.
    Cost:    one draw, half a log and half a sine or cosine an element.
    """
    wanted = as_dtype(dtype)
    n = math.prod(shape)
    # Rule 4: two uniform numbers make two normal ones; of an odd n the last is dropped.
    half = (n + 1) // 2
    drawn = uniform(2 * half, wanted, seed, counter)
    # OWNS: the draw is this kernel's own, so that every step writes over it.
    radius, angle = drawn[:half], drawn[half:]
    np.subtract(1, radius, out=radius)  # (0, 1]: the logarithm stays finite
    np.log(radius, out=radius)
    np.multiply(radius, -2, out=radius)
    np.sqrt(radius, out=radius)
    np.multiply(angle, 2 * math.pi, out=angle)
    out = np.empty_like(drawn)
    np.multiply(radius, np.cos(angle), out=out[:half])
    np.multiply(radius, np.sin(angle), out=out[half:])
    if stddev != 1.0:
        np.multiply(out, stddev, out=out)
    if mean != 0.0:
        np.add(out, mean, out=out)
    return to_library(out[:n].reshape(shape).astype(wanted, copy=False), xp)


@kernel("random_truncated_normal", cost=_draw_cost)
def random_truncated_normal(
    *,
    shape: tuple[int, ...],
    mean: float,
    stddev: float,
    dtype: str,
    seed: int,
    counter: Counter,
    xp: Library = np,
) -> Array:
    """Independent numbers, normal within two standard deviations of the mean, none beyond.

    Shapes:  `shape`.
    Dtypes:  floating, `dtype`.
    Cost:    one draw and one erfinv an element.
    """
    # Rule 6.
    wanted = as_dtype(dtype)
    out = uniform(math.prod(shape), wanted, seed, counter)
    # 2·w·u - w = w·(2u - 1): u in [-w, w), where erfinv gives at most √2.
    np.multiply(out, 2 * _WITHIN, out=out)
    np.subtract(out, out.dtype.type(_WITHIN), out=out)
    # The registered kernel, the one for numpy: another would round the last digit otherwise.
    out = find("erfinv").function(out)
    np.multiply(out, math.sqrt(2), out=out)
    # Rounding may step over the bound by the last digit.
    np.clip(out, -2, 2, out=out)
    if stddev != 1.0:
        np.multiply(out, stddev, out=out)
    if mean != 0.0:
        np.add(out, mean, out=out)
    return to_library(out.reshape(shape).astype(wanted, copy=False), xp)


_WITHIN = math.erf(math.sqrt(2))  # the part of a normal within two standard deviations


@kernel("random_exponential", cost=_draw_cost)
def random_exponential(
    *, shape: tuple[int, ...], dtype: str, seed: int, counter: Counter, xp: Library = np
) -> Array:
    """Independent numbers, exponential with rate and mean 1.

    Shapes:  `shape`.
    Dtypes:  floating, `dtype`. float32 reaches 16.6, float64 36.7.
    Cost:    one draw and one logarithm an element.
    """
    # Rule 7: u is below 1, so the logarithm is finite.
    wanted = as_dtype(dtype)
    out = uniform(math.prod(shape), wanted, seed, counter)
    np.negative(out, out=out)
    np.log1p(out, out=out)
    np.negative(out, out=out)
    np.abs(out, out=out)  # -0.0 is none
    return to_library(out.reshape(shape).astype(wanted, copy=False), xp)


def to_library(drawn: Array, xp: Library) -> Array:
    """Returns the numbers as an array of `xp`."""
    return drawn if xp is np else xp.asarray(drawn)
