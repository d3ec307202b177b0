"""The language model learns, its state goes on from step to step, and it writes words that it knows."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af
from tests.examples.scripts import script


@pytest.fixture
def lm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, as it reads seven chapters of a novel of four words that follow each other."""
    module = script(monkeypatch, "austen_lm")
    text = "".join(f"\n\nCHAPTER {k}\n\n" + "it was, indeed. " * 600 for k in range(7))
    monkeypatch.setattr(af.datasets, "austen", lambda: {"A novel": text})
    monkeypatch.setattr(module, "UNITS", 16)
    return module


def test_the_state_goes_on_where_the_step_before_ended(lm: ModuleType) -> None:
    program, _ = lm.program(seed=0, quick=True)
    parts = program.batches(0)[:3]
    (numbers, goes_on) = parts[0]
    whole = np.concatenate([parts[0][numbers], *(part[numbers][:, 1:] for part in parts[1:])], 1)
    _, carry = program.train

    async def losses() -> tuple[list[Any], Any]:
        async with af.Session(program.graph) as session:
            apart = [(await session.run([program.loss, carry], part))[0] for part in parts]
            return apart, await session.run(program.loss, {numbers: whole, goes_on: 0.0})

    apart, together = af.run(losses())

    assert [part[goes_on] for part in parts] == [0.0, 1.0, 1.0]
    assert np.mean(apart) == pytest.approx(together, rel=1e-5)


def test_it_learns_which_word_follows_and_writes_so(
    lm: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lm, "WARMUP", 5)
    monkeypatch.setattr(lm, "RATE", 0.05)
    monkeypatch.setattr(lm, "STEPS", 8)

    perplexity = af.run(lm.main(epochs=1, seed=0, quick=True, plot=str(tmp_path / "curve.svg")))

    said = capsys.readouterr().out
    assert perplexity < 1.5  # 5 where every word is as likely as the next
    assert f"epoch 1: perplexity {perplexity:.2f} on what was held out" in said
    assert "words/s" in said
    written = said.split("it writes: ")[1].splitlines()[0].split()
    assert len(written) == 60
    assert "<unknown>" not in written
    follows = {".": "it", "it": "was", "was": ",", ",": "indeed", "indeed": "."}
    right = [follows[a] == b for a, b in zip([".", *written], written, strict=False)]
    assert np.mean(right) > 0.7


def test_the_real_novels_train(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = script(monkeypatch, "austen_lm")
    try:
        af.datasets.austen(download=False)
    except af.errors.DatasetMissing:
        pytest.skip("needs the novels: actorflow data fetch austen")
    program, _ = lm.program(seed=0, quick=True)

    async def losses() -> list[float]:
        async with af.Session(program.graph) as session:
            runs = [await session.run([program.loss, program.train], part) for part in program.batches(0)]
        return [float(loss) for loss, _ in runs]

    found = af.run(losses())

    assert found[0] == pytest.approx(math.log(len(lm.novels(True)[0])), rel=0.02)
    assert np.isfinite(found).all()
    assert found[-1] < found[0]
