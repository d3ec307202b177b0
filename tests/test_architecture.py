"""docs/architecture.md names rooms, modules and tests that are there, in few words; docs/modules.md has every module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rooms import PAGE, TOP, headline, page, rooms

ROOT = TOP / "actorflow"
ARCHITECTURE = TOP / "docs" / "architecture.md"
MOST_WORDS = 3_500
LAYERS_HEAD = "| rooms, high to low |"
PROMISES_HEAD = "| promise | held by |"


def code(text: str) -> list[str]:
    """What stands in backticks, outside of blocks."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", outside)


def cells(text: str, head: str, column: int) -> list[str]:
    """The cells of one column of the table with this head."""
    below = text.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return [line.split(" | ")[column].strip("| ") for line in below]


def layers(text: str) -> list[str]:
    """The rooms of the table of layers, in its order."""
    return [name for cell in cells(text, LAYERS_HEAD, 0) for name in code(cell)]


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def gone_modules(text: str) -> list[str]:
    """The dotted names that begin with a room and are no module."""
    found = [name for name in code(text) if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name)]
    return [name for name in found if name.partition(".")[0] in rooms() and not is_module(name)]


def defines(module: str, name: str) -> bool:
    """Whether a module that is there defines this name at its top, or a package hands it on."""
    path = ROOT.joinpath(*module.split("."))
    if (path / "__init__.py").is_file():
        return re.search(rf"\b{name}\b", (path / "__init__.py").read_text()) is not None
    top = rf"(?m)^((async )?def |class ){name}\b|^{name}\b.*="
    return (
        path.with_suffix(".py").is_file() and re.search(top, path.with_suffix(".py").read_text()) is not None
    )


def gone_paths(text: str) -> list[str]:
    """The names of three parts or more, or with `actorflow.` before them, that name nothing in a room."""
    found = []
    for name in code(text):
        whole = name.removeprefix("actorflow.")
        parts = whole.split(".")
        if not re.fullmatch(r"\w+(\.\w+)+", name) or parts[0] not in rooms() or len(name.split(".")) < 3:
            continue
        if not is_module(whole) and not defines(".".join(parts[:-1]), parts[-1]):
            found.append(name)
    return found


def gone_tests(text: str) -> list[str]:
    """The tests, and folders of tests, that are named and are not there."""
    named = [f"tests/{name}" for cell in cells(text, PROMISES_HEAD, 1) for name in code(cell)]
    named += [name for name in code(text) if name.startswith("tests/")]
    return [name for name in named if not (TOP / name).exists()]


def test_the_page_is_one_sitting() -> None:
    assert len(ARCHITECTURE.read_text().split()) <= MOST_WORDS


def test_the_layers_of_the_page_are_those_of_the_contract() -> None:
    assert layers(ARCHITECTURE.read_text()) == rooms()


def test_what_the_page_names_is_there() -> None:
    text = ARCHITECTURE.read_text()

    assert gone_modules(text) == []
    assert gone_tests(text) == []


@pytest.mark.parametrize(
    "page", [*sorted((TOP / "docs").glob("*.md")), TOP / "CONTRIBUTING.md"], ids=lambda path: path.stem
)
def test_what_any_page_names_in_full_is_there(page: Path) -> None:
    assert gone_paths(page.read_text()) == []


def test_every_promise_names_a_test() -> None:
    held = cells(ARCHITECTURE.read_text(), PROMISES_HEAD, 1)

    assert len(held) >= 15
    assert all(code(cell) for cell in held)


def test_the_page_of_modules_is_that_of_the_docstrings() -> None:
    assert page() == PAGE.read_text(), "make docs writes it"


def test_the_page_of_modules_has_each_once_with_a_sentence() -> None:
    text = PAGE.read_text()
    listed = re.findall(r"(?m)^(?:\||#{2,3}) `([\w.]+)`", text)
    named = [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in ROOT.rglob("*.py")]
    there = sorted(n.removesuffix(".__init__") for n in named if n != "__init__")

    assert sorted(listed) == there
    assert [str(p) for p in ROOT.rglob("*.py") if not headline(p)] == []


@pytest.mark.parametrize(
    ("text", "modules", "tests"),
    [
        ("`plan.gone` and `plan.lower` and `np.gone`", ["plan.gone"], []),
        ("`tests/gone.py` and `tests/laws`", [], ["tests/gone.py"]),
        (f"{PROMISES_HEAD}\n|---|---|\n| one | `laws`, `laws/gone.py` |\n\n", [], ["tests/laws/gone.py"]),
        ("```py\n`plan.gone`\n```", [], []),
    ],
)
def test_what_is_gone_is_seen(text: str, modules: list[str], tests: list[str]) -> None:
    assert gone_modules(text) == modules
    assert gone_tests(text) == tests


def test_a_name_in_full_that_is_gone_is_seen() -> None:
    text = "`actorflow.plan`, `plan.placement.gone`, `actorflow.plan.lower.gone`, `actorflow.plan.lower.lower`, `x.y.z`"

    assert gone_paths(text) == ["plan.placement.gone", "actorflow.plan.lower.gone"]


def test_another_order_of_layers_is_seen() -> None:
    table = f"{LAYERS_HEAD} what |\n|---|---|\n| `plan`, `(store)` | first |\n| `cli` | last |\n\n`graph`"

    assert layers(table) == ["plan", "(store)", "cli"]


def test_a_new_module_and_a_changed_sentence_are_seen(tmp_path: Path) -> None:
    (tmp_path / "plan" / "inner").mkdir(parents=True)
    for name, said in [("__init__", "Plans."), ("a", "One | two."), ("inner/__init__", "Within.")]:
        (tmp_path / "plan" / f"{name}.py").write_text(f'"""{said}\n\nMore."""\n')
    before = page(tmp_path)
    (tmp_path / "plan" / "a.py").write_text('"""Another."""')

    assert "| `plan.a` | One \\| two. |" in before
    assert "### `plan.inner`\n\nWithin." in before
    assert "| `plan.a` | Another. |" in page(tmp_path)
