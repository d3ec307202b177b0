"""Which functions have a name, what refusals say, and that a name finds the same function elsewhere."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actorflow.data.workers import function_names
from actorflow.data.workers.function_names import MAIN, FunctionName, find, is_finding, name_function
from actorflow.errors import ConfigError
from tests.data import functions
from tests.data.functions import Kit


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path; modules that a test imports are forgotten."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    "function",
    [functions.same, functions.decorated, Kit.static, Kit.of_class, functions.grown],
    ids=["same", "decorated", "static", "of_class", "grown"],
)
def test_a_name_finds_the_function_that_it_was_made_of(function: Any) -> None:
    name = name_function(function)

    assert find(name) == function
    assert name_function(name) is name
    assert name.file == str(Path(functions.__file__).resolve())
    assert str(name) == f"tests.data.functions:{function.__qualname__}"


@pytest.mark.parametrize("function", [len, np.sqrt, np.abs])
def test_a_function_without_a_source_is_found_without_one(function: Any) -> None:
    name = name_function(function)

    assert find(name) is function
    assert str(name).partition(":")[0] in ("builtins", "numpy")


def test_a_name_may_be_written() -> None:
    assert find(name_function("tests.data.functions:Kit.static")) is Kit.static


def inner() -> Any:
    def local(value: Any) -> Any:
        return value

    return local


@pytest.mark.parametrize(
    ("function", "what", "hint"),
    [
        (lambda x: x, "got a lambda", "define it with def at the top of a module"),
        (functions.nameless, "got a lambda", "define it with def"),
        (inner(), "got local, which is made by inner when that runs", "define it with def"),
        (functions.partially, "got a partial of doubled", "which gives it what it needs"),
        (Kit(), "got a Kit", "define it with def"),
        (Kit().method, "got a method of one Kit", "define it with def"),
        (functions.hidden, "got inside, which is made by plainly", "define it with def"),
        (functions.later, "processes call plain functions, got the coroutine function later", "leave processes out"),
        (7, "got a int", "define it with def"),
        ("numpy.sqrt", "a function is named 'module:function', got 'numpy.sqrt'", None),
        ("os:system()", "a function is named 'module:function'", None),
    ],
)  # fmt: skip
def test_what_no_process_could_find_is_refused_with_what_to_do(
    function: Any, what: str, hint: str | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        name_function(function)

    assert what in caught.value.what
    assert (hint or "") in (caught.value.hint or "")


def test_a_name_that_means_something_else_now_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = functions.same
    monkeypatch.setattr(functions, "same", functions.doubled)

    with pytest.raises(ConfigError, match="functions:same, which is another object there"):
        name_function(old)
    monkeypatch.delattr(functions, "same")
    with pytest.raises(ConfigError, match="functions:same, which is not there"):
        name_function(old)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            FunctionName("tests.data.functions", "nothing"),
            "there is no function tests.data.functions:nothing",
        ),
        (FunctionName("tests.data.functions", "number"), "must be a function, got int"),
        (FunctionName("no_such_module", "f"), "the module of no_such_module:f is not on sys.path"),
        (FunctionName("no_such.inside", "f"), "the module of no_such.inside:f is not on sys.path"),
        (FunctionName("no_such", "f", "/nowhere/no_such.py"), "the file of no_such:f is not there"),
        (FunctionName(MAIN, "f", "/nowhere/script.py"), "the file of __main__:f is not there"),
        (FunctionName("tests.data.functions", "same", "/x.py", b"?"), "functions.py is not /x.py"),
        (FunctionName("tests.data.functions", "same", functions.__file__, b"?"), "functions.py has changed"),
    ],
)
def test_a_name_that_is_not_found_says_why(name: FunctionName, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find(name)

    assert text in caught.value.what


def test_a_module_that_was_loaded_by_its_path_is_found_by_it(folder: Path) -> None:
    (folder / "deep").mkdir()
    file = folder / "deep" / "program.py"
    file.write_text("def f(x): return x + 1\n")

    found = find(FunctionName("program_of_mine", "f", str(file), function_names._digest(str(file))))

    assert found(1) == 2
    assert sys.modules["program_of_mine"].__file__ == str(file)


def test_what_is_missing_in_the_module_itself_is_told_as_it_is(folder: Path) -> None:
    (folder / "lacking.py").write_text("import absent_library\n")

    with pytest.raises(ModuleNotFoundError, match="absent_library"):
        find(FunctionName("lacking", "f", str(folder / "lacking.py")))


def test_a_module_knows_that_it_is_imported_to_be_found(folder: Path) -> None:
    (folder / "asking.py").write_text(
        "from actorflow.data.workers.function_names import is_finding\nseen = is_finding()\ndef f(x): return seen\n"
    )

    assert find(name_function("asking:f"))(0) is True
    assert not is_finding()
    with pytest.raises(ConfigError):
        find(FunctionName("asking", "g"))
    assert not is_finding()


def script(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> Any:
    """Puts a stand-in where `__main__` is; returns a function of it."""

    def f(x: Any) -> Any:
        return x

    f.__module__, f.__qualname__ = "__main__", "f"
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(f=f, **attributes))
    return f


def test_a_function_of_a_script_is_found_by_its_file_under_another_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "script.py"
    file.write_text('def f(x): return __name__\nif __name__ == "__main__":\n    raise SystemExit\n')

    name = name_function(script(monkeypatch, __file__=str(file), __spec__=None))

    assert name.module == MAIN
    assert str(name) == "__main__:f"
    assert find(name)(0) == MAIN


def test_a_function_of_a_module_run_by_name_is_found_by_that(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "run_by_name.py").write_text("def f(x): return __name__\n")
    spec = SimpleNamespace(name="run_by_name")

    name = name_function(script(monkeypatch, __file__=str(folder / "run_by_name.py"), __spec__=spec))

    assert name.module == "run_by_name"
    assert find(name)(0) == "run_by_name"


@pytest.mark.parametrize("attributes", [{}, {"__file__": "<stdin>"}, {"__file__": "/nowhere/x.py"}])
def test_a_function_typed_in_at_a_prompt_is_refused(
    attributes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="f is defined at a prompt") as caught:
        name_function(script(monkeypatch, **attributes))

    assert caught.value.hint == "write it into a module, and import it from there"


def test_a_source_that_changed_since_is_told(folder: Path) -> None:
    file = folder / "changing.py"
    file.write_text("def f(x): return 1\n")
    name = name_function(importlib.import_module("changing").f)
    file.write_text("def f(x): return 2\n")

    with pytest.raises(
        ConfigError, match="changing:f must have one source in all processes, but .* has changed"
    ):
        find(name)
