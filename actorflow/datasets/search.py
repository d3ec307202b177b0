"""Which of several places gives a data set: the first that has its right content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from actorflow.datasets.dataset import Absent, Dataset, Source, Tell
from actorflow.errors import DatasetDamaged, DatasetError, DatasetMissing


@dataclass(frozen=True, slots=True)
class FoundContent:
    """The right content of a data set, and who gave it."""

    content: bytes
    source: Source


def first(dataset: Dataset, sources: Iterable[Source], tell: Tell) -> FoundContent:
    """Returns the content of the first source that has it; later ones are not asked.

    A source with another content is passed over like one without any: an old package on this machine
    hides no newer one that can be downloaded.

    Raises:
        DatasetMissing: no source has the data set; the text has one line for each, and what can be done.
        DatasetDamaged: likewise, but one of them has something else under its name.
    """
    tried: list[str] = []
    kind: type[DatasetError] = DatasetMissing
    for source in sources:
        try:
            content = source.get(tell)
        except Absent as why:
            tried.append(f"{source.where}: {why}")
            continue
        wrong = dataset.wrong(content)
        if wrong is None:
            return FoundContent(content, source)
        kind = DatasetDamaged
        tried.append(f"{source.where}: {wrong}")
    places = "".join(f"\n  - {line}" for line in tried) or " no place to look at"
    message = (
        f"data set {dataset.name!r} must be found with its right content, got{':' if tried else ''}{places}"
    )
    raise kind(message, hint=_either(dataset.remedies))


def _either(remedies: tuple[str, ...]) -> str:
    return "one of these\n" + "\n".join(f"         - {remedy}" for remedy in remedies)
