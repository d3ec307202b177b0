from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import ConfigError, FeedError, GradientError, GradientMismatch
from actorflow.testing import GradientReport, check_gradients


def check(*args: Any, **options: Any) -> GradientReport:
    return af.run(check_gradients(*args, **options))


def refused(*args: Any, **options: Any) -> GradientMismatch:
    with pytest.raises(GradientMismatch) as caught:
        check(*args, **options)
    return caught.value


@af.autodiff.custom_gradient
def cube(x: Any) -> Any:
    return x * x * x, lambda grad: 3 * x * x * grad


@af.autodiff.custom_gradient
def wrong_cube(x: Any) -> Any:
    return x * x * x, lambda grad: 3 * x * grad


AT = np.array([[0.3, -1.2, 2.0], [0.5, 1.5, -0.7]])


def program(function: Any, dtype: str = "float64") -> tuple[Any, Any, dict[Any, Any]]:
    """y, x and feeds of `sum(exp(-function(tanh(x))))`."""
    with af.Graph():
        x = af.placeholder(dtype, (None, 3), name="x")
        y = af.exp(-function(af.tanh(x)))
    return y, x, {x: AT.astype(dtype)}


def test_right_custom_gradient_passes_and_the_report_says_what_was_compared() -> None:
    y, x, feeds = program(cube)

    report = check(y, x, feeds, order=2)

    assert [(c.x, c.order, c.slopes) for c in report.compared] == [("x", 1, 6), ("x", 2, 6)]
    assert all(c.difference < 1e-7 for c in report.compared)
    assert str(report).startswith("order 1, x: 6 slopes, largest difference ")


def test_wrong_custom_gradient_is_caught_with_its_node_element_and_both_values() -> None:
    y, x, feeds = program(wrong_cube)
    t = np.tanh(AT)

    error = refused(y, x, feeds)

    weight = np.cos(np.arange(1.0, 7.0)).reshape(2, 3)
    right = -weight * np.exp(-(t**3)) * 3 * t**2 * (1 - t**2)
    told = -weight * np.exp(-(t**3)) * 3 * t * (1 - t**2)
    worst = np.unravel_index(np.argmax(np.abs(told - right)), right.shape)
    assert f"for x[{worst[0]}, {worst[1]}] must be" in error.what
    assert f"got {told[worst]:.6g} and measured {right[worst]:.6g}" in error.what
    assert error.where is not None
    assert (error.where.node, error.where.op) == ("wrong_cube", "custom_gradient")
    assert "test_gradient_check.py" in str(error.where)
    assert "gradient rule of this custom_gradient" in str(error.hint)
    assert isinstance(error, AssertionError)


def test_gradient_whose_own_gradient_is_wrong_is_caught_at_order_2_alone() -> None:
    @af.autodiff.custom_gradient
    def square(x: Any) -> Any:
        return x * x, lambda grad: 2 * af.stop_gradient(x) * grad

    y, x, feeds = program(square)

    check(y, x, feeds)
    error = refused(y, x, feeds, order=2)

    assert "(order 2; " in error.what
    assert error.where is not None
    assert error.where.node == "square"


def test_gradient_of_an_argument_that_is_left_out_is_seen() -> None:
    @af.autodiff.custom_gradient
    def product(a: Any, b: Any) -> Any:
        return a * b, lambda grad: (grad * b, None)

    with af.Graph():
        a, b = (af.placeholder("float64", (2,), name=n) for n in "ab")
        y = product(a, b)

    error = refused(y, [a, b], {a: np.ones(2), b: np.ones(2)})

    assert (
        "gradient for b[0] must be the slope that differences measure, got None, so 0, and measured 0.5"
        in error.what
    )


def test_stopped_gradient_is_no_fault_of_one_op() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2,), name="x")
        y = x * af.stop_gradient(x)

    error = refused(y, x, {x: np.ones(2)})

    assert "no op differs alone: is a gradient stopped on the way" in str(error.hint)


def test_kink_is_named() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2,), name="x")
        y = af.nn.relu(x)

    error = refused(y, x, {x: np.array([1.0, 0.0])})

    assert "this seems to be a kink, with slopes 0 and -0.416147 on its sides" in str(error.hint)
    check(y, x, {x: np.array([1.0, -0.5])})


def test_variables_and_computed_tensors_are_moved_too() -> None:
    with af.Graph():
        w = af.Variable(np.array([1.0, 2.0]), name="w")
        hidden = w * w
        y = af.sum(af.sin(hidden) + w)

    report = check(y, [w, hidden], order=2)

    assert [c.order for c in report.compared] == [1, 1, 2, 2]
    assert [c.x for c in report.compared] == ["w", hidden.node.name] * 2


def test_gathered_rows_are_checked_as_the_whole_table() -> None:
    with af.Graph():
        table = af.Variable(np.linspace(-1, 1, 12).reshape(4, 3), name="table")
        y = af.sin(af.gather(table, af.constant(np.array([1, 3, 1]))))

    assert [c.slopes for c in check(y, table, order=2).compared] == [12, 12]


def test_variables_have_the_values_of_the_session_that_is_given() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.array([0.0]), name="w")
        y = af.nn.relu(w)
        put = w.assign(np.array([2.0]))

    async def main() -> GradientReport:
        async with af.Session(graph) as session:
            with pytest.raises(GradientMismatch, match="kink"):
                await check_gradients(y, w, session=session)
            await session.run(put)
            return await check_gradients(y, w, session=session)

    assert len(af.run(main()).compared) == 1


@pytest.mark.parametrize("function", [cube, wrong_cube], ids=["right", "wrong"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_directions_are_enough_to_see_a_wrong_gradient(function: Any, dtype: str) -> None:
    y, x, feeds = program(function, dtype)

    if function is wrong_cube:
        assert "for x along direction " in refused(y, x, feeds, directions=3).what
    else:
        assert [c.slopes for c in check(y, x, feeds, directions=3).compared] == [3]


def test_float32_is_compared_to_fewer_digits() -> None:
    y, x, feeds = program(cube, "float32")

    check(y, x, feeds, order=2)
    refused(*program(wrong_cube, "float32"))
    refused(y, x, feeds, rtol=1e-9, atol=1e-9, step=0.3)


def test_chance_is_refused() -> None:
    with af.Graph():
        x = af.placeholder("float64", (40,), name="x")
        y = x * af.random.normal((40,), dtype="float64")

    error = refused(y, x, {x: np.ones(40)})

    assert "ys must have equal values for equal feeds" in error.what


def test_nan_is_no_agreement() -> None:
    with af.Graph():
        x = af.placeholder("float64", (1,), name="x")
        y = af.log(x)

    error = refused(y, x, {x: np.array([-1.0])})
    assert error.what == (
        "ys must be finite where their gradients are measured, got log:0 with nan at index (0,) (1 such)"
    )
    assert error.where is not None
    assert error.where.op == "log"
    assert error.hint == "feed other values, or look elsewhere"


def test_a_y_that_is_infinite_is_named_with_the_first_place() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2, 2), name="x")
        ys = [x * 2.0, af.log(x)]

    error = refused(ys, x, {x: np.array([[1.0, 0.0], [2.0, 0.0]])})

    assert "got log:0 with -inf at index (0, 1) (2 such)" in error.what


def test_where_ys_are_not_finite_nearby_no_rule_is_blamed() -> None:
    with af.Graph():
        x = af.placeholder("float64", (), name="x")
        y = af.log(x)

    error = refused(y, x, {x: np.array(1e-7)})

    assert "measured nan" in error.what
    assert error.hint == "look elsewhere: near there ys are not finite, so that no slope can be measured"


def test_op_without_a_gradient_is_told_by_gradients_itself() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2,), name="x")
        y = af.Variable(np.ones(2), name="w").assign(x)

    with pytest.raises(GradientError, match="no gradient rule for 'assign'"):
        check(y, x, {x: np.ones(2)})


def test_flat_ops_agree_away_from_their_steps_where_there_is_a_kink() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2,), name="x")
        y = af.floor(x)

    assert [c.difference for c in check(y, x, {x: np.full(2, 0.5)}).compared] == [0.0]
    assert "this seems to be a kink" in str(refused(y, x, {x: np.ones(2)}).hint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 3}, "order must be 1 or 2, got 3"),
        ({"directions": 0}, "directions must be at least 1"),
        ({"step": 0.0}, "step must be above 0"),
        ({"rtol": -1.0}, "rtol and atol at least 0"),
        ({"order": True}, "order must be 1 or 2, got True"),
        ({"order": "2"}, "order must be 1 or 2, got '2'"),
        ({"directions": True}, "directions must be at least 1, or None for every element, got True"),
        ({"step": True}, "step must be above 0"),
        ({"directions": 1.5}, "directions must be at least 1, or None for every element, got 1.5"),
        ({"directions": "3"}, "directions must be at least 1, or None for every element, got '3'"),
        ({"step": "small"}, "step must be above 0, rtol and atol at least 0, got 'small'"),
        ({"atol": 1j}, "rtol and atol at least 0, got .* 1j"),
        ({"session": 3}, "the session is one on the graph of ys, got int 3"),
    ],
)
def test_numbers_that_cannot_be_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(*program(cube), **options)


def test_other_dtypes_are_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match="checked in float64 or float32, got exp:0 float16") as caught:
        check(*program(cube, "float16"))
    assert "float64" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="ys must be tensors or variables of a graph, got int 3"):
        check(3, 4)


@pytest.mark.parametrize("xs", ["x", 3, None, ["x"], np.ones(3)])
def test_xs_are_tensors_and_variables(xs: Any) -> None:
    y, _, feeds = program(cube)

    with pytest.raises(ConfigError, match="xs must be tensors or variables, got"):
        check(y, xs, feeds)


@pytest.mark.parametrize("feeds", [np.ones(3), [1.0], "x"])
def test_feeds_are_a_mapping(feeds: Any) -> None:
    y, x, _ = program(cube)

    with pytest.raises(FeedError, match="feeds are a mapping from tensors to values, got"):
        check(y, x, feeds)


def test_empty_tensors_have_nothing_to_compare() -> None:
    y, x, _ = program(cube)

    assert [c.slopes for c in check(y, x, {x: np.zeros((0, 3))}).compared] == [0]
