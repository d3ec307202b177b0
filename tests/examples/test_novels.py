"""The novels as rows of numbers: what a word is, and which chapters are held out."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import actorflow as af
from tests.examples.scripts import script


@pytest.fixture
def novels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script(monkeypatch, "novels")


def chapter(number: int) -> str:
    """One of 66 words, one of which no other has."""
    return f"\n\nCHAPTER {number}\n\nIt's {'x' * number}, " + "said SHE " * 31


def test_every_twentieth_chapter_is_held_out(novels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "BY NOBODY" + "".join(map(chapter, range(1, 26)))
    monkeypatch.setattr(af.datasets, "austen", lambda: {"A novel": text})

    words, trained, held_out = novels.novels()

    assert words[:3] == ["<unknown>", "said", "she"]
    assert {"it's", ","} <= set(words)
    assert "nobody" not in words  # what stands before the first chapter is no part of it
    assert [k for k in range(1, 26) if "x" * k not in words] == [5, 25]
    assert trained.shape == (32, 23 * 65 // 32)
    assert held_out.shape == (32, 2 * 65 // 32)
    assert list(held_out.reshape(-1)[:5]) == [words.index("it's"), novels.UNKNOWN, words.index(","), 1, 2]


def test_rows_are_pieces_of_the_text_in_its_order(
    novels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(map(chapter, range(1, 8)))
    monkeypatch.setattr(af.datasets, "austen", lambda: {"A novel": text})

    words, trained, _ = novels.novels(quick=True)

    said = [words[k] for k in trained.reshape(-1)]
    assert said[:5] == ["it's", "x", ",", "said", "she"]
    assert said.index("xx") == 65 + 1
    assert trained.dtype == np.int32


def test_the_six_novels_have_words_enough(novels: ModuleType) -> None:
    try:
        af.datasets.austen(download=False)
    except af.errors.DatasetMissing:
        pytest.skip("needs the novels: actorflow data fetch austen")

    words, trained, held_out = novels.novels()

    assert len(words) == novels.WORDS
    assert trained.size > 750_000
    assert 20_000 < held_out.size < trained.size / 15
    assert (held_out == novels.UNKNOWN).mean() < 0.05
