"""Arithmetic, functions of one number, comparisons, rounding: what torch does element by element."""

from __future__ import annotations

import math
from typing import Any

import actorflow as af
from actorflow import ops
from actorflow.graph.builder import Tensor
from tests.oracle.table import alike, composes, in_rows, maps, need, same

NO_COMPLEX = "ours has gradients of real numbers only"

for op in [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "positive",
    "rad2deg",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "angle",
    "real",
    "conj",
]:
    same(op, getattr(ops, op))
same("neg", af.negative)
same("ceil", af.ceil)
same("trunc", af.trunc)
same("floor", af.floor)
same("sgn", af.sign)
same("conj_physical", af.conj)


@maps("resolve_conj, resolve_neg, alias_copy", "identity")
def _identity(x: Tensor) -> Tensor:
    return af.arrays.identity(x)


@maps("clone, contiguous", "identity")
def _clone(x: Tensor, *, memory_format: Any = None) -> Tensor:
    in_rows(memory_format)
    return af.arrays.identity(x)


@maps("round, round decimals_0", "round")
def _round(x: Tensor, *, decimals: int = 0) -> Tensor:
    need(decimals == 0, "decimals of round: ours rounds to whole numbers")
    return af.round(x)


@composes("round decimals_3, round decimals_neg_3", "round(x·10ⁿ) / 10ⁿ")
def _round_to(x: Tensor, *, decimals: int) -> Tensor:
    scale = 10.0 ** abs(decimals)
    return af.round(x * scale) / scale if decimals > 0 else af.round(x / scale) * scale


@composes("frac", "x - trunc(x)")
def _frac(x: Tensor) -> Tensor:
    return x - af.trunc(x)


@maps("nan_to_num", "nan_to_num")
def _nan_to_num(
    x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    return af.math.nan_to_num(x, 0.0 if nan is None else nan, posinf, neginf)


@maps("polygamma polygamma_n_0, polygamma polygamma_n_1, polygamma polygamma_n_2", "polygamma")
@maps(
    "polygamma polygamma_n_3, polygamma polygamma_n_4, special.polygamma special_polygamma_n_0", "polygamma"
)
def _polygamma(x: Tensor, n: int) -> Tensor:
    return af.math.polygamma(n, x)


# ------------------------------------------------------------------------------- two inputs


@maps("add, __radd__", "add")
def _add(a: Tensor, b: Any, *, alpha: float = 1) -> Tensor:
    return af.add(a, b if alpha == 1 else af.multiply(b, alpha))


@maps("sub", "subtract")
def _sub(a: Tensor, b: Any, *, alpha: float = 1) -> Tensor:
    return af.subtract(a, b if alpha == 1 else af.multiply(b, alpha))


@maps("rsub, __rsub__", "subtract")
def _rsub(a: Tensor, b: Any, *, alpha: float = 1) -> Tensor:
    return af.subtract(b, a if alpha == 1 else af.multiply(a, alpha))


def _pairs(names: str, function: Any, ours: str, **how: Any) -> None:
    """Entries of two inputs that broadcast, and have one dtype."""

    def build(a: Any, b: Any) -> Tensor:
        made: Tensor = function(a, b)
        return made

    maps(names, ours, **how)(build)


def _swapped(names: str, function: Any, ours: str) -> None:
    """Like `_pairs`, with the second input first."""
    _pairs(names, lambda a, b: function(b, a), ours)


_pairs("mul, __rmul__", af.multiply, "multiply")
_pairs("div no_rounding_mode, true_divide", af.divide, "divide")
_swapped("__rdiv__", af.divide, "divide")
_pairs("maximum, max binary", af.maximum, "maximum")
_pairs("minimum, min binary", af.minimum, "minimum")
_pairs("pow, float_power", af.pow, "pow")
_swapped("__rpow__", af.pow, "pow")
_pairs("fmod", af.math.fmod, "fmod")
_pairs("remainder", af.remainder, "remainder")
_swapped("__rmod__", af.remainder, "remainder")
_pairs("floor_divide", af.floor_divide, "floor_divide")
_pairs("atan2", af.atan2, "atan2")
_pairs("hypot", af.hypot, "hypot")
_pairs("copysign", af.copysign, "copysign")
_pairs(
    "nextafter",
    af.nextafter,
    "nextafter",
    forward_only="ours has no gradient, on purpose; torch's is g to the first",
)
_pairs("logaddexp", af.logaddexp, "logaddexp")
_pairs("eq", af.equal, "equal")
_pairs("ne", af.not_equal, "not_equal")
_pairs("lt", af.less, "less")
_pairs("le", af.less_equal, "less_equal")
_pairs("gt", af.greater, "greater")
_pairs("ge", af.greater_equal, "greater_equal")
_pairs("complex", af.math.complex, "complex", forward_only=NO_COMPLEX)


@maps("div floor_rounding", "floor_divide")
def _floor_divide(a: Tensor, b: Any, *, rounding_mode: str) -> Tensor:
    return af.floor_divide(a, b)


@composes("div trunc_rounding", "trunc(a / b)")
def _trunc_divide(a: Tensor, b: Any, *, rounding_mode: str) -> Tensor:
    return af.trunc(a / b)


def _truths(names: str, function: Any, ours: str) -> None:
    """Entries that take numbers other than 0 as true; ours take bools."""

    def build(*values: Tensor) -> Tensor:
        made: Tensor = function(*(af.cast(v, "bool") for v in values))
        return made

    composes(names, f"{ours} of casts to bool")(build)


_truths("logical_and", af.logical_and, "logical_and")
_truths("logical_or", af.logical_or, "logical_or")
_truths("logical_xor", af.logical_xor, "logical_xor")
_truths("logical_not", af.logical_not, "logical_not")


@maps("lerp", "lerp")
def _lerp(a: Tensor, b: Tensor, weight: Any) -> Tensor:
    return af.math.lerp(a, b, weight)


@maps("clamp", "clip")
def _clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    alike(x, min, max)
    return af.clip(x, min, max)


@maps("clamp_min", "clip")
def _clamp_min(x: Tensor, least: Any) -> Tensor:
    alike(x, least)
    return af.clip(x, least, None)


@maps("clamp_max", "clip")
def _clamp_max(x: Tensor, most: Any) -> Tensor:
    alike(x, most)
    return af.clip(x, None, most)


@maps("where", "where")
def _where(a: Tensor, condition: Tensor, b: Tensor) -> Tensor:
    return af.where(condition, a, b)


# ---------------------------------------------------------------------------- compositions


@composes("logaddexp2", "logaddexp(a·log 2, b·log 2) / log 2")
def _logaddexp2(a: Tensor, b: Tensor) -> Tensor:
    return af.logaddexp(a * math.log(2), b * math.log(2)) / math.log(2)


@composes("isposinf", "x == inf")
def _isposinf(x: Tensor) -> Tensor:
    return af.equal(x, math.inf)


@composes("isneginf", "x == -inf")
def _isneginf(x: Tensor) -> Tensor:
    return af.equal(x, -math.inf)


@composes("xlogy", "multiply_no_nan(log(b), a), where b may be NaN")
def _xlogy(a: Any, b: Any) -> Tensor:
    need(isinstance(b, Tensor), "a number as the second input of xlogy: ours takes the log of tensors")
    return af.math.multiply_no_nan(af.log(b), a)


@composes("special.xlog1py", "multiply_no_nan(log1p(b), a)")
def _xlog1py(a: Any, b: Any) -> Tensor:
    need(isinstance(b, Tensor), "a number as the second input of xlog1py: ours takes the log of tensors")
    return af.math.multiply_no_nan(af.log1p(b), a)


@composes("addcmul", "x + a·b·value")
def _addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    return x + a * b * value


@composes("addcdiv", "x + a/b·value")
def _addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    return x + a / b * value


@composes("fmax", "where(isnan(a), b, where(isnan(b), a, maximum(a, b)))")
def _fmax(a: Tensor, b: Tensor) -> Tensor:
    return af.where(af.isnan(a), b, af.where(af.isnan(b), a, af.maximum(a, b)))


@composes("fmin", "where(isnan(a), b, where(isnan(b), a, minimum(a, b)))")
def _fmin(a: Tensor, b: Tensor) -> Tensor:
    return af.where(af.isnan(a), b, af.where(af.isnan(b), a, af.minimum(a, b)))


@composes("heaviside", "where(x == 0, values, cast(x > 0))")
def _heaviside(x: Tensor, values: Tensor) -> Tensor:
    return af.where(af.equal(x, 0), values, af.cast(x > 0, x.dtype))


@composes("special.ndtr", "erfc(-x/√2) / 2")
def _ndtr(x: Tensor) -> Tensor:
    return af.math.erfc(x * -math.sqrt(0.5)) * 0.5


@composes("special.ndtri", "erfinv(2·x - 1)·√2")
def _ndtri(x: Tensor) -> Tensor:
    return af.math.erfinv(x * 2 - 1) * math.sqrt(2)


@composes("logit", "log(x / (1 - x))")
def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    x = x if eps is None else af.clip(x, eps, 1 - eps)
    return af.log(x / (1 - x))


@composes("special.entr", "-multiply_no_nan(log(x), x), -inf below 0")
def _entr(x: Tensor) -> Tensor:
    return af.where(x < 0, af.full_like(x, -math.inf), -af.math.multiply_no_nan(af.log(x), x))


# ----------------------------------------------------------------------------------- bits


_pairs("bitwise_and, __rand__", af.bitwise_and, "bitwise_and")
_pairs("bitwise_or, __ror__", af.bitwise_or, "bitwise_or")
_pairs("bitwise_xor, __rxor__", af.bitwise_xor, "bitwise_xor")
same("bitwise_not", af.bitwise_invert)


def _shift(name: str, function: Any) -> None:
    def build(a: Tensor, b: Any) -> Any:
        return function(a, b)

    maps(name, function.__name__)(build)


_shift("bitwise_left_shift", af.bitwise_left_shift)
_shift("bitwise_right_shift", af.bitwise_right_shift)

# --------------------------------------------------------------------------------- dtypes


def _casts(name: str, dtype: str) -> None:
    def build(x: Tensor, *, memory_format: Any = None) -> Tensor:
        in_rows(memory_format)
        return af.cast(x, dtype)

    maps(name, "cast", forward_only=NO_COMPLEX if dtype.startswith("complex") else "")(build)


for torch_name, dtype in {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "byte": "uint8",
    "cdouble": "complex128",
    "cfloat": "complex64",
    "char": "int8",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}.items():
    _casts(torch_name, dtype)
