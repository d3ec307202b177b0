"""A second process, which does what it is told, a line at a time, and ends with its standard input."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
ANSWER = "= "
"""Begins a line that answers; a library may print others."""

LEAVE_S = 5.0


class Second:
    """`python -m benchmarks.MODULE WORDS`, as seen from the first process."""

    def __init__(self, module: str, *words: str, variables: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{module}", *words],
            cwd=ROOT,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout

    def tell(self, *words: object) -> None:
        """Writes a line; it has left when this returns."""
        self._in.write(" ".join(map(str, words)) + "\n")
        self._in.flush()

    async def answer(self) -> str:
        """Returns the next answer; RuntimeError where the process has ended."""
        return await asyncio.to_thread(self._answer)

    async def ask(self, *words: object) -> str:
        """Writes a line and returns its answer."""
        self.tell(*words)
        return await self.answer()

    async def seconds(self, *words: object) -> float:
        """Writes a line and returns the seconds that it says it took."""
        return float(await self.ask(*words))

    def _answer(self) -> str:
        for line in self._out:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER).strip()
        message = f"{self.process.args!r:.200} must go on, and has ended with {self.process.wait()}"
        raise RuntimeError(message)

    def close(self) -> None:
        """Lets it end, and sees to it that it does."""
        self._in.close()
        try:
            self.process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._out.close()


@contextmanager
def second(module: str, *words: str, variables: Mapping[str, str] | None = None) -> Iterator[Second]:
    """Runs one as long as the block lasts."""
    process = Second(module, *words, variables=variables)
    try:
        yield process
    finally:
        process.close()


def say(answer: object) -> None:
    """Answers the first process."""
    print(f"{ANSWER}{answer}", flush=True)


def obey(words: Mapping[str, Callable[..., object]]) -> None:
    """Does what comes, as `word number ...`, until the first process is done; says what that returns."""
    for line in sys.stdin:
        word, *given = line.split()
        found = words[word](*map(int, given))
        if found is not None:
            say(found)
