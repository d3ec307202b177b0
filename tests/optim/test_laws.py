"""What holds for every optimizer: it changes nothing it is given, and keeps shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import optim
from actorflow.arrays import as_dtype
from tests.strategies import examples

RULES = {
    "sgd": optim.sgd(0.1),
    "sgd, cosine": optim.sgd(optim.schedules.cosine(0.1, 3)),
    "momentum": optim.momentum(0.1),
    "nesterov": optim.momentum(0.1, 0.8, nesterov=True),
    "adam": optim.adam(0.1),
    "adam, exponential": optim.adam(optim.schedules.exponential(0.1, 0.5, 2)),
    "clipped": optim.clip_by_global_norm(1.0),
    "chain": optim.chain(optim.clip_by_global_norm(0.5), optim.momentum(0.1), optim.adam(1.0)),
}
every_rule = pytest.mark.parametrize("transform", RULES.values(), ids=RULES.keys())
DTYPES = ["float16", "bfloat16", "float32", "float64"]


@st.composite
def trees(draw: st.DrawFn) -> dict[str, np.ndarray]:
    names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return {
        name: rng.standard_normal(draw(st.lists(st.integers(0, 3), max_size=3))).astype(
            as_dtype(draw(st.sampled_from(DTYPES)))
        )
        for name in names
    }


def leaves(tree: Any) -> Iterator[np.ndarray]:
    if isinstance(tree, dict):
        for name in sorted(tree):
            yield from leaves(tree[name])
    elif isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def bits(*values: Any) -> list[bytes]:
    return [leaf.tobytes() for value in values for leaf in leaves(value)]


def frozen(tree: Any) -> Any:
    for leaf in leaves(tree):
        leaf.flags.writeable = False
    return tree


@every_rule
@settings(deadline=None, max_examples=examples(25))
@given(params=trees())
def test_update_keeps_shapes_and_dtypes_and_changes_no_input(
    transform: optim.Transform, params: dict[str, Any]
) -> None:
    frozen(params)
    state = transform.init(params)
    for step in range(3):
        grads = frozen({k: np.array(p * p.dtype.type(step + 1)) for k, p in params.items()})
        before = bits(params, grads, frozen(state))

        deltas, after = transform.update(grads, state, params)

        assert bits(params, grads, state) == before
        assert {k: (d.shape, d.dtype) for k, d in deltas.items()} == {
            k: (p.shape, p.dtype) for k, p in params.items()
        }
        assert [(a.shape, a.dtype) for a in leaves(after)] == [(b.shape, b.dtype) for b in leaves(state)]
        state = after


@every_rule
def test_equal_inputs_give_equal_bits_and_share_nothing(transform: optim.Transform) -> None:
    params = {"w": np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)}
    grads = {"w": params["w"] * 3}
    state = transform.init(params)

    first, second = transform.update(grads, state, params), transform.update(grads, state, params)

    assert bits(*first) == bits(*second)
    for mine in leaves(first[1]):
        assert not any(np.shares_memory(mine, given) for given in (params["w"], grads["w"]))


@every_rule
def test_names_are_independent(transform: optim.Transform) -> None:
    """What a rule does to one parameter does not depend on the others; clipping is the exception."""
    params = {"a": np.array([1.0, -2.0]), "b": np.array([[0.1]])}
    if "clip" in str(transform.config) or "clip" in transform.name:
        return
    both, _ = transform.update(params, transform.init(params), params)

    for name, p in params.items():
        alone, _ = transform.update({name: p}, transform.init({name: p}), {name: p})
        np.testing.assert_array_equal(alone[name], both[name])


@every_rule
def test_state_is_a_tree_of_arrays(transform: optim.Transform) -> None:
    params = {"w": np.ones(3, "float32"), "scalar": np.float32(2)}

    _, state = transform.update(params, transform.init(params), params)

    assert all(isinstance(leaf, np.ndarray) for leaf in leaves(state))


@every_rule
def test_config_makes_the_same_rule_elsewhere(transform: optim.Transform) -> None:
    params = {"w": np.linspace(-1, 1, 5, dtype="float32")}

    again = optim.from_config(transform.name, plain(transform.config))

    assert again == transform
    assert hash(again) == hash(transform)
    assert bits(*third_update(again, params)) == bits(*third_update(transform, params))


def third_update(transform: optim.Transform, params: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    state = transform.init(params)
    for _ in range(2):
        _, state = transform.update(params, state, params)
    return transform.update(params, state, params)


def plain(config: Any) -> Any:
    """A copy of plain data; anything else fails."""
    if isinstance(config, dict):
        return {str(k): plain(v) for k, v in config.items()}
    if isinstance(config, tuple):
        return tuple(plain(v) for v in config)
    assert config is None or isinstance(config, bool | int | float | str), config
    return config


@pytest.mark.parametrize(
    "transform",
    [
        optim.sgd(0.1),
        optim.momentum(0.05),
        optim.momentum(0.05, nesterov=True),
        optim.adam(0.1),
        optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(optim.schedules.cosine(0.5, 400))),
    ],
    ids=lambda t: t.name,
)
def test_quadratic_is_minimised(transform: optim.Transform) -> None:
    scale, lowest = np.array([1.0, 4.0, 0.5]), np.array([3.0, -1.0, 0.5])
    params = {"x": np.zeros(3)}
    state = transform.init(params)
    for _ in range(400):
        deltas, state = transform.update({"x": scale * (params["x"] - lowest)}, state, params)
        params = {"x": params["x"] + deltas["x"]}

    np.testing.assert_allclose(params["x"], lowest, atol=1e-3)
