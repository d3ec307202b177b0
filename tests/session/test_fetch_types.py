"""What `run` gives is known to type checkers: mypy reads a program, and what runs has these types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import actorflow as af

TYPED = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import actorflow as af

A = NDArray[Any]


async def fetched(
    session: af.Session, cluster: af.Cluster, x: af.Tensor, v: af.Variable, p: af.PartitionedVariable, any: Any,
    slices: af.IndexedSlices,
) -> None:
    assert_type(await session.run(x), A)
    assert_type(await session.run(v), A)
    assert_type(await session.run(p), A)
    assert_type(await session.run("x:0"), A)
    assert_type(await session.run(x, {x: 1.0}, deadline_s=1.0), A)
    assert_type(await session.run([x, x]), list[A])
    assert_type(await session.run([x, v]), list[A])
    assert_type(await session.run(["x", "y"]), list[A])
    assert_type(await session.run((x, v)), tuple[A, A])
    assert_type(await session.run((x, "y", v)), tuple[A, A, A])
    assert_type(await session.run((x, x, x, x)), tuple[A, ...])
    assert_type(await session.run({"loss": x, "step": v}), dict[str, A])
    assert_type(await session.run({1: x}), dict[int, A])
    assert_type(await session.run([[x], {"a": v}]), Any)
    assert_type(await session.run(any), Any)
    assert_type(await session.run(slices), Any)  # Slices, or in a list of gradients either
    assert_type(await session.run(af.gradients(x, [v])), Any)
    assert_type(await cluster.run(x), A)
    assert_type(await cluster.run({"loss": x}), dict[str, A])
    value, other = await session.run((x, v))
    print(f"{value:.3f}", float(other), value.tolist(), value.shape)


def blocking(g: af.Graph, x: af.Tensor) -> None:
    with af.Session(g) as session:
        assert_type(session.run(x), A)
        assert_type(session.run([x]), list[A])
        assert_type(session.run({"x": x}), dict[str, A])


def options() -> None:
    af.Cluster.local("digits.py", ps=1, workers=2, seed=3, transport="tcp", keys=False, ready_s=10, least=1)
    af.Cluster.local("digits.py", threads=2, placement="first", work_s=0.1)
"""

WRONG = """
import actorflow as af


async def wrong(session: af.Session, x: af.Tensor) -> None:
    await session.run(x, feed_dict={})
    (await session.run([x])).shape
    (await session.run(x)).items()
    await session.run(x, deadline_s="long")


def options() -> None:
    af.Cluster.local("digits.py", wokers=2)
    af.Cluster.local("digits.py", seed="3")
    af.Cluster.local("digits.py", transport="udp")
"""


def mypy(tmp_path: Path, text: str) -> list[str]:
    pytest.importorskip("mypy")
    file = tmp_path / "program.py"
    file.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if "program.py" in line and ": error:" in line]


@pytest.mark.slow
def test_mypy_knows_what_run_gives_and_which_options_there_are(tmp_path: Path) -> None:
    assert mypy(tmp_path, TYPED) == []


@pytest.mark.slow
def test_mypy_finds_what_is_wrong(tmp_path: Path) -> None:
    lines = sorted({int(line.split("program.py:")[1].split(":")[0]) for line in mypy(tmp_path, WRONG)})

    calls = [n for n, line in enumerate(WRONG.splitlines(), 1) if "session.run(" in line or ".local(" in line]
    assert lines == calls


def test_what_runs_has_the_structure_that_the_types_say() -> None:
    with af.Graph() as graph:
        v = af.Variable(np.ones(3, "float32"), name="v")
        x = v * 2

    async def main() -> None:
        async with af.Session(graph) as session:
            found: list[Any] = [
                await session.run(x),
                await session.run([x, v]),
                await session.run((x, v)),
                await session.run((x, v, x)),
                await session.run({"x": x, "v": v}),
            ]
        one, several, pair, three, named = found
        assert type(one) is np.ndarray
        assert [type(a) for a in (several, pair, three, named)] == [list, tuple, tuple, dict]
        assert all(type(a) is np.ndarray for a in (*several, *pair, *three, *named.values()))

    af.run(main())
