"""Complex numbers: made of two parts, taken apart, mirrored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Promoting, op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.trigonometry import atan2
from actorflow.values.arrays import as_dtype, is_floating
from actorflow.values.spec import Spec, broadcast

Grads = Sequence[Tensor | None]

_WHOLE = {"float32": "complex64", "float64": "complex128"}
_PART = {whole: part for part, whole in _WHOLE.items()}


def _complex_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    a, b = inputs
    check_dtypes("complex", DtypeClass.FLOATING, a, b)
    if a.dtype.name not in _WHOLE:
        message = f"complex takes float32 or float64, got {a} and {b}: no complex dtype has such parts"
        raise SpecError(message, hint="convert both with af.cast")
    return (Spec(broadcast([a.shape, b.shape]), as_dtype(_WHOLE[a.dtype.name])),)


def _complex_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    return (unbroadcast(real(grad), a, b), unbroadcast(imag(grad), b, a))


@op("complex", spec=Promoting(_complex_spec), gradient=_complex_gradient)
@api_function
def complex(real: Any, imag: Any, *, name: str | None = None) -> Tensor:
    """The complex number of a real and an imaginary part, each kept as it is, infinite or not.

    Shapes:   real and imag broadcast
    Dtypes:   float32 to complex64, float64 to complex128; both the same
    Gradient: the parts of g; but `gradients` refuses paths through complex numbers so far.
    Raises:   SpecError when shapes do not broadcast, dtypes differ, or no complex dtype has such parts.

    >>> with af.Graph():
    ...     af.math.complex(af.placeholder("float32", (None, 3), name="x"), 1.0)
    <Tensor complex:0 (None, 3) complex64>
    """
    return build_one("complex", [real, imag], name=name)


def _part_spec(name: str) -> Any:
    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(name, DtypeClass.NUMBER, x)
        return (Spec(x.shape, as_dtype(_PART.get(x.dtype.name, x.dtype.name))),)

    return rule


def _conj_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    check_dtypes("conj", DtypeClass.NUMBER, inputs[0])
    return (inputs[0],)


def _is_real(x: Tensor) -> bool:
    return x.dtype.kind in "iu" or is_floating(x.dtype)


def _real_gradient(use: Use, grad: Tensor) -> Grads:
    # The other part plays no role in it.
    return (complex(grad, zeros_like(grad)),)


@op("real", spec=_part_spec("real"), gradient=_real_gradient)
@api_function
def real(x: Any, *, name: str | None = None) -> Tensor:
    """The real part; `x` itself when it is real.

    Gradient: g + 0i, the slopes along both parts; but `gradients` refuses paths through complex
    numbers so far.
    """
    x = as_tensor(x)
    return x if _is_real(x) else build_one("real", [x], name=name)


def _imag_gradient(use: Use, grad: Tensor) -> Grads:
    return (complex(zeros_like(grad), grad),)


@op("imag", spec=_part_spec("imag"), gradient=_imag_gradient)
@api_function
def imag(x: Any, *, name: str | None = None) -> Tensor:
    """The imaginary part; zeros when x is real. Gradient 0 + g·i, else like `real`."""
    x = as_tensor(x)
    # Real numbers have zeros there.
    return zeros_like(x, name=name) if _is_real(x) else build_one("imag", [x], name=name)


def _conj_gradient(use: Use, grad: Tensor) -> Grads:
    return (conj(grad),)


@op("conj", spec=_conj_spec, gradient=_conj_gradient)
@api_function
def conj(x: Any, *, name: str | None = None) -> Tensor:
    """The conjugate, with the imaginary part negated; `x` itself when it is real.

    Gradient: conj g; but `gradients` refuses paths through complex numbers so far.
    """
    x = as_tensor(x)
    return x if _is_real(x) else build_one("conj", [x], name=name)


@api_function
def angle(x: Any, *, name: str | None = None) -> Tensor:
    """The angle in [-π, π] of floating or complex numbers: atan2(imag x, real x); gradient as of that."""
    x = as_tensor(x)
    return atan2(imag(x), real(x), name=name or "angle")
