"""What `import actorflow` gives: these names, each of them explained and annotated."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import actorflow as af
from actorflow import ops, public
from actorflow.public import exports, namespaces
from tests.support.python import run_python

ROOT = Path(__file__).parents[2]


def functions(name: str, value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function, or the methods and properties that a class of ours defines."""
    if inspect.isfunction(value):
        yield name, value
    if not inspect.isclass(value):
        return
    for attribute, found in vars(value).items():
        method: Any = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        ours = inspect.isfunction(method) and method.__module__.startswith("actorflow.")
        if ours and (not attribute.startswith("_") or attribute == "__init__"):
            yield f"{name}.{attribute}", method


NAMED = [(name, getattr(af, name)) for name in af.__all__]
MODULES = {n: v for n, v in NAMED if inspect.ismodule(v)} | {"optim.schedules": af.optim.schedules}
ALL = dict([*NAMED, *MODULES.items(), *public.everything()])
CALLABLE = {n: f for name, value in ALL.items() for n, f in functions(name, value)}


def test_at_most_190_names_stand_on_top() -> None:
    assert exports.MOST_ON_TOP == 190  # so that nobody raises it to get a name in
    assert len([name for name in dir(af) if not name.startswith("_")]) <= exports.MOST_ON_TOP
    assert list(af.__all__) == sorted(af.__all__)


def test_the_namespaces_are_those_of_the_table() -> None:
    assert MODULES.keys() == {*namespaces.WRITTEN, *namespaces.ROOMS, "optim.schedules"}
    assert namespaces.WRITTEN.keys() | namespaces.ROOMS.keys() == {
        "arrays", "autodiff", "data", "datasets", "errors", "image", "init", "io", "linalg", "math", "nn",
        "optim", "random", "state", "strings", "supervision", "testing", "types",
    }  # fmt: skip


def test_every_api_function_stands_in_one_place() -> None:
    """An API function that no place shows could not be called; one in two would be explained twice."""
    shown: dict[int, list[str]] = {}
    for name, value in public.everything():
        shown.setdefault(id(value), []).append(name)

    functions = {name: getattr(ops, name) for name in ops.__all__}

    assert {n: shown.get(id(v), []) for n, v in functions.items() if len(shown.get(id(v), [])) != 1} == {}
    assert len(shown) > 550


def test_the_array_api_is_on_top_as_far_as_there_are_functions() -> None:
    on_top = set(af.__all__)

    assert namespaces.ARRAY_API & {*ops.__all__} <= on_top
    assert on_top >= namespaces.ARRAY_API, "the table names what there is not"


def test_the_lists_are_those_that_the_table_says() -> None:
    assert not exports.stale(), "\n".join(exports.stale())


def test_a_new_api_function_is_found_by_its_decorator_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "actorflow"
    shutil.copytree(ROOT / "actorflow", package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(exports, "PACKAGE", package)
    exports.write()
    with (package / "ops" / "nn" / "activation.py").open("a", encoding="utf-8") as file:
        file.write("\n\n@api_function\ndef softsquare(x: Any) -> Tensor:\n    return x\n")

    assert [text.partition(" ")[0] for text in exports.stale()] == [
        "actorflow/ops/__init__.py",
        "actorflow/nn/ops.py",
        "actorflow/runtime/public_names.py",
    ]
    exports.write()

    assert exports.stale() == []
    assert '"softsquare": "nn.softsquare"' in (package / "runtime" / "public_names.py").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("module", "text", "told"),
    [
        (
            "array/extra.py",
            "@api_function\ndef matmul(a): ...\n",
            "af.matmul is defined in actorflow.ops.array.extra as well as in",
        ),
        (
            "sound/extra.py",
            "@api_function\ndef fade(a): ...\n",
            "ops.sound.extra has the API function fade, and public.namespaces names none for its folder",
        ),
        (
            "control/extra.py",
            "@api_function\ndef forever(a): ...\n",
            "191 names are on top, at most 190 may be: give one a namespace in public.namespaces",
        ),
    ],
)
def test_what_the_table_does_not_say_is_told_in_a_sentence(
    module: str, text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "actorflow"
    shutil.copytree(ROOT / "actorflow", package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(exports, "PACKAGE", package)
    path = package / "ops" / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")

    (sentence,) = exports.stale()

    assert sentence.startswith(told)


def test_a_name_that_left_its_module_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {"types": {"Slices": "actorflow.values.elsewhere"}}
    monkeypatch.setattr(namespaces, "OTHERS", {**namespaces.OTHERS, **gone})

    assert exports.stale() == [
        "public.namespaces says that Slices is defined in actorflow.values.elsewhere, and it is not"
    ]


def test_nothing_else_is_shown() -> None:
    everything: dict[str, Any] = {}

    exec("from actorflow import *", everything)

    assert everything.keys() - {"__builtins__"} == set(af.__all__)
    assert {name for name in dir(af) if not name.startswith("__")} == set(af.__all__)
    with pytest.raises(AttributeError, match="module 'actorflow' has no attribute 'relo'"):
        _ = af.relo  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["from actorflow import errors", "import actorflow.ops", "import actorflow.session.session"]
)
def test_every_name_is_there_whatever_was_imported_before(first: str) -> None:
    code = f"{first}\nimport actorflow as af\nfor name in af.__all__:\n    getattr(af, name)\nprint(len(vars(af)))"

    ran = run_python("-c", code, cwd=ROOT)

    assert ran.stderr == ""
    assert int(ran.stdout) > len(af.__all__)


def test_no_name_is_hidden_by_a_module_of_the_package() -> None:
    inside = {path.stem for path in (ROOT / "actorflow").iterdir()}

    rooms = {module.rpartition(".")[2] for module in namespaces.ROOMS.values()}
    assert inside & set(af.__all__) == rooms - {"init", "supervision"}  # these are the modules


def test_a_name_says_what_it_gives() -> None:
    docs = {n: inspect.getdoc(of) if inspect.isfunction(of) else of.__doc__ for n, of in ALL.items()}
    firsts = {name: (doc or "").strip().split("\n\n")[0] for name, doc in docs.items()}

    assert {n: first for n, first in firsts.items() if first[-1:] not in (".", ":") or len(first) <= 20} == {}


def test_a_function_is_explained_and_annotated() -> None:
    signatures = {name: inspect.signature(function) for name, function in CALLABLE.items()}
    blank = [
        f"{name}({p.name})"
        for name, signature in signatures.items()
        for p in signature.parameters.values()
        if p.annotation is p.empty and p.name not in ("self", "cls")
    ]

    assert blank == []
    assert [n for n, signature in signatures.items() if signature.return_annotation is signature.empty] == []
    assert [n for n, of in CALLABLE.items() if not (of.__doc__ or n.endswith("__init__"))] == []
