from __future__ import annotations

import numpy as np
import pytest

from actorflow import optim
from actorflow.errors import ConfigError
from actorflow.optim import transform


def test_users_rule_needs_only_its_two_functions() -> None:
    sign = optim.Transform(
        init=lambda params: (),
        update=lambda grads, state, params: ({k: -np.sign(g) for k, g in grads.items()}, state),
    )

    deltas, _ = optim.chain(sign, optim.sgd(0.5)).update(
        {"w": np.array([-3.0, 2.0])}, ((), {"count": np.zeros((), "int64")}), {}
    )

    np.testing.assert_array_equal(deltas["w"], [-0.5, 0.5])
    assert repr(sign) == "Transform(name='custom', config=mappingproxy({}))"


def test_registered_rule_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform, "_RULES", dict(transform.table()))

    @optim.rule("twice")
    def twice(lr: float) -> optim.Transform:
        inner = optim.sgd(2 * lr)
        return optim.Transform(name="twice", config={"lr": lr}, init=inner.init, update=inner.update)

    assert optim.from_config("twice", {"lr": 0.25}) == twice(0.25)
    with pytest.raises(ConfigError, match="'twice' is taken"):
        optim.rule("twice")(twice)


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"no optimizer 'shampoo'; there are .*adagrad, .*chain, .*sgd"):
        optim.from_config("shampoo", {})


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'sgd' cannot be made from .*speed"):
        optim.from_config("sgd", {"lr": 0.1, "speed": 3})


def test_rules_with_other_settings_are_not_equal() -> None:
    assert optim.sgd(0.1) == optim.sgd(0.1)
    assert optim.sgd(0.1) != optim.sgd(0.2)
    assert optim.sgd(0.1) == optim.sgd(optim.schedules.constant(0.1))
