"""What the runtime does with a card, on a stand-in for CuPy; tests/gpu runs the same on a real one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import actorflow as af
from actorflow.errors import KernelError, PlacementError, SessionClosed
from actorflow.kernels.definition import registry
from actorflow.kernels.device.devices import Devices
from tests.gpu import comparing
from tests.kernels import fake_cupy
from tests.ops.samples import SAMPLES, Case
from tests.plan.list_programs import PARTED, build
from tests.support.faults import planted
from tests.support.strategies import examples


@pytest.fixture(autouse=True)
def card() -> Iterator[Any]:
    with fake_cupy.installed() as cupy:
        yield cupy


async def run(graph: af.Graph, fetches: Any, feeds: Any = None, **options: Any) -> Any:
    async with af.Session(graph, threads=1, **options) as session:
        return await session.run(fetches, feeds)


def on_card(body: Any) -> af.Graph:
    with af.Graph() as graph, af.device("/gpu:0"):
        body()
    return graph


def test_what_is_fetched_from_a_card_is_an_array_of_numpy() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 3), name="x")
        with af.device("/gpu:0"):
            y = af.tanh(x) @ af.constant(np.eye(3, dtype="float32")) + 1.0
    fed = np.arange(6, dtype="float32").reshape(2, 3)

    found = asyncio.run(run(graph, y, {x: fed}))

    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, np.tanh(fed) + 1, rtol=1e-6)


def test_a_scalar_that_is_fetched_from_a_card_is_one_of_numpy() -> None:
    graph = on_card(lambda: af.mean(af.constant([1.0, 2.0]), name="y"))

    assert f"{asyncio.run(run(graph, 'y')):.2f}" == "1.50"


def test_large_arrays_go_there_and_back_whole() -> None:
    """Several staging buffers long, and not in C order."""
    with af.Graph() as graph:
        x = af.placeholder("float64", (None, None), name="x")
        with af.device("/gpu:0"):
            y = af.transpose(x)
    fed = np.random.default_rng(0).random((1500, 1300)).T

    np.testing.assert_array_equal(asyncio.run(run(graph, y, {x: fed})), fed.T)


def test_lists_go_to_a_card_and_back() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (2,), name="x")
        inner = af.TensorArray("float64", element_shape=(2,)).write(40, x)
        with af.device("/gpu:0"):
            there = inner.write(2, x + x)
            y = af.exp(there.read(40))
        with af.device("/cpu:0"):
            back = there.gather([2, 40])

    found = asyncio.run(run(graph, [y, back], {x: [1.0, 2.0]}))

    np.testing.assert_allclose(found[0], np.exp([1.0, 2.0]))
    np.testing.assert_array_equal(found[1], [[2.0, 4.0], [1.0, 2.0]])


def test_a_loop_on_a_card_has_gradients() -> None:
    """How many turns there were is an array of the card as well."""
    with af.Graph() as graph, af.device("/gpu:0"):
        x = af.arrays.identity(af.constant([1.0, 2.0]))
        _, y = af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * y), (0, x))
        found = af.gradients(y, [x])

    np.testing.assert_array_equal(asyncio.run(run(graph, found))[0], [8.0, 1024.0])


@pytest.mark.parametrize("places", [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")])
def test_loops_over_lists_on_a_card_and_the_host_give_the_same_bits(places: tuple[str, ...]) -> None:
    found = [asyncio.run(run(*build(PARTED, at))) for at in (places, ("/cpu:0",))]

    assert [v.tobytes() for v in found[0]] == [v.tobytes() for v in found[1]]


def test_kernels_are_launched_by_a_thread_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(x: Any) -> Any:
        seen.append((type(x).__name__, threading.current_thread().name))
        return x

    monkeypatch.setitem(
        registry.table(), ("exp", "cupy"), registry.Kernel("exp", "cupy", watched, registry.elements)
    )
    graph = on_card(lambda: af.exp(af.exp(af.constant(1.0)), name="y"))

    asyncio.run(run(graph, "y"))

    assert seen == [("CardArray", "actorflow/gpu:0/launch-0")] * 2


def test_random_numbers_on_a_card_are_those_of_the_host() -> None:
    def numbers(device: str) -> Any:
        with af.Graph(seed=7) as graph, af.device(device):
            af.random.normal((3, 5), name="a")
            af.random.uniform((4,), name="b")
        return asyncio.run(run(graph, ["a", "b"]))

    for host, card in zip(numbers("/cpu:0"), numbers("/gpu:0"), strict=True):
        np.testing.assert_array_equal(host, card)


def test_an_error_of_a_launch_names_the_node_and_the_card() -> None:
    graph = on_card(
        lambda: af.gather(af.constant([1.0, 2.0]), af.placeholder("int32", (), name="i"), name="y")
    )

    with pytest.raises(KernelError, match="index 5 is out of bounds for an axis of size 2") as caught:
        asyncio.run(run(graph, "y", {"i": np.int32(5)}))

    assert caught.value.where is not None
    assert (caught.value.where.node, caught.value.where.device) == ("y", "/gpu:0")


def test_an_error_that_the_card_finds_late_names_the_node_that_is_fetched(
    card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(event: Any) -> None:
        raise fake_cupy.CUDARuntimeError("cudaErrorIllegalAddress")

    graph = on_card(lambda: af.exp(af.constant(1.0), name="y"))
    monkeypatch.setattr(fake_cupy.Event, "synchronize", broken)

    with pytest.raises(KernelError, match="cudaErrorIllegalAddress") as caught:
        asyncio.run(run(graph, "y"))

    assert caught.value.where is not None
    assert caught.value.where.node == "y"


def test_a_variable_made_on_a_card_lives_on_the_host() -> None:
    with af.Graph() as graph, af.device("/gpu:0"):
        w = af.Variable(np.ones(3, "float32"), name="w")
        y = w.assign_add(af.exp(w.read()))

    found, w_now = asyncio.run(run(graph, [y, w]))

    np.testing.assert_allclose(found, 1 + np.exp(1.0), rtol=1e-6)
    assert type(w_now) is np.ndarray


def test_no_card_and_no_such_card_are_said() -> None:
    graph = on_card(lambda: af.exp(af.constant(1.0), name="y"))
    with af.Graph() as second, af.device("/gpu:3"):
        af.exp(af.constant(1.0), name="y")

    with fake_cupy.installed(cards=0), pytest.raises(PlacementError, match="cudaErrorNoDevice"):
        asyncio.run(run(graph, "y"))
    with pytest.raises(PlacementError, match="CUDA sees 1 cards and no number 3"):
        asyncio.run(run(second, "y"))


def test_a_closed_card_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Devices] = []

    @planted(monkeypatch, Devices, "__init__")
    def kept(init: Any, self: Devices, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        made.append(self)

    graph = on_card(lambda: af.exp(af.constant(1.0), name="y"))

    async def main() -> Any:
        async with af.Session(graph) as session:
            await session.run("y")
            (devices,) = made
            return devices.by_name["/gpu:0"], session.stats().offloaded, repr(devices)

    device, offloaded, text = asyncio.run(main())

    assert (offloaded, text) == (1, "<Devices /cpu:0, /gpu:0>")
    with pytest.raises(SessionClosed, match="device /gpu:0 is closed"):
        device.submit(lambda: None, lambda *_: None)
    assert not [t.name for t in threading.enumerate() if "/gpu:0" in t.name]


def test_the_stand_in_refuses_to_mix_arrays(card: Any) -> None:
    ours = card.asarray(np.ones(3))

    with pytest.raises(TypeError, match="unsupported type"):
        card.add(ours, np.ones(3))
    with pytest.raises(TypeError, match="unsupported type"):
        ours + np.ones(3)


def turned(q: Any, r: Any) -> tuple[Any, Any]:
    """The same product, the first column of q and the first row of r with the other sign."""
    signs = np.where(np.arange(q.shape[-1]) == 0, -1.0, 1.0)
    return q * signs, signs[:, None] * r


MATRIX = Case((np.array([[2.0, 1.0], [0.5, 3.0], [1.0, 1.0]]),))


def test_factors_may_have_other_signs_on_a_card(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card.linalg, "qr", fake_cupy.function(lambda x: turned(*np.linalg.qr(x))))

    comparing.compare("qr", MATRIX)
    comparing.compare_gradient("qr", MATRIX, "float64")


@pytest.mark.parametrize("wrong", [lambda q, r: (-q, r), lambda q, r: (q * 2, r / 2)])
def test_factors_of_another_product_or_size_are_found(
    wrong: Any, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card.linalg, "qr", fake_cupy.function(lambda x: wrong(*np.linalg.qr(x))))

    with pytest.raises(AssertionError, match="elements differ"):
        comparing.compare("qr", MATRIX)


FEW = settings(max_examples=examples(5), deadline=None)


@pytest.mark.parametrize("op", comparing.OPS)
def test_a_kernel_for_cupy_stays_on_the_card_and_computes_what_numpy_does(op: str) -> None:
    ran = []

    @FEW
    @given(drawn=SAMPLES[op].cases)
    def law(drawn: Any) -> None:
        for dtype in SAMPLES[op].dtypes:
            case = comparing.converted(drawn, dtype)
            if comparing.takes(op, case):
                comparing.compare(op, case)
                ran.append(dtype)

    law()
    assert ran


@pytest.mark.parametrize("op", comparing.DIFFERENTIABLE)
def test_a_gradient_stays_on_the_card(op: str) -> None:
    @FEW
    @given(drawn=SAMPLES[op].cases)
    def law(drawn: Any) -> None:
        comparing.compare_gradient(op, drawn, "float32")

    law()
