"""CartPole: advantages, how rollouts tell of ends, a short run, and how it ends when something is wrong."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af
from tests.examples.scripts import script
from tests.support.busy import HANG_S

ROOT = Path(__file__).parents[2]

gymnasium = pytest.mark.skipif(
    importlib.util.find_spec("gymnasium") is None, reason="needs gymnasium: pip install 'actorflow[examples]'"
)


@pytest.fixture
def cartpole(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script(monkeypatch, "cartpole")


class Timer:
    """An environment whose episodes end after three steps: failed where the seed is even, else out of time."""

    def __init__(self) -> None:
        self.step_, self.seed, self.closed = 0, 0, False

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self.step_, self.seed = 0, self.seed if seed is None else seed
        return np.zeros(4, "float32"), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.step_ += 1
        over = self.step_ == 3
        failed = over and self.seed % 2 == 0
        return np.full(4, self.step_, "float32"), 1.0, failed, over and not failed, {}

    def close(self) -> None:
        self.closed = True


def test_advantages_are_the_discounted_sum_of_surprises_within_an_episode(cartpole: ModuleType) -> None:
    random = np.random.default_rng(0)
    with af.Graph(seed=0) as graph:
        agent = cartpole.Agent(updates=1)
    players, steps, envs = cartpole.PLAYERS, cartpole.LENGTH, cartpole.ENVS
    grid = (players, steps, envs)
    ended = random.random(grid) < 0.2
    rollouts = {
        "seen": random.normal(size=(*grid, 4)),
        "next": random.normal(size=(*grid, 4)),
        "chosen": random.integers(0, 2, grid),
        "likelihood": -random.random(grid),
        "reward": random.random(grid),
        "failed": ended & (random.random(grid) < 0.5),
        "ended": ended,
        "version": np.arange(players),
    }
    with graph:
        worths = [
            agent.worth(af.constant(rollouts[name].astype("float32")))[..., 0] for name in ("seen", "next")
        ]

    async def main() -> Any:
        async with af.Session(graph) as session:
            for k in range(players):
                fed = {agent.rollout[name]: x[k] for name, x in rollouts.items()}
                await session.run(agent.put, {p: x.astype(p.dtype) for p, x in fed.items()})
            return await session.run([agent.batch, *worths])

    batch, now, after = af.run(main())

    surprise = rollouts["reward"] + 0.98 * (1 - rollouts["failed"]) * after - now
    wanted = np.zeros((*grid[:1], steps + 1, envs))
    for t in reversed(range(steps)):
        wanted[:, t] = surprise[:, t] + 0.98 * 0.8 * (1 - ended[:, t]) * wanted[:, t + 1]
    np.testing.assert_allclose(batch["gained"], wanted[:, :-1].reshape(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch["return"], (wanted[:, :-1] + now).reshape(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(batch["version"], np.arange(players))


def test_a_rollout_tells_failures_from_episodes_that_ran_out_of_time(
    cartpole: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [Timer() for _ in range(cartpole.ENVS)]
    unused = iter(made)
    monkeypatch.setattr(cartpole, "environment", lambda: next(unused))
    with af.Graph(seed=0) as graph:
        agent = cartpole.Agent(updates=1)
        rollout = agent.queue.dequeue()

    async def main() -> Any:
        async with af.Session(graph) as session, af.ActorSystem() as system:
            player = system.spawn(cartpole.Player, session, agent, 0)
            lengths = await player.ask("a rollout", deadline_s=60)
            return lengths, await session.run(rollout)

    lengths, played = af.run(main())

    ends = np.arange(cartpole.LENGTH) % 3 == 2
    assert lengths == [3] * (cartpole.ENVS * ends.sum())
    np.testing.assert_array_equal(played["ended"], np.repeat(ends[:, None], cartpole.ENVS, 1))
    np.testing.assert_array_equal(played["failed"][:, 0::2], np.repeat(ends[:, None], 2, 1))
    assert not played["failed"][:, 1::2].any()
    np.testing.assert_array_equal(played["next"][:5, 0, 0], [1, 2, 3, 1, 2])  # what was seen at the end, too
    np.testing.assert_array_equal(played["seen"][:5, 0, 0], [0, 1, 2, 0, 1])
    assert all(env.closed for env in made)


@gymnasium
def test_a_short_run_learns_and_says_how_stale_rollouts_were(
    cartpole: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cartpole, "PASSES", 5)

    run = af.run(cartpole.main(seed=0, steps=5200, plot=None))

    said = capsys.readouterr().out
    assert run.played >= 5200
    assert sum(run.episodes) <= run.played
    assert "updates before" in said
    assert f"seed 0: not solved after {run.played} steps: {run}" in said
    assert np.mean(run.episodes[-30:]) > 1.3 * np.mean(run.episodes[:30])


def leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    """The errors of a group and of those within: one player may fail, or several in one turn."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


def test_an_environment_that_fails_ends_the_run_with_its_error(
    cartpole: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Timer):
        def step(self, action: int) -> Any:
            raise OSError("the pole broke")

    monkeypatch.setattr(cartpole, "environment", Broken)

    with pytest.raises(ExceptionGroup) as failure:
        af.run(cartpole.main(seed=0, steps=1000, plot=None))

    matched, _ = failure.value.split(af.errors.HandlerError)
    assert matched is not None
    assert {str(error.__cause__) for error in leaves(matched)} == {"the pole broke"}


def test_what_is_missing_is_said_with_what_to_install(
    cartpole: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)

    with pytest.raises(af.errors.ConfigError, match=r"actorflow\[examples\]"):
        af.run(cartpole.main(seed=0, steps=1000, plot=None))


@gymnasium
@pytest.mark.slow
def test_ctrl_c_ends_it_at_once_and_without_a_traceback() -> None:
    argv = [sys.executable, "examples/cartpole.py", "--steps", "10000000"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        argv, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=HANG_S)

    assert "updates before" in first
    assert said.splitlines()[-1] == "stopped"
    assert errors == ""
    assert process.returncode == 0
