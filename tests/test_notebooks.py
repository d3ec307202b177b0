"""The cells of docs/notebooks.md run in a real IPython kernel, one after another, and show what stands below them."""

from __future__ import annotations

import doctest
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel", reason="ipykernel is not installed")

from jupyter_client.manager import KernelManager

from tests.test_docs import fences

PAGE = Path(__file__).parents[1] / "docs" / "notebooks.md"
PATIENCE_S = 120  # of a cell, on a machine that does other things
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Kernel:
    """A kernel, and what its cells show."""

    def __init__(self, folder: Path) -> None:
        file = str(folder / "kernel.json")  # whole: over ipc, where its sockets lie follows from it
        self._manager = KernelManager(kernel_name="python3", transport="ipc", connection_file=file)
        self._manager.start_kernel(cwd=str(folder), env=environ(folder))
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE_S)

    def shown(self, cell: str) -> str:
        """Runs a cell; returns what it prints and its value, or raises AssertionError with its error."""
        parts: list[str] = []
        errors: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                parts.append(content["text"])
            elif message["msg_type"] == "execute_result":
                parts.append(content["data"]["text/plain"] + "\n")
            elif message["msg_type"] == "error":
                errors.append(ESCAPES.sub("", "\n".join(content["traceback"])))

        self._client.execute_interactive(cell, timeout=PATIENCE_S, output_hook=hear)
        assert not errors, errors[0]
        return "".join(parts)

    def close(self) -> None:
        """Ends the kernel, which is asked first."""
        self._client.stop_channels()
        self._manager.shutdown_kernel()


def environ(folder: Path) -> dict[str, str]:
    """The environment of a kernel that keeps its profile and its history to itself.

    With CI set, hypothesis takes it for no fault that a busy machine draws slowly.
    """
    root = str(PAGE.parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": path, "CI": "true"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("notebook"))
    yield kernel
    kernel.close()


@pytest.mark.processes
def test_the_cells_of_the_page_show_what_stands_below_them(kernel: Kernel) -> None:
    for line, program, said in fences(PAGE):
        shown = kernel.shown(program).rstrip("\n") + "\n"
        expected = said or "\n"
        assert doctest.OutputChecker().check_output(expected, shown, doctest.ELLIPSIS), f"{line}: {shown}"


@pytest.mark.processes
def test_a_cell_that_is_run_again_does_the_same(kernel: Kernel) -> None:
    build = "import actorflow as af\nwith af.Graph() as g:\n    v = af.Variable([1.0], name='v')\n"
    again = "with g:\n    up = v.assign_add([1.0])\n"
    run = "s = await af.Session(g).open()\n_ = await s.run(up)\nprint(await s.run(v))\nawait s.close()\n"

    assert [kernel.shown(build + again + run) for _ in range(2)] == ["[2.]\n", "[2.]\n"]
    assert [kernel.shown(again + run) for _ in range(2)] == ["[2.]\n", "[2.]\n"]


@pytest.mark.processes
def test_an_actor_that_fails_in_a_cell_leaves_the_kernel_alone(kernel: Kernel) -> None:
    kernel.shown(
        "import asyncio\nimport actorflow as af\n"
        "class Fails(af.Actor):\n    def receive(self, message):\n        raise ValueError(message)\n"
        "system = await af.ActorSystem().open()\n"
        "group = system.supervisor(af.supervision.Strategy(max_restarts=0))\n"
    )
    kernel.shown(
        "ref = group.spawn(Fails)\nawait ref.tell('no')\n"
        "while system.stats().actors:\n    await asyncio.sleep(0.01)\n"
    )

    assert kernel.shown("1 + 1") == "2\n"
    assert (
        kernel.shown("try:\n    await system.close()\nexcept* Exception as e:\n    print('heard')\n")
        == "heard\n"
    )
    assert kernel.shown("await system.close()") == ""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("af.run(main())", "await main() there"),
        ("sim.run(main)", "asyncio.to_thread(sim.run, main)"),
        ("sim.world('a')(law)()", "asyncio.to_thread(law)"),
        ("with af.Session(af.Graph()) as s:\n    pass", "await af.Session(graph).open()"),
    ],
)
def test_what_makes_a_loop_of_its_own_says_what_to_write_in_a_cell(
    kernel: Kernel, cell: str, hint: str
) -> None:
    kernel.shown(
        "import actorflow as af\nfrom actorflow import sim\n"
        "async def main():\n    pass\nasync def law(world):\n    pass\n"
    )
    caught = "\n".join(
        ["try:", *(f"    {line}" for line in cell.splitlines()), "except af.errors.ActorflowError as error:"]
    )

    assert hint in kernel.shown(f"{caught}\n    print(error)\n")
