"""Kernels of `cast`: one result for what does not fit, on every processor and card.

C leaves open what becomes of a float that no integer holds; x86 gives the least integer, ARM and CUDA
the nearest. Here it is the nearest everywhere, and 0 for NaN. All else is settled by IEEE 754 and by
two's complement.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

import numpy as np

from actorflow.errors import NumericError
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, DType, Library, as_dtype, to_host
from actorflow.values.spec import show


@kernel("cast")
def cast(x: Array, *, dtype: str, safe: bool = False, xp: Library = np) -> Array:
    """`x` in `dtype`; see `ops.array.identity.cast`.

    Raises:
        NumericError: with `safe`, when a value would change.
    """
    to = as_dtype(dtype)
    # Only floats to integers are left open by C: x86 gives the least integer, ARM and CUDA the nearest. Here
    # it is the nearest everywhere, and 0 for NaN.
    cut = _is_real(x) and to.kind in "iu"
    made = _whole(x, to, xp) if cut else x.astype(to, copy=False)
    if safe:
        _check_kept(x, made, xp)
    return made


@kernel("cast", only="numpy")
def cast_of_numpy(x: Array, *, dtype: str, safe: bool = False) -> Array:
    """The same; floats that all fit, which two passes tell, are converted in one more; others in blocks."""
    to = as_dtype(dtype)
    # Extremes of halves would be found slowly, so they are not asked for.
    cut = _is_real(x) and to.kind in "iu" and x.size and (x.dtype.itemsize == 2 or not _all_fit(x, to))
    made = _limit(x, to) if cut else x.astype(to, copy=False)
    if safe:
        _check_kept(x, made, np)
    return made


def _all_fit(x: Array, to: DType) -> bool:
    """Whether all floats, cut off, are integers of `to`; NaN is not."""
    low, above = _range(to)
    least, most = float(x.min()), float(x.max())
    # NaN fails both comparisons.
    return low <= least and most < above


def _is_real(x: Array) -> bool:
    return x.dtype.kind in "fV"  # V: bfloat16


def _range(to: DType) -> tuple[float, float]:
    """The least number of an integer dtype, and the first above its largest: powers of two, or 0."""
    bits = to.itemsize * 8
    return (0.0, 2.0**bits) if to.kind == "u" else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))


def _whole(x: Array, to: DType, xp: Library) -> Array:
    """Floats as integers: cut off, then the nearest that fits; NaN is 0."""
    low, above = _range(to)
    wide = x.astype(np.dtype(np.float64), copy=False)  # holds all bounds, which halves do not
    # Narrow dtypes: what lies within one of the bounds is cut off to it. Of 64 bits the bound itself is the
    # next float.
    inside = (wide > low - 1) & (wide < above) if to.itemsize < 8 else (wide >= low) & (wide < above)
    # int64 and uint64 take what is inside; the narrow dtypes go through int64, which holds them all.
    step = to if to.itemsize == 8 else np.dtype(np.int64)
    # What is not inside is 0 meanwhile, NaN among it, since its cast would be anything.
    made = xp.where(inside, wide, xp.zeros_like(wide)).astype(step).astype(to)
    least, most = (xp.full_like(made, end) for end in (np.iinfo(to).min, np.iinfo(to).max))
    made = xp.where(wide >= above, most, made)
    return xp.where(wide <= low, least, made)


_BLOCK = 16384


def _limit(x: Array, to: DType) -> Array:
    """What `_whole` makes on numpy, in blocks that stay in the cache.

    1,000,000 float32 to int8 take 1.8 ms so, 26 ms in passes over the whole; of float16 2.1 and 23.
    """
    least, most = (float(end) for end in (np.iinfo(to).min, np.iinfo(to).max))
    above = _range(to)[1]
    if most >= above:  # the largest integers of 64 bits are no floats: the last float below them
        most = float(np.nextafter(above, 0))
    flat = x.reshape(-1)
    made = np.empty(flat.size, to)
    for start in range(0, flat.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        wide = flat[part].astype(np.float64)
        beyond = wide >= above if to.itemsize == 8 else None
        unknown = wide != wide
        if unknown.any():
            wide[unknown] = 0
        np.clip(wide, least, most, out=wide)
        made[part] = wide
        if beyond is not None and beyond.any():
            # ORDER: after the cast, which clipped it to the last float below.
            made[part][beyond] = np.iinfo(to).max
    return made.reshape(x.shape)


def _check_kept(x: Array, made: Array, xp: Library) -> None:
    """Raises NumericError unless every element is what it was; NaN is kept as NaN."""
    same = _same(x, made, xp)
    if bool(xp.all(same)):
        return
    before, after, kept = (np.asarray(to_host(a)) for a in (x, made, same))
    at = tuple(int(i) for i in np.unravel_index(int(np.argmin(kept)), kept.shape))
    place = f" at index {show(at)}" if at else ""
    message = (
        f"a safe cast keeps every value, got {before[at].item()!r}{place}, which {after.dtype.name} makes"
        f" {after[at].item()!r}; {int(kept.size - kept.sum())} of {kept.size} would change"
    )
    raise NumericError(message, hint="round, clip or scale it first, or leave safe out to take the loss")


def _same(x: Array, made: Array, xp: Library) -> Array:
    """Whether each element is what it was, told in the dtype that it came from and by its sign."""
    if x.dtype.kind in "biu":
        return _same_integer(x, made, xp)
    back = made.astype(x.dtype)
    # Told in the dtype that it came from: nothing is lost on the way back.
    same = back == x
    if made.dtype.kind in "iu":  # the largest integers round up to a power of two that they do not reach
        low, above = _range(made.dtype)
        wide = x.astype(np.dtype(np.float64), copy=False)
        return same & (wide >= low) & (wide < above)
    if made.dtype.kind == "b":
        return same
    # NaN is kept as NaN.
    return same | ((x != x) & (made != made))


def _same_integer(x: Array, made: Array, xp: Library) -> Array:
    if "b" in (x.dtype.kind, made.dtype.kind):
        return made.astype(x.dtype) == x
    if made.dtype.kind in "iu":
        # By its sign as well: a negative number may come back from an unsigned one.
        return (made.astype(x.dtype) == x) & ((made < 0) == (x < 0))
    # A float may be beyond the integers, or the first number above them.
    real = xp.real(made) if made.dtype.kind == "c" else made
    low, above = _range(x.dtype)
    wide = real.astype(np.dtype(np.float64), copy=False)
    return (wide >= low) & (wide < above) & (_whole(real, x.dtype, xp) == x)
