"""`actorflow data`: lists data sets, fetches one out of the package that holds it, or shows what is in it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from actorflow.cli.display.text_table import columns
from actorflow.cli.exit_codes import STOPPED
from actorflow.datasets import atomic_files, fetching
from actorflow.datasets.catalogue import DATASETS, find_dataset
from actorflow.datasets.dataset import Absent, Dataset, Tell
from actorflow.datasets.folders import CACHE, DATA, DatasetFolders
from actorflow.errors import DatasetMissing

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ABOUT = f"""\
Data sets come out of packages, are compared with a checksum, and kept in {CACHE}
(~/.cache/actorflow by default). {DATA} is a folder of yours that has some, or their packages."""


def add_to(commands: Commands) -> None:
    """Adds the command and its verbs."""
    parser = commands.add_parser("data", help="data sets: list, fetch or show them", description=_ABOUT)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list the data sets", description="Lists the data sets.")
    listing.set_defaults(command=_list)
    fetch = verbs.add_parser(
        "fetch",
        help="get one, and print its file, its size and its checksum",
        description="Gets a data set, unless it is there and whole; prints file, size and checksum.",
    )
    fetch.add_argument("name", metavar="NAME", help="see `actorflow data list`")
    fetch.add_argument("--to", type=Path, metavar="DIR", help="write its file here, not into the cache")
    fetch.set_defaults(command=_fetch)
    show = verbs.add_parser(
        "show", help="say what is in one", description="Says what a data set is; downloads nothing."
    )
    show.add_argument("name", metavar="NAME", help="see `actorflow data list`")
    show.set_defaults(command=_show)


def _list(args: argparse.Namespace) -> int:
    places = DatasetFolders.of()
    rows = [("name", "what", "from", "bytes", "in the cache")]
    for name, dataset in sorted(DATASETS.items()):
        rows.append((name, dataset.about, dataset.package, f"{dataset.size:,}", _state(dataset, places)))
    print("\n".join(columns(rows)))
    return 0


def _state(dataset: Dataset, places: DatasetFolders) -> str:
    try:
        content = atomic_files.read(places.kept / dataset.file)
    except Absent:
        return "no"
    return "damaged" if dataset.wrong(content) else "yes"


def _fetch(args: argparse.Namespace) -> int:
    dataset = find_dataset(args.name)
    try:
        with _progress() as tell:
            done = fetching.fetch(dataset, to=args.to, tell=tell)
            tell(f"{dataset.name} {'was there' if done.source is None else f'is from: {done.source}'}")
    except KeyboardInterrupt:
        print(f"stopped by Ctrl-C; {dataset.name} is as it was", file=sys.stderr)
        return STOPPED
    print(f"{done.path}\n{done.size:,} bytes\nsha256 {done.sha256}")
    return 0


def _show(args: argparse.Namespace) -> int:
    dataset = find_dataset(args.name)
    print(f"{dataset.name}: {dataset.about}\nfrom: {dataset.package}\nlicence: {dataset.licence}")
    try:
        with _progress() as tell:
            content = fetching.load(dataset, download=False, tell=tell)
    except DatasetMissing:
        print(f"not on this machine: `actorflow data fetch {dataset.name}` gets it")
        return 0
    print(f"sha256: {dataset.sha256}\n")
    print("\n".join(dataset.lines(content)))
    return 0


@contextmanager
def _progress() -> Iterator[Tell]:
    """Gives what tells on stderr what is being done: with a spinner on a terminal, a line each elsewhere."""
    from rich.console import Console  # on use: half of what this command takes to start

    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        yield lambda doing: print(doing, file=sys.stderr)
        return
    with console.status("looking for it") as status:

        def tell(doing: str) -> None:
            console.print(doing)
            status.update(doing)

        yield tell
