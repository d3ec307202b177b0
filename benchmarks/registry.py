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
    """No file of this package registers that name, or the one that does cannot be imported."""


_TABLE: dict[str, Benchmark] = {}
_ABSENT: dict[str, str] = {}


def benchmark(name: str, about: str) -> Callable[[Contests], Contests]:
    """Registers the decorated generator of contests as benchmark `name`."""

    def register(contests: Contests) -> Contests:
        _TABLE[name] = Benchmark(name, about, contests)
        return contests

    return register


def table() -> Mapping[str, Benchmark]:
    """Returns every benchmark by name; imports every file of the package, but for those in `absent`."""
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.ispkg and module.name != "__main__":
            _register(module.name)
    return dict(sorted(_TABLE.items()))


def _register(name: str) -> None:
    _ABSENT.pop(name, None)
    try:
        import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("actorflow", "benchmarks", "tests"):
            raise  # nothing that could be installed
        _ABSENT[name] = f"it needs the module {error.name}, which is not installed here"


def absent() -> Mapping[str, str]:
    """Returns the files of the package that `table` could not import, and what they need."""
    return dict(sorted(_ABSENT.items()))


def find(name: str) -> Benchmark:
    """Returns a benchmark by name; raises UnknownBenchmark, with those that exist or what it needs."""
    found = table()
    if name not in found and name in _ABSENT:
        message = f"the benchmark {name} cannot be run: {_ABSENT[name]}"
        raise UnknownBenchmark(message)
    if name not in found:
        message = f"there is no benchmark {name!r}; there are {', '.join(found)}"
        raise UnknownBenchmark(message)
    return found[name]
