"""The table of benchmarks by name. One joins by being a file of this package that registers itself."""

from __future__ import annotations

import pkgutil
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

import benchmarks
from benchmarks.harness import Contest, Size

Contests = Callable[[Size], AsyncGenerator[Contest]]
"""(size) -> the contests, one after the other; what one needs lives until the next is asked for."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """An entry of the table.

    Attributes:
        about: One line for `--list`.
    """

    name: str
    about: str
    contests: Contests


class UnknownBenchmark(LookupError):
    """No file of this package registers that name."""


_TABLE: dict[str, Benchmark] = {}


def benchmark(name: str, about: str) -> Callable[[Contests], Contests]:
    """Registers the decorated generator of contests as benchmark `name`."""

    def register(contests: Contests) -> Contests:
        _TABLE[name] = Benchmark(name, about, contests)
        return contests

    return register


def table() -> Mapping[str, Benchmark]:
    """Returns every benchmark by name; imports every file of the package."""
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.ispkg and module.name != "__main__":
            import_module(f"benchmarks.{module.name}")
    return dict(sorted(_TABLE.items()))


def find(name: str) -> Benchmark:
    """Returns a benchmark by name; raises UnknownBenchmark listing those that exist."""
    found = table()
    if name not in found:
        message = f"there is no benchmark {name!r}; there are {', '.join(found)}"
        raise UnknownBenchmark(message)
    return found[name]
