"""Sessions with a card: scopes change no value, training goes the same way, the loop never waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.graph.builder import Tensor
from actorflow.runtime.clock import SystemClock
from tests.gpu.comparing import near
from tests.graph.programs import programs
from tests.laws.test_device_law import placed
from tests.support.reference import evaluate

pytestmark = pytest.mark.gpu

Figure = Callable[[str, str], None]
CARD = "/gpu:0"
now = SystemClock().now


async def run(graph: af.Graph, fetches: Any, feeds: Any = None) -> Any:
    async with af.Session(graph) as session:
        return await session.run(fetches, feeds)


@settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(drawn=programs(), names=st.lists(st.sampled_from(["/cpu:0", CARD]), min_size=1, max_size=9))
def test_device_scopes_change_no_value(drawn: Any, names: Sequence[str]) -> None:
    graph = placed(drawn.graph, names)
    told = evaluate(drawn.graph, drawn.loss, drawn.feeds)

    found = af.run(run(graph, drawn.loss.name, {x.name: value for x, value in drawn.feeds.items()}))

    near(np.asarray(found), np.asarray(told), f"{drawn.graph} on {names}")


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.random((n, 8, 8, 1), "float32"), rng.integers(0, 10, n).astype("int32")


def dense() -> tuple[Tensor, Tensor, Tensor]:
    x = af.placeholder("float32", (None, 8, 8, 1), name="x")
    y = af.placeholder("int32", (None,), name="y")
    w = af.Variable(af.init.he((64, 32)), name="w")
    v = af.Variable(af.init.he((32, 10)), name="v")
    h = af.nn.relu(af.reshape(x, (-1, 64)) @ w.read())
    return x, y, h @ v.read()


def convolutional() -> tuple[Tensor, Tensor, Tensor]:
    x = af.placeholder("float32", (None, 8, 8, 1), name="x")
    y = af.placeholder("int32", (None,), name="y")
    k = af.Variable(af.init.he((3, 3, 1, 8)), name="k")
    v = af.Variable(af.init.he((128, 10)), name="v")
    h = af.nn.max_pool(af.nn.relu(af.nn.conv2d(x, k.read())), 2)
    return x, y, af.reshape(h, (-1, 128)) @ v.read()


def losses(network: Callable[[], tuple[Tensor, Tensor, Tensor]], device: str, steps: int) -> list[float]:
    with af.Graph(seed=11) as graph, af.device(device):
        _, y, logits = network()
        loss = af.mean(af.nn.softmax_cross_entropy(logits, y))
        train = af.minimize(loss, af.optim.adam(1e-2))
    batch = images(64)

    async def main() -> list[float]:
        async with af.Session(graph) as session:
            step = session.make_callable([loss, train], ["x", "y"])
            return [float((await step(*batch))[0]) for _ in range(steps)]

    found: list[float] = af.run(main())
    return found


@pytest.mark.parametrize("network", [dense, convolutional])
def test_training_on_a_card_goes_as_on_the_host(network: Any, record_property: Figure) -> None:
    """Within 1e-3 after 30 steps of Adam, whose division makes the last digits of float32 grow."""
    host, card = losses(network, "/cpu:0", 30), losses(network, CARD, 30)

    record_property(
        "figure", f"{network.__name__}: loss {host[0]:.4f} to {host[-1]:.4f}, on the card {card[-1]:.4f}"
    )
    np.testing.assert_allclose(card, host, rtol=1e-3)
    assert host[-1] < 0.8 * host[0]


def test_random_numbers_on_a_card_are_those_of_the_host() -> None:
    def drawn(device: str) -> Any:
        with af.Graph(seed=7) as graph, af.device(device):
            af.random.normal((33, 5), name="a")
            af.random.uniform((4,), name="b")
            af.nn.dropout(af.constant(np.ones(100, "float32")), 0.3, name="c")
        return af.run(run(graph, ["a", "b", "c"]))

    for host, card in zip(drawn("/cpu:0"), drawn(CARD), strict=True):
        np.testing.assert_array_equal(host, card)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7), (3000, 1701)])
def test_arrays_go_there_and_back_bit_by_bit(shape: tuple[int, ...], dtype: str) -> None:
    with af.Graph() as graph:
        x = af.placeholder(dtype, shape, name="x")
        with af.device(CARD):
            y = af.transpose(af.transpose(x))
    fed = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)

    found = af.run(run(graph, y, {x: fed}))

    assert isinstance(found, np.ndarray if shape else np.generic)
    assert found.dtype == fed.dtype
    np.testing.assert_array_equal(found, fed)


def test_copies_are_fast(record_property: Figure) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None,), name="x")
        with af.device(CARD):
            there = af.reshape(x[:1], ())
            back = af.negative(x)
    fed = np.ones(64 << 20, "float32")

    async def main() -> str:
        async with af.Session(graph) as session:
            text = []
            for name, fetch in (("to the card", there), ("there and back", back)):
                await session.run(fetch, {x: fed})
                start = now()
                await session.run(fetch, {x: fed})
                text.append(f"256 MiB {name} {(now() - start) * 1e3:.1f} ms")
            return ", ".join(text)

    record_property("figure", af.run(main()))


def test_many_steps_run_at_once() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (4, 4), name="x")
        with af.device(CARD):
            y = af.tanh(x @ x) + x
    fed = [np.full((4, 4), k / 50, "float32") for k in range(50)]

    async def main() -> list[Any]:
        async with af.Session(graph, max_steps=16) as session:
            return await asyncio.gather(*(session.run(y, {x: a}) for a in fed))

    for found, a in zip(af.run(main()), fed, strict=True):
        np.testing.assert_allclose(found, np.tanh(a @ a) + a, rtol=2e-5)


def test_the_loop_turns_while_the_card_computes(record_property: Figure) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, None), name="x")
        with af.device(CARD):
            y = x
            for _ in range(20):
                y = (y @ x) * 1e-3
            y = af.mean(y)
    fed = np.full((6144, 6144), 1e-2, "float32")
    gaps: list[float] = []

    async def tick() -> None:
        before = now()
        while True:
            await asyncio.sleep(0.001)
            gaps.append(now() - before)
            before = now()

    async def main() -> float:
        async with af.Session(graph) as session:
            await session.run(y, {x: fed})
            ticker = asyncio.ensure_future(tick())
            start = now()
            await session.run(y, {x: fed})
            took = now() - start
            ticker.cancel()
            return took

    took = af.run(main())

    record_property(
        "figure", f"20 products of 6144: {took * 1e3:.0f} ms, longest the loop stood {max(gaps) * 1e3:.1f} ms"
    )
    assert max(gaps) < 0.1


def test_a_launch_costs_little(record_property: Figure) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (128,), name="x")
        with af.device(CARD):
            y = x
            for _ in range(200):
                y = y + 1.0

    async def main() -> float:
        async with af.Session(graph) as session:
            await session.run(y, {x: np.zeros(128, "float32")})
            start = now()
            found = [await session.run(y, {x: np.zeros(128, "float32")}) for _ in range(10)]
            assert (found[-1] == 200).all()
            return (now() - start) / 2000

    record_property("figure", f"a chain of 200 additions: {af.run(main()) * 1e6:.1f} µs a node")


def test_the_memory_of_the_card_comes_back() -> None:
    import cupy

    with af.Graph() as graph:
        x = af.placeholder("float32", (None,), name="x")
        with af.device(CARD):
            y = af.exp(x) + 1.0

    async def main() -> tuple[int, int]:
        async with af.Session(graph) as session:
            used = []
            for _ in range(40):
                await session.run(y, {x: np.zeros(1 << 20, "float32")})
                used.append(int(cupy.get_default_memory_pool().used_bytes()))
            return used[4], used[-1]

    early, late = af.run(main())

    assert late <= early + (1 << 20)


@pytest.mark.parametrize(
    ("build", "fed", "said"),
    [
        (lambda x: af.gather(af.constant([1.0, 2.0]), x, name="bad"), 5, "index 5 is out of bounds"),
        (lambda x: af.math.check_numerics(af.log(af.cast(x, "float32")), name="bad"), -1, "got 1 NaN"),
        (
            lambda x: af.nn.softmax_cross_entropy(
                af.constant(np.ones((1, 3), "float32")), af.reshape(x, (1,)), name="bad"
            ),
            7,
            "labels must lie in",
        ),
    ],
    ids=["gather", "check_numerics", "labels"],
)
def test_an_error_on_a_card_names_its_node(build: Any, fed: int, said: str) -> None:
    with af.Graph() as graph, af.device(CARD):
        x = af.placeholder("int32", (), name="x")
        y = build(x)

    with pytest.raises(af.errors.ActorflowError, match=said) as caught:
        af.run(run(graph, y, {x: np.int32(fed)}))

    assert caught.value.where is not None
    assert (caught.value.where.node, caught.value.where.device) == ("bad", CARD)


def test_a_card_that_is_not_there_is_said() -> None:
    with af.Graph() as graph, af.device("/gpu:63"):
        y = af.constant(1.0) + 1.0

    with pytest.raises(af.errors.PlacementError, match="unknown device '/gpu:63'") as caught:
        af.run(run(graph, y))

    assert "no number 63" in str(caught.value.hint)


def test_lists_of_tensors_stay_on_the_card() -> None:
    """Written, summed, stacked and differentiated there; the host gets what is fetched."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (6, 4), name="x")
        with af.device(CARD):
            array = af.TensorArray.of(x)
            rest = af.TensorArray("float32", element_shape=(4,)).write(1, x[0] * x[1]).write(0, x[5])
            y = af.sum(array.gather([5, 0, 0]) ** 2) + af.sum(rest.stack() * array.read(2))
            found = [y, *af.gradients(y, x)]
    value = np.linspace(-1, 1, 24, dtype="float32").reshape(6, 4)

    made = af.run(run(graph, found, {x: value}))

    for a, b in zip(made, evaluate(graph, found, {x: value}), strict=True):
        near(np.asarray(a), np.asarray(b), "lists on a card")
