"""Docstrings of this project as reStructuredText, which Sphinx reads.

They are plain text with names in single backticks, sections such as `Args:` and `Shapes:`, examples after
`>>>`, lists and indented blocks. Every other character stands for itself.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import pairwise

FIELDS = {"Args": "param", "Attributes": "", "Raises": "raises"}
"""Section whose entries are `name: what it is` -> the field of Sphinx for one, or "" for a list."""

SECTION = re.compile(
    r"(Args|Attributes|Cost|Costs|Deviation|Device|Dtypes|Fails|Gradient|Invariant|Promise|Raises|Receives|Returns"
    r"|Sends|Shapes|Source|State|Yields):(?:\s+(\S.*))?$"
)
ENTRY = re.compile(r"\*{0,2}([A-Za-z_][\w., *]*?)(?: \([^)]*\))?: +(.*)", re.DOTALL)
BULLET = re.compile(r"[*-] +")


def inline(text: str) -> str:
    """Text in which backticks mark names, as RST: each name a literal, and nothing else is markup."""
    parts = re.split(r"`+(.+?)`+", " ".join(text.split()))
    found = ""
    for k, part in enumerate(parts):
        if k % 2 == 0:
            found += re.sub(r"([\\*|_`])", r"\\\1", part)
            continue
        before, after = found[-1:], parts[k + 1][:1]
        found += "\\ " if before and before not in " ([{'\"" else ""
        found += f"``{part.strip()}``"
        found += "\\ " if after.isalnum() or after in ("(", "[", "_") else ""
    return found


def blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Runs of lines without an empty one."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def converted(lines: Iterable[str]) -> list[str]:
    """The lines of a docstring, dedented, as those of RST."""
    out: list[str] = []
    for block in blocks(textwrap.dedent("\n".join(lines)).splitlines()):
        for part in sections(block):
            out += [*part, ""]
    return out


def sections(block: list[str]) -> Iterator[list[str]]:
    """A block, cut where a section begins, each piece as RST."""
    starts = [k for k, line in enumerate(block) if SECTION.match(line) and followed(block, k)]
    if starts[:1] != [0]:
        yield paragraph(block[: starts[0]] if starts else block)
    for k, end in pairwise([*starts, len(block)]):
        yield section(block[k:end])


def followed(block: list[str], k: int) -> bool:
    """Whether what looks like the head of a section has something to say."""
    found = SECTION.match(block[k])
    return found is not None and (found[2] is not None or block[k + 1 : k + 2] != [])


def section(block: list[str]) -> list[str]:
    """A section as a list of fields."""
    head = SECTION.match(block[0])
    assert head is not None
    name, first = head[1], head[2]
    if first is not None or name not in FIELDS:
        return [f":{name}: " + inline(" ".join([first or "", *block[1:]]))]
    fields: list[str] = [] if FIELDS[name] else [f":{name}:"]
    for entry in entries(block[1:]):
        found = ENTRY.match(entry)
        if (name == "Raises" and found is None) or found is None:
            fields.append(f":{name}: {inline(entry)}" if FIELDS[name] else f"   - {inline(entry)}")
        elif not FIELDS[name]:
            fields.append(f"   - ``{found[1]}``: {inline(found[2])}")
        else:
            fields.append(f":{FIELDS[name]} {found[1].replace('*', '')}: {inline(found[2])}")
    return fields


def entries(lines: list[str]) -> list[str]:
    """Entries of a section: what is indented as its first line begins one."""
    deep = len(lines[0]) - len(lines[0].lstrip())
    found: list[str] = []
    for line in lines:
        if len(line) - len(line.lstrip()) <= deep:
            found.append(line.strip())
        else:
            found[-1] += " " + line.strip()
    return found


def paragraph(block: list[str]) -> list[str]:
    """A block that is no section: an example, a list, something indented, or text."""
    if block[0].lstrip().startswith(">>>"):
        return textwrap.dedent("\n".join(block)).splitlines()
    if block[0].startswith("  ") or block[0].startswith("|"):
        return ["::", "", *("    " + line for line in block)]
    if BULLET.match(block[0]):
        found: list[str] = []
        for line in block:
            if BULLET.match(line):
                found.append(BULLET.sub("", line, count=1))
            else:
                found[-1] += " " + line.strip()
        return [f"- {inline(item)}" for item in found]
    example = next((k for k, line in enumerate(block) if line.lstrip().startswith(">>>")), None)
    if example is not None:
        return [inline("\n".join(block[:example])), "", *paragraph(block[example:])]
    return [inline("\n".join(block))]
