"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

import actorflow as af

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "actorflow").rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in finder.find(importlib.import_module(name), globs={"af": af}):
        runner.run(test)

    results = runner.summarize()
    assert results.attempted > 0
    assert results.failed == 0


def fences(path: Path) -> list[tuple[int, str, str]]:
    """The Python blocks of a page: line, program, and the text block after it, if there is one.

    A block that says `py` is a sketch of something that is not there, and is not run.
    """
    found = re.finditer(
        r"^```python\n(?P<program>.*?)^```\n(\n```text\n(?P<said>.*?)^```\n)?",
        path.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return [(path.read_text()[: m.start()].count("\n") + 2, m["program"], m["said"] or "") for m in found]


PAGES = [
    pytest.param(program, said, id=f"{path.stem}:{line}")
    for path in sorted((ROOT / "docs").glob("*.md"))
    if path.stem != "notebooks"  # whose programs are cells of one kernel: tests/test_notebooks.py
    for line, program, said in fences(path)
]


@pytest.mark.parametrize(("program", "said"), PAGES)
def test_programs_of_the_pages_print_what_stands_below_them(
    program: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else hypothesis draws constants out of all modules of this checkout that happen to be loaded by now.
    monkeypatch.setattr(providers, "_get_local_constants", Constants)
    code = compile(program, "<string>", "exec", dont_inherit=True)  # without this file's future imports
    exec(code, {"__name__": "page"})

    out = capsys.readouterr().out
    assert doctest.OutputChecker().check_output(said, out, doctest.ELLIPSIS), out


LINKED = [ROOT / name for name in ("README.md", "CONTRIBUTING.md") if (ROOT / name).exists()]
LINKED += sorted((ROOT / "docs").glob("*.md"))


def headings(path: Path) -> set[str]:
    """What `page.md#...` may say: the headings of a page, in the manner of GitHub."""
    outside = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.*)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", LINKED, ids=lambda path: path.name)
def test_links_of_the_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", page.read_text())):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if heading:
            assert heading in headings(target), link


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()

    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name}" not in index] == [
        "index.md"
    ]
