"""Random choices: integers, classes, orders, and yes or no.

Which words they use is in `kernels.math.random`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, op
from actorflow.ops.array.broadcast import broadcast_to
from actorflow.ops.array.indexing import gather
from actorflow.ops.array.shape_queries import shape as shape_of
from actorflow.ops.definition.arguments import Whole, api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.random import node_seed
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Spec, axis_of, show, spec


def _bernoulli_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (p,) = inputs
    check_dtypes("random_bernoulli", DtypeClass.FLOATING, p)
    return (Spec(p.shape, as_dtype("bool")),)


@op("random_bernoulli", spec=_bernoulli_spec, gradient=NOT_DIFFERENTIABLE, effect=Effect.RANDOM)
@api_function
def random_bernoulli(
    p: Any, shape: Iterable[int] | None = None, seed: int | None = None, *, name: str | None = None
) -> Tensor:
    """Whether each of independent events comes: True with probability `p`, other ones in every step.

    Shapes:   that of p, or `shape`, to which p broadcasts
    Dtypes:   p floating -> bool; see `af.cast`. p counts to 24 bits, of float64 to 53.
    Gradient: none
    Raises:   SpecError for other dtypes, and a number p outside [0, 1]; KernelError in the step for
              such an element of a tensor.

    >>> with af.Graph(seed=1):
    ...     af.random.bernoulli(0.3, (2, 3))
    <Tensor random_bernoulli:0 (2, 3) bool>
    """
    if isinstance(p, int | float):
        if not 0 <= p <= 1:
            message = f"a probability lies in [0, 1], got {p!r}"
            raise spec_error(message)
        p = float(p)
    p = as_tensor(p)
    # Known probabilities are repeated before the draw: one draw for each event.
    if shape is not None:
        p = broadcast_to(p, shape)
    return build_one("random_bernoulli", [p], {"seed": node_seed(seed)}, name=name)


def _integers_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    drawn = spec(attrs["dtype"], attrs["shape"])
    low, last = attrs["low"], attrs["last"]
    if not DtypeClass.INTEGER.accepts(drawn.dtype):
        message = f"random_integers draws integers, got dtype {drawn.dtype.name}"
        raise SpecError(message, hint="af.random.uniform draws floating numbers")
    if low > last:
        message = f"random_integers needs an integer in [low, high), got low {low} and high {last + 1}"
        raise SpecError(message)
    held = np.iinfo(drawn.dtype)
    # numpy's iinfo has both ends; Python's integers compare with any.
    if low < held.min or last > held.max:
        message = f"{drawn.dtype.name} holds [{held.min}, {held.max + 1}), got low {low} and high {last + 1}"
        raise SpecError(message, hint="take a wider dtype")
    if not drawn.is_static:
        message = f"random numbers need a known shape, got {show(drawn.shape)}"
        raise SpecError(message)
    return (drawn,)


@op("random_integers", spec=_integers_spec, gradient=NOT_DIFFERENTIABLE, effect=Effect.RANDOM)
@api_function
def random_integers(
    low: Whole,
    high: Whole,
    shape: Iterable[int] = (),
    dtype: Any = "int32",
    seed: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Independent integers, uniform in [low, high), other ones in every step.

    The probability of each differs from 1 / (high - low) by less than 2**-128.

    Shapes:   `shape`, all sizes known
    Dtypes:   integers
    Gradient: none
    Raises:   SpecError for another dtype, one that cannot hold the range, an empty range, and an
              unknown size.

    >>> with af.Graph(seed=1):
    ...     af.random.integers(1, 7, (2, 3))
    <Tensor random_integers:0 (2, 3) int32>
    """
    wanted = spec(dtype, shape)
    attrs = {
        "low": low,
        # Included, so that the end of the dtype can be one of them.
        "last": high - 1,
        "shape": wanted.shape,
        "dtype": wanted.dtype.name,
        "seed": node_seed(seed),
    }
    return build_one("random_integers", [], attrs, name=name)


def _categorical_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (logits,), each = inputs, attrs["num_samples"]
    check_dtypes("random_categorical", DtypeClass.FLOATING, logits)
    if each is not None and each < 0:
        message = f"a number of samples cannot be negative, got {each}"
        raise SpecError(message)
    if logits.shape is None:
        return (Spec(None, as_dtype("int64")),)
    if not logits.shape or logits.shape[-1] == 0:
        message = f"logits need a last axis with an element for every class, got {logits}"
        raise SpecError(message)
    lead = logits.shape[:-1]
    return (Spec(lead if each is None else (*lead, each), as_dtype("int64")),)


@op("random_categorical", spec=_categorical_spec, gradient=NOT_DIFFERENTIABLE, effect=Effect.RANDOM)
@api_function
def random_categorical(
    logits: Any, num_samples: int | None = None, seed: int | None = None, *, name: str | None = None
) -> Tensor:
    """Independent classes, class k with probability `softmax(logits)[k]`, other ones in every step.

    A logit of -inf is a class that never comes.

    Shapes:   logits (..., classes) -> (...), or (..., num_samples)
    Dtypes:   floating -> int64
    Gradient: none
    Raises:   SpecError for other dtypes, no class, or a negative number of samples; KernelError in
              the step for a row whose largest logit is not a finite number.

    >>> with af.Graph(seed=1):
    ...     af.random.categorical(af.placeholder("float32", (None, 10), name="logits"), 3)
    <Tensor random_categorical:0 (None, 3) int64>
    """
    attrs = {"num_samples": num_samples, "seed": node_seed(seed)}
    return build_one("random_categorical", [as_tensor(logits)], attrs, name=name)


def _permutation_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    n = attrs["n"]
    if inputs:
        check_dtypes("random_permutation", DtypeClass.INTEGER, inputs[0])
        if inputs[0].shape not in (None, ()):
            message = f"random_permutation takes one number of elements, got {inputs[0]}"
            raise SpecError(message, hint="af.random.shuffle puts elements in another order")
    elif n < 0:
        message = f"a permutation has a number of elements, got {n}"
        raise SpecError(message)
    # Of a tensor n is None: known in the step.
    return (Spec((n,), as_dtype("int64")),)


@op("random_permutation", spec=_permutation_spec, gradient=NOT_DIFFERENTIABLE, effect=Effect.RANDOM)
@api_function
def random_permutation(n: int | Tensor, seed: int | None = None, *, name: str | None = None) -> Tensor:
    """The integers from 0 to n - 1 in a random order, another one in every step.

    Shapes:   n, a number or an integer scalar that is computed in the step -> (n,)
    Dtypes:   int64
    Gradient: none
    Raises:   SpecError for a negative number and other tensors; KernelError in the step for a
              negative one.

    >>> with af.Graph(seed=1):
    ...     af.random.permutation(5)
    <Tensor random_permutation:0 (5,) int64>
    """
    inputs, number = ([n], None) if isinstance(n, Tensor) else ([], n)
    return build_one("random_permutation", inputs, {"n": number, "seed": node_seed(seed)}, name=name)


@api_function
def random_shuffle(x: Any, axis: int = 0, seed: int | None = None, *, name: str | None = None) -> Tensor:
    """The slices of `x` along `axis` in a random order, another one in every step.

    Shapes:   any but (), kept
    Dtypes:   any
    Gradient: put back in the order of x
    Raises:   SpecError when the axis does not exist.

    >>> with af.Graph(seed=1):
    ...     af.random.shuffle(af.placeholder("float32", (None, 3), name="x")).shape
    (None, 3)
    """
    x = as_tensor(x)
    size = None
    if x.shape is not None:
        # An axis that does not exist is told by this function's name.
        with error_context("random_shuffle"):
            size = x.shape[axis_of(axis, len(x.shape))]
    # A gather by a permutation: its gradient goes back by the same.
    order = random_permutation(shape_of(x)[axis] if size is None else size, seed)
    return gather(x, order, axis, name=name)
