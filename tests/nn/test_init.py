from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from actorflow.nn import init
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import spec
from tests.support.reference import evaluate


def values(make: Any, *args: Any, seed: int = 0, **options: Any) -> np.ndarray:
    with Graph(seed=seed) as graph:
        initialiser = make(*args, **options)
        tensor = initialiser.build()
    assert tensor.spec == initialiser.spec
    found: np.ndarray = evaluate(graph, tensor)
    return found


@pytest.mark.parametrize(("make", "value"), [(init.zeros, 0), (init.ones, 1), (init.constant(3), 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_constants_fill(make: Any, value: float, dtype: str) -> None:
    filled = values(make, (2, 3), dtype)

    assert filled.dtype == as_dtype(dtype)
    np.testing.assert_array_equal(filled, np.full((2, 3), value))


def test_a_fraction_does_not_fit_an_integer() -> None:
    with Graph(), pytest.raises(SpecError):
        init.constant(0.25)((2,), "int64").build()


@pytest.mark.parametrize(
    ("make", "shape", "deviation"),
    [
        (init.he, (200, 300), np.sqrt(2 / 200)),
        (init.he_uniform, (200, 300), np.sqrt(2 / 200)),
        (init.glorot, (200, 300), np.sqrt(2 / 500)),
        (init.glorot_normal, (200, 300), np.sqrt(2 / 500)),
        (init.he, (3, 5, 16, 64), np.sqrt(2 / (15 * 16))),
        (init.glorot, (3, 5, 16, 64), np.sqrt(2 / (15 * (16 + 64)))),
        (init.lecun_normal, (200, 300), np.sqrt(1 / 200)),
        (init.lecun_uniform, (200, 300), np.sqrt(1 / 200)),
        (init.he_truncated, (200, 300), np.sqrt(2 / 200)),
        (init.glorot_truncated, (200, 300), np.sqrt(2 / 500)),
        (init.lecun_truncated, (200, 300), np.sqrt(1 / 200)),
        (init.truncated_normal(0.0, 0.5), (200, 300), 0.5 * 0.8796256610342398),
        (init.normal(0.0, 0.5), (200, 300), 0.5),
        (init.uniform(-3.0, 3.0), (200, 300), np.sqrt(3)),
    ],
)
def test_weights_have_the_deviation_of_their_rule(
    make: Any, shape: tuple[Any, ...], deviation: float
) -> None:
    w = values(make, shape).astype("float64")

    assert abs(w.mean()) < 5 * deviation / np.sqrt(w.size)
    assert abs(w.std() / deviation - 1) < 5 / np.sqrt(w.size)


def test_uniform_rules_stay_within_their_limits() -> None:
    w = values(init.glorot_uniform, (100, 50))

    assert abs(w).max() <= np.float32(np.sqrt(6 / 150))


def test_he_keeps_the_variance_through_relu_layers() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 256))
    for layer in range(10):
        x = np.maximum(x @ values(init.he, (256, 256), seed=layer), 0)

    assert 0.5 < (x**2).mean() < 2


def test_seed_decides() -> None:
    assert values(init.he, (4, 4), seed=1).tobytes() == values(init.he, (4, 4), seed=1).tobytes()
    assert values(init.he, (4, 4), seed=1).tobytes() != values(init.he, (4, 4), seed=2).tobytes()
    with Graph() as graph:
        a, b, c = (init.he((4, 4), seed=s).build() for s in (1, 1, 2))
    assert a.node.attrs["seed"] == b.node.attrs["seed"] != c.node.attrs["seed"]
    assert len(graph) == 3


def test_nothing_is_built_before_it_is_asked_for() -> None:
    with Graph() as graph:
        initialiser = init.he((4, 4), "float64")

        assert initialiser.spec == spec("float64", (4, 4))
        assert len(graph) == 0


@pytest.mark.parametrize(
    ("shape", "wanted"), [((4, 7), (4, 7)), ((3, 3, 4, 7), (36, 63)), ((5,), (5, 5)), ((2, 4, 7), (8, 14))]
)
def test_fans(shape: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    assert init.fans(shape) == wanted


@pytest.mark.parametrize("shape", [(), (0, 4)])
def test_weights_without_inputs_are_refused(shape: tuple[Any, ...]) -> None:
    with pytest.raises(SpecError, match="at least one axis and element"):
        init.he(shape)


def test_unknown_shape_is_refused() -> None:
    with pytest.raises(SpecError, match="needs a known shape"):
        init.zeros((None, 3))  # type: ignore[arg-type]


def test_truncated_weights_stay_within_two_deviations() -> None:
    w = values(init.truncated_normal(1.0, 0.5), (200, 300)).astype("float64")

    assert w.min() >= 0 and w.max() <= 2
    assert abs(w.mean() - 1) < 0.01
    assert abs((abs(w - 1) < 0.5).mean() - 0.6827 / 0.9545) < 0.01  # one deviation, of those within two


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_truncated_weights_of_another_dtype(dtype: str) -> None:
    w = values(init.truncated_normal(), (50, 50), dtype)

    assert w.dtype == as_dtype(dtype)
    assert 0.03 < w.astype("float64").std() < 0.06


@pytest.mark.parametrize("shape", [(6, 6), (8, 3), (3, 8), (3, 3, 2, 4), (1, 5)])
def test_orthogonal_weights_have_orthonormal_rows_or_columns(shape: tuple[int, ...]) -> None:
    w = values(init.orthogonal(2.0), shape, "float64").reshape(-1, shape[-1])

    product = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    np.testing.assert_allclose(product, 4 * np.eye(min(w.shape)), atol=1e-12)


def test_orthogonal_weights_prefer_no_sign() -> None:
    """The factor q alone has a diagonal of one sign in LAPACK."""
    corners = [values(init.orthogonal(), (2, 2), seed=s)[0, 0] for s in range(40)]

    assert 8 < np.sum(np.array(corners) > 0) < 32


def test_orthogonal_weights_need_two_axes() -> None:
    with pytest.raises(SpecError, match=r"at least two axes, got shape \(3,\)"):
        init.orthogonal()((3,))
