"""House rules that import-linter cannot say: sizes of folders, names, and where libraries live.

Who may import whom stands in pyproject.toml, in one list of rooms, and `make lint` checks it; here the same list
is read, and imports inside functions and under TYPE_CHECKING count as well. Each rule is tried on a small tree
with an offence of its kind.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import actorflow as af
from actorflow.public.exports import MOST_ON_TOP
from tests.rooms import rooms

TOP = Path(__file__).parents[1]
ROOT = TOP / "actorflow"

MOST_AT_THE_ROOT, MOST_IN_A_FOLDER, MOST_MUTUAL, MOST_LINES = 5, 26, 10, 550

# Module of a library -> the only places of actorflow that may import it; a package stands for all in it.
ONLY_IN = {
    "cupy": {"values.arrays", "kernels"},
    "hypothesis": {"sim.property.strategies"},
    "msgpack": {"transport.codec.message_codec"},
    "numpy": {
        "values",
        "kernels",
        "ops",
        "optim",
        "nn",
        "graph",
        "plan",
        "data",
        "datasets.clothes",
        "datasets.handwriting",
        "interop",
        "testing",
        "store",
        "transport.codec",  # here and below: memory of arrays, and views of it
        "transport.rules.chunks",
        "transport.rules.link_session",
    },
    "numbers": {"values.checks"},
    "pickle": set(),
    "random": {"runtime.clock", "sim.engine.chance"},
    "rdata": {"datasets.r_database"},
    "rich": {"cli", "dashboard"},
    "secrets": {"runtime.clock"},
    "sklearn": {"datasets.handwriting"},
    "threadpoolctl": {"kernels.device.libraries", "kernels.device.threads"},
    "time": {"runtime.clock", "sim.engine.patched_environment"},
    "uuid": {"runtime.clock", "sim.engine.chance"},
    "uvloop": {"runtime.event_loop"},
    "zmq": {"transport.zeromq"},
}
DRAWERS = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}

# Private words for which the field has its own, by the rooms in which they name no module and no class.
LEFT_HAND_WORDS = {
    "": "life harm beat cut took said counted parted again outline heard",
    "values runtime session training": """spread firsts lookup likeness lend lent keyed sums rows images setting structure
        taken_apart bookmark inflow feeding limits users_code cancelling interrupt report windows_along""",
    "actors dataflow": """live turning routine together firing_together firing_inside blocks installed exchange gathering
        stands parked stood_in_line performer post peer serving letters bulk wheel carrier hungry hunger starves stuck
        lines pile tally assembly accumulation holding slots staging standing making answers""",
    "coord": """rounds apart desk seat fellows widowed duty supply making parting gathering closing fates reach rests cut
        stalling losing consulting choosing wording meeting succession updating waiting outgoing stepping folding""",
    "plan": """uses fills late gates needs homes level listing timeline hopeful_ranks growth sweep forms flow
        workload""",
    "transport": """losses greeting patience account alarm fits kinds writing reading session doors gate entrance ledger
        far""",
    "data": "inlet segment mapped chance pace each several joined together owned stacking place",
    "sim": """lane lanes seam reality escapes chooser choosers endings planted numbered drawing nics wires reduction
        parcels""",
    "cluster launch": """steward station recruiter attendance neighbours places survey looking answering guarding orphanage
        alive""",
    "ops kernels": """asking given kept passing facts source choose placing numbering response methods borrowed card
        sharing single taps lanes places""",
}
ALLOWED_WORDS = {
    "actors.many.Answers": "a public name",
    "transport.rules.handshake.Heard": "a record of what happened",
    "sim.world.nic_model.Nics": "a word of users' programs",
}
READS_DATA = {
    "data.sources.npy_files",
    "graph.checking",
    "graph.serial",
    "launch.process_id",
    "training.position",
    "transport.codec.decoder",
    "transport.codec.encoder",
    "transport.rules.envelopes",
    "values.spec",
}
"""Modules that hold the fields of a file or a message to exactly one type, which is no check of an argument."""
SEVERAL_CLASSES: dict[str, str] = {}  # name -> why it may name a class in more than two modules


def dotted(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


@cache
def sources(root: Path) -> dict[str, ast.Module]:
    """The modules of a package by name, as seen from it; the package itself is ""."""
    return {dotted(path, root): ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))}


MODULES = sources(ROOT)


def imported(source: ast.AST) -> set[str]:
    """Top-level modules imported anywhere in the source, inside functions and type checks too."""
    found: set[str] = set()
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def strays(module: str, source: ast.AST) -> set[str]:
    """The libraries that `module` imports though they live elsewhere."""
    return {
        library
        for library in imported(source) & ONLY_IN.keys()
        if not any(module == home or module.startswith(f"{home}.") for home in ONLY_IN[library])
    }


@cache
def arrows(root: Path) -> set[tuple[str, str]]:
    """Who imports whom, of modules of the package."""
    found = set()
    modules = sources(root)
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                each = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [e if e.removeprefix("actorflow.") in modules else node.module for e in each]
            else:
                continue
            for full in wanted:
                target = full.removeprefix("actorflow.") if full != "actorflow" else ""
                if full.split(".")[0] == "actorflow" and target in modules and target != name:
                    found.add((name, target))
    return found


# -- the rules: each returns what is against it ---------------------------------------------------------


def crowded(root: Path) -> dict[str, int]:
    counts = {
        dotted(p / "__init__.py", root): len(list(p.glob("*.py")))
        for p in [root, *root.rglob("*")]
        if p.is_dir()
    }
    found = {name: count for name, count in counts.items() if count > MOST_IN_A_FOLDER}
    files = [p for p in root.iterdir() if p.is_file()]
    return found | ({"": len(files)} if len(files) > MOST_AT_THE_ROOT else {})


def upward(root: Path) -> list[tuple[str, str]]:
    rank = {name.strip("()"): -i for i, name in enumerate(rooms())}
    return [
        (a, b)
        for a, b in sorted(arrows(root))
        if a and (not b or rank[a.split(".")[0]] < rank[b.split(".")[0]])
    ]


def mutual(root: Path) -> list[tuple[str, str]]:
    found = arrows(root)
    return sorted((a, b) for a, b in found if a < b and (b, a) in found)


def classes(root: Path) -> Iterator[tuple[str, str]]:
    for name, tree in sources(root).items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield name, node.name


def repeated(root: Path) -> dict[str, list[str]]:
    homes = defaultdict(list)
    for module, name in classes(root):
        homes[name.lstrip("_")].append(module)
    return {n: found for n, found in homes.items() if len(set(found)) > 2 and n not in SEVERAL_CLASSES}


def private_words(root: Path) -> list[str]:
    banned = {
        r: set(words.replace("_", "").split())
        for of, words in LEFT_HAND_WORDS.items()
        for r in of.split() or [""]
    }
    found = []
    named = [(m, part) for m in sources(root) for part in m.split(".")]
    named += [(f"{module}.{name}", name) for module, name in classes(root)]
    for where, name in named:
        word = name.lower().replace("_", "")
        if word in banned[""] | banned.get(where.split(".")[0], set()) and where not in ALLOWED_WORDS:
            found.append(where)
    return sorted(set(found))


def _names(node: ast.AST) -> set[str]:
    return {
        n.id if isinstance(n, ast.Name) else n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Name | ast.Attribute)
    }


def _asked(test: ast.AST) -> Iterator[tuple[str, str]]:
    """What a condition asks of which value: whether it is a bool, a number, exactly an int, or in an order."""
    for node in ast.walk(test):
        match node:
            case ast.Call(func=ast.Name("isinstance"), args=[value, kinds]):
                names = _names(kinds)
                if names == {"bool"}:
                    yield "bool", ast.dump(value)
                elif names & {"int", "float", "Integral", "Real", "integer", "number"}:
                    yield "number", ast.dump(value)
            case ast.Compare(left=ast.Call(func=ast.Name("type"), args=[value]), comparators=[kind]):
                if _names(kind) & {"int", "float"}:
                    yield "exactly", ast.dump(value)
            case ast.Compare(ops=ops) if any(isinstance(o, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for o in ops):
                for value in (node.left, *node.comparators):
                    yield "order", ast.dump(value)


def own_checks(root: Path) -> list[str]:
    """Conditions that tell a number from a bool, or an int within bounds, where `values.checks` has a name for it."""
    found = set()
    for module, tree in sources(root).items():
        for test in ast.walk(tree):
            if module == "values.checks" or not isinstance(test, ast.BoolOp):
                continue
            of: dict[str, set[str]] = defaultdict(set)
            for what, value in _asked(test):
                of[what].add(value)
            if of["bool"] & of["number"] or (of["exactly"] & of["order"] and module not in READS_DATA):
                found.add(f"{module}:{test.lineno}")
    return sorted(found)


def drawers_of_checks(root: Path) -> list[str]:
    """Modules that are called by checks alone; one of them is enough."""
    return sorted(m for m in sources(root) if m.rpartition(".")[2] == "checks" and m != "values.checks")


def test_a_library_is_imported_only_where_it_lives() -> None:
    found = {name: strays(name, tree) for name, tree in MODULES.items()}

    assert {module: libraries for module, libraries in found.items() if libraries} == {}


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("dataflow.engine.node", "import numpy as np", {"numpy"}),
        ("dataflow.engine.node", "def f():\n    from time import monotonic", {"time"}),
        ("transport.zeromq", "import zmq.auth", set()),
        ("kernels.nn", "import numpy", set()),
        ("kernels_of_mine", "import numpy", {"numpy"}),
    ],
)
def test_the_rule_sees_a_planted_stray(module: str, source: str, found: set[str]) -> None:
    assert strays(module, ast.parse(source)) == found


def test_no_module_is_a_junk_drawer() -> None:
    names = {part for module in MODULES for part in module.split(".")}

    assert not names & DRAWERS


def test_a_file_is_one_idea() -> None:
    lines = {dotted(path, ROOT): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}

    assert {module: count for module, count in lines.items() if count > MOST_LINES} == {}


def test_folders_are_small_and_the_root_has_doors_only() -> None:
    assert crowded(ROOT) == {}


def test_few_names_stand_on_top() -> None:
    """What else there is stands in namespaces: `actorflow.public.namespaces` says which."""
    assert len([name for name in dir(af) if not name.startswith("_")]) <= MOST_ON_TOP


def test_no_import_goes_back_up_between_rooms() -> None:
    assert upward(ROOT) == []


def test_few_modules_import_each_other() -> None:
    assert len(mutual(ROOT)) <= MOST_MUTUAL, mutual(ROOT)


def test_a_class_name_is_in_two_modules_at_most() -> None:
    assert repeated(ROOT) == {}


def test_no_module_or_class_has_a_private_word_for_what_the_field_names() -> None:
    assert private_words(ROOT) == []


def test_arguments_are_checked_with_the_checks_of_one_module() -> None:
    assert own_checks(ROOT) == []
    assert drawers_of_checks(ROOT) == []


Rule = Callable[[Path], object]


@pytest.mark.parametrize(
    ("rule", "files", "found"),
    [
        (crowded, {f"plan/m{i}.py": "" for i in range(27)}, {"plan": 27}),
        (crowded, {f"m{i}.py": "" for i in range(6)}, {"": 6}),
        (
            upward,
            {"plan/a.py": "from actorflow.session.b import c", "session/b.py": ""},
            [("plan.a", "session.b")],
        ),
        (
            upward,
            {"plan/a.py": "def f():\n    from actorflow.session import b", "session/b.py": ""},
            [("plan.a", "session.b")],
        ),
        (
            upward,
            {"ops/a.py": "if TYPE_CHECKING:\n    import actorflow.plan.b", "plan/b.py": ""},
            [("ops.a", "plan.b")],
        ),
        (upward, {"session/b.py": "from actorflow.plan.a import c", "plan/a.py": ""}, []),
        (
            mutual,
            {
                "plan/a.py": "from actorflow.plan.b import B",
                "plan/b.py": "def f():\n    from actorflow.plan import a",
            },
            [("plan.a", "plan.b")],
        ),
        (
            repeated,
            {f"plan/{n}.py": "class Kind: ..." for n in "abc"},
            {"Kind": ["plan.a", "plan.b", "plan.c"]},
        ),
        (repeated, {f"plan/{n}.py": "class Kind: ..." for n in "ab"}, {}),
        (
            own_checks,
            {"plan/a.py": "if isinstance(n, bool) or not isinstance(n, Integral):\n    raise ValueError"},
            ["plan.a:1"],
        ),
        (own_checks, {"plan/a.py": "ok = isinstance(n, int) and not isinstance(n, bool)"}, ["plan.a:1"]),
        (
            own_checks,
            {"plan/a.py": "\nok = n is None or (type(n) is int and 0 < n < 9)"},
            ["plan.a:2"],
        ),
        (own_checks, {"graph/serial.py": "ok = type(n) is int and 0 <= n"}, []),
        (own_checks, {"plan/a.py": "ok = isinstance(n, bool) or isinstance(m, int)"}, []),
        (own_checks, {"values/checks.py": "ok = isinstance(n, int) and not isinstance(n, bool)"}, []),
        (drawers_of_checks, {"plan/checks.py": "", "plan/plan_checks.py": ""}, ["plan.checks"]),
        (private_words, {"coord/rounds.py": ""}, ["coord.rounds"]),
        (private_words, {"plan/rounds.py": ""}, []),
        (private_words, {"plan/a.py": "class _Harm: ..."}, ["plan.a._Harm"]),
        (private_words, {"session/b.py": "class TakenApart: ..."}, ["session.b.TakenApart"]),
    ],
)
def test_the_rule_sees_what_is_planted(
    rule: Rule, files: dict[str, str], found: object, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert rule(tmp_path) == found


def test_so_many_pairs_that_import_each_other_are_too_many(tmp_path: Path) -> None:
    for i in range(MOST_MUTUAL + 1):
        (tmp_path / f"a{i}.py").write_text(f"import actorflow.b{i}")
        (tmp_path / f"b{i}.py").write_text(f"import actorflow.a{i}")

    assert len(mutual(tmp_path)) > MOST_MUTUAL
