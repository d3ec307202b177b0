"""Arithmetic and functions of numbers, one element at a time; inputs broadcast as in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actorflow.graph import opdef
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.graph.slices import Gradient, IndexedSlices, map_values
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, alike, binary, unary
from actorflow.ops.math.logic import greater, greater_equal, less_equal, where

Grads = Sequence[Tensor | None]
Gradients = Sequence[Gradient | None]


def _unbroadcast(use: Use, to_a: Tensor, to_b: Tensor) -> Grads:
    a, b = use.inputs
    return (unbroadcast(to_a, a, b), unbroadcast(to_b, b, a))


# ------------------------------------------------------------------------------- two inputs


def _add_gradient(use: Use, grad: Gradient) -> Gradients:
    # Rows stay rows where nothing was broadcast.
    if isinstance(grad, IndexedSlices):
        return _of_alike(use, grad, grad)
    return _unbroadcast(use, grad, grad)


def _of_alike(use: Use, to_a: IndexedSlices, to_b: IndexedSlices) -> Gradients:
    """Gradients of a sum or difference: sparse for inputs that are known to have the same shape."""
    a, b = use.inputs
    # With open sizes nobody knows, so they become dense.
    if a.spec.is_static and a.shape == b.shape:
        return to_a, to_b
    return _unbroadcast(use, to_a.as_tensor(), to_b.as_tensor())


@op("add", spec=binary("add", DtypeClass.NUMBER), gradient=_add_gradient, sparse=True)
@api_function
def add(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The sum a + b, elementwise.

    Shapes:   a and b broadcast
    Dtypes:   numbers that mix (docs/dtypes.md); Python numbers take the dtype of the other input
    Gradient: g to both, summed over what was broadcast.
    Raises:   SpecError when shapes do not broadcast or dtypes do not mix.

    >>> with af.Graph():
    ...     af.placeholder("float32", (None, 3), name="x") + 1
    <Tensor add:0 (None, 3) float32>
    """
    return build_one("add", [a, b], name=name)


def _subtract_gradient(use: Use, grad: Gradient) -> Gradients:
    if isinstance(grad, IndexedSlices):
        return _of_alike(use, grad, -grad)
    return _unbroadcast(use, grad, negative(grad))


@op("subtract", spec=binary("subtract", DtypeClass.NUMBER), gradient=_subtract_gradient, sparse=True)
@api_function
def subtract(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The difference a - b; gradients g and -g. Else like `add`."""
    return build_one("subtract", [a, b], name=name)


def _multiply_gradient(use: Use, grad: Gradient) -> Gradients:
    a, b = use.inputs
    if isinstance(grad, IndexedSlices):
        return _of_scaled(use, grad, multiply)
    return _unbroadcast(use, multiply(grad, b), multiply(grad, a))


def _of_scaled(use: Use, grad: IndexedSlices, verb: Callable[[Any, Any], Tensor]) -> Gradients:
    """Gradients of a product or quotient of x and a scalar: of their rows alone, if that is what it is."""
    a, b = use.inputs
    # A scalar beside x: then each row of the gradient is scaled by itself.
    x, by = (a, b) if b.shape == () else (b, a)
    # Only x/by keeps rows apart; by/x depends on x everywhere.
    if by.shape != () or (verb is divide and x is not a):
        return (_multiply_gradient if verb is multiply else _divide_gradient)(use, grad.as_tensor())
    # Of x: its rows, each times the scalar.
    to_x = grad.with_values(verb(grad.values, by))
    to_by = None
    # Of the scalar: a sum over the rows of the gradient alone.
    if use.needs[a is x]:
        # By the table: gather is built of this module. A quotient's share is that of the result.
        of_rows = opdef.lookup("gather").constructor(use.outputs[0] if verb is divide else x, grad.indices)
        share = multiply(grad.values, of_rows)
        to_by = unbroadcast(negative(divide(share, by)) if verb is divide else share, by, share)
    return (to_x, to_by) if a is x else (to_by, to_x)


@op("multiply", spec=binary("multiply", DtypeClass.NUMBER), gradient=_multiply_gradient, sparse=True)
@api_function
def multiply(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The product a·b, elementwise; gradients g·b and g·a. Else like `add`."""
    return build_one("multiply", [a, b], name=name)


def _divide_gradient(use: Use, grad: Gradient) -> Gradients:
    if isinstance(grad, IndexedSlices):
        return _of_scaled(use, grad, divide)
    b, (quotient,) = use.inputs[1], use.outputs
    # 1/b once: the gradient of b is that of a times the quotient.
    to_a = divide(grad, b)
    return _unbroadcast(use, to_a, negative(multiply(to_a, quotient)))


@op("divide", spec=binary("divide", DtypeClass.INEXACT), gradient=_divide_gradient, sparse=True)
@api_function
def divide(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The quotient a/b of floating or complex numbers; gradients g/b and -g·(a/b)/b.

    Integers are refused, since their quotient has another dtype: cast them. Else like `add`.
    """
    return build_one("divide", [a, b], name=name)


def _pow_gradient(use: Use, grad: Tensor) -> Grads:
    (a, b), (power,) = use.inputs, use.outputs
    to_a = to_b = None
    if use.needs[0]:
        # b = 0 makes it 0, whatever a is: 0 ** (0 - 1) is infinite and 0·inf would be NaN.
        slope = opdef.lookup("multiply_no_nan").constructor(pow(a, subtract(b, 1)), b)
        to_a = unbroadcast(multiply(grad, slope), a, b)
    if use.needs[1]:
        # log of what is not positive counts as 0, and must not become NaN before it is dropped.
        positive = greater(a, 0)
        safe = log(where(positive, a, ones_like(a)))
        # A power of 0 makes it 0 beside an infinite logarithm, and a ≤ 0 beside an infinite power.
        slope = opdef.lookup("multiply_no_nan").constructor(safe, power)
        to_b = unbroadcast(multiply(grad, where(positive, slope, zeros_like(slope))), b, a)
    return (to_a, to_b)


@op("pow", spec=binary("pow", DtypeClass.REAL), gradient=_pow_gradient)
@api_function
def pow(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The power a^b, elementwise.

    Shapes:   a and b broadcast
    Dtypes:   integers or floats, the same; an integer to a negative power fails in the step
    Gradient: g·b·a^(b-1), where b = 0 gives 0 for any a, infinite and NaN too; and g·a^b·log a, which
              counts as 0 where a is not above 0 (NaN is not), and where a^b is 0.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    return build_one("pow", [a, b], name=name)


def _maximum_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    # On ties to a.
    return _chosen_gradients(use, greater_equal(a, b), grad)


def _minimum_gradient(use: Use, grad: Tensor) -> Grads:
    a, b = use.inputs
    return _chosen_gradients(use, less_equal(a, b), grad)


def _chosen_gradients(use: Use, first: Tensor, grad: Tensor) -> Grads:
    zeros = zeros_like(grad)
    # A choice and no product: infinite gradients stay where they belong.
    return _unbroadcast(use, where(first, grad, zeros), where(first, zeros, grad))


@op("maximum", spec=binary("maximum", DtypeClass.REAL), gradient=_maximum_gradient)
@api_function
def maximum(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The larger of a and b; its gradient goes there, to a on ties. Else like `add`."""
    return build_one("maximum", [a, b], name=name)


@op("minimum", spec=binary("minimum", DtypeClass.REAL), gradient=_minimum_gradient)
@api_function
def minimum(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The smaller of a and b; its gradient goes there, to a on ties. Else like `add`."""
    return build_one("minimum", [a, b], name=name)


# -------------------------------------------------------------------------------- one input


def _negative_gradient(use: Use, grad: Gradient) -> Gradients:
    return (map_values(grad, negative),)


@op("negative", spec=unary("negative", DtypeClass.NUMBER), gradient=_negative_gradient, sparse=True)
@api_function
def negative(x: Any, *, name: str | None = None) -> Tensor:
    """The number -x, elementwise, of any number dtype; gradient -g."""
    return build_one("negative", [x], name=name)


def _abs_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, sign(use.inputs[0])),)


@op("abs", spec=unary("abs", DtypeClass.REAL), gradient=_abs_gradient)
@api_function
def abs(x: Any, *, name: str | None = None) -> Tensor:
    """The size |x| of real numbers, elementwise; gradient g·sign x."""
    return build_one("abs", [x], name=name)


def _exp_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, use.outputs[0]),)


@op("exp", spec=unary("exp", DtypeClass.INEXACT), gradient=_exp_gradient)
@api_function
def exp(x: Any, *, name: str | None = None) -> Tensor:
    """The exponential e^x of floats, elementwise; gradient g·e^x."""
    return build_one("exp", [x], name=name)


def _log_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(grad, use.inputs[0]),)


@op("log", spec=unary("log", DtypeClass.INEXACT), gradient=_log_gradient)
@api_function
def log(x: Any, *, name: str | None = None) -> Tensor:
    """The natural logarithm of floats, -inf of 0 and NaN of negative numbers; gradient g/x."""
    return build_one("log", [x], name=name)


def _sqrt_gradient(use: Use, grad: Tensor) -> Grads:
    return (divide(multiply(grad, 0.5), use.outputs[0]),)


@op("sqrt", spec=unary("sqrt", DtypeClass.INEXACT), gradient=_sqrt_gradient)
@api_function
def sqrt(x: Any, *, name: str | None = None) -> Tensor:
    """The square root of floats, NaN of negative numbers; gradient g/(2√x), infinite at 0."""
    return build_one("sqrt", [x], name=name)


def _square_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, multiply(use.inputs[0], 2)),)


@op("square", spec=unary("square", DtypeClass.NUMBER), gradient=_square_gradient)
@api_function
def square(x: Any, *, name: str | None = None) -> Tensor:
    """The square x·x, elementwise, of any number dtype; gradient 2·g·x."""
    return build_one("square", [x], name=name)


@op("sign", spec=unary("sign", DtypeClass.REAL), gradient=NOT_DIFFERENTIABLE)
@api_function
def sign(x: Any, *, name: str | None = None) -> Tensor:
    """-1, 0 or 1 by the sign of real numbers; no gradient flows, it is 0 almost everywhere."""
    return build_one("sign", [x], name=name)


@op("floor", spec=unary("floor", DtypeClass.FLOATING), gradient=NOT_DIFFERENTIABLE)
@api_function
def floor(x: Any, *, name: str | None = None) -> Tensor:
    """The largest whole number that is not above x, in the dtype of x.

    Gradient: none flows, as through all that is flat almost everywhere: where no other path leads
              to x, `gradients` gives None. `custom_gradient` makes a straight-through estimate.
    """
    return build_one("floor", [x], name=name)


def _tanh_gradient(use: Use, grad: Tensor) -> Grads:
    return (multiply(grad, subtract(1, square(use.outputs[0]))),)


@op("tanh", spec=unary("tanh", DtypeClass.INEXACT), gradient=_tanh_gradient)
@api_function
def tanh(x: Any, *, name: str | None = None) -> Tensor:
    """The hyperbolic tangent of floats, elementwise; gradient g·(1 - tanh² x)."""
    return build_one("tanh", [x], name=name)


def _sigmoid_gradient(use: Use, grad: Tensor) -> Grads:
    (y,) = use.outputs
    return (multiply(grad, multiply(y, subtract(1, y))),)


@op("sigmoid", spec=unary("sigmoid", DtypeClass.FLOATING), gradient=_sigmoid_gradient)
@api_function
def sigmoid(x: Any, *, name: str | None = None) -> Tensor:
    """The logistic function 1/(1 + e^-x) of floats, exact for large |x|; gradient g·y·(1 - y)."""
    return build_one("sigmoid", [x], name=name)


def _relu_gradient(use: Use, grad: Tensor) -> Grads:
    # Of the output, which is kept anyway.
    return (relu_grad(grad, use.outputs[0]),)


@op("relu", spec=unary("relu", DtypeClass.REAL), gradient=_relu_gradient)
@api_function
def relu(x: Any, *, name: str | None = None) -> Tensor:
    """The larger of x and 0, elementwise; gradient g where x > 0, else 0."""
    return build_one("relu", [x], name=name)


def _relu_grad_gradient(use: Use, grad: Tensor) -> Grads:
    return (relu_grad(grad, use.inputs[1]), None)


@op("relu_grad", spec=alike("relu_grad", DtypeClass.REAL), gradient=_relu_grad_gradient)
def relu_grad(grad: Any, y: Any, *, name: str | None = None) -> Tensor:
    """`grad` where y > 0, else 0: the gradient of `relu`, whose output is `y`.

    Shapes:   grad and y the same, kept
    Dtypes:   real, the same
    Gradient: to grad the same again; none to y.
    """
    return build_one("relu_grad", [grad, y], name=name)
