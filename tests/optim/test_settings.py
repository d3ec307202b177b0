"""Whatever a setting is given: it is taken, or refused with what it must be and what was got."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pytest

from actorflow import optim
from actorflow.errors import ConfigError
from actorflow.optim import schedules
from actorflow.optim.transform import _RULES

SGD = optim.sgd(0.1)
MAKERS: dict[str, Callable[..., Any]] = {
    name: getattr(optim, name) for name in sorted(set(optim.__all__) & set(_RULES))
} | {f"schedules.{name}": make for name, make in sorted(schedules.table().items())}
FITTING: dict[str, Any] = {
    "lr": 0.1, "rate": 0.1, "limit": 1.0, "decay": 0.5, "factor": 1, "inner": SGD, "every": 2, "rules": {"*": SGD},
    "updates": 10, "boundaries": (3,), "rates": (0.1, 0.2), "peak": 0.1, "then": 0.1,
}  # fmt: skip
"""What fits each setting that has no default."""
MISFITS = [
    None, "x", "", b"x", [], (), {}, set(), float("nan"), float("inf"), -1, -0.5, 0, 1, 2, 2**63, 10**400, 1e308,
    1e-320, True, False, np.float32(0.5), np.int64(3), np.bool_(True), np.float64("nan"), np.ones(2), np.ones(()),
    1j, object(), optim.sgd, SGD, [None], ["x"], [1, 2], [0.1, -1], [True], {"x": 1}, {"schedule": []}, {"*": None},
    {1: SGD}, lambda: 0.1, [{"nme": 1}], slice(3),
]  # fmt: skip


def fitting(make: Callable[..., Any]) -> dict[str, Any]:
    return {
        name: FITTING[name]
        for name, parameter in signature(make).parameters.items()
        if parameter.default is Parameter.empty and parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
    }


def every_setting() -> Iterator[tuple[str, str]]:
    for name, make in MAKERS.items():
        for setting in signature(make).parameters:
            yield name, setting


@pytest.mark.parametrize("name", MAKERS)
def test_settings_that_fit_are_taken(name: str) -> None:
    make = MAKERS[name]

    assert make(SGD) if name == "chain" else make(**fitting(make))


@pytest.mark.parametrize(("name", "setting"), list(every_setting()))
def test_a_setting_of_any_type_is_taken_or_refused_with_what_was_got(name: str, setting: str) -> None:
    make, refusals = MAKERS[name], []
    variadic = signature(make).parameters[setting].kind is Parameter.VAR_POSITIONAL
    for value in MISFITS:
        try:
            made = make(SGD, value) if variadic else make(**{**fitting(make), setting: value})
        except ConfigError as error:
            refusals.append(str(error))
        else:
            if isinstance(made, optim.Transform):
                assert optim.from_config(made.name, made.config) == made
                assert_plain(made.config)
            else:
                assert schedules.as_schedule(schedules.plain(made)) == made
                assert all(0 <= made(n) < np.inf for n in (0, 1, 7, 10**6, 2**62))

    assert len(refusals) > len(MISFITS) // 4
    assert all("got" in text or "there is no schedule" in text for text in refusals)


def assert_plain(config: Any) -> None:
    if isinstance(config, dict):
        for key, value in config.items():
            assert type(key) is str
            assert_plain(value)
    elif type(config) is tuple:
        for value in config:
            assert_plain(value)
    else:
        assert type(config) in (bool, int, float, str)


@pytest.mark.parametrize("name", sorted(_RULES.keys() & set(optim.__all__)))
@pytest.mark.parametrize("config", [None, 3, "x", [], {"nme": 1}, {3: 1}, {"parts": ({"nme": 1},)}])
def test_plain_data_of_any_kind_is_taken_or_refused(name: str, config: Any) -> None:
    with pytest.raises(ConfigError, match=f"optimizer '{name}'.*|.* got "):
        optim.from_config(name, config)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.chain(0.1), "part 1 of a chain must be a Transform, got 0.1"),  # type: ignore[arg-type]
        (lambda: optim.chain(SGD, optim.sgd), r"part 2 of a chain must be .*\n.*call it: sgd\(\.\.\.\)"),  # type: ignore[arg-type]
        (lambda: optim.masked(0.1), "inner must be a Transform, got 0.1"),  # type: ignore[arg-type]
        (lambda: optim.masked(SGD, only=3), "only must be a pattern of names, or several, got 3"),  # type: ignore[arg-type]
        (lambda: optim.partition({"*": 0.1}), r"the rule of pattern '\*' must be a Transform, got 0.1"),  # type: ignore[dict-item]
        (lambda: optim.partition(3), "rules must be a dict of at least one pattern with its rule, got 3"),  # type: ignore[arg-type]
        (lambda: optim.accumulate(3, 2), "inner must be a Transform, got 3"),  # type: ignore[arg-type]
        (lambda: optim.adam(0.1, "x"), r"beta1 must be in \[0, 1\), got 'x'"),  # type: ignore[arg-type]
        (lambda: optim.momentum(0.1, None), r"beta must be in \[0, 1\), got None"),  # type: ignore[arg-type]
        (lambda: optim.momentum(0.1, True), r"beta must be in \[0, 1\), got True"),
        (lambda: optim.momentum(0.1, nesterov=1), "nesterov must be True or False, got 1"),  # type: ignore[arg-type]
        (lambda: optim.clip_by_norm(None), "limit must be positive and finite, got None"),  # type: ignore[arg-type]
        (lambda: optim.scale("a"), "factor must be finite, got 'a'"),  # type: ignore[arg-type]
        (lambda: optim.sgd(10**400), "rate must be a finite number, not negative, got 1000"),
        (lambda: optim.from_config("adam", None), "config of optimizer 'adam' must be a dict .*, got None"),  # type: ignore[arg-type]
        (lambda: optim.from_config(["adam"], {}), r"there is no optimizer \['adam'\]"),  # type: ignore[arg-type]
        (
            lambda: optim.from_config("chain", {"parts": ({"nme": 1},)}),
            r"a transform as plain data must be a dict of 'name' and 'config', got \{'nme': 1\}",
        ),
        (lambda: optim.from_config("chain", {"parts": 3}), "parts must be a sequence, got 3"),
        (lambda: optim.from_config("partition", {"rules": (1,)}), "rules must be dicts of 'pattern'"),
        (lambda: schedules.exponential(0.1, "a", 3), r"decay must be in \(0, 1\], got 'a'"),  # type: ignore[arg-type]
        (lambda: schedules.polynomial(0.1, 3, power="q"), "power must be positive and finite, got 'q'"),  # type: ignore[arg-type]
        (lambda: schedules.piecewise(3, [0.1]), "boundaries must be a sequence, got 3"),  # type: ignore[arg-type]
        (lambda: schedules.join(0.1, [3]), "rates must be a sequence, got 0.1"),  # type: ignore[arg-type]
        (lambda: schedules.cosine(0.1, 2**63), "updates must be at most 2"),
        (lambda: optim.Transform(init=None, update=None), "init must be a function of params, got None"),  # type: ignore[arg-type]
    ],
)
def test_misfits_are_refused_with_what_it_must_be_and_what_was_got(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_numbers_of_numpy_are_taken_and_kept_as_plain_ones() -> None:
    scalars: Any = np.float32(0.5), np.int64(1), np.int8(3), np.bool_(True)
    arrays: Any = np.array([3]), np.array([0.1, 0.2])
    half, one, three, yes = scalars

    rule = optim.adam(half, np.float64(0.25), eps=one)

    assert rule == optim.adam(0.5, 0.25, eps=1.0)
    assert {type(v) for v in rule.config.values()} == {float}
    assert type(schedules.step(1, 1, three).config["every"]) is int
    assert optim.momentum(0.1, nesterov=yes).config["nesterov"] is True
    assert schedules.piecewise(*arrays)(4) == 0.2
