from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.cluster.process.layout import lay_out
from actorflow.errors import ConfigError, CoordinationError, PlacementError


def program(
    sizes: dict[str, int], frozen: tuple[str, ...] = (), devices: dict[str, str] | None = None
) -> Any:
    """A program whose loss reads variables of so many elements each."""
    with af.Graph() as graph:
        made = {}
        for name, size in sizes.items():
            with af.device((devices or {}).get(name)):
                first = np.ones(size, np.float32)
                made[name] = af.Variable(first, name=name, trainable=name not in frozen)
        loss = af.mean(af.concat([v.as_tensor() for v in made.values()], axis=0))
        train = af.minimize(loss, af.optim.sgd(0.1))
    return af.Program(graph=graph, loss=loss, train=train, batches=lambda _epoch: [{}], epochs=1)


def test_what_is_trained_is_spread_by_bytes() -> None:
    layout = lay_out(program({"a": 5, "b": 100, "c": 50, "d": 50}), ("ps0", "ps1"), ("worker0",))

    assert [set(names) for names in layout.trained] == [{"b", "a"}, {"c", "d"}] or [
        set(names) for names in layout.trained
    ] == [{"b"}, {"c", "d", "a"}]
    assert layout.ps == ("ps0", "ps1")
    assert layout.workers == ("worker0",)
    assert layout.optimizer in program({"a": 1}).graph.objects


def test_what_is_only_read_is_spread_as_well_and_not_trained() -> None:
    layout = lay_out(program({"a": 5, "b": 5, "f": 5, "g": 5}, ("f", "g")), ("ps0", "ps1"), ("worker0",))

    assert sorted(name for names in layout.trained for name in names) == ["a", "b"]
    assert layout.frozen == (("f",), ("g",))


def test_a_variable_in_a_scope_lies_where_the_scope_says() -> None:
    scoped = program({"a": 500, "b": 5, "f": 3}, ("f",), {"b": "/job:ps/task:0", "f": "/job:ps/task:0"})

    layout = lay_out(scoped, ("ps0", "ps1"), ("worker0",))

    assert layout.trained == (("b",), ("a",))
    assert layout.frozen == (("f",), ())


def test_a_scope_without_a_task_leaves_the_choice() -> None:
    layout = lay_out(program({"a": 9, "b": 9}, (), {"a": "/job:ps"}), ("ps0", "ps1"), ("worker0",))

    assert sorted(map(len, layout.trained)) == [1, 1]


@pytest.mark.parametrize("frozen", [(), ("a",)])
@pytest.mark.parametrize("scope", ["/job:worker/task:0", "/job:ps/task:5", "/job:ps/task:0/gpu:0"])
def test_a_scope_elsewhere_is_refused(scope: str, frozen: tuple[str, ...]) -> None:
    scoped = program({"a": 9, "b": 9}, frozen, {"a": scope})
    with pytest.raises(
        ConfigError, match=rf"lies on a ps, 'a' is to lie on '{scope}'\n.*there are /job:ps/task:0/device"
    ):
        lay_out(scoped, ("ps0",), ("worker0",))


@pytest.mark.parametrize("frozen", [(), ("a",)])
@pytest.mark.parametrize("scope", ["/cpu:0", "cpu:0", "/device:cpu:0", "/cpu:*", "/gpu:0"])
def test_a_scope_without_a_job_means_the_chief_which_holds_no_shard(
    scope: str, frozen: tuple[str, ...]
) -> None:
    for scopes in ({"a": scope}, {"a": scope, "b": scope}):
        scoped = program({"a": 9, "b": 9}, frozen, scopes)
        with pytest.raises(
            ConfigError, match=r"is to lie on .*\n.*which is the chief; leave it out.* name a ps"
        ):
            lay_out(scoped, ("ps0", "ps1"), ("worker0",))


@pytest.mark.parametrize(("scope", "at"), [("/task:1", 1), ("/job:*/task:1/cpu:0", 1), ("/job:ps/task:0", 0)])
def test_a_scope_that_one_ps_fits_puts_a_variable_there(scope: str, at: int) -> None:
    layout = lay_out(program({"a": 9, "b": 9}, (), {"a": scope}), ("ps0", "ps1"), ("worker0", "worker1"))

    assert layout.trained[at] == ("a",)


def test_a_scope_that_leaves_a_ps_without_variables_is_named() -> None:
    scope = "/job:ps/task:0"
    with pytest.raises(
        PlacementError, match=r"shard 1 of 2 .*, 2 of them at a place.*\n.*out of device scopes"
    ):
        lay_out(program({"a": 9, "b": 9}, (), {"a": scope, "b": scope}), ("ps0", "ps1"), ("worker0",))


def test_more_shards_than_variables_are_refused() -> None:
    with pytest.raises(PlacementError, match="shard 1 of 2 would hold none"):
        lay_out(program({"a": 9}), ("ps0", "ps1"), ("worker0",))


@pytest.mark.parametrize(("ps", "workers"), [((), ("worker0",)), (("ps0",), ())])
def test_a_cluster_has_both_kinds_of_processes(ps: tuple[str, ...], workers: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="at least one ps and one worker, got"):
        lay_out(program({"a": 9}), ps, workers)


def test_an_update_that_several_workers_cannot_share_is_refused() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.ones(2, np.float32), name="w")
        seen = af.Variable(np.zeros(2, np.float32), name="seen", trainable=False)
        with af.control_dependencies([seen.assign_add(np.ones(2, np.float32))]):
            loss = af.mean(w.as_tensor() ** 2)
        train = af.minimize(loss, af.optim.sgd(0.1))
    written = af.Program(graph=graph, loss=loss, train=train, batches=lambda _epoch: [{}], epochs=1)

    with pytest.raises(CoordinationError, match="writes state beside its update"):
        lay_out(written, ("ps0",), ("worker0",))
