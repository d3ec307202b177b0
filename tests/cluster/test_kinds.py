"""The options of each kind of cluster: they are those of the class that makes it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, getdoc, signature
from typing import Any

import pytest

import actorflow as af
from actorflow.cluster.connected import ConnectedCluster
from actorflow.cluster.in_process import InProcessCluster
from actorflow.cluster.local import LocalCluster
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.errors import ConfigError

KINDS = [
    (af.Cluster.local, LocalCluster),
    (af.Cluster.connect, ConnectedCluster),
    (af.Cluster.simulated, SimulatedCluster),
    (af.Cluster.in_process, InProcessCluster),
]


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_every_option_of_a_kind_is_named_and_none_besides(make: Callable[..., Any], kind: type) -> None:
    named, taken = signature(make).parameters, signature(kind).parameters

    assert set(named) == set(taken)
    assert not [p for p in named.values() if p.kind is Parameter.VAR_KEYWORD]
    assert {p.name for p in named.values() if p.kind is p.KEYWORD_ONLY} == {
        p.name for p in taken.values() if p.kind is p.KEYWORD_ONLY
    }


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_the_docstring_tells_of_every_option(make: Callable[..., Any], kind: type) -> None:
    assert all(f"    {name}: " in str(getdoc(make)) for name in signature(kind).parameters)


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_an_option_that_there_is_not_is_refused_with_those_that_there_are(
    make: Callable[..., Any], kind: type
) -> None:
    with pytest.raises(ConfigError, match="cluster has no option wokers") as caught:
        make(None, wokers=3)

    options = [p.name for p in signature(kind).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert set(str(caught.value.hint).removeprefix("there are ").split(", ")) == set(options)
