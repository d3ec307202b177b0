from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow import optim
from actorflow.errors import ConfigError

PARAMS = {name: np.full(2, 2.0) for name in ("dense/kernel", "dense/bias", "table")}
GRADS = {name: np.ones(2) for name in PARAMS}


def once(transform: optim.Transform) -> dict[str, Any]:
    deltas, _ = transform.update(GRADS, transform.init(PARAMS), PARAMS)
    return {name: d[0] for name, d in deltas.items()}


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, {"dense/kernel", "dense/bias", "table"}),
        ({"only": "dense/*"}, {"dense/kernel", "dense/bias"}),
        ({"only": ["*kernel", "t?ble"]}, {"dense/kernel", "table"}),
        ({"unless": "*/bias"}, {"dense/kernel", "table"}),
        ({"only": "dense*", "unless": ("*bias", "x")}, {"dense/kernel"}),
        ({"only": "Dense*"}, set()),
    ],
)
def test_masked_acts_on_the_names_that_match(options: Any, chosen: set[str]) -> None:
    found = once(optim.masked(optim.scale(5.0), **options))

    assert found == {name: 5.0 if name in chosen else 1.0 for name in PARAMS}


@pytest.mark.parametrize("inner", [optim.sgd(1.0), optim.chain(optim.clip_by_value(9.0), optim.sgd(1.0))])
def test_names_outside_a_masked_rule_stay_where_they_are(inner: optim.Transform) -> None:
    """The gradients themselves, added to them, would climb."""
    found = once(optim.masked(inner, "dense/*"))

    assert found == {"dense/kernel": -1.0, "dense/bias": -1.0, "table": 0.0}


def test_names_outside_a_masked_rule_get_rows_of_zeros_for_rows() -> None:
    grads = {"a": optim.SparseRows(np.array([1]), np.ones((1, 2)), (3, 2)), "b": np.ones(1)}
    params = {"a": np.ones((3, 2)), "b": np.ones(1)}
    rule = optim.masked(optim.sgd(1.0), "b")

    deltas, _ = rule.update(grads, rule.init(params), params)

    assert deltas["a"].same_rows(grads["a"])
    assert not deltas["a"].values.any()
    assert list(deltas) == ["a", "b"]


def test_a_rule_behind_a_masked_rule_is_refused_for_it_would_get_zeros() -> None:
    with pytest.raises(ConfigError, match="gives zeros for the names outside, got sgd behind it") as caught:
        optim.chain(optim.masked(optim.adam(), "a"), optim.masked(optim.l2(0.1)), optim.sgd(0.1))

    assert "partition" in str(caught.value)


def test_masked_keeps_state_of_what_it_acts_on_alone() -> None:
    state = optim.masked(optim.momentum(0.1), "*kernel").init(PARAMS)

    assert set(state["velocity"]) == {"dense/kernel"}


def test_decay_of_all_but_biases() -> None:
    found = once(optim.chain(optim.masked(optim.l2(0.5), unless="*bias"), optim.sgd(1.0)))

    assert found == {"dense/kernel": -2.0, "dense/bias": -1.0, "table": -2.0}


def test_partition_takes_the_first_rule_that_matches() -> None:
    found = once(optim.partition({"*kernel": optim.sgd(2.0), "dense/*": optim.freeze(), "*": optim.sgd(1.0)}))

    assert found == {"dense/kernel": -2.0, "dense/bias": 0.0, "table": -1.0}


def test_partition_gives_each_rule_the_state_of_its_own() -> None:
    transform = optim.partition({"table": optim.adam(), "unused": optim.sgd(1.0), "*": optim.momentum(0.1)})

    adam, unused, momentum = transform.init(PARAMS)

    assert set(adam["mean"]) == {"table"}
    assert unused == {"count": 0}
    assert set(momentum["velocity"]) == {"dense/kernel", "dense/bias"}


def test_name_without_a_rule_is_refused_with_the_patterns() -> None:
    transform = optim.partition({"*kernel": optim.sgd(1.0), "*bias": optim.freeze()})

    with pytest.raises(
        ConfigError, match=r"no pattern of partition matches 'table'; they are \*kernel, \*bias"
    ):
        transform.init(PARAMS)


@pytest.mark.parametrize("make", [lambda: optim.partition({}), lambda: optim.partition({3: optim.sgd(1.0)})])  # type: ignore[dict-item]
def test_partition_of_nothing_or_by_no_patterns_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        make()


def test_masked_by_a_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="only must be a pattern of names, or several"):
        optim.masked(optim.sgd(1.0), [1])  # type: ignore[list-item]


def test_order_of_the_rules_makes_another_partition() -> None:
    a, b = optim.sgd(1.0), optim.freeze()

    assert optim.partition({"*": a, "x": b}) != optim.partition({"x": b, "*": a})
