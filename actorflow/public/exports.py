"""Writes the lists of names that users see, from the table of public names and the modules of `ops`.

    python -m actorflow.public.exports

It reads sources and imports none of them: it works where a list names what is gone. `make docs` runs it.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from actorflow.public import namespaces
from actorflow.public.namespaces import TOP

PACKAGE = Path(__file__).parents[1]
OPS = "actorflow.ops."
BUILDING = (
    "actorflow.graph.autodiff",
    "actorflow.graph.custom",
)  # functions that build ops, in the room below
LONGEST = 110
MOST_ON_TOP = 190


class ExportError(Exception):
    """What the table of public names and the modules of `ops` do not agree on, in one sentence."""


@dataclass(frozen=True, slots=True)
class Export:
    """A name that users see.

    Attributes:
        defined: What it is called where it is defined.
        name: What users write behind the namespace.
    """

    defined: str
    module: str
    namespace: str
    name: str

    @property
    def dotted(self) -> str:
        """What users write behind `af.`."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


def exports() -> list[Export]:
    """Returns all names that users see but those of the rooms that are namespaces themselves.

    Raises:
        ExportError: when the table and the modules do not agree.
    """
    found = [*_api_functions(), *_others()]
    taken: dict[str, Export] = {}
    for one in found:
        other = taken.setdefault(one.dotted, one)
        if other is not one:
            message = f"af.{one.dotted} is defined in {other.module} as well as in {one.module}"
            raise ExportError(message)
    on_top = len(top_names(found))
    if on_top > MOST_ON_TOP:
        told = f"{on_top} names are on top, at most {MOST_ON_TOP} may be"
        message = f"{told}: give one a namespace in public.namespaces"
        raise ExportError(message)
    return found


def top_names(found: Iterable[Export]) -> list[str]:
    """Returns what `dir(af)` shows."""
    names = {one.name for one in found if one.namespace == TOP}
    return sorted(names | namespaces.WRITTEN.keys() | namespaces.ROOMS.keys())


def _api_functions() -> Iterator[Export]:
    for path in sorted((PACKAGE / "ops").rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE / "ops").with_suffix("").parts)
        if module in namespaces.INTERNAL_MODULES:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or not any(map(_is_api_function, node.decorator_list)):
                continue
            if node.name not in namespaces.INTERNAL and not node.name.startswith("_"):
                namespace = _namespace(node.name, module)
                prefix = namespaces.PREFIXES.get(namespace, "")
                yield Export(node.name, OPS + module, namespace, node.name.removeprefix(prefix))


def _is_api_function(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "api_function"


def _namespace(name: str, module: str) -> str:
    """Where an API function stands: by its name, else by its module, else by its folder."""
    if name in namespaces.ARRAY_API:
        return TOP
    if (found := namespaces.PLACES.get(name, namespaces.MODULES.get(module))) is not None:
        return found
    folder = module.partition(".")[0]
    if folder not in namespaces.FOLDERS:
        message = f"ops.{module} has the API function {name}, and public.namespaces names none for its folder"
        raise ExportError(message)
    return namespaces.FOLDERS[folder]


def _others() -> Iterator[Export]:
    for namespace, names in namespaces.OTHERS.items():
        for name, module in names.items():
            path = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
            if not path.exists() or name not in _defined(path):
                message = f"public.namespaces says that {name} is defined in {module}, and it is not"
                raise ExportError(message)
            yield Export(name, module, namespace, name)


def _defined(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


# ------------------------------------------------------------------------------------- the files


def files() -> dict[Path, str]:
    """Returns every file that is written, and what it holds.

    Raises:
        ExportError: when the table and the modules do not agree.
    """
    found = exports()
    written = {
        PACKAGE / "__init__.py": _package(found),
        PACKAGE / "ops" / "__init__.py": _ops(found),
        PACKAGE / "nn" / "ops.py": _namespace_file(_of(found, "nn"), NETWORKS),
        PACKAGE / "public" / "top.py": _top(found),
        PACKAGE / "runtime" / "public_names.py": _names(found),
    }
    for namespace, headline in namespaces.WRITTEN.items():
        path = PACKAGE / "public" / f"{namespace}.py"
        written[path] = _namespace_file(_of(found, namespace), headline, f"actorflow.public.{namespace}")
    return written


def _of(found: Iterable[Export], namespace: str) -> list[Export]:
    return [one for one in found if one.namespace == namespace]


def stale() -> list[str]:
    """Returns a sentence for each file that does not hold what it should; empty when all do."""
    try:
        written = files()
    except ExportError as error:
        return [str(error)]
    told = "holds other names than the table of public names says: renew it with `make docs`"
    return [
        f"actorflow/{path.relative_to(PACKAGE)} {told}"
        for path, text in written.items()
        if not _holds(path, text)
    ]


NETWORKS = "Functions of networks, which `af.nn` has beside its layers"
OPS_HEADLINE = (
    "The API functions that users build graphs of; each op is a constructor, a spec rule and a gradient rule"
)
NOTE = "Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there."


def _namespace_file(found: list[Export], headline: str, module: str | None = None) -> str:
    lines = [f'"""{headline}.', "", NOTE, '"""', "", "from __future__ import annotations", ""]
    if module is not None:
        lines += ["import sys", ""]
    lines += [*_imports(found), "", *_all(one.name for one in found)]
    if module is not None:
        lines += [
            "", "TYPE_CHECKING = False", "if not TYPE_CHECKING:", "",
            "    def __getattr__(name: str) -> object:",
            "        from actorflow.runtime.name_hints import missing", "",
            "        raise missing(sys.modules[__name__], name, __all__)",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _top(found: list[Export]) -> str:
    on_top = _of(found, TOP)
    rooms = [f"import {module} as {name}" for name, module in sorted(namespaces.ROOMS.items())]
    lines = [
        '"""What stands on top of `af`, loaded when the first name is asked for.', "", NOTE, '"""', "",
        "# ruff: noqa: I001, RUF022  the order of the table of public names", "",
        "from __future__ import annotations", "",
        *rooms, *_from("actorflow.public", namespaces.WRITTEN), *_imports(on_top), "",
        *_all(top_names(found)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _ops(found: list[Export]) -> str:
    inside = {f"import {OPS}{module}" for module in namespaces.INTERNAL_MODULES}
    own = [one for one in found if one.module.startswith((OPS, *BUILDING))]
    plain = [Export(one.defined, one.module, TOP, one.defined) for one in own]
    lines = [
        f'"""{OPS_HEADLINE}.', "", NOTE, '"""', "",
        "# ruff: noqa: F401, I001, RUF022  some fill the table only; in the order of names", "",
        "from __future__ import annotations", "",
        *sorted(inside), *_imports(plain), "",
        *_all(one.name for one in plain),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _names(found: list[Export]) -> str:
    dotted = {one.defined: one.dotted for one in found if one.namespace != TOP}
    dotted |= {name: f"{room}.{name}" for name, room in namespaces.IN_ROOMS.items()}
    lines = [
        '"""Where users find each name, as plain data: hints and errors need it, and know no op.', "", NOTE,
        '"""', "",
        "from __future__ import annotations", "",
        "from collections.abc import Mapping", "",
        "ON_TOP = frozenset({",
        *_packed([f'"{name}",' for name in top_names(found)], "    "),
        "})  # fmt: skip",
        '"""What users write behind `af.` and has no other dot."""', "",
        "NAMESPACES = frozenset({",
        *_packed([f'"{name}",' for name in sorted({*namespaces.WRITTEN, *namespaces.ROOMS})], "    "),
        "})  # fmt: skip",
        '"""Those of them that are modules."""', "",
        "ELSEWHERE: Mapping[str, str] = {",
        *(f'    "{name}": "{dotted[name]}",' for name in sorted(dotted)),
        "}",
        '"""Name where it is defined, as ops are called in graphs -> what users write behind `af.`."""',
        "", "",
        "def dotted(name: str) -> str | None:",
        '    """Returns what users write behind `af.` for what is defined under this name; None for none."""',
        "    return name if name in ON_TOP else ELSEWHERE.get(name)",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _package(found: list[Export]) -> str:
    text = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    listed = "\n".join(_all(top_names(found)))
    return re.sub(r"(?ms)^__all__ = \[.*?^\]  # fmt: skip$", lambda _: listed, text)


# ------------------------------------------------------------------------------------- the lines


def _imports(found: Iterable[Export]) -> Iterator[str]:
    by_module: dict[str, list[Export]] = {}
    for one in found:
        by_module.setdefault(one.module, []).append(one)
    for module in sorted(by_module):
        members = by_module[module]
        plain = sorted(one.name for one in members if one.name == one.defined)
        renamed = {one.defined: one.name for one in members if one.name != one.defined}
        lines = {was: [f"from {module} import {was} as {name}"] for was, name in renamed.items()}
        lines |= {plain[0]: list(_from(module, plain))} if plain else {}
        for first in sorted(lines):
            yield from lines[first]


def _from(module: str, names: Iterable[str]) -> Iterator[str]:
    members = sorted(names)
    if not members:
        return
    line = f"from {module} import {', '.join(members)}"
    if len(line) <= LONGEST:
        yield line
        return
    yield f"from {module} import ("
    yield from (f"    {name}," for name in members)
    yield ")"


def _all(names: Iterable[str]) -> Iterator[str]:
    yield "__all__ = ["
    yield from _packed([f'"{name}",' for name in sorted(names)], "    ")
    yield "]  # fmt: skip"


def _packed(words: Iterable[str], indent: str) -> list[str]:
    return textwrap.wrap(" ".join(words), LONGEST, initial_indent=indent, subsequent_indent=indent)


def write() -> list[Path]:
    """Writes what is not as it should be; returns those files."""
    changed = {path: text for path, text in files().items() if not _holds(path, text)}
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return list(changed)


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def main() -> int:
    """Writes the files, and prints their names; returns 1 with a sentence where the table is wrong."""
    try:
        changed = write()
    except ExportError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    for path in changed:
        sys.stdout.write(f"written: actorflow/{path.relative_to(PACKAGE)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
