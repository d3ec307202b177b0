"""`actorflow simulate FIGURE`: runs a figure of the TensorFlow paper in virtual time, beside its numbers."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorflow.errors import ProgramError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

FIGURES = "studies.paper.command"
"""Where the figures are: in a checkout of actorflow, beside the package, so the name is only a text here."""


def add_to(commands: Commands) -> None:
    """Adds the command; its figures, and their arguments, where they are there."""
    about = "Runs a figure of the TensorFlow paper in virtual time, and prints it beside the paper's numbers."
    parser = commands.add_parser(
        "simulate", help="simulate a figure of the TensorFlow paper", description=about
    )
    figures = _figures()
    if figures is None:
        parser.add_argument("figure", nargs="*", metavar="FIGURE", help="needs a checkout of actorflow")
    else:
        figures.add_to(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Simulates, prints, and writes what is asked for; returns 0, or 130 when Ctrl-C stopped it.

    Raises:
        ProgramError: a file that is asked for cannot be written; said before anything is simulated. Or the
            figures are not there.
    """
    figures = _figures()
    if figures is None:
        message = f"the figures are in the module {FIGURES}, which is not installed here"
        raise ProgramError(message, hint="run it in a checkout of actorflow, with pip install --editable .")
    code: int = figures.run(args)
    return code


def _figures() -> Any:
    """Returns the module of the figures; None where only the package is installed."""
    try:
        return import_module(FIGURES)
    except ModuleNotFoundError as error:
        if error.name is not None and FIGURES.startswith(error.name):
            return None
        raise
