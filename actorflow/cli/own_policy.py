"""A policy of one's own on the command line: `--policy file.py:Class`, or package.module:Class.

A launcher hands its name on; whoever trains imports it, after the program, so that a policy which stands in
the program's file is a class of that.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from actorflow.coord.rules.policy import Policy
from actorflow.errors import ConfigError, ProgramError, describe
from actorflow.runtime import program_name

_WORDS = ("sync", "backup", "async", "stale")
"""What texts of policies begin with, in `Policy.parse`."""


@dataclass(frozen=True, slots=True)
class OwnPolicy:
    """What names a policy, a class of one that needs no arguments, or a function that makes one.

    Attributes:
        where: The file or module.
        name: What it is called there.
    """

    where: str
    name: str

    def __str__(self) -> str:
        """As the command line has it."""
        return f"{self.where}:{self.name}"

    def policy(self) -> Policy:
        """Imports and makes it.

        Raises:
            ProgramError: its module cannot be imported.
            ConfigError: there is no policy of that name.
        """
        given = getattr(self._module(), self.name, None)
        if given is None:
            message = f"--policy names what a module defines, and {self.where} has no {self.name}"
            raise ConfigError(message)
        if isinstance(given, Policy):
            return given
        try:
            made = given() if callable(given) else given
        except Exception as error:
            message = f"--policy {self} must make a policy without arguments, got {describe(error)}"
            raise ConfigError(message, hint="name a function that makes it, or an instance") from error
        if not isinstance(made, Policy):
            message = f"--policy must name an af.Policy, and {self} is a {type(made).__name__}"
            raise ConfigError(message)
        return made

    def _module(self) -> ModuleType:
        from actorflow.training import program_file  # with the graph, which a launcher does without

        if not program_name.is_file(self.where, self.name):
            return program_file.import_program(self.where)
        path = Path(self.where)
        there = sys.modules.get(f"{program_name.FILES}{path.stem}")
        if there is not None and Path(there.__file__ or "").resolve() == path:  # the program's
            return there
        return program_file.import_program(path)


def own(text: str) -> OwnPolicy | None:
    """Returns the policy of one's own that a text names; None for a text of another kind.

    Raises:
        ConfigError: there is no such file or module.
    """
    where, name = program_name.split_name(text)
    if name is None or not ("." in where or where.isidentifier()) or where in _WORDS:
        return None
    try:
        full, _ = program_name.split_name(program_name.full(text))
    except ProgramError as error:
        message = f"no policy is called {text!r:.60}: {error.what}"
        raise ConfigError(
            message, hint="--policy file.py:Class, or a policy's text such as stale:2"
        ) from None
    return OwnPolicy(full, name)


def make_policy(policy: Policy | OwnPolicy) -> Policy:
    """Returns the policy itself, imported where it is one's own."""
    return policy.policy() if isinstance(policy, OwnPolicy) else policy
