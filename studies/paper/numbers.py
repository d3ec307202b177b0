"""What the paper reports and what the models assume, frozen in `figures.json`, each with where it is from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, cast

Origin = Literal["text", "digitised", "fitted", "assumed"]
"""Read in the paper's text, taken off its figure, fitted to that, or set because it must be something."""


@dataclass(frozen=True, slots=True)
class Given:
    """A number, or several along the axis of a figure, and where it is from."""

    value: Any
    origin: Origin
    note: str


@dataclass(frozen=True, slots=True)
class Figure:
    """What is given for one figure.

    Attributes:
        paper: What the paper reports.
        parameters: What the model takes.
    """

    paper: Mapping[str, Given]
    parameters: Mapping[str, Given]

    def __getitem__(self, name: str) -> float:
        """Returns a parameter."""
        return cast("float", self.parameters[name].value)

    def whole(self, name: str) -> int:
        """Returns a parameter that counts something."""
        return int(self.parameters[name].value)

    def reported(self, curve: str, axis: str, at: int) -> float | None:
        """Returns the paper's number of a curve where its axis is `at`; None where it has none."""
        places = self.paper[axis].value
        return self.paper[curve].value[places.index(at)] if at in places else None


@cache
def figure(name: str) -> Figure:
    """Returns what is given for `backup`, `sync-step` or `ps-scaling`."""
    found = json.loads(files("studies.paper").joinpath("figures.json").read_text("utf-8"))[name]
    paper, parameters = (
        MappingProxyType({key: Given(**facts) for key, facts in found[part].items()})
        for part in ("paper", "parameters")
    )
    return Figure(paper, parameters)
