"""Passes change what a program costs, never what it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import ActorflowError, ConfigError, NumericError
from actorflow.plan.lower import lower
from actorflow.plan.passes import simplify
from actorflow.plan.passes.pass_table import ALL, apply_passes, check_passes
from actorflow.plan.program import Constant, NodeKind, Program
from tests.plan.running import run

Verb = Callable[..., af.Tensor]

ONE: dict[str, Verb] = {
    "identity": af.arrays.identity,
    "stop_gradient": af.stop_gradient,
    "negative": lambda x: -x,
    "abs": af.abs,
    "relu": af.nn.relu,
    "exp": af.exp,
    "transposed": lambda x: af.transpose(x) if x.spec.rank else x,
    "flat": lambda x: af.reshape(x, (-1,)),
    "square": lambda x: af.reshape(x, (2, 2)) if x.shape in ((4,), (2, 2), (1, 4)) else x,
    "row": lambda x: af.reshape(x, (1, 4)) if x.shape in ((4,), (2, 2)) else x,
    "wide": lambda x: af.cast(x, "float64"),
    "wide and back": lambda x: af.cast(af.cast(x, "float64"), "float32"),
    "half and back": lambda x: af.cast(af.cast(x, "float16"), "float32"),
    "sum": af.sum,
    "cumulative": lambda x: af.cumulative_sum(x, axis=-1) if x.spec.rank else x,
    "zeros": af.zeros_like,
    "ones": af.ones_like,
    "concat": lambda x: af.concat([x], 0) if x.spec.rank else x,
    "plus 0": lambda x: x + 0.0,
    "plus -0": lambda x: x + -0.0,
    "less 0": lambda x: x - 0.0,
    "less -0": lambda x: x - -0.0,
    "times 1": lambda x: 1.0 * x,
    "times 0": lambda x: x * 0.0,
    "over 1": lambda x: x / 1.0,
    "to the 1": lambda x: af.pow(x, af.constant(1.0)) if x.dtype == np.float32 else x,
    "where": lambda x: af.where(x > 0, x, 1.0 / x),
    "guard": af.math.check_numerics,
    "guard of size": lambda x: af.arrays.ensure_shape(x, (4,) if x.spec.rank == 1 else x.shape),
    "complex": lambda x: (
        af.real(1.0 * (af.math.complex(*(af.stop_gradient(x),) * 2) * 1.0)) if x.dtype == np.float32 else x
    ),
    "late shape": lambda x: af.reshape(af.reshape(x, af.arrays.shape(x)), (4,)) if x.shape == (4,) else x,
}
TWO: dict[str, Verb] = {
    "add": af.add,
    "subtract": af.subtract,
    "multiply": af.multiply,
    "maximum": af.maximum,
}
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan, 1e-40])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[af.Tensor], list[af.Tensor]]:
    """A drawn graph: (fetches, placeholders); gradients are among the fetches."""
    with af.Graph():
        x = af.placeholder("float32", draw(st.sampled_from([(4,), (2, 2), (None,)])), name="x")
        y = af.placeholder("float32", (), name="y")
        made = [x, y, af.constant(draw(NUMBERS)), af.constant([draw(NUMBERS) for _ in range(4)])]
        for _ in range(draw(st.integers(1, 14))):
            waits = draw(st.lists(st.sampled_from(made), max_size=1)) if draw(st.booleans()) else []
            one = draw(st.sampled_from(made))
            with af.control_dependencies(waits):
                if draw(st.booleans()):
                    made.append(ONE[draw(st.sampled_from(sorted(ONE)))](one))
                else:
                    others = [t for t in made if t.dtype == one.dtype and _fit(one, t)]
                    other = draw(st.sampled_from(others)) if others else one
                    made.append(TWO[draw(st.sampled_from(sorted(TWO)))](one, other))
        fetches = draw(st.lists(st.sampled_from(made[2:]), min_size=1, max_size=3))
        found = af.gradients([af.sum(af.cast(t, "float32")) for t in fetches], [x, y])
        return fetches + [g for g in found if isinstance(g, af.Tensor)], [x, y]


def _fit(a: af.Tensor, b: af.Tensor) -> bool:
    return a.shape in ((), b.shape) or b.shape == ()


def lowered(fetches: Sequence[af.Tensor], feeds: Sequence[af.Tensor]) -> Program:
    graph = fetches[0].graph
    return lower(graph, [t.port for t in fetches], [t.port for t in feeds], ["/cpu:0"], passes=())


def same_bits(got: Any, wanted: Any) -> bool:
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    signs = np.signbit(got) == np.signbit(wanted)
    return bool(np.all(((got == wanted) & signs) | (np.isnan(got) & np.isnan(wanted))))


def check_same(drawn: tuple[list[af.Tensor], list[af.Tensor]], names: Sequence[str], x: Any, y: Any) -> None:
    fetches, feeds = drawn
    program = lowered(fetches, feeds)
    values = [np.float32(x).reshape([d or 4 for d in feeds[0].shape or ()]), np.float32(y)]
    wanted = outcome(program, values)

    got = outcome(apply_passes(program, names), values)

    for g, w in zip(got, wanted, strict=True):
        assert g == w if isinstance(w, type) else same_bits(g, w), (g, w)


def outcome(program: Program, values: Sequence[Any]) -> list[Any]:
    """What is fetched, or the type of the failure."""
    try:
        return run(program, values)
    except (ActorflowError, ValueError) as error:
        return [type(error)]


@given(
    drawn=graphs(),
    names=st.lists(st.sampled_from(ALL), max_size=5),
    x=st.lists(NUMBERS, min_size=4, max_size=4),
    y=NUMBERS,
)
def test_any_choice_of_passes_gives_the_same_bits_and_gradients(
    drawn: tuple[list[af.Tensor], list[af.Tensor]], names: list[str], x: list[float], y: float
) -> None:
    check_same(drawn, names, x, y)


def test_the_law_would_see_a_rule_that_is_almost_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(simplify._NEUTRAL, "add", ((1, 0.0),))
    with af.Graph():
        x, y = af.placeholder("float32", (4,), name="x"), af.placeholder("float32", (), name="y")
        drawn = [x + 0.0], [x, y]

    with pytest.raises(AssertionError):
        check_same(drawn, ["simplify"], [-0.0, 1.0, 2.0, 3.0], 0.0)


@given(drawn=graphs())
def test_passes_end_and_another_round_changes_nothing(drawn: tuple[list[af.Tensor], list[af.Tensor]]) -> None:
    once = apply_passes(lowered(*drawn), ALL)

    assert apply_passes(once, ALL) is once


def ops(program: Program) -> list[str]:
    return [node.op for node in program.nodes if node.kind is NodeKind.KERNEL]


def after(names: Sequence[str], fetches: Sequence[af.Tensor], *feeds: af.Tensor) -> list[str]:
    return ops(apply_passes(lowered(fetches, feeds), names))


# -------------------------------------------------------------------------------- simplify


def test_what_has_no_effect_is_taken_away() -> None:
    with af.Graph():
        x = af.placeholder("float32", (2, 3), name="x")
        y = af.transpose(af.transpose(-af.negative(af.arrays.identity(x) * 1.0)))
        z = af.reshape(af.cast(af.cast(y, "float64"), "float32"), (2, 3))

    assert after(["simplify", "sweep"], [z], x) == []


def test_what_is_not_quite_nothing_stays() -> None:
    with af.Graph():
        x = af.placeholder("float32", (2, 3), name="x")
        z = af.cast(af.cast((x + 0.0) * 0.0 - -0.0, "float16"), "float32")
        wide = af.placeholder("int64", (), name="wide")
        rounded = af.cast(af.cast(wide, "float64"), "int64")

    assert after(ALL, [z], x) == ["add", "multiply", "subtract", "cast", "cast"]
    assert after(ALL, [rounded], wide) == ["cast", "cast"]


def test_a_neutral_constant_that_broadcasts_the_other_input_stays() -> None:
    with af.Graph():
        x = af.placeholder("float32", (3,), name="x")
        unknown = af.placeholder("float32", (None,), name="unknown")
        ones = np.ones((2, 3), np.float32)

    with x.graph:
        assert after(["simplify"], [x * ones], x) == ["multiply"]
        assert after(["simplify"], [unknown * np.ones(1, np.float32)], unknown) == ["multiply"]
        assert after(["simplify", "sweep"], [x * np.ones(3, np.float32)], x) == []


def test_a_chain_of_transpositions_becomes_one() -> None:
    with af.Graph():
        x = af.placeholder("float32", (2, 3, 4), name="x")
        y = af.transpose(af.transpose(x, (1, 2, 0)), (1, 2, 0))
    program = apply_passes(lowered([y], [x]), ALL)

    assert ops(program) == ["transpose"]
    value = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert np.array_equal(run(program, [value])[0], value.transpose(1, 2, 0).transpose(1, 2, 0))


def test_what_may_fail_is_run_also_when_only_its_shape_is_needed() -> None:
    with af.Graph():
        x = af.placeholder("float32", (4,), name="x")
        zeros = af.zeros_like(af.math.check_numerics(x))

    assert after(ALL, [zeros], x) == ["check_numerics", "zeros_like"]


def test_complex_numbers_have_no_neutral_one() -> None:
    with af.Graph():
        x = af.placeholder("complex64", (), name="x")

    with x.graph:
        assert after(ALL, [x * 1.0], x) == ["multiply"]


def test_two_reshapes_stay_two_since_the_first_copies_what_lies_transposed() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2, 2), name="x")
        y = af.reshape(af.reshape(af.transpose(x), (-1,)), (2, 2))
    program = apply_passes(lowered([y], [x]), ALL)

    assert ops(program) == ["transpose", "reshape", "reshape"]
    assert run(program, [np.eye(2)])[0].flags.c_contiguous


# ------------------------------------------------------------------------------------ fold


def test_what_depends_on_constants_alone_is_computed_when_the_plan_is_made() -> None:
    with af.Graph():
        x = af.placeholder("float32", (), name="x")
        y = x + af.sum(af.exp(af.constant([0.0, 0.0])) * 3.0)
    program = apply_passes(lowered([y], [x]), ["fold", "sweep"])

    assert ops(program) == ["add"]
    assert any(isinstance(s, Constant) and s.value == 6.0 for n in program.nodes for s in n.inputs)
    assert run(program, [np.float32(1.0)]) == [7.0]


def test_a_constant_that_would_fill_the_memory_is_not_kept() -> None:
    with af.Graph():
        small = af.broadcast_to(af.constant(1.0), (1000,))
        large = af.broadcast_to(af.constant(1.0), (1000, 1000))

    assert after(["fold", "sweep"], [small]) == []
    assert after(["fold", "sweep"], [large]) == ["broadcast_to"]


def test_a_fold_that_fails_is_left_to_the_step() -> None:
    with af.Graph():
        y = af.math.check_numerics(af.log(af.constant(-1.0)), "a bad rate")

    assert after(ALL, [y]) == ["check_numerics"]


def test_no_list_becomes_a_constant_and_equal_lists_become_one() -> None:
    """What is made of them in the step is not known here, though all that it depends on is."""
    with af.Graph():
        one, other = (af.TensorArray("float32", element_shape=(2,)).write(0, af.ones((2,))) for _ in range(2))
        y = one.stack() + other.stack()

    assert after(["fold", "cse", "sweep"], [y]) == ["list_new", "list_write", "list_stack", "add"]


def test_random_numbers_are_neither_folded_nor_merged() -> None:
    with af.Graph():
        a, b = af.random.uniform((2,), seed=1), af.random.uniform((2,), seed=1)
    program = apply_passes(lowered([a, b], []), ALL)

    assert [node.op for node in program.nodes if node.kind is NodeKind.RANDOM] == ["random_uniform"] * 2


def test_what_waits_is_neither_folded_nor_merged_nor_taken_away() -> None:
    with af.Graph():
        x = af.placeholder("float32", (), name="x")
        first = af.exp(x)
        with af.control_dependencies([first]):
            waiting = [af.arrays.identity(x), af.negative(2.0), af.exp(x)]

    assert sorted(after(ALL, waiting, x)) == ["exp", "exp", "identity", "negative"]


def test_nodes_for_a_card_are_not_folded_on_the_host() -> None:
    with af.Graph() as graph, af.device("/gpu:0"):
        y = af.exp(af.constant(1.0))
    program = lower(graph, [y.port], [], ["/cpu:0", "/gpu:0"])

    assert ops(program) == ["exp"]


def test_nodes_for_a_processor_of_a_named_process_are_folded() -> None:
    with af.Graph() as graph, af.device("/job:ps"):
        y = af.exp(af.constant(1.0))
    devices = ["/job:ps/task:0/device:cpu:0", "/job:ps/task:0/device:gpu:0"]

    assert ops(lower(graph, [y.port], [], devices)) == []


# ------------------------------------------------------------------------------------- cse


def test_equal_nodes_become_one_and_constants_are_compared_by_their_bits() -> None:
    with af.Graph():
        x = af.placeholder("float32", (), name="x")
        same = [af.exp(x) + 2.0, af.exp(x) + 2.0]
        other = [x * 0.0, x * -0.0]

    assert after(["cse", "sweep"], same, x) == ["exp", "add"]
    assert after(["cse", "sweep"], other, x) == ["multiply", "multiply"]


def test_attributes_that_python_holds_equal_tell_nodes_apart() -> None:
    with af.Graph():
        x = af.placeholder("float32", (2,), name="x")
        y = [af.nn.leaky_relu(x, 0.0), af.nn.leaky_relu(x, -0.0)]

    assert len(after(["cse", "sweep"], y, x)) == 2


def test_reads_are_never_merged() -> None:
    with af.Graph():
        v = af.Variable(1.0, name="v")
        before = v.read()
        written = v.assign_add(1.0)
        later = v.read()
    program = apply_passes(lowered([before, written, later], []), ALL)

    assert [n.op for n in program.nodes if n.kind in (NodeKind.REQUEST, NodeKind.WAIT)].count(
        "read_variable"
    ) == 2


# ----------------------------------------------------------------------------------- sweep


def test_a_node_that_asks_an_actor_is_no_dead_code_and_a_kernel_is() -> None:
    with af.Graph():
        x, v = af.placeholder("float32", (), name="x"), af.Variable(1.0, name="v")
        program = lowered([af.exp(v), x], [x])
    nodes = list(program.nodes)
    first, second = program.fetches
    nodes[first] = replace(nodes[first], inputs=nodes[second].inputs)  # now nobody needs exp(v)
    swept = apply_passes(replace(program, nodes=tuple(nodes)), ["sweep"])

    assert [node.op for node in swept.nodes] == ["feed", "read_variable", "fetch", "fetch"]


def test_whoever_waits_for_a_node_that_was_merged_waits_for_the_one_that_stays() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), name="x")
        v = af.Variable(0.0, name="v")
        checks = [af.math.check_numerics(x), af.math.check_numerics(x)]
        with af.control_dependencies([checks[1]]):
            write = v.assign(1.0)
        total = af.sum(checks[0])

    async def guarded() -> Any:
        async with af.Session(graph) as session:
            with pytest.raises(NumericError):
                await session.run([total, write], {x: [1.0, np.nan]})
            return await session.run(v)

    assert af.run(guarded()) == 0.0


def test_whoever_waits_for_a_node_that_is_gone_waits_for_its_inputs() -> None:
    with af.Graph():
        v = af.Variable(1.0, name="v")
        gone = af.arrays.identity(v.read())
        x = af.placeholder("float32", (), name="x")
        with af.control_dependencies([gone]):
            y = af.exp(x)
    program = apply_passes(lowered([y], [x]), ALL)
    (waiting,) = [n for n in program.nodes if n.op == "exp"]

    assert [program.nodes[c].op for c in waiting.controls] == ["read_variable"]


# --------------------------------------------------------------------------------- choosing


def test_an_unknown_pass_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"there is no pass 'inline'; there are simplify, fold, cse, sweep"):
        check_passes(["fold", "inline"])
    assert check_passes("cse") == ("cse",)


def test_a_session_trains_to_the_same_bits_with_and_without_passes() -> None:
    with af.Graph(seed=3) as graph:
        x = af.placeholder("float32", (None, 3), name="x")
        w = af.Variable(af.init.glorot((3, 2)), name="w")
        b = af.Variable(af.init.zeros((2,)), name="b")
        loss = af.mean(af.nn.softmax_cross_entropy(af.nn.relu(x @ w + b), af.argmax(x[:, :2], axis=1)))
        train = af.minimize(loss, af.optim.adam(0.1))
    value = np.linspace(-1, 0, 12, dtype=np.float32).reshape(4, 3) * [1, 1, -1]

    async def trained(passes: Sequence[str]) -> tuple[list[Any], int]:
        async with af.Session(graph, passes=passes) as session:
            for _ in range(3):
                await session.run(train, {x: value.astype(np.float32)})
            return await session.run([loss, w, b], {x: value.astype(np.float32)}), session.stats().messages

    (plain, many), (improved, few) = af.run(trained(())), af.run(trained(ALL))

    assert all(same_bits(g, w) for g, w in zip(improved, plain, strict=True))
    assert few < many


def test_a_session_refuses_a_pass_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="there is no pass 'inline'"):
        af.Session(af.Graph(), passes=["inline"])
