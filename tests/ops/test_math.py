"""What elementwise mathematics refuses, its corners, and Python's operators for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GradientError, SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.kernels.math import arithmetic, bits
from actorflow.values.arrays import NAMES, as_dtype
from tests.ops.test_conformance import quiet
from tests.support.reference import evaluate

INF, NAN = np.inf, np.nan
CORNERS = np.array([0.0, -0.0, 1, -1, 0.1, -0.1, 3.3, -7, 1e300, INF, -INF, NAN, 0.7, 2.1, 2.5, -0.5, 1.5])


def of(dtype: str, *shape: int | None) -> Tensor:
    return af.placeholder(dtype, shape)


def value(build: Callable[..., Tensor], *inputs: Any) -> Any:
    with Graph() as graph, quiet():
        return evaluate(graph, build(*(af.constant(x) for x in inputs)))


def slopes(build: Callable[..., Tensor], *inputs: Any) -> list[Any]:
    with Graph() as graph, quiet():
        xs = [af.constant(x) for x in inputs]
        grads = af.gradients(build(*xs), xs)
        return [None if g is None else evaluate(graph, g).tolist() for g in grads]


REFUSED: list[tuple[Callable[[], Any], str, str]] = [
    (
        lambda: af.remainder(of("float32", 2), of("float32", 3)),
        "shapes must broadcast, got (2,) and (3,)",
        "",
    ),
    (
        lambda: of("int64", 2) % of("uint64", 2),
        "remainder needs equal dtypes, got (2,) int64 and (2,) uint64",
        "no integer dtype holds all values of uint64 and of a signed one; convert one with af.cast",
    ),
    (lambda: of("bool", 2) // of("bool", 2), "floor_divide takes integers or floating numbers, got (2,)", ""),
    (lambda: af.sin(of("int32", 2)), "sin takes floating or complex numbers, got (2,) int32", "af.cast"),
    (
        lambda: af.atan2(of("complex64"), of("complex64")),
        "atan2 takes floating numbers, got () complex64",
        "",
    ),
    (lambda: af.exp2(of("int8")), "exp2 takes floating numbers, got () int8", "convert it with af.cast"),
    (lambda: af.round(of("int8", 4)), "round takes floating numbers, got (4,) int8", "af.cast"),
    (lambda: af.isnan(of("bool")), "isnan takes numbers, got () bool", ""),
    (lambda: +of("bool"), "positive takes numbers, got () bool", ""),
    (lambda: of("float32", 2) & of("float32", 2), "bitwise_and takes integers or bool, got (2,) float32", ""),
    (lambda: ~of("float32"), "bitwise_invert takes integers or bool, got () float32", ""),
    (lambda: of("bool") << of("bool"), "bitwise_left_shift takes integers, got () bool", ""),
    (lambda: af.logical_xor(of("int8"), of("int8")), "logical_xor takes bool, got () int8", ""),
    (lambda: of("int32", 2) | 0.5, "no int32 tensor can hold float 0.5: it is of a wider kind", ""),
    (lambda: af.clip(of("float32", 2)), "clip needs a bound, got min=None and max=None", ""),
    (lambda: af.clip(of("int32", 2), 0.5, 2), "no int32 tensor can hold float 0.5", ""),
    (
        lambda: af.clip(of("float32", 2), of("float32", 3), 2.0),
        "shapes must broadcast, got (2,) and (3,) and ()",
        "",
    ),
    (
        lambda: af.complex(of("float16", 2), of("float16")),
        "complex takes float32 or float64, got (2,) float16 and () float16: no complex dtype has such parts",
        "convert both with af.cast",
    ),
    (lambda: af.real(of("bool")), "real takes numbers, got () bool", "af.cast"),
    (lambda: af.erf(of("complex64")), "erf takes floating numbers, got () complex64", ""),
    (lambda: af.polygamma(-1, of("float32", 2)), "polygamma takes an order from 0 to 100, got -1", ""),
]


@pytest.mark.parametrize(("build", "said", "hint"), REFUSED)
def test_what_cannot_be_is_refused_while_the_graph_is_built(
    build: Callable[[], Any], said: str, hint: str
) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert said in str(caught.value)
    assert hint in str(caught.value)
    assert "test_math.py" in str(caught.value)


@pytest.mark.parametrize(
    "op",
    ["floor_divide", "remainder", "fmod", "hypot", "copysign", "nextafter", "logaddexp", "atan2"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_corners_of_two_inputs_are_those_of_numpy(op: str, dtype: str) -> None:
    with quiet():
        a, b = (x.astype(dtype) for x in np.meshgrid(CORNERS, CORNERS))
        told = getattr(np, op)(a, b)

    np.testing.assert_array_equal(value(getattr(af, op), a, b), told)


@pytest.mark.parametrize(
    "op",
    [
        "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "signbit", "reciprocal", "exp2", "expm1", "log1p",
        "log2", "log10", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
        "atanh", "sinc", "nan_to_num",
    ],
)  # fmt: skip
def test_corners_of_one_input_are_those_of_numpy(op: str) -> None:
    with quiet():
        told = getattr(np, op)(CORNERS)

    np.testing.assert_allclose(value(getattr(af, op), CORNERS), told, rtol=1e-15)


@pytest.mark.parametrize("dtype", [n for n in NAMES if "int" in n])
def test_integers_divide_and_shift_as_numpy_has_it(dtype: str) -> None:
    ends = np.iinfo(dtype)
    some = np.array([ends.min, ends.max, 0, 1, 7, 63, 64, 100, *([-1, -9] if ends.min else [])], dtype)
    a, b = np.meshgrid(some, some)

    for op, told in (
        ("floor_divide", np.floor_divide),
        ("remainder", np.remainder),
        ("bitwise_left_shift", np.left_shift),
        ("bitwise_right_shift", np.right_shift),
    ):
        with quiet():
            expected = told(a, b)
        np.testing.assert_array_equal(value(getattr(af, op), a, b), expected, err_msg=op)
    np.testing.assert_array_equal(bits.bitwise_left_shift(a, b), np.left_shift(a, b))
    np.testing.assert_array_equal(bits.bitwise_right_shift(a, b), np.right_shift(a, b))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
def test_what_a_card_makes_of_whole_quotients_is_what_numpy_does(dtype: str) -> None:
    """The kernels for CuPy, run with numpy: the sign of zeros, infinities, quotients that round up."""
    with quiet():
        some = CORNERS if dtype != "int8" else np.arange(-8, 8)
        a, b = (x.astype(dtype) for x in np.meshgrid(some, some))
        for made, told in (
            (arithmetic.floor_divide_of_cupy(a, b), np.floor_divide(a, b)),
            (arithmetic.remainder_of_cupy(a, b), np.remainder(a, b)),
        ):
            assert made.dtype == told.dtype
            np.testing.assert_array_equal(made, told)
            np.testing.assert_array_equal(np.signbit(made)[told == told], np.signbit(told)[told == told])


def test_half_is_rounded_to_even() -> None:
    assert value(af.round, np.array([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]


def test_python_operators_build_the_ops() -> None:
    a, b = np.array([7, -7, 12], "int32"), np.array([2, 2, 5], "int32")

    for build in (
        lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b,
        lambda a, b: a << b, lambda a, b: a >> b, lambda a, b: ~a + (+b), lambda a, b: abs(a),
        lambda a, b: 20 // b, lambda a, b: 20 % b, lambda a, b: 6 & b, lambda a, b: 6 | b, lambda a, b: 6 ^ b,
        lambda a, b: 6 << b, lambda a, b: 64 >> b,
    ):  # fmt: skip
        assert value(build, a, b).tolist() == build(a, b).tolist()
    assert value(round, np.array([0.4, 1.5])).tolist() == [0, 2]


def test_zero_wins_over_what_is_not_finite() -> None:
    a, b = np.array([INF, NAN, 2.0, NAN]), np.array([0.0, 0.0, 3.0, 1.0])

    np.testing.assert_array_equal(value(af.multiply_no_nan, a, b), [0, 0, 6, NAN])
    np.testing.assert_array_equal(value(af.divide_no_nan, a, b), [0, 0, 2 / 3, NAN])
    assert slopes(af.divide_no_nan, np.array([1.0, INF]), np.array([0.0, 0.0])) == [[0, 0], [0, 0]]


def test_clip_takes_one_bound_or_both_and_the_upper_one_wins() -> None:
    x = np.array([-3, 0, 3, 9], "int8")

    assert value(lambda x: af.clip(x, 1), x).tolist() == [1, 1, 3, 9]
    assert value(lambda x: af.clip(x, max=1), x).tolist() == [-3, 0, 1, 1]
    assert value(lambda x: af.clip(x, 0, 5), x).tolist() == [0, 0, 3, 5]
    assert value(lambda x: af.clip(x, 5, 0), x).tolist() == np.clip(x, 5, 0).tolist()
    assert slopes(af.clip, np.array([-1.0, 0, 3, 5]), np.float64(0), np.float64(3)) == [[0, 1, 1, 0], 1, 1]


def test_a_mix_ends_exactly_at_its_ends() -> None:
    a, b = np.array([0.1, 1e20]), np.array([0.7, 1.0])

    assert value(lambda a, b: af.lerp(a, b, 0.0), a, b).tolist() == a.tolist()
    assert value(lambda a, b: af.lerp(a, b, 1.0), a, b).tolist() == b.tolist()


def test_gradients_at_the_corners_that_their_docstrings_name() -> None:
    assert slopes(af.hypot, 0.0, 0.0) == [0, 0]
    assert slopes(af.logaddexp, np.array([-INF, -INF]), np.array([-INF, 0.0])) == [[0.5, 0], [0.5, 1]]
    assert slopes(af.copysign, np.array([2.0, 2.0]), np.array([-0.0, 1.0])) == [[-1, 1], None]
    assert slopes(af.nan_to_num, np.array([NAN, INF, 2.0])) == [[0, 0, 1]]
    assert slopes(af.sinc, np.array([0.0, 1e-9])) == [[0, pytest.approx(-(np.pi**2) * 1e-9 / 3)]]
    assert slopes(af.asinh, 1e200) == [pytest.approx(1e-200)]
    assert slopes(af.expm1, -40.0) == [pytest.approx(np.exp(-40.0))]


def test_rounding_ends_a_gradient() -> None:
    assert slopes(lambda x: af.ceil(x) + af.round(x) * x, np.array([1.2])) == [[1.0]]
    assert slopes(af.round, np.array([1.2])) == [None]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_to_num_takes_the_ends_of_each_dtype(dtype: str) -> None:
    x = np.array([INF, -INF, NAN, 1.5]).astype(as_dtype(dtype))

    made = value(af.nan_to_num, x)

    assert made.dtype == x.dtype
    assert np.isfinite(made.astype("float64")).all()
    with quiet():
        assert np.isinf((made[:2].astype("float64") * 1.01).astype(x.dtype).astype("float64")).all()
    told = value(lambda x: af.nan_to_num(x, 1.0, 2.0, -3.0), x)
    assert told.astype("float64").tolist() == [2, -3, 1, 1.5]


def test_complex_parts_come_back_as_they_were() -> None:
    a, b = np.array([1.0, INF, 0.0]), np.array([INF, 2.0, -0.0])

    whole = value(af.complex, a, b)

    np.testing.assert_array_equal(value(af.real, whole), a)
    np.testing.assert_array_equal(value(af.imag, whole), b)
    np.testing.assert_array_equal(value(af.angle, whole), np.arctan2(b, a))
    np.testing.assert_array_equal(value(af.conj, whole), whole.conj())


def test_real_numbers_are_their_own_real_part() -> None:
    with Graph():
        x = of("float32", 2)

        assert af.real(x) is x
        assert af.conj(x) is x
    assert value(af.imag, np.array([1, 2])).tolist() == [0, 0]
    assert value(af.angle, np.array([-1.0, 2.0])).tolist() == [np.pi, 0]


def test_a_path_through_complex_numbers_is_refused() -> None:
    with Graph():
        x = of("float32", 2)

        with pytest.raises(GradientError, match="gradients are of real numbers, got complex ones"):
            af.gradients(af.real(af.complex(x, x)), x)
    with Graph():
        whole = of("complex64", 2)

        for part in (af.real, af.imag):
            with pytest.raises(GradientError, match="gradients are of real numbers, got complex ones"):
                af.gradients(part(whole), whole)


def test_degrees_and_radians() -> None:
    assert value(af.deg2rad, 180.0) == pytest.approx(np.pi)
    assert value(af.rad2deg, np.pi) == pytest.approx(180)


FLAT: list[tuple[str, Callable[[Any], Any]]] = [
    ("floor", lambda x: af.floor(x)),
    ("ceil", lambda x: af.ceil(x)),
    ("trunc", lambda x: af.trunc(x)),
    ("round", lambda x: af.round(x)),
    ("sign", lambda x: af.sign(x)),
    ("floor_divide", lambda x: x // 2),
    ("nextafter", lambda x: af.nextafter(x, 1.0)),
]


@pytest.mark.parametrize(("op", "flat"), FLAT, ids=[op for op, _ in FLAT])
def test_no_gradient_flows_through_steps_and_none_of_them_is_zero(
    op: str, flat: Callable[[Any], Any]
) -> None:
    with Graph() as graph:
        x = of("float64", 2)
        alone, beside = af.gradients(flat(x), x)[0], af.gradients(flat(x) + 3 * x, x)[0]

    assert alone is None
    assert evaluate(graph, beside, {x: np.array([0.5, 1.5])}).tolist() == [3, 3]
