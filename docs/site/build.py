"""Builds the site: `python docs/site/build.py OUT`. Ends with 1 at the first warning.

The pages are copied, in the folders where they are, so that links between them hold. A link to a file of the
code leads to a page that shows it. The API reference has a page for each public namespace.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from docstrings import inline
from sphinx.cmd.build import main as sphinx

import actorflow as af

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")

SPACES = {name: f"actorflow.{name}" for name in dir(af) if isinstance(getattr(af, name, None), ModuleType)}
MORE = {
    "optim.schedules": "actorflow.optim.schedules",
    "sim": "actorflow.sim",
    "sim.checkers": "actorflow.sim.checkers",
    "sim.history": "actorflow.sim.history",
    "interop.onnx": "actorflow.interop.onnx",
}
"""Public modules that are imported by themselves."""

LINK = re.compile(r"\]\((?!\w+://)([^)#\s]+)(#[^)\s]*)?\)")


def copy(page: Path, source: Path, shown: set[Path]) -> None:
    """Copies a page; notes which files of the code it leads to."""

    def link(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve()
        relative = target.relative_to(ROOT)
        if target.suffix == ".svg":
            return found[0]
        if relative.as_posix() == "docs/index.md":
            return found[0].replace(found[1], "/index.md")
        if target.suffix == ".md":
            return found[0].replace(found[1], f"/{relative}")
        shown.add(relative)
        return found[0].replace(found[1], f"/code/{relative}.md")

    to = source / page.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(LINK.sub(link, page.read_text()))


def show(relative: Path, source: Path) -> None:
    """Writes the page that shows a file, or the names of those in a folder."""
    page = source / "code" / f"{relative}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    path = ROOT / relative
    if path.is_dir():
        names = sorted(p.name for p in path.iterdir() if p.is_file())
        text = "\n".join(f"- `{relative}/{name}`" for name in names)
    else:
        language = "python" if path.suffix == ".py" else "text"
        text = f"`````{language}\n{path.read_text()}\n`````"
    page.write_text(f"---\norphan: true\n---\n\n# {relative}\n\n{text}\n")


def index(source: Path) -> None:
    """Puts what the sidebar lists into the first page: the pages of each group, in its order."""
    path = source / "docs/index.md"
    lines: list[str] = []
    seen: set[str] = set()
    for part in re.split(r"(?m)^(?=## )", path.read_text()):
        lines.append(part)
        pages = [p for p in dict.fromkeys(re.findall(r"\]\(/([^)#]+\.md)\)", part)) if p not in seen]
        seen.update(pages)
        if part.startswith("## Reference"):
            pages.append("api/index")
        if part.startswith("## "):
            caption = part.partition("\n")[0].removeprefix("## ")
            entries = [f"/{page.removesuffix('.md')}" for page in pages]
            listed = "\n".join("README </README>" if entry == "/README" else entry for entry in entries)
            lines.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n\n")
    (source / "index.md").write_text("".join(lines))
    path.unlink()


def names(module: ModuleType) -> Iterator[str]:
    """The public names of a module that have something to say, in the order of the alphabet."""
    listed = getattr(module, "__all__", None)
    for name in sorted(listed if listed is not None else vars(module), key=str.lower):
        value = getattr(module, name)
        own = listed is not None or getattr(value, "__module__", None) == module.__name__
        if name.startswith("_") or not own or not callable(value):
            continue
        if inspect.isclass(value) or module is not af.errors:  # which has helpers beside the errors
            yield name


def summary(value: object) -> str:
    """The first paragraph of what `value` says of itself."""
    return str(inline((inspect.getdoc(value) or "").partition("\n\n")[0]))


def reference(dotted: str, shown_as: str, folder: Path) -> None:
    """Writes the page of a namespace."""
    module = import_module(dotted) if dotted in MORE.values() else None
    if module is None:
        module = af if dotted == "actorflow" else getattr(af, dotted.partition(".")[2])
    headline = (module.__doc__ or "").strip().partition("\n\n")[0]
    here = [(name, f"{dotted}.{name}") for name in names(module)]
    lines = [shown_as, "=" * len(shown_as), "", inline(headline), ""]
    lines += [".. list-table::", "   :widths: 25 75", ""]
    for name, path in here:
        lines += [f"   * - :py:obj:`{name} <{path}>`", f"     - {summary(getattr(module, name))}"]
    for name, path in here:
        value = getattr(module, name)
        lines += ["", name, "-" * len(name), ""]
        if inspect.isclass(value):
            lines += [f".. autoclass:: {path}", "   :members:"]
        else:
            lines += [f".. autofunction:: {path}"]
    (folder / f"{shown_as}.rst").write_text("\n".join(lines) + "\n")


def api(source: Path) -> None:
    """Writes the API reference: a page for each namespace, and one that lists them."""
    folder = source / "api"
    folder.mkdir()
    spaces = {"af": "actorflow"} | {f"af.{name}": dotted for name, dotted in sorted(SPACES.items())} | MORE
    for shown_as, dotted in spaces.items():
        reference(dotted, shown_as, folder)
    listed = "\n".join(spaces)
    (folder / "index.md").write_text(
        "# API reference\n\nThe public names, out of their docstrings. `af` is `import actorflow as af`, "
        "and `sim` is `from actorflow import sim`; what lies in other modules may change without notice.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )


def main(out: Path) -> int:
    """Builds the site in `out`, which is replaced; returns what the process ends with."""
    source = out / ".source"
    shutil.rmtree(out, ignore_errors=True)
    source.mkdir(parents=True)
    shown: set[Path] = set()
    for page in [*(ROOT / name for name in OUTSIDE), *sorted((ROOT / "docs").glob("*.md"))]:
        copy(page, source, shown)
    shutil.copytree(ROOT / "docs/figures", source / "docs/figures")
    for relative in sorted(shown):
        show(relative, source)
    index(source)
    api(source)
    return int(sphinx(["-W", "--keep-going", "-q", "-b", "html", "-c", str(HERE), str(source), str(out)]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
