"""Variables are spread over shards by bytes, everywhere in the same way."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actorflow import errors
from actorflow.coord.rules.sharding import check_joint, shard_variables

names = st.text("abcdef/0", min_size=1, max_size=4)
sizes = st.dictionaries(names, st.integers(0, 100), min_size=1, max_size=9)


@given(sizes=sizes, shards=st.integers(1, 4), data=st.data())
def test_every_variable_lies_on_one_shard_and_every_shard_holds_one(
    sizes: dict[str, int], shards: int, data: st.DataObject
) -> None:
    assume(len(sizes) >= shards)
    shuffled = dict(data.draw(st.permutations(list(sizes.items()))))

    found = shard_variables(sizes, shards)

    assert sorted(name for part in found.names for name in part) == sorted(sizes)
    assert all(found.names)
    assert found.nbytes == tuple(sum(sizes[name] for name in part) for part in found.names)
    assert all(found.shard_of(name) == s for s, part in enumerate(found.names) for name in part)
    assert [set(part) for part in shard_variables(shuffled, shards).names] == [
        set(part) for part in found.names
    ]
    assert all(list(part) == [name for name in sizes if name in part] for part in found.names)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(2, 3))
def test_the_fullest_shard_is_within_the_bound_of_the_best(weights: list[int], shards: int) -> None:
    assume(len(weights) >= shards)
    given_sizes = {f"v{i}": w for i, w in enumerate(weights)}

    fullest = max(shard_variables(given_sizes, shards).nbytes)

    def load(places: tuple[int, ...]) -> int:
        return max(sum(w for w, p in zip(weights, places, strict=True) if p == s) for s in range(shards))

    best = min(map(load, product(range(shards), repeat=len(weights))))
    assert fullest <= best * (4 / 3 - 1 / (3 * shards)) + 1e-9


def test_the_largest_goes_first_and_ties_go_by_name() -> None:
    found = shard_variables({"b": 10, "a": 10, "c": 4, "d": 4, "e": 3}, 2)

    assert found.names == (("a", "c", "e"), ("b", "d")) or found.names == (("a", "c"), ("b", "d", "e"))
    assert found == shard_variables({"b": 10, "a": 10, "c": 4, "d": 4, "e": 3}, 2)
    assert found.shard_of("a") == 0


def test_variables_without_bytes_are_spread_too() -> None:
    assert shard_variables({"a": 0, "b": 0, "c": 0}, 3).names == (("a",), ("b",), ("c",))


@given(sizes=sizes, shards=st.integers(1, 3), data=st.data())
def test_groups_stay_together_and_fixed_ones_in_their_places(
    sizes: dict[str, int], shards: int, data: st.DataObject
) -> None:
    some = st.lists(st.sampled_from(sorted(sizes)), max_size=3)
    together = data.draw(st.lists(some, max_size=2))
    fixed = data.draw(st.dictionaries(st.sampled_from(sorted(sizes)), st.integers(0, shards - 1), max_size=3))
    try:
        found = shard_variables(sizes, shards, fixed=fixed, together=together)
    except errors.PlacementError:
        return

    assert all(found.shard_of(name) == shard for name, shard in fixed.items())
    assert all(len({found.shard_of(name) for name in group}) <= 1 for group in together)
    assert all(found.names)


def test_groups_that_share_a_name_are_one() -> None:
    found = shard_variables(dict.fromkeys("abcd", 1), 2, together=["ab", "bc"])

    assert found.names == (("a", "b", "c"), ("d",))


@pytest.mark.parametrize(
    ("given_sizes", "shards", "options", "text"),
    [
        ({"a": 1}, 2, {}, r"shard 1 of 2 would hold none: there are 1 variable\n  try:   train with ps=1"),
        ({}, 1, {}, "shard 0 of 1 would hold none: there are 0 variables"),
        ({"a": 1, "b": 1}, 2, {"together": ["ab"]}, "2 variables, 1 group of which each stays together"),
        ({"a": 1, "b": 1}, 2, {"fixed": {"a": 0, "b": 0}}, "2 variables, 2 of them at a place of their own"),
        (
            {"a": 1, "b": 1}, 2, {"fixed": {"a": 0, "b": 1}, "together": ["ab"]},
            "'a' and 'b' are to lie on one shard, and on shards 0 and 1",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_is_refused(
    given_sizes: dict[str, int], shards: int, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(errors.PlacementError, match=text):
        shard_variables(given_sizes, shards, **options)


@pytest.mark.parametrize(
    ("given_sizes", "shards", "options", "text"),
    [
        ({"a": 1}, 0, {}, "at least 1 shard, got 0"),
        ({"a": -1}, 1, {}, "'a' has -1 bytes"),
        ({"a": 1}, 1, {"fixed": {"b": 0}}, "there is no variable 'b'; there are a"),
        ({"a": 1}, 1, {"fixed": {"a": 1}}, "there are shards 0 to 0, 'a' is to lie on 1"),
        ({"a": 1}, 1, {"together": [["a", "x"]]}, "there is no variable 'x'"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(
    given_sizes: dict[str, int], shards: int, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(errors.ConfigError, match=text):
        shard_variables(given_sizes, shards, **options)


def test_the_hashes_of_a_process_have_no_say() -> None:
    code = (
        "from actorflow.coord.rules.sharding import shard_variables\n"
        "names = [f'layer{i}/{kind}' for i in range(9) for kind in 'wb']\n"
        "print(shard_variables({n: len(n) for n in names}, 3, together=[set(names[:3])]).names)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip

    assert len(found) == 1


def test_a_joint_rule_is_refused_on_several_shards_and_says_what_to_do() -> None:
    check_joint("lbfgs", 1)
    check_joint("", 4)
    with pytest.raises(
        errors.ConfigError, match="lbfgs looks at all variables at once, and 2 shards"
    ) as caught:
        check_joint("lbfgs", 2)
    assert "train with ps=1" in str(caught.value)
    with pytest.raises(errors.ConfigError, match=r"af\.optim\.clip_by_norm"):
        check_joint("clip_by_global_norm", 2)
