"""One step of a recurrent cell behind its products, as one op: lstm_step; and lengths that are checked.

Derivatives of the second order are made of other ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.join import split
from actorflow.ops.array.slicing import concat
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.elementwise import add, multiply, square, subtract, tanh
from actorflow.values.spec import Dim, Shape, Spec, merge

Attrs = Mapping[str, Attr]
Specs = Sequence[Spec]


def _shapes(op_name: str, gates: Spec, states: Specs, count: int) -> tuple[Shape, Shape]:
    """The shapes of gates and states, `count` gates for each unit of a state."""
    check_dtypes(op_name, DtypeClass.FLOATING, gates, *states)
    message = (
        f"{op_name} takes gates (…, {count}·units) and states (…, units), got {gates} and "
        f"{', '.join(map(str, states))}"
    )
    wide = gates.shape[-1] if gates.shape else None
    if 0 in (gates.rank, *(state.rank for state in states)) or (wide or 0) % count:
        raise SpecError(message)
    found: Shape = None
    # `count` gates to a unit; the states may know more.
    if gates.shape is not None:
        found = (*gates.shape[:-1], None if wide is None else wide // count)
    try:
        for state in states:
            found = merge(found, state.shape)
    except SpecError:
        raise SpecError(message) from None
    return (None if found is None else (*found[:-1], _times(found[-1], count))), found


def _times(size: Dim, count: int) -> Dim:
    return None if size is None else size * count


def _lstm_spec(inputs: Specs, attrs: Attrs) -> Specs:
    gates, c = inputs
    wide, state = _shapes("lstm_step", gates, [c], 4)
    return (Spec(state, c.dtype), Spec(state, c.dtype), Spec(wide, c.dtype))


def _lstm_gradient(
    use: Use, dh: Tensor | None, dc: Tensor | None, da: Tensor | None
) -> Sequence[Tensor | None]:
    _, c = use.inputs
    h, after, activated = use.outputs
    to_gates: Tensor | None = None
    to_c: Tensor | None = None
    if dh is not None or dc is not None:
        # One op for both, so a gradient that is not there is zeros.
        dh = zeros_like(h) if dh is None else dh
        dc = zeros_like(after) if dc is None else dc
        to_gates, to_c = lstm_step_grad(activated, c, after, dh, dc)
    if da is not None:  # only derivatives of the second order use the activated gates
        # In the activated gates the slopes are products, and no exponentials.
        i, f, g, o = split(activated, 4, -1)
        slopes = concat([_slope(i), _slope(f), subtract(1, square(g)), _slope(o)], -1)
        more = multiply(da, slopes)
        to_gates = more if to_gates is None else add(to_gates, more)
    return (to_gates, to_c)


@op("lstm_step", spec=_lstm_spec, gradient=_lstm_gradient)
@api_function
def lstm_step(gates: Any, c: Any, *, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The end of a step of an LSTM: (h, next c, activated gates), of what its products give.

    With gates (i, f, g, o), in this order: next c = σ(f)·c + σ(i)·tanh(g), and h = σ(o)·tanh(next c).

    Shapes:   gates (…, 4·units), c (…, units) -> (…, units) twice, (…, 4·units)
    Dtypes:   floating, the same; halves are computed in float32
    Gradient: one op for both; of any order.
    Raises:   SpecError for other shapes.
    """
    h, after, activated = build("lstm_step", [gates, c], name=name)
    return h, after, activated


def _lstm_grad_spec(inputs: Specs, attrs: Attrs) -> Specs:
    activated, *states = inputs
    wide, state = _shapes("lstm_step_grad", activated, states, 4)
    return (Spec(wide, activated.dtype), Spec(state, activated.dtype))


def _lstm_grad_gradient(use: Use, to_gates: Tensor | None, to_c: Tensor | None) -> Sequence[Tensor | None]:
    """The rule of `lstm_step_grad`, of each of its terms by hand; `u_` is a slope, `v_` what flows back."""
    activated, c, after, dh, dc = use.inputs
    i, f, g, o = split(activated, 4, -1)
    # The op once more: t = tanh(next c), and ds is what flows into the next c, from itself and through h.
    t = tanh(after)
    ut = subtract(1, square(t))
    ui, uf, ug, uo = _slope(i), _slope(f), subtract(1, square(g)), _slope(o)
    ds = add(dc, multiply(multiply(dh, o), ut))
    to_c = zeros_like(c) if to_c is None else to_c
    to_gates = zeros_like(activated) if to_gates is None else to_gates
    vi, vf, vg, vo = split(to_gates, 4, -1)
    # Its outputs are ds·g·ui, ds·c·uf, ds·i·ug and dh·t·uo for the gates, and ds·f for c.
    v_ds = _sum(_product(vi, g, ui), _product(vf, c, uf), _product(vg, i, ug), multiply(to_c, f))
    v_do = multiply(vo, uo)
    # Each gate is there twice: as a factor, and in its own slope.
    v_i = add(_product(vi, ds, g, _bend(i)), _product(vg, ds, ug))
    v_f = add(_product(vf, ds, c, _bend(f)), multiply(to_c, ds))
    v_g = subtract(_product(vi, ds, ui), _product(vg, ds, i, g, 2))
    v_o = add(_product(vo, dh, t, _bend(o)), _product(v_ds, dh, ut))
    # And t, in o's and by its slope in ds.
    v_t = subtract(multiply(v_do, dh), _product(v_ds, dh, o, t, 2))
    return (
        concat([v_i, v_f, v_g, v_o], -1),
        _product(vf, ds, uf),
        multiply(v_t, ut),
        add(multiply(v_do, t), _product(v_ds, o, ut)),
        v_ds,
    )


@op("lstm_step_grad", spec=_lstm_grad_spec, gradient=_lstm_grad_gradient)
def lstm_step_grad(
    activated: Any, c: Any, after: Any, dh: Any, dc: Any, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The gradients of `gates` and `c` of `lstm_step` from those of h and the next c.

    Shapes:   activated (…, 4·units), the others (…, units) -> (…, 4·units), (…, units)
    Dtypes:   floating, the same; halves are computed in float32
    Gradient: made of other ops.
    """
    to_gates, to_c = build("lstm_step_grad", [activated, c, after, dh, dc], name=name)
    return to_gates, to_c


def _slope(y: Tensor) -> Tensor:
    """The slope of a sigmoid whose value is y."""
    return multiply(y, subtract(1, y))


def _bend(y: Tensor) -> Tensor:
    """How that slope changes with y."""
    return subtract(1, multiply(2, y))


def _product(first: Tensor, *others: Any) -> Tensor:
    for other in others:
        first = multiply(first, other)
    return first


def _sum(first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = add(first, other)
    return first


def _lengths_spec(inputs: Specs, attrs: Attrs) -> Specs:
    lengths, xs = inputs
    rows = xs.shape[1] if xs.shape is not None and len(xs.shape) > 1 else None
    message = f"rnn takes an integer length for each row, got {lengths} for x {xs}, steps first"
    if lengths.dtype.kind not in "iu" or (xs.shape is not None and len(xs.shape) < 2):
        raise SpecError(message)
    try:
        return (Spec(merge(lengths.shape, (rows,)), lengths.dtype),)
    except SpecError:
        raise SpecError(message) from None


@op("sequence_lengths", spec=_lengths_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def sequence_lengths(lengths: Any, xs: Any, *, name: str | None = None) -> Tensor:
    """`lengths` themselves, which are those of sequences `xs`; checked in every step.

    Shapes:   lengths (rows,), xs (steps, rows, …) -> (rows,)
    Dtypes:   lengths integers, xs any
    Gradient: none.
    Raises:   SpecError for what does not fit; in the step, too, and KernelError for a length that is negative
              or beyond the steps.
    """
    return build_one("sequence_lengths", [as_tensor(lengths), as_tensor(xs)], name=name)
