"""What stands in the script that starts a cluster is the same thing in the script's own processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.python import run_python
from tests.support.runs import own_runs

pytestmark = pytest.mark.processes

HEAD = """
import dataclasses
import functools
import numpy as np
import actorflow as af
"""

TAIL = """
def build(seed):
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 3), name="x")
        w = af.Variable(af.init.he((3, 1)), name="w")
        loss = af.mean((x @ w - 1.0) ** 2)
        train = af.minimize(loss, optimizer())
    return af.Program(graph=graph, loss=loss, train=train, epochs=1, batches=batches)


def policy():
    return af.Sync()


def optimizer():
    return af.optim.sgd(0.1)


def batches(epoch):
    return [{"x": np.ones((4, 3), "float32")}] * 8
"""

MAIN = """
async def main():
    async with af.Cluster.local(build, ps=1, workers=2) as cluster:
        async for event in af.Trainer(cluster, policy()).run():
            print(event)


if __name__ == "__main__":
    af.run(main())
"""

PARTS = {
    "an OptimizerActor": """
class Own(af.OptimizerActor):
    def init(self, params):
        return {name: np.zeros_like(value) for name, value in params.items()}

    async def on_gradients(self, grads, ctx):
        return {name: -0.1 * grad for name, grad in grads.items()}, ctx.state


def optimizer():
    return Own
""",
    "a Transform made by a function": """
def descend(rate):
    def init(params):
        return ()

    def update(grads, state, params=None):
        return {name: -rate * grad for name, grad in grads.items()}, state

    return af.optim.Transform(init=init, update=update)


def optimizer():
    return descend(0.1)
""",
    "a dataclass that an optimizer holds": """
@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float


def descend(settings, grads, state, params=None):
    return {name: -settings.rate * grad for name, grad in grads.items()}, state


def optimizer():
    return af.optim.Transform(init=dict, update=functools.partial(descend, Settings(0.1)))
""",
    "a partial of a function": """
def descend(rate, grads, state, params=None):
    return {name: -rate * grad for name, grad in grads.items()}, state


def nothing(params):
    return ()


def optimizer():
    return af.optim.Transform(init=nothing, update=functools.partial(descend, 0.1))
""",
    "a policy": """
class Own(af.Policy):
    def takes(self, view):
        return [one.rank for one in view.complete] if len(view.complete) >= len(view.alive) else []


def policy():
    return Own()
""",
}


def ran(script: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    with own_runs():
        return run_python(*argv, script)


@pytest.mark.parametrize("part", PARTS)
def test_it_trains_with_what_the_script_defines(part: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEAD + TAIL + PARTS[part] + MAIN)
    done = ran(script)
    assert done.returncode == 0, done.stderr
    assert "RunDone" in done.stdout


def test_a_script_whose_file_is_a_link_trains_too(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    file = tmp_path / "there" / "real.py"
    file.write_text(HEAD + TAIL + PARTS["an OptimizerActor"] + MAIN)
    (tmp_path / "linked.py").symlink_to(file)
    done = ran(tmp_path / "linked.py")
    assert done.returncode == 0, done.stderr
    assert "RunDone" in done.stdout


@pytest.mark.parametrize("how", ["by its file", "as a module"])
def test_a_module_of_a_package_has_one_name_however_it_is_started(how: str, tmp_path: Path) -> None:
    """Its workers are given its file where it is started by that, and its name where `-m` was."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text(HEAD + TAIL + PARTS["a Transform made by a function"] + MAIN)
    if how == "by its file":
        done = ran(package / "part.py")
    else:
        with own_runs():
            done = run_python("-m", "package.part", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "RunDone" in done.stdout


@pytest.mark.parametrize("apart", [False, True])
def test_the_command_line_takes_a_policy_of_ones_own(apart: bool, tmp_path: Path) -> None:
    program, other = tmp_path / "program.py", tmp_path / "policies.py"
    program.write_text(HEAD + TAIL + ("" if apart else PARTS["a policy"]))
    other.write_text(HEAD + PARTS["a policy"])
    argv = ["-m", "actorflow", "launch", "--workers", "2", "--no-progress"]
    done = ran(program, *argv, "--policy", f"{other if apart else program}:Own")
    assert done.returncode == 0, done.stderr
