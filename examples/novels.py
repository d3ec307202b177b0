"""Jane Austen's six novels as rows of numbers, one a word: what a language model reads."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import numpy as np

import actorflow as af

WORDS = 5000
ROWS = 32
UNKNOWN = 0  # the number of all words that are not among the most frequent


@cache
def novels(quick: bool = False) -> tuple[list[str], Any, Any]:
    """Returns the vocabulary, and numbers of words in rows: those to train with, and those held out.

    Every twentieth chapter is held out. A word has letters and apostrophes, or is a mark of punctuation; the
    vocabulary has the most frequent ones of the chapters to train with. `quick` gives seven chapters.
    """
    chapters: list[str] = []
    for text in af.datasets.austen().values():
        chapters += re.split(r"(?im)^chapter \w+\.?\s*$", text)[1:]
    chapters = chapters[: 7 if quick else None]
    texts = [re.findall(r"[a-z]+(?:'[a-z]+)?|[.,;:!?]", chapter.lower()) for chapter in chapters]
    held_out = range(4, len(texts), 20)
    trained = [word for k, text in enumerate(texts) if k not in held_out for word in text]
    words = ["<unknown>", *(word for word, _ in Counter(trained).most_common(WORDS - 1))]
    number = {word: k for k, word in enumerate(words)}

    def rows(text: list[str]) -> Any:
        numbers = np.array([number.get(word, UNKNOWN) for word in text], "int32")
        return numbers[: len(numbers) // ROWS * ROWS].reshape(ROWS, -1)

    return words, rows(trained), rows([word for k in held_out for word in texts[k]])
