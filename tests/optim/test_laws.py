"""What holds for every optimizer: it changes nothing it is given, and keeps shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import optim
from actorflow.optim.elementwise import _ELEMENTS
from actorflow.optim.transform import _RULES
from actorflow.values.arrays import as_dtype
from tests.support.strategies import examples

RULES = {
    "sgd": optim.sgd(0.1),
    "sgd, cosine": optim.sgd(optim.schedules.cosine(0.1, 3)),
    "momentum": optim.momentum(0.1),
    "nesterov": optim.momentum(0.1, 0.8, nesterov=True),
    "adagrad": optim.adagrad(0.1),
    "adagrad, tensorflow": optim.adagrad(0.1, initial=0.1, eps=1e-7),
    "adadelta": optim.adadelta(),
    "rmsprop": optim.rmsprop(0.1),
    "rmsprop, centred": optim.rmsprop(0.1, centred=True),
    "rmsprop, momentum": optim.rmsprop(0.1, beta=0.9),
    "rmsprop, both": optim.rmsprop(0.1, beta=0.9, centred=True),
    "adam": optim.adam(0.1),
    "adam, exponential": optim.adam(optim.schedules.exponential(0.1, 0.5, 2)),
    "amsgrad": optim.amsgrad(0.1),
    "adamw": optim.adamw(0.1, decay=0.2),
    "adamax": optim.adamax(0.1),
    "nadam": optim.nadam(0.1),
    "lion": optim.lion(0.1, decay=0.1),
    "ftrl": optim.ftrl(0.1, l1=0.01, l2=0.1, beta=0.5),
    "ftrl, another power": optim.ftrl(0.1, lr_power=-0.7),
    "lamb": optim.lamb(0.1),
    "lbfgs": optim.lbfgs(0.5, history=2),
    "l2": optim.l2(0.1),
    "weight_decay": optim.weight_decay(0.1),
    "scale": optim.scale(-2.0),
    "centralise": optim.centralise(),
    "freeze": optim.freeze(),
    "clip_by_value": optim.clip_by_value(0.5),
    "clip_by_norm": optim.clip_by_norm(1.0),
    "clip_by_global_norm": optim.clip_by_global_norm(1.0),
    "masked": optim.masked(optim.momentum(0.1), "[ab]", unless="b"),
    "partition": optim.partition({"a": optim.adam(0.1), "[bw]": optim.sgd(0.2), "*": optim.freeze()}),
    "accumulate": optim.accumulate(optim.adam(0.1), 2),
    "chain": optim.chain(optim.clip_by_global_norm(0.5), optim.momentum(0.1), optim.adam(1.0)),
    "chain, decays": optim.chain(optim.l2(0.1), optim.adam(0.1), optim.weight_decay(0.01)),
}
COUPLED = {"clip_by_global_norm", "chain", "lbfgs"}
"""Rules in which one parameter has a say in what happens to another."""
WHOLE = {"lamb", "clip_by_norm", "centralise"}
"""Rules that look at the whole of one parameter."""
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


def test_every_rule_keeps_the_laws() -> None:
    lawless = (set(_RULES) & set(optim.__all__)) - {transform.name for transform in RULES.values()}

    assert not lawless, f"add {sorted(lawless)} to RULES in tests/optim/test_laws.py"


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


@pytest.mark.parametrize("name", sorted(set(RULES) - COUPLED))
def test_an_update_split_by_name_equals_the_update_of_all(name: str) -> None:
    transform = RULES[name]
    rng = np.random.default_rng(5)
    params = {"a": rng.standard_normal(3), "b": rng.standard_normal((2, 4)), "c": np.array(0.3)}
    states = {k: transform.init({k: p}) for k, p in params.items()}
    together = transform.init(params)
    for _ in range(4):
        grads = {k: rng.standard_normal(p.shape) for k, p in params.items()}

        both, together = transform.update(grads, together, params)

        for k, p in params.items():
            alone, states[k] = transform.update({k: grads[k]}, states[k], {k: p})
            np.testing.assert_array_equal(alone[k], both[k])
        params = {k: p + both[k] for k, p in params.items()}


def test_the_coupled_rules_are_coupled() -> None:
    params = {"a": np.array([1.0, -2.0]), "b": np.array([[3.0]])}
    for name in COUPLED:
        transform = RULES[name]
        both, _ = transform.update(params, transform.init(params), params)
        only = {"a": params["a"]}
        alone, _ = transform.update(only, transform.init(only), only)

        assert not np.array_equal(alone["a"], both["a"]), name


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_says_that_it_is_joint_when_it_is_coupled(name: str) -> None:
    assert bool(RULES[name].joint) == (name in COUPLED)


def test_what_is_made_of_a_joint_rule_is_joint_and_names_it() -> None:
    clip = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(0.1))
    made = [
        optim.masked(clip, "a"),
        optim.partition({"*": clip}),
        optim.accumulate(clip, 2),
        optim.chain(clip),
    ]

    assert {rule.joint for rule in made} == {"clip_by_global_norm"}
    assert optim.accumulate(optim.lbfgs(0.1), 2).joint == "lbfgs"


@every_rule
def test_state_is_a_tree_of_arrays(transform: optim.Transform) -> None:
    params = {"w": np.ones(3, "float32"), "scalar": np.float32(2)}

    _, state = transform.update(params, transform.init(params), params)

    assert all(isinstance(leaf, np.ndarray) for leaf in leaves(state))


@pytest.mark.parametrize("name", sorted(set(RULES) - {"freeze", "partition", "accumulate", "masked"}))
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_in_a_gradient_is_not_hidden(name: str, dtype: str) -> None:
    transform = RULES[name]
    params = {"w": np.array([[1.0, -2.0], [0.5, 0.25]], as_dtype(dtype))}
    grads = {"w": params["w"].copy()}
    _, state = transform.update(grads, transform.init(params), params)
    grads["w"][0, 1] = np.nan

    deltas, _ = transform.update(grads, state, params)

    assert np.isnan(deltas["w"][0, 1])


@every_rule
def test_a_parameter_of_many_blocks_is_updated_like_its_pieces(transform: optim.Transform) -> None:
    """Elementwise rules work in blocks; the others look at the whole parameter, and are left out."""
    if transform.name in WHOLE or COUPLED & {transform.name}:
        return
    rng = np.random.default_rng(3)
    n = 2 * _ELEMENTS + 7
    p, grads = rng.standard_normal(n), rng.standard_normal((3, n))
    state, pieces = (
        transform.init({"w": p}),
        [slice(0, 1000), slice(_ELEMENTS - 5, _ELEMENTS + 5), slice(n - 9, n)],
    )
    small = [transform.init({"w": p[s]}) for s in pieces]
    for g in grads:
        deltas, state = transform.update({"w": g}, state, {"w": p})
        for i, s in enumerate(pieces):
            mine, small[i] = transform.update({"w": g[s]}, small[i], {"w": p[s]})
            np.testing.assert_array_equal(mine["w"], deltas["w"][s])


@every_rule
def test_the_layout_of_a_gradient_does_not_matter(transform: optim.Transform) -> None:
    p = np.random.default_rng(4).standard_normal((3, 4))
    state = transform.init({"w": p})

    plain_, _ = transform.update({"w": p}, state, {"w": p})
    other, _ = transform.update({"w": np.asfortranarray(p)}, state, {"w": np.asfortranarray(p)})

    np.testing.assert_allclose(other["w"], plain_["w"], rtol=1e-14)


@every_rule
def test_zero_gradients_keep_parameters_where_they_are_unless_the_rule_decays_them(
    transform: optim.Transform,
) -> None:
    params = {"w": np.array([1.0, -2.0])}
    grads = {"w": np.zeros(2)}

    deltas, _ = transform.update(grads, transform.init(params), params)

    if transform.name in {"adamw", "lion", "lamb", "ftrl", "weight_decay"}:
        assert (np.sign(deltas["w"]) == [-1, 1]).all()
    elif "l2" in str((transform.name, transform.config)):
        assert deltas["w"].all()
    else:
        np.testing.assert_array_equal(deltas["w"], [0, 0])


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
    if isinstance(config, Mapping):
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
        optim.adagrad(1.0),
        optim.adadelta(optim.schedules.cosine(100.0, 400)),
        optim.rmsprop(optim.schedules.linear(0.1, 400)),
        optim.rmsprop(optim.schedules.linear(0.01, 400), beta=0.9, centred=True),
        optim.amsgrad(0.1),
        optim.adamw(0.1, decay=0.0),
        optim.adamax(0.2),
        optim.nadam(0.1),
        optim.lion(optim.schedules.linear(0.1, 400)),
        optim.ftrl(1.0),
        optim.lamb(optim.schedules.cosine(0.1, 400), decay=0.0),
        optim.lbfgs(),
        optim.accumulate(optim.sgd(0.3), 3),
        optim.partition({"x": optim.momentum(0.05)}),
        optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(optim.schedules.cosine(0.5, 400))),
    ],
    ids=lambda t: t.name,
)
def test_quadratic_is_minimised(transform: optim.Transform) -> None:
    scale, lowest = np.array([1.0, 4.0, 0.5]), np.array([3.0, -1.0, 0.5])
    params = {"x": np.full(3, 0.1)}
    state = transform.init(params)
    for _ in range(400):
        deltas, state = transform.update({"x": scale * (params["x"] - lowest)}, state, params)
        params = {"x": params["x"] + deltas["x"]}

    np.testing.assert_allclose(params["x"], lowest, atol=1e-3)
