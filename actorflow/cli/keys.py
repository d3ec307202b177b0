"""`actorflow keys`: makes, changes and shows the file of keys that the processes of a cluster share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actorflow.transport.zeromq import Keyring

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ABOUT = """\
The processes of a cluster that talk over tcp know each other by keys, which all of them read from one
file (--keys FILE). Keep a copy on each machine, readable by its user only. To change the keys of a cluster
that runs: `rotate` the file and bring the copies up to date, then `drop`, and do the same; processes read
their copy again when somebody connects."""


def add_to(commands: Commands) -> None:
    """Adds the command and its verbs."""
    parser = commands.add_parser("keys", help="make or change the keys of a cluster", description=_ABOUT)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, about, change in (
        ("new", "make FILE, with one pair of keys", _new),
        ("rotate", "put a new pair first; the pairs that are there are still let in", _rotate),
        ("drop", "keep the newest pair only", _drop),
        ("show", "print the public keys, which are no secret, the newest first", _show),
    ):
        verb = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        verb.add_argument("file", type=Path, metavar="FILE")
        verb.set_defaults(change=change)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Does what is asked for and prints the public keys that are in the file then; returns 0.

    Raises:
        ConfigError: the file is there, or is not, or others can read it.
    """
    keys: Keyring = args.change(args.file)
    for public in keys.ring.publics:
        print(public)
    return 0


def _new(path: Path) -> Keyring:
    from actorflow.transport.zeromq import Keyring

    keys = Keyring.new()
    keys.save(path)
    return keys


def _show(path: Path) -> Keyring:
    from actorflow.transport.zeromq import Keyring  # on use: other commands need no sockets

    return Keyring.load(path)


def _rotate(path: Path) -> Keyring:
    keys = _show(path)
    keys.rotate()
    return keys


def _drop(path: Path) -> Keyring:
    keys = _show(path)
    keys.drop()
    return keys
