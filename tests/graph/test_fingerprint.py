from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.graph.fingerprint import fingerprint
from actorflow.graph.graph import Graph
from tests.support.hash_seeds import printed


def made(
    constant: float = 2.0,
    dtype: str = "float32",
    name: str = "y",
    seed: int = 0,
    *,
    words: tuple[bytes, ...] = (),
) -> Graph:
    with Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None,), name="x")
        af.multiply(x, af.cast(af.constant(np.asarray(constant, dtype)), "float32"), name=name)
        if words:
            af.constant(np.array(words, object))
    return graph


def test_the_same_program_has_one_fingerprint_wherever_its_lines_are() -> None:
    first = made()
    assert fingerprint(first) == fingerprint(made())
    assert len(fingerprint(first)) == 32


@pytest.mark.parametrize(
    "other",
    [made(3.0), made(-2.0), made(dtype="float64"), made(name="z"), made(seed=1), made(words=(b"a", b"b"))],
    ids=["value", "sign", "dtype", "name", "seed", "another constant"],
)
def test_another_program_has_another(other: Graph) -> None:
    assert fingerprint(other) != fingerprint(made())


def test_bytes_count_element_by_element() -> None:
    assert fingerprint(made(words=(b"ab", b""))) != fingerprint(made(words=(b"a", b"b")))
    assert fingerprint(made(words=(b"ab", b""))) == fingerprint(made(words=(b"ab", b"")))


def test_it_does_not_depend_on_the_hash_seed_of_a_process() -> None:
    code = "from tests.graph.test_fingerprint import *; print(fingerprint(made(words=(b'a', b'b'))))"
    found = printed(code)
    assert len(found) == 1


def trained(
    optimizer: af.optim.Transform | None = None,
    capacity: int = 2,
    queue: str = "FIFOQueue",
    times: float = 2.0,
) -> Graph:
    @af.autodiff.custom_gradient
    def passing(x: af.Tensor) -> Any:
        return x * 1.0, lambda grad: grad * times

    with Graph() as graph:
        w = af.Variable(np.ones(2, "float32"), name="w")
        af.minimize(af.sum(passing(w.as_tensor())), optimizer or af.optim.sgd(0.25), name="train")
        getattr(af.state, queue)(capacity, "float32", (), name="q")
    return graph


@pytest.mark.parametrize(
    "other",
    [
        trained(af.optim.sgd(0.5)),
        trained(af.optim.adam(0.25)),
        trained(af.optim.sgd(af.optim.schedules.exponential(0.25, 0.5, 3))),
        trained(capacity=3),
        trained(queue="PaddingFIFOQueue"),
        trained(times=3.0),
    ],
    ids=["rate", "rule", "schedule", "capacity", "kind of state", "gradient"],
)
def test_objects_and_state_count(other: Graph) -> None:
    assert fingerprint(other) != fingerprint(trained())


def test_where_state_is_declared_does_not_count() -> None:
    first = trained()
    for name, resource in first.resources.items():
        first.resources[name] = replace(resource, defined_at="elsewhere.py:1")

    assert fingerprint(first) == fingerprint(trained())
