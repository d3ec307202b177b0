"""House rules that import-linter cannot say: libraries nobody imports yet, and names of modules.

Who may import whom inside actorflow stands in pyproject.toml, and `make lint` checks it. A
`protected` contract there needs a module that imports the library; this one holds from the start.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "actorflow"
MODULES = sorted(ROOT.rglob("*.py"))

# Module of a library -> the only places of actorflow that may import it; a package stands for all in it.
ONLY_IN = {
    "cupy": {"arrays", "kernels"},
    "hypothesis": {"sim.strategies"},
    "msgpack": {"transport.codec"},
    "numpy": {
        "arrays",
        "kernels",
        "keyed",
        "ops",
        "optim",
        "leases",
        "finite",
        "rows",
        "sums",
        "windows",
        "nn",
        "graph",
        "plan",
        "data",
        "datasets.clothes",
        "datasets.handwriting",
        "interop",
        "testing",
        "store",
        "transport.chunks",  # here and below: memory of arrays, and views of it
        "transport.codec",
        "transport.kinds",
        "transport.narrow",
        "transport.reading",
        "transport.session",
        "transport.tensor_lists",
        "transport.writing",
        "sim.samples",  # here and below: programs as users write them, which meet all of these
        "sim.samples_actors",
    },
    "pickle": set(),
    "random": {"clock", "sim.chance", "sim.samples"},
    "rdata": {"datasets.r_database"},
    "rich": {"cli", "dashboard"},
    "secrets": {"clock", "sim.samples"},
    "sklearn": {"datasets.handwriting"},
    "threadpoolctl": {"kernels.libraries", "kernels.workers"},
    "time": {"clock", "sim.reality", "sim.samples"},
    "uuid": {"clock", "sim.chance", "sim.samples"},
    "uvloop": {"loop"},
    "zmq": {"transport.zeromq"},
}
DRAWERS = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(source: str) -> set[str]:
    """Top-level modules imported anywhere in the source, inside functions and type checks too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def strays(module: str, source: str) -> set[str]:
    """The libraries that `module` imports though they live elsewhere."""
    return {
        library
        for library in imported(source) & ONLY_IN.keys()
        if not any(module == home or module.startswith(f"{home}.") for home in ONLY_IN[library])
    }


def test_a_library_is_imported_only_where_it_lives() -> None:
    found = {dotted(path): strays(dotted(path), path.read_text()) for path in MODULES}

    assert {module: libraries for module, libraries in found.items() if libraries} == {}


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("actors.node", "import numpy as np", {"numpy"}),
        ("actors.node", "def f():\n    from time import monotonic", {"time"}),
        ("transport.zeromq", "import zmq.auth", set()),
        ("kernels.nn", "import numpy", set()),
        ("kernels_of_mine", "import numpy", {"numpy"}),
    ],
)
def test_the_rule_sees_a_planted_stray(module: str, source: str, found: set[str]) -> None:
    assert strays(module, source) == found


def test_no_module_is_a_junk_drawer() -> None:
    names = {part for path in MODULES for part in dotted(path).split(".")}

    assert not names & DRAWERS


def test_a_file_is_one_idea() -> None:
    lines = {dotted(path): len(path.read_text().splitlines()) for path in MODULES}

    assert {module: count for module, count in lines.items() if count > 550} == {}
