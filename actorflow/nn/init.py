"""First values of variables: an initialiser has a shape and builds its value out of ops.

Each function here takes `(shape, dtype="float32", seed=None)`; `constant`, `uniform`, `normal`,
`truncated_normal` and `orthogonal` make such a function from their parameters, so that a layer can
be handed any of them. Weights of
dense layers have the shape (in, out), filters of convolutions (height, width, in, out).

    w = af.Variable(af.init.he((64, 128)), name="w")
    b = af.Variable(af.init.constant(0.1)((128,)), name="b")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.ops.array.broadcast import broadcast_to
from actorflow.ops.array.constants import ones_like
from actorflow.ops.array.identity import cast
from actorflow.ops.array.shape import reshape, transpose
from actorflow.ops.linalg.diagonal import diagonal
from actorflow.ops.linalg.factorisations import qr
from actorflow.ops.math.elementwise import add, multiply
from actorflow.ops.math.random import random_normal, random_uniform
from actorflow.ops.math.rounding import copysign
from actorflow.ops.math.special import erfinv
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Spec, show, spec


@dataclass(frozen=True, slots=True)
class Initialiser:
    """A first value that is not built yet; `Variable` builds it.

    Attributes:
        spec: Shape, fully known, and dtype of the value.
        make: Builds the value in the current graph.
    """

    spec: Spec
    make: Callable[[], Tensor] = field(repr=False)

    def build(self) -> Tensor:
        """Builds the value in the current graph."""
        return self.make()


class Init(Protocol):
    """A function from a shape to an initialiser."""

    def __call__(self, shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
        """Returns the initialiser for a variable of that shape."""
        ...


Maker = Callable[[tuple[int, ...], Any], Any]
"""What layers take as first values: an `Init`, or any function of shape and dtype that gives them."""


def constant(value: float) -> Init:
    """Returns the function that fills with `value`."""

    def init(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
        """Fills with the value; `seed` is not used."""
        wanted = _static(shape, dtype)
        sizes = _sizes(wanted)
        # One element, broadcast: a constant of the whole shape would stand in the graph.
        return Initialiser(wanted, lambda: broadcast_to(as_tensor(value, dtype=wanted.dtype), sizes))

    return init


def zeros(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Fills with 0; `seed` is not used."""
    return constant(0)(shape, dtype)


def ones(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Fills with 1; `seed` is not used."""
    return constant(1)(shape, dtype)


def uniform(low: float = -0.05, high: float = 0.05) -> Init:
    """Returns the function that draws uniformly from [low, high)."""

    def init(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
        """Draws from [low, high)."""
        wanted = _static(shape, dtype)
        sizes = _sizes(wanted)
        return Initialiser(wanted, lambda: random_uniform(sizes, low, high, wanted.dtype, seed))

    return init


def normal(mean: float = 0.0, stddev: float = 0.05) -> Init:
    """Returns the function that draws from the normal distribution."""

    def init(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
        """Draws with that mean and standard deviation."""
        wanted = _static(shape, dtype)
        sizes = _sizes(wanted)
        return Initialiser(wanted, lambda: random_normal(sizes, mean, stddev, wanted.dtype, seed))

    return init


def truncated_normal(mean: float = 0.0, stddev: float = 0.05) -> Init:
    """Returns the function that draws from the normal distribution within two deviations of the mean.

    `stddev` is that of the whole distribution: what is drawn has 0.8796 of it.
    """

    def init(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
        """Draws with that mean and standard deviation, never far from the mean."""
        wanted = _static(shape, dtype)
        sizes = _sizes(wanted)
        # Halves are drawn in float32 and rounded once.
        wide = as_dtype("float32") if wanted.dtype.itemsize == 2 else wanted.dtype

        def make() -> Tensor:
            # The inverse of the distribution function, of uniform numbers between its values there.
            drawn = erfinv(random_uniform(sizes, -_WITHIN, _WITHIN, wide, seed))
            return cast(add(multiply(drawn, stddev * math.sqrt(2)), mean), wanted.dtype)

        return Initialiser(wanted, make)

    return init


_WITHIN = math.erf(math.sqrt(2))  # the part of a normal distribution within two deviations
_KEPT = 0.8796256610342398  # the deviation of that part, over that of the whole


def orthogonal(gain: float = 1.0) -> Init:
    """Returns the function that draws orthonormal rows or columns, whichever are fewer, times `gain`.

    Source: Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep
    linear neural networks", ICLR 2014.
    """

    def init(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
        """Draws from all such matrices evenly; axes before the last are rows."""
        wanted = _static(shape, dtype)
        sizes = _sizes(wanted)
        if len(sizes) < 2:
            message = f"orthogonal weights need at least two axes, got shape {show(sizes)}"
            raise SpecError(message, where=Where(defined_at=source_line()))
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        wide = as_dtype("float32") if wanted.dtype.itemsize == 2 else wanted.dtype

        def make() -> Tensor:
            # Tall: qr gives orthonormal columns, as many as there are fewer of.
            tall = (max(rows, columns), min(rows, columns))
            q, r = qr(random_normal(tall, 0.0, 1.0, wide, seed))
            # Signs by the diagonal of r: a factorisation alone prefers some matrices to others.
            signs = copysign(ones_like(diagonal(r)), diagonal(r))
            even = multiply(multiply(q, signs), gain)
            return cast(reshape(even if rows >= columns else transpose(even), sizes), wanted.dtype)

        return Initialiser(wanted, make)

    return init


def he_normal(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Normal with deviation `sqrt(2 / fan_in)`: keeps the variance through layers with relu.

    Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015, equation 10.
    """
    # An iterable may be read once only.
    sizes = tuple(shape)
    return normal(0.0, math.sqrt(2 / fans(sizes)[0]))(sizes, dtype, seed)


def he_uniform(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Uniform within `sqrt(6 / fan_in)`: the variance of `he_normal`."""
    sizes = tuple(shape)
    limit = math.sqrt(6 / fans(sizes)[0])
    return uniform(-limit, limit)(sizes, dtype, seed)


def glorot_normal(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Normal with deviation `sqrt(2 / (fan_in + fan_out))`: the variance of `glorot_uniform`."""
    sizes = tuple(shape)
    return normal(0.0, math.sqrt(2 / sum(fans(sizes))))(sizes, dtype, seed)


def glorot_uniform(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Uniform within `sqrt(6 / (fan_in + fan_out))`: keeps the variance both ways through tanh layers.

    Source: Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", AISTATS 2010, equation 16.
    """
    sizes = tuple(shape)
    limit = math.sqrt(6 / sum(fans(sizes)))
    return uniform(-limit, limit)(sizes, dtype, seed)


def lecun_normal(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Normal with deviation `sqrt(1 / fan_in)`: keeps the variance through linear layers, and with `selu`.

    Source: LeCun, Bottou, Orr, Müller, "Efficient backprop", 1998, section 4.6.
    """
    sizes = tuple(shape)
    return normal(0.0, math.sqrt(1 / fans(sizes)[0]))(sizes, dtype, seed)


def lecun_uniform(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Uniform within `sqrt(3 / fan_in)`: the variance of `lecun_normal`."""
    sizes = tuple(shape)
    limit = math.sqrt(3 / fans(sizes)[0])
    return uniform(-limit, limit)(sizes, dtype, seed)


def he_truncated(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Truncated normal with the variance of `he_normal`: no weight is far out."""
    sizes = tuple(shape)
    # Less wide than the whole distribution, so the deviation is divided by what is left of it.
    return truncated_normal(0.0, math.sqrt(2 / fans(sizes)[0]) / _KEPT)(sizes, dtype, seed)


def glorot_truncated(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Truncated normal with the variance of `glorot_normal`: no weight is far out."""
    sizes = tuple(shape)
    return truncated_normal(0.0, math.sqrt(2 / sum(fans(sizes))) / _KEPT)(sizes, dtype, seed)


def lecun_truncated(shape: Iterable[int], dtype: Any = "float32", seed: int | None = None) -> Initialiser:
    """Truncated normal with the variance of `lecun_normal`: no weight is far out."""
    sizes = tuple(shape)
    return truncated_normal(0.0, math.sqrt(1 / fans(sizes)[0]) / _KEPT)(sizes, dtype, seed)


he = he_normal
glorot = glorot_uniform


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns how many inputs each output sums, and how many outputs each input reaches.

    (in, out) gives (in, out); (…, in, out) both times the pixels of the filter; (n,) gives (n, n).

    Raises:
        SpecError: for a scalar, and when an input or output has no element.
    """
    if not shape or 0 in shape:
        message = f"fans need weights of at least one axis and element, got shape {show(shape)}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    pixels = math.prod(shape[:-2])
    # Each pixel of a filter is an input more, and an output that is reached.
    return pixels * shape[-2 if len(shape) > 1 else -1], pixels * shape[-1]


def _static(shape: Iterable[int], dtype: Any) -> Spec:
    found = spec(dtype, shape)
    if not found.is_static:
        message = f"a first value needs a known shape, got {found}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    return found


def _sizes(static: Spec) -> tuple[int, ...]:
    assert static.shape is not None
    return tuple(d for d in static.shape if d is not None)
