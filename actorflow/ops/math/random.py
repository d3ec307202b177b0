"""Random tensors: the same graph seed, op seed and firing give the same numbers.

See `kernels.math.random`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, SpecRule, op
from actorflow.ops.array.broadcast import broadcast_to
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.elementwise import divide
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype, is_floating, limits
from actorflow.values.spec import Spec, show, spec

_WORD = (1 << 64) - 1


def node_seed(seed: int | None) -> int:
    """Returns the seed of the node that is built next: 63 bits, mixed from two numbers.

    They are the graph's seed and the op's own; without one, the position of the node in the
    graph, so that ops without a seed draw independently and rebuilding the graph repeats them.
    """
    graph = current()
    # Without a seed the place of the node: the same program gives the same numbers.
    return _mix(graph.seed, 0, graph.salt + len(graph)) if seed is None else _mix(graph.seed, 1, seed)


def resource_seed(seed: int | None) -> int:
    """Returns the seed of the resource that is declared next, likewise: its place among the resources."""
    graph = current()
    # Words apart: a resource and an op of one seed do not draw alike.
    return _mix(graph.seed, 2, len(graph.resources)) if seed is None else _mix(graph.seed, 1, seed)


def _mix(*words: int) -> int:
    mixed = 0
    for word in words:
        mixed = _scramble((mixed + word) & _WORD)
    # 63 bits: an int64 attribute holds them.
    return mixed >> 1


def _scramble(word: int) -> int:
    """One round of SplitMix64; source: Steele, Lea, Flood, OOPSLA 2014."""
    word = (word + 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def _drawn_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    drawn = spec(attrs["dtype"], attrs["shape"])
    if not is_floating(drawn.dtype):
        message = f"random numbers are floating, got dtype {drawn.dtype.name}"
        raise SpecError(message)
    if not drawn.is_static:
        message = f"random numbers need a known shape, got {show(drawn.shape)}"
        raise SpecError(message)
    return (drawn,)


def check_dtype_holds(op_name: str, drawn: Spec, **numbers: float) -> None:
    """Raises SpecError for a number that is not finite, or beyond the largest of the dtype."""
    most = float(limits(drawn.dtype).max)
    for what, number in numbers.items():
        # NaN is not at most anything.
        if not abs(number) <= most:
            message = f"{op_name} of {drawn.dtype.name} takes numbers up to {most:.5g}, got {what} {number}"
            raise SpecError(message, hint="take a wider dtype")


def _attrs(shape: Iterable[int], dtype: Any, seed: int | None) -> dict[str, Attr]:
    wanted = spec(dtype, shape)
    return {"shape": wanted.shape, "dtype": wanted.dtype.name, "seed": node_seed(seed)}


def _normal_spec(op_name: str, reach: float) -> SpecRule:
    """The rule of normal numbers up to `reach` deviations from the mean, half as far again in float64."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        mean, stddev = attrs["mean"], attrs["stddev"]
        if not stddev >= 0:
            message = f"a standard deviation cannot be negative, got {stddev}"
            raise SpecError(message)
        (drawn,) = _drawn_spec(inputs, attrs)
        check_dtype_holds(op_name, drawn, mean=mean, stddev=stddev)
        # float64 draws reach further; see the kernel.
        far = reach * (1.5 if drawn.dtype.itemsize == 8 else 1.0)
        # No number that is drawn may be infinite.
        if not abs(mean) + far * stddev <= float(limits(drawn.dtype).max):
            message = (
                f"{op_name} draws numbers up to {far} deviations from the mean, "
                f"which {drawn.dtype.name} does not hold, got mean {mean} and stddev {stddev}"
            )
            raise SpecError(message, hint="take a wider dtype")
        return (drawn,)

    return rule


@op(
    "random_normal",
    spec=_normal_spec("random_normal", 5.8),
    gradient=NOT_DIFFERENTIABLE,
    effect=Effect.RANDOM,
)
@api_function
def random_normal(
    shape: Iterable[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Independent normal numbers, other ones in every step and iteration.

    Shapes:   `shape`, all sizes known
    Dtypes:   floating
    Gradient: none; for one with respect to mean or deviation, scale the result yourself.
    Raises:   SpecError for another dtype, an unknown size, a negative deviation, and numbers that the
              dtype cannot hold.

    >>> with af.Graph(seed=1):
    ...     af.random.normal((2, 3))
    <Tensor random_normal:0 (2, 3) float32>
    """
    attrs = {"mean": float(mean), "stddev": float(stddev), **_attrs(shape, dtype, seed)}
    return build_one("random_normal", [], attrs, name=name)


@op(
    "random_truncated_normal",
    spec=_normal_spec("random_truncated_normal", 2.0),
    gradient=NOT_DIFFERENTIABLE,
    effect=Effect.RANDOM,
)
@api_function
def random_truncated_normal(
    shape: Iterable[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Independent normal numbers within two `stddev` of the mean, other ones in every step.

    `stddev` is that of the normal before it is cut off; what is left has 0.88 of it.

    Shapes:   `shape`, all sizes known
    Dtypes:   floating
    Gradient: none; for one with respect to mean or deviation, scale the result yourself.
    Raises:   SpecError for another dtype, an unknown size, a negative deviation, and numbers that the
              dtype cannot hold.

    >>> with af.Graph(seed=1):
    ...     af.random.truncated_normal((2, 3), stddev=0.1)
    <Tensor random_truncated_normal:0 (2, 3) float32>
    """
    attrs = {"mean": float(mean), "stddev": float(stddev), **_attrs(shape, dtype, seed)}
    return build_one("random_truncated_normal", [], attrs, name=name)


@op("random_exponential", spec=_drawn_spec, gradient=NOT_DIFFERENTIABLE, effect=Effect.RANDOM)
@api_function
def random_exponential(
    shape: Iterable[int],
    rate: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Independent exponential numbers of density `rate * exp(-rate * x)`, other ones in every step.

    Shapes:   `shape`, all sizes known; to which rate broadcasts
    Dtypes:   floating; that of a rate that is a tensor
    Gradient: to the rate, that of `e / rate` for e drawn with rate 1
    Raises:   SpecError for another dtype, an unknown size, a rate that does not broadcast to `shape`
              or a number that is not positive. A rate in the step is not checked: 0 gives infinity.

    >>> with af.Graph(seed=1):
    ...     af.random.exponential((2, 3), rate=2.0).shape
    (2, 3)
    """
    number = isinstance(rate, int | float)
    if number and not rate > 0:
        message = f"a rate is positive, got {rate!r}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    attrs = _attrs(shape, dtype, seed)
    # 40/rate is more than any number that is drawn.
    if number and is_floating(as_dtype(dtype)):
        drawn = spec(dtype, attrs["shape"])
        check_dtype_holds(
            "random_exponential", drawn, rate=rate, **{"the largest number for rate": 40 / rate}
        )
    # Rate 1 is what is drawn: no division.
    if number and rate == 1:
        return build_one("random_exponential", [], attrs, name=name)
    # The gradient to the rate goes through the division.
    rates = as_tensor(float(rate) if number else rate, dtype=as_dtype(attrs["dtype"]))
    check_dtypes("random_exponential", DtypeClass.FLOATING, spec(dtype), rates.spec)
    return divide(build_one("random_exponential", [], attrs), broadcast_to(rates, attrs["shape"]), name=name)


def _uniform_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    if not attrs["low"] <= attrs["high"]:
        message = f"a range begins at its low end, got low {attrs['low']} and high {attrs['high']}"
        raise SpecError(message)
    (drawn,) = _drawn_spec(inputs, attrs)
    check_dtype_holds("random_uniform", drawn, low=attrs["low"], high=attrs["high"])
    return (drawn,)


@op("random_uniform", spec=_uniform_spec, gradient=NOT_DIFFERENTIABLE, effect=Effect.RANDOM)
@api_function
def random_uniform(
    shape: Iterable[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Independent numbers, uniform in [low, high), other ones in every step and iteration.

    Shapes:   `shape`, all sizes known
    Dtypes:   floating; in float16 and bfloat16 rounding may give `high` itself
    Gradient: none
    Raises:   SpecError for another dtype, an unknown size, `low` above `high`, and ends that the dtype
              cannot hold.

    >>> with af.Graph(seed=1):
    ...     af.random.uniform((2, 3), -1.0, 1.0)
    <Tensor random_uniform:0 (2, 3) float32>
    """
    attrs = {"low": float(low), "high": float(high), **_attrs(shape, dtype, seed)}
    return build_one("random_uniform", [], attrs, name=name)
