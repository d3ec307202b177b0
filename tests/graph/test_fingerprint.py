from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import actorflow as af
from actorflow.graph.fingerprint import fingerprint
from actorflow.graph.graph import Graph


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
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1
