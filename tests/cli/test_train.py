"""`actorflow train` from the outside: what it prints, how it ends, how it is stopped."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from actorflow.cli import main
from actorflow.runtime import environment
from tests.support.busy import HANG_S

ROOT = Path(__file__).parents[2]

LINE = """\
import numpy as np
import actorflow as af


def build(seed):
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None,), name="x")
        w = af.Variable(np.float32(seed), name="w")
        loss = af.mean(af.square(x * w - 3.0 * x))
        update = af.minimize(loss, af.optim.sgd(0.1))

    async def evaluate(session):
        return {"w": float(await session.run(w))}

    async def test(session):
        print("testing")
        return {"error": abs(float(await session.run(w)) - 3.0)}

    batches = [{x: np.array([1.0, 2.0], "float32")}] * 4
    return af.Program(
        graph=graph,
        loss=loss,
        train=update,
        batches=lambda _: batches,
        epochs=EPOCHS,
        evaluate=evaluate,
        test=test,
    )
"""


def write(folder: Path, *, epochs: int = 3, text: str = LINE) -> str:
    path = folder / "line.py"
    path.write_text(text.replace("EPOCHS", str(epochs)))
    return str(path)


def test_a_run_prints_a_line_an_epoch_and_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", write(tmp_path), "--seeds", "2", "--seed", "1"]) == 0

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == ""
    assert [line.split("  mean loss")[0] for line in lines[:3]] == [
        f"seed 1  epoch {n} done  step {4 * n}/12" for n in (1, 2, 3)
    ]
    assert lines[3] == "testing"
    assert re.fullmatch(
        r"seed 1  done: 12 steps in \d+\.\d s  loss 0\.0001  w 2\.9995  test error 0\.0005"
        r"  [\d,.]+ steps/s  [\d,]+ messages/s",
        lines[4],
    )
    assert re.split(r"\s{2,}", lines[11].strip()) == [
        "seed",
        "w",
        "test error",
        "loss",
        "steps",
        "steps/s",
        "messages/s",
        "training s",
    ]
    assert [line.split()[:3] for line in lines[12:14]] == [
        ["1", "2.9995", "0.0005"],
        ["2", "2.9998", "0.0002"],
    ]
    assert lines[14:16] == ["min w over 2 seeds: 2.9995", "min test error over 2 seeds: 0.0002"]


def test_output_that_is_no_terminal_has_no_escape_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["train", write(tmp_path)])

    assert "\x1b" not in capsys.readouterr().out


def test_limits_on_epochs_and_steps_are_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", write(tmp_path), "--epochs", "1"]) == 0
    out = capsys.readouterr().out
    assert "done: 4 steps" in out
    assert out.count("testing") == 1

    assert main(["train", write(tmp_path), "--steps", "6"]) == 0
    out = capsys.readouterr().out
    assert "done: 6 steps" in out
    assert out.count("testing") == 1


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = []
    for _ in range(2):
        main(["train", write(tmp_path), "--seed", "5"])
        figures.append(re.findall(r"loss \S+  w \S+", capsys.readouterr().out))

    assert figures[0] == figures[1]
    assert len(figures[0]) == 4


def test_what_is_not_finite_exits_1_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = LINE.replace("[1.0, 2.0]", "[1.0, float('nan')]")

    assert main(["train", write(tmp_path, text=text)]) == 1

    err = capsys.readouterr().err
    wrong = "the gradient of variable 'w' must be finite, got 1 NaN of 1; at batch 0 of epoch 0"
    assert err.startswith(f"NumericError: {wrong}")
    assert "step 1" in err
    assert "\n  run:   seed 0, before the first step\n" in err
    assert "line.py:" in err


def test_a_feed_that_does_not_fit_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = LINE.replace('[1.0, 2.0], "float32"', '[1.0, 2.0], "float64"')

    assert main(["train", write(tmp_path, text=text)]) == 1
    assert capsys.readouterr().err.startswith(
        "FeedError: feed 'x' must fit (None,) float32, got (2,) float64"
    )


def test_an_error_says_how_far_the_run_had_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = LINE.replace("lambda _: batches", "lambda epoch: batches if epoch < 2 else []")

    assert main(["train", write(tmp_path, text=text), "--seed", "7"]) == 2
    assert re.search(
        r"\n  run:   seed 7  epoch 2 done  step 8/12  mean loss \S+  w ", capsys.readouterr().err
    )


@pytest.mark.slow
def test_ctrl_c_says_where_it_stopped_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "actorflow", "train", write(tmp_path, epochs=1_000_000)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("seed 0  epoch 1")

        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=HANG_S)

    assert running.returncode == 130
    assert err == ""
    assert re.search(
        r"^stopped by Ctrl-C at seed 0  epoch \d+( done)?  step [\d,]+/4,000,000  (mean )?loss ",
        out,
        re.MULTILINE,
    )
    assert "testing" not in out


@pytest.mark.slow
def test_a_terminal_gets_a_live_bar_that_leaves_nothing_behind(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "actorflow", "train", write(tmp_path, epochs=200)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, cwd=ROOT, stdout=theirs, stderr=theirs, env=environment) as running:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 65536):
                said += chunk
        except OSError:  # Linux: the other side has closed
            pass
        os.close(ours)

    text = said.decode()
    assert running.returncode == 0
    assert "eta" in text
    assert re.search(r"epoch \d+  step \d+/800  loss", text) or "starting" in text
    (last,) = [line for line in text.splitlines() if "done: " in line]
    assert "loss 0.0000  w 3.0000  test error 0.0000" in last


PIPELINE = """\
import numpy as np
import actorflow as af
from actorflow.runtime import environment

def augment(example):
    environment.clock().time += 1.0
    if example["x"][0] == BAD:
        raise ValueError("torn")
    return example

def build(seed):
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (2,), name="x")
        w = af.Variable(np.float32(seed), name="w")
        loss = af.mean(af.square(x * w - 3.0 * x))
        update = af.minimize(loss, af.optim.sgd(0.001))
    values = np.arange(8, dtype="float32").reshape(4, 2)
    return af.Program(
        graph=graph,
        loss=loss,
        train=update,
        batches=lambda _: af.data.arrays({"x": values}).map(augment),
        epochs=2,
    )
"""


@dataclass
class Hands:
    """A clock that the program moves."""

    time: float = 0.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """The only clock there is."""
    clock = Hands()
    monkeypatch.setattr(environment, "clock", lambda: clock)
    return clock


@pytest.mark.usefixtures("hands")
def test_a_slow_pipeline_is_named_on_every_line_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", write(tmp_path, text=PIPELINE.replace("BAD", "-1"))]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith("  input-bound: map 'augment' 100 %") for line in lines[:2])
    told = r"seed 0: steps waited (\d+) % of the time for input; busy: map 'augment' 100 %"
    found = re.fullmatch(told, lines[-1])
    assert found is not None
    assert 20 < int(found[1]) < 100  # an element is made while a step runs with the one before


@pytest.mark.usefixtures("hands")
def test_an_error_of_a_pipeline_names_its_element(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", write(tmp_path, text=PIPELINE.replace("BAD", "4"))]) == 1

    err = capsys.readouterr().err
    assert err.startswith("InputError: map 'augment' failed at element 2 of epoch 0: ValueError: torn\n")
    assert re.search(r"where: defined at \S*/line\.py:\d+", err)
    assert "\n  run:   seed 0  epoch 1  step 2/8  loss " in err
