"""The language model in PyTorch is the example's: from equal weights to equal perplexities."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import actorflow as af
from tests.examples.scripts import script

pytest.importorskip("torch", reason="needs torch: pip install 'actorflow[oracle]'")


def test_both_come_to_one_perplexity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "".join(f"\n\nCHAPTER {k}\n\n" + "It was, indeed. It was said. " * 300 for k in range(7))
    monkeypatch.setattr(af.datasets, "austen", lambda: {"A novel": text})
    example = script(monkeypatch, "austen_lm")
    monkeypatch.delitem(sys.modules, "studies.austen_torch", raising=False)
    study = importlib.import_module("studies.austen_torch")
    monkeypatch.setattr(example, "UNITS", 16)
    monkeypatch.setattr(example, "WARMUP", 5)

    ours = af.run(example.main(epochs=2, seed=0, quick=True, plot=str(tmp_path / "curve.svg")))
    theirs = study.train(seed=0, epochs=2, quick=True)

    assert ours == pytest.approx(theirs, rel=1e-4)
    assert ours < 6.5  # 7 where every word is as likely
