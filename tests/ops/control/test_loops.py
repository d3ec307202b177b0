"""`while_loop`: what turns give, what may change from turn to turn, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import ActorflowError, GraphError, SpecError
from tests.support.sessions import run_step


def placed(error: ActorflowError) -> str:
    return str(error.where)


# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trips", [0, 1, 7, 20])
def test_it_turns_as_long_as_the_condition_holds(trips: int) -> None:
    with af.Graph() as graph:
        n = af.placeholder("int32", name="n")
        i, total = af.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), (0, 0))

    assert run_step(graph, [i, total], {n: trips}) == [trips, sum(range(trips))]


@pytest.mark.parametrize("most", [0, 3, 9])
def test_it_ends_after_max_iterations_whatever_the_condition_says(most: int) -> None:
    with af.Graph() as graph:
        i = af.while_loop(lambda i: i < 5, lambda i: i + 1, 0, max_iterations=most)

    assert run_step(graph, i) == min(most, 5)


class Pair(NamedTuple):
    a: Any
    b: Any


@pytest.mark.parametrize(
    ("begin", "turn", "end"),
    [
        (0, lambda i: i + 3, 3),
        ((0,), lambda i: (i + 3,), (3,)),
        ([0], lambda i: i + 3, [3]),
        ((0, 1.0), lambda i, x: (i + 3, x * 2.0), (3, 2.0)),
        ([0, (1.0, {"k": 2.0})], lambda i, t: [i + 3, (t[1]["k"], {"k": t[0]})], [3, (2.0, {"k": 1.0})]),
        ({"i": 0, "x": 1.0}, lambda d: {"i": d["i"] + 3, "x": -d["x"]}, {"i": 3, "x": -1.0}),
        (Pair(0, 1.0), lambda p: Pair(p.a + 3, p.b + 0.5), Pair(3, 1.5)),
    ],
    ids=["tensor", "tuple of one", "list of one, bare", "two", "nested", "dict", "named tuple"],
)
def test_loop_variables_keep_their_structure(begin: Any, turn: Any, end: Any) -> None:
    def goes_on(*args: Any) -> Any:
        first = args[0]
        return (first["i"] if isinstance(first, dict) else first.a if isinstance(first, Pair) else first) < 3

    with af.Graph() as graph:
        last = af.while_loop(goes_on, turn, begin)
        found = run_step(graph, last)

    assert found == end
    assert type(found) is type(end) or not isinstance(end, tuple | list | dict)


def test_a_size_may_change_where_shapes_says_so() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), "x")
        _, grown = af.while_loop(
            lambda i, x: i < 3,
            lambda i, x: (i + 1, af.concat([x, x[:1]], axis=0)),
            (0, x),
            shapes=[(), (None,)],
        )
        _, any_rank = af.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, af.expand_dims(x, 0)), (0, x), shapes=[(), None]
        )
        (slope,) = af.gradients(grown * 1.0, x)

    found, ranks, slopes = run_step(graph, [grown, any_rank, slope], {x: [1, 2]})

    assert found.tolist() == [1, 2, 1, 1, 1]
    assert ranks.shape == (1, 1, 1, 2)
    assert slopes.tolist() == [4, 1]
    assert grown.shape == (None,)


def test_bytes_go_round() -> None:
    with af.Graph() as graph:
        _, text = af.while_loop(
            lambda i, t: i < 2,
            lambda i, t: (i + 1, af.strings.upper(t)),
            (0, af.constant(np.array(b"ab", object))),
        )

    assert run_step(graph, text) == b"AB"


def test_random_numbers_differ_from_turn_to_turn_and_step_to_step() -> None:
    with af.Graph(seed=3) as graph:
        draw = lambda: af.random.uniform((4,))  # noqa: E731
        _, last, sums = af.while_loop(
            lambda i, x, s: i < 5,
            lambda i, x, s: (i + 1, draw(), s + draw()),
            (0, af.zeros((4,)), af.zeros((4,))),
        )
        rows = [
            af.while_loop(lambda i, _: i < 9, lambda i, _: (i + 1, draw()), (0, last), max_iterations=n)[1]
            for n in (1, 2)
        ]

    first, second = run_step(graph, [last, sums, rows]), run_step(graph, [last, sums, rows])

    np.testing.assert_array_equal(first[1], second[1])
    assert len({row.tobytes() for row in (first[0], *first[2])}) == 3
    assert not np.allclose(first[1] / 5, first[0])


def test_an_inner_loop_draws_other_numbers_in_every_outer_turn() -> None:
    with af.Graph(seed=3) as graph:

        def turn(i: Any, rows: Any) -> Any:
            _, row = af.while_loop(
                lambda j, r: j < 2, lambda j, r: (j + 1, af.random.uniform((1,))), (0, af.zeros((1,)))
            )
            return i + 1, af.concat([rows, row], axis=0)

        _, rows = af.while_loop(lambda i, r: i < 4, turn, (0, af.zeros((0,))), shapes=[(), (None,)])

    assert len(set(run_step(graph, rows).tolist())) == 4


def test_the_condition_may_use_what_only_it_captures() -> None:
    with af.Graph() as graph:
        x, y = af.placeholder("float32", name="x"), af.placeholder("float32", name="y")
        last = af.while_loop(lambda s: s < x, lambda s: s * y, 1.0)

    assert run_step(graph, last, {x: 10, y: 2}) == 16


def test_loop_variables_that_swap_take_the_values_of_the_turn_before() -> None:
    with af.Graph() as graph:
        _, a, b = af.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a), (0, 1.0, 2.0))

    assert run_step(graph, [a, b]) == [2, 1]


def test_one_value_may_begin_several_loop_variables_and_end_several() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        _, a, b = af.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a + x, a + x), (0, x, x))
        slopes = af.gradients([a * b], x)

    assert run_step(graph, [a, b, *slopes], {x: 2}) == [8, 8, 64]


def test_nodes_wait_for_what_control_dependencies_say() -> None:
    with af.Graph() as graph:
        v = af.Variable(1.0, name="v")
        with af.control_dependencies([v.assign_add(1.0)]):
            _, last = af.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + v), (0, 0.0))

    assert run_step(graph, last) == 6


# -- refusals ------------------------------------------------------------------------------------------


def refused(kind: type[ActorflowError], *args: Any, **options: Any) -> ActorflowError:
    with af.Graph(), pytest.raises(kind) as caught:
        af.while_loop(*args, **options)
    assert "test_loops.py:" in placed(caught.value)
    return caught.value


def test_a_dtype_that_would_change_is_told_with_both_specs_and_lines() -> None:
    error = refused(
        SpecError, lambda i, x: i < 3, lambda i, x: (i + 1, af.cast(x, "float64")), (0, np.float32(1.0))
    )

    lines = error.what.splitlines()
    assert lines[0] == "loop variable 1 must keep its spec in all turns, got"
    assert "at the beginning () float32, defined at " in lines[1]
    assert "after a turn     () float64, defined at " in lines[2]
    assert all("test_loops.py:" in line for line in lines[1:])
    assert error.hint == "convert it with af.cast"


def test_a_list_of_another_dtype_has_a_hint_of_its_own() -> None:
    with af.Graph():
        lists = [af.TensorArray(dtype, element_shape=()) for dtype in ("int32", "float32")]
        with pytest.raises(SpecError, match="must keep its spec") as caught:
            af.while_loop(lambda i, a: i < 1, lambda i, a: (i + 1, lists[1]), (0, lists[0]))

    assert "a list stays a list" in str(caught.value.hint)


def test_a_shape_that_would_change_is_told_with_both_specs_and_lines() -> None:
    error = refused(
        SpecError,
        lambda x: True,
        lambda x: af.concat([x, x], axis=0),
        np.zeros(2, "float32"),
    )

    assert "at the beginning (2,) float32" in error.what
    assert "after a turn     (4,) float32" in error.what
    assert "shapes=" in str(error.hint)


@pytest.mark.parametrize(
    ("kind", "args", "options", "said"),
    [
        (SpecError, (lambda i: i, lambda i: i, 0), {}, "one bool scalar, got () int32"),
        (SpecError, (lambda i: (), lambda i: i, 0), {}, "one bool scalar, got nothing"),
        (SpecError, (lambda i: (i < 1, i < 2), lambda i: i, 0), {}, "got () bool, () bool"),
        (SpecError, (lambda x: x < 1, lambda x: x, [np.zeros(2)]), {}, "one bool scalar, got (2,) bool"),
        (GraphError, (lambda i, j: i < 1, lambda i, j: (i,), (0, 0)), {}, "got (tensor,) from the body of 'while_loop', and (tensor, tensor)"),
        (GraphError, (lambda i, j: i < 1, lambda i, j: [i, j], (0, 0)), {}, "got [tensor, tensor] from"),
        (GraphError, (lambda d: True, lambda d: {"b": d["a"]}, {"a": 0}), {}, "got {'b': tensor} from"),
        (GraphError, (lambda i: i < 1, lambda i: None, 0), {}, "got None from"),
        (GraphError, (lambda: True, lambda: (), ()), {}, "one loop variable or more"),
        (GraphError, (True, lambda i: i, 0), {}, "the condition of 'while_loop' is built by a function, got bool True"),
        (SpecError, (lambda i: i < 1, lambda i: i, 0), {"max_iterations": -1}, "max_iterations is an integer of 0 or more"),
        (SpecError, (lambda i: i < 1, lambda i: i, 0), {"max_iterations": 1.5}, "got 1.5"),
        (SpecError, (lambda i: i < 1, lambda i: i, 0), {"parallel_iterations": 0}, "parallel_iterations is an integer of 1 or more"),
        (SpecError, (lambda i: i < 1, lambda i: i, 0), {"lower": "yes"}, "True or False, or None as lower"),
        (SpecError, (lambda i: i < 1, lambda i: i, 0), {"shapes": [(), ()]}, "one for each of 1 loop variables"),
        (SpecError, (lambda i: True, lambda i: i, [np.zeros(2)]), {"shapes": [(3,)]}, "the shape of loop variable 0 holds what it begins as"),
    ],
)  # fmt: skip
def test_what_is_no_loop_is_refused(kind: Any, args: Any, options: Any, said: str) -> None:
    assert said in refused(kind, *args, **options).what


def test_numbers_that_a_body_returns_take_the_dtype_of_their_variable() -> None:
    with af.Graph() as graph:
        x, b = af.while_loop(lambda x, b: x < 3.0, lambda x, b: (5, False), (np.float16(1), True))

    assert run_step(graph, [x, b]) == [5, False]
    assert x.dtype == np.float16


def test_a_function_of_other_arguments_is_told_what_it_is_given() -> None:
    class Two(NamedTuple):
        i: Any
        j: Any

    async def later(i: Any) -> Any:
        return i

    with af.Graph() as graph:
        with pytest.raises(
            GraphError, match=r"the body of .* one argument \(tensor\), got .* takes \(i, j\)"
        ) as caught:
            af.while_loop(lambda i: i < 1, lambda i, j: i, 0)
        assert "as so many arguments" in str(caught.value.hint)
        with pytest.raises(
            GraphError, match=r"the condition of .* one argument \(Two\(tensor, tensor\)\), got"
        ):
            af.while_loop(lambda i, j: i < 1, lambda i, j: (i, j), Two(0, 0))
        with pytest.raises(
            GraphError, match=r"the condition of .* called with 2 arguments, got .* takes \(i\)"
        ):
            af.while_loop(lambda i: i < 1, lambda i, j: (i, j), (0, 0))
        with pytest.raises(GraphError, match="the body of .* got the async def") as caught:
            af.while_loop(lambda i: i < 1, later, 0)
        assert "af.py_actor" in str(caught.value.hint)
        with pytest.raises(
            GraphError, match=r"got None from the body of .*, and \(tensor, tensor\)"
        ) as caught:
            af.while_loop(lambda i, j: i < 1, lambda i, j: None, (0, 0))
        assert "without a return" in str(caught.value.hint)

    assert not graph.bodies


def test_keys_of_dicts_come_in_any_order() -> None:
    with af.Graph() as graph:
        end = af.while_loop(
            lambda s: s["i"] < 3, lambda s: {"x": s["x"] * 2, "i": s["i"] + 1}, {"i": 0, "x": 1}
        )

    assert list(end) == ["i", "x"]
    assert run_step(graph, [end["i"], end["x"]]) == [3, 8]
