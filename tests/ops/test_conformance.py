"""What holds for every op in the table: the spec rule says what the kernel returns, and the
gradient rule what differences measure. An op joins by being registered; see `samples`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow.ops
from actorflow.errors import SpecError
from actorflow.graph import opdef
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor, build
from actorflow.graph.forward import jvp
from actorflow.graph.graph import Graph
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect
from actorflow.graph.slices import Gradient
from actorflow.kernels.definition import registry
from actorflow.testing.central_differences import differences, weights
from actorflow.values.arrays import as_dtype, frozen, is_differentiable, whole
from actorflow.values.spec import Spec
from tests.ops.samples import SAMPLES, Case
from tests.support.accepting import accepted
from tests.support.reference import call, evaluate
from tests.support.strategies import examples

for path in sorted(Path(__file__).parent.glob("samples_*.py")):
    import_module(f"tests.ops.{path.stem}")

COMPUTED = sorted(
    n
    for n, d in opdef.table().items()
    if d.effect in (Effect.PURE, Effect.RANDOM)
    and not d.takes_lists  # these have laws of their own: test_lists
)
DIFFERENTIABLE = [
    n
    for n in COMPUTED
    if opdef.table()[n].gradient is not NOT_DIFFERENTIABLE and n in SAMPLES and SAMPLES[n].no_gradient is None
]
FEW = settings(max_examples=examples(15), deadline=None)


def of_bytes(op: str) -> bool:
    """Whether an op is for bytes or makes them, which no card holds."""
    found = accepted(opdef.lookup(op))
    return found is not None and (found.outputs == ("bytes",) or ("bytes",) in found.inputs)


@contextmanager
def quiet() -> Iterator[None]:
    """Kernels return NaN and infinities in silence; warnings of numpy are the runtime's to turn off."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def converted(case: Case, dtype: str) -> Case:
    to = as_dtype(dtype)
    inputs = []
    for array in case.inputs:
        if array.dtype == np.float64:
            array = (np.abs(array) if to.kind in "ub" else array).astype(to)
        inputs.append(frozen(array))  # a kernel never changes its inputs
    return Case(tuple(inputs), case.attrs, case.objects, case.late)


def spec_of(array: Any) -> Spec:
    return Spec(array.shape, array.dtype)


@st.composite
def blanked(draw: st.DrawFn, specs: Sequence[Spec]) -> list[Spec]:
    """The same specs: all sizes known, none of them, or some; and some ranks unknown in the last case."""
    known = draw(st.sampled_from(["all", "none", "some", "some"]))
    if known == "all":
        return list(specs)
    found = []
    for spec in specs:
        assert spec.shape is not None
        if known == "none":
            found.append(Spec((None,) * len(spec.shape), spec.dtype))
        elif draw(st.integers(0, 3)) == 0:
            found.append(Spec(None, spec.dtype))
        else:
            found.append(Spec(tuple(d if draw(st.booleans()) else None for d in spec.shape), spec.dtype))
    return found


def test_every_computed_op_has_a_sample_and_a_kernel() -> None:
    without_sample = [n for n in COMPUTED if n not in SAMPLES]
    without_kernel = [
        n for n in COMPUTED if not {(n, "numpy"), (n, registry.EVERY)} & registry.table().keys()
    ]

    missing = [f"add @kernel(...) to actorflow/kernels for {n!r}" for n in without_kernel]
    missing += [f"add @sample(...) to tests/ops/samples_*.py for {n!r}" for n in without_sample]
    assert not missing, "; ".join(missing)


def test_every_sample_is_of_an_op() -> None:
    assert set(SAMPLES) <= set(opdef.table())


def test_a_missing_gradient_rule_has_a_reason() -> None:
    missing = [n for n in COMPUTED if opdef.table()[n].gradient is None and n in SAMPLES]

    assert [n for n in missing if SAMPLES[n].no_gradient is None] == []


@pytest.mark.parametrize("op", [n for n in COMPUTED if n in SAMPLES])
def test_spec_rule_says_what_the_kernel_returns(op: str) -> None:
    """For every dtype that the rule accepts, and as far as it can when it knows less."""
    accepted: set[str] = set()

    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = data.draw(SAMPLES[op].cases)
        for dtype in SAMPLES[op].dtypes:
            typed = converted(case, dtype)
            specs = [spec_of(a) for a in typed.inputs]
            try:
                said = opdef.lookup(op).spec(specs, typed.attrs)
            except SpecError:
                continue
            accepted.add(dtype)
            with quiet():
                made = call(op, typed.inputs, typed.attrs)
            if not case.late:
                assert [spec_of(m) for m in made] == list(said)
            assert [s.fits(m.shape, m.dtype) for m, s in zip(made, said, strict=True)] == [True] * len(made)
            assert registry.find(op).cost(*typed.inputs, **typed.attrs) >= 0

            partial = opdef.lookup(op).spec(data.draw(blanked(specs)), typed.attrs)
            for value, spec in zip(made, partial, strict=True):
                assert spec.fits(value.shape, value.dtype), f"{spec} of unknown sizes, {spec_of(value)} made"

    law()
    assert accepted, f"the spec rule of {op} accepts none of {SAMPLES[op].dtypes}"


def laid_out(array: np.ndarray, layout: str) -> Any:
    """The same values laid out in another way: what transposes, slices and 0-d arithmetic give."""
    if array.ndim == 0:
        return whole(array[()])
    if layout == "columns first":
        return frozen(np.asfortranarray(array))
    wide = np.zeros([2 * d for d in array.shape], array.dtype)
    wide[(slice(None, None, -2),) * array.ndim] = array
    return frozen(wide[(slice(None, None, -2),) * array.ndim])


def taken(op: str, case: Case) -> Case:
    """The case in a dtype that the op takes: float64, or else the first such of its sample."""
    for dtype in ("float64", *SAMPLES[op].dtypes):
        typed = converted(case, dtype)
        with suppress(SpecError):
            opdef.lookup(op).spec([spec_of(a) for a in typed.inputs], typed.attrs)
            return typed
    message = f"{op} takes none of {SAMPLES[op].dtypes}"
    raise AssertionError(message)


@pytest.mark.parametrize("op", [n for n in COMPUTED if n in SAMPLES])
def test_the_layout_of_the_inputs_does_not_matter(op: str) -> None:
    """But for the last digits, where elements are added up in another order."""

    @settings(FEW, max_examples=examples(5))
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = taken(op, data.draw(SAMPLES[op].cases))
        with quiet():
            told = call(op, case.inputs, case.attrs)
            for layout in ("columns first", "backwards, every other"):
                made = call(op, [laid_out(a, layout) for a in case.inputs], case.attrs)
                for m, t in zip(made, told, strict=True):
                    assert (m.shape, m.dtype) == (t.shape, t.dtype)
                    exact = m.dtype.kind in "biuO" or m.dtype.name == "bfloat16"
                    if exact:
                        np.testing.assert_array_equal(m, t)
                    else:
                        np.testing.assert_allclose(m, t, rtol=1e-6, atol=1e-12)

    law()


def network(case: Case, op: str, specs: Sequence[Spec]) -> tuple[Graph, list[Tensor], tuple[Tensor, ...]]:
    """A graph of one node of `op` over placeholders."""
    with Graph() as graph:
        graph.objects.update(case.objects)
        xs = [actorflow.ops.placeholder(s.dtype, s.shape, f"x{i}") for i, s in enumerate(specs)]
        return graph, xs, build(op, xs, case.attrs)


def weighted(ys: Sequence[Gradient], shapes: Sequence[tuple[int, ...]], scale: float) -> Tensor:
    """The sum of all elements of ys, each times a weight of its own."""
    parts = []
    for y, shape in zip(ys, shapes, strict=True):
        parts.append(actorflow.ops.sum(y * weights(shape, scale)))
    total: Tensor = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def check_gradient(
    graph: Graph, y: Tensor, xs: Sequence[Tensor], arrays: Sequence[np.ndarray]
) -> list[Gradient | None]:
    """Asserts that the gradient of scalar `y` for each x is what central differences measure."""
    feeds = dict(zip(xs, arrays, strict=True))
    moved = [x for x in xs if is_differentiable(x.dtype)]
    with graph:
        grads = gradients(y, moved)
    for x, grad in zip(moved, grads, strict=True):

        def moved_to(a: np.ndarray, x: Tensor = x) -> float:
            return float(evaluate(graph, y, {**feeds, x: a}))

        measured = differences(moved_to, feeds[x])
        told = np.zeros(feeds[x].shape) if grad is None else evaluate(graph, grad, feeds)
        assert told.shape == feeds[x].shape
        np.testing.assert_allclose(told, measured, rtol=1e-5, atol=1e-6, err_msg=f"gradient for {x.name}")
    return grads


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_gradient_is_what_differences_measure(op: str) -> None:
    """Of the first order and of the second: the gradient of the gradient."""

    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = data.draw(SAMPLES[op].cases)
        graph, xs, ys = network(case, op, data.draw(blanked([spec_of(a) for a in case.inputs])))
        made = call(op, case.inputs, case.attrs)
        real = [(y, m.shape) for y, m in zip(ys, made, strict=True) if y.dtype == np.float64]
        if not real:
            return
        with graph:
            loss = weighted([y for y, _ in real], [s for _, s in real], 1.0)
        grads = check_gradient(graph, loss, xs, case.inputs)
        found = [
            (g, a.shape)
            for g, a in zip(grads, (a for a in case.inputs if a.dtype == np.float64), strict=True)
            if g is not None
        ]
        if found and SAMPLES[op].second_order is None:
            with graph:
                slope = weighted([g for g, _ in found], [s for _, s in found], 0.7)
            check_gradient(graph, slope, xs, case.inputs)

    law()


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_pushing_forward_is_adjoint_to_pulling_back(op: str) -> None:
    """<u, J v> = <Jᵀ u, v>: the rules are linear in the gradient that they are given, and say so."""

    @settings(max_examples=examples(2), deadline=None)
    @given(data=st.data(), seed=st.integers(0, 99))
    def law(data: st.DataObject, seed: int) -> None:
        case, rng = data.draw(SAMPLES[op].cases), np.random.default_rng(seed)
        graph, xs, ys = network(case, op, [spec_of(a) for a in case.inputs])
        made = call(op, case.inputs, case.attrs)
        y, u = next(
            (
                (y, rng.standard_normal(m.shape))
                for y, m in zip(ys, made, strict=True)
                if m.dtype == np.float64
            ),
            (None, None),
        )
        if y is None:
            return
        moved = {x: rng.standard_normal(a.shape) for x, a in zip(xs, case.inputs, strict=True) if is_real(x)}
        with graph:
            pulled = dict(zip(moved, gradients(y, list(moved), [u]), strict=True))
            (pushed,) = jvp(y, list(moved), list(moved.values()))
        feeds = dict(zip(xs, case.inputs, strict=True))

        told = sum(np.sum(evaluate(graph, g, feeds) * moved[x]) for x, g in pulled.items() if g is not None)

        found = 0.0 if pushed is None else np.sum(u * evaluate(graph, pushed, feeds))
        np.testing.assert_allclose(found, told, rtol=1e-6, atol=1e-9)

    law()


def is_real(x: Tensor) -> bool:
    return x.dtype == np.float64
